//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config::Flags;

/// Exit code for a configuration or a command line that cannot be used, as
/// `EX_USAGE` of sysexits.
pub const BAD_CONFIG: u8 = 64;

/// Answers the OpenAI Responses API for every model.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Cli {
    /// What configures.
    #[command(flatten)]
    pub flags: Flags,
    /// What to do; serve when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve (the default)
    #[default]
    Serve,
    /// Check the configuration and print what would run
    Check,
    /// List the models of every provider, and what they cost
    Models {
        /// Of one provider alone
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Set up Codex
    #[command(subcommand)]
    Codex(Codex),
    /// Run the scripted offline model alone, on --listen
    Sandbox {
        /// The script to play
        #[arg(long, value_name = "FILE")]
        script: PathBuf,
    },
}

/// Set up Codex.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Codex {
    /// Print the block for Codex's config.toml
    Print,
    /// Write a model catalog with the prompt of the installed Codex
    Catalog {
        /// The Codex to ask
        #[arg(long, value_name = "PROGRAM", default_value = "codex")]
        codex: std::ffi::OsString,
        /// Where to write it; - for standard output; in Codex's folder when left out
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_stand_before_or_after_the_command() {
        for line in [
            "respondent --listen [::1]:1 check",
            "respondent check --listen [::1]:1",
        ] {
            let cli = parse(line);
            assert_eq!(cli.flags.listen.as_deref(), Some("[::1]:1"));
            assert_eq!(cli.command, Some(Command::Check));
        }
    }

    #[test]
    fn serve_is_the_default() {
        assert_eq!(
            parse("respondent").command.unwrap_or_default(),
            Command::Serve
        );
        assert_eq!(parse("respondent serve").command, Some(Command::Serve));
    }
}
