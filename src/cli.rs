//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Flags;
use crate::diagnostics::capture::selection::{Id, Span};
use crate::diagnostics::capture::{Selection, Wanted};

/// Exit code for what is as it was, and for everything that went as asked.
pub const SAME: u8 = 0;

/// Exit code for two turns that differ, and for what went wrong.
pub const DIFFERENT: u8 = 1;

/// Exit code for a replay that could not be run to its end, as `EX_SOFTWARE` of
/// sysexits.
pub const NO_REPLAY: u8 = 70;

/// Exit code for a file that is no bundle or cannot be replayed, as `EX_DATAERR`
/// of sysexits.
pub const BAD_FILE: u8 = 65;

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
    /// Put turns into a file, to report or to replay them
    #[command(subcommand)]
    Bundle(Bundle),
    /// Read back tool outputs that were shortened
    #[command(subcommand)]
    Artifacts(Artifacts),
    /// Serve the tools that read them back to a model, on standard input and output
    ///
    /// This is the Model Context Protocol for programs that start their servers
    /// themselves. A running respondent serves the same at /mcp.
    Mcp,
    /// Run a recorded turn again, offline, and compare it with what was recorded
    ///
    /// The recorded request runs through this program against the recorded bytes
    /// of the provider, with the recorded clock, ids and timing. Nothing leaves
    /// this machine, unless --live sends it to a provider.
    #[command(after_help = REPLAY_ENDS)]
    Replay {
        /// The bundle
        file: PathBuf,
        /// The turn in it; all when left out
        #[arg(long, value_name = "N", value_parser = number)]
        turn: Option<usize>,
        /// Send the request to this model now, with the configured key, and show what changed;
        /// secrets, images and encrypted contents that were taken out are sent as their fillers
        #[arg(long, value_name = "PROVIDER/MODEL")]
        live: Option<String>,
        /// Print the events of the run
        #[arg(long)]
        events: bool,
    },
}

const REPLAY_ENDS: &str = "Ends with 0 if all is equal, 1 if something differs (what, is printed), \
    65 if the file cannot be used, 70 if the replay could not be run to its end, 64 if the \
    command line or the configuration cannot be used.";

const DIFF_ENDS: &str =
    "Ends with 0 if the turns are equal, 1 if they differ, 65 if a file cannot be used.";

/// Bundles: turns in a file.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Bundle {
    /// Write recent turns into a new file: the newest that failed when no other is named
    Create {
        /// Which turns.
        #[command(flatten)]
        select: Select,
        /// The file, which must not exist; - for standard output; named for its turn
        /// when left out
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Keep images whole; else their hash stands in their place
        #[arg(long)]
        images: bool,
        /// Keep encrypted contents whole; else their hash stands in their place
        #[arg(long)]
        encrypted: bool,
    },
    /// List the turns that are kept
    List {
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Show what is in a bundle
    Show {
        /// The bundle
        file: PathBuf,
    },
    /// Show where the turns of two bundles differ
    #[command(after_help = DIFF_ENDS)]
    Diff {
        /// One bundle
        a: PathBuf,
        /// The other
        b: PathBuf,
    },
}

/// Artifacts: tool outputs that were shortened, kept whole.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Artifacts {
    /// List them, the newest first
    List {
        /// At most so many
        #[arg(long, value_name = "N", default_value = "20", value_parser = number)]
        limit: usize,
        /// Only those that come after this one in the list
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Of one session alone
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Print one, byte for byte, or a part of it
    Show {
        /// Its id
        id: String,
        /// These lines, counted from 1; all from there on without the second number
        #[arg(long, value_name = "FROM-TO", conflicts_with = "bytes")]
        lines: Option<String>,
        /// These bytes, counted from 0, widened to whole characters
        #[arg(long, value_name = "FROM-TO")]
        bytes: Option<String>,
        /// With what is known of it, for programs
        #[arg(long)]
        json: bool,
    },
    /// Print the lines of one that match
    Search {
        /// Its id
        id: String,
        /// The text to look for
        query: String,
        /// The text is a regular expression
        #[arg(long)]
        regex: bool,
        /// Upper and lower case are the same
        #[arg(long, short)]
        ignore_case: bool,
        /// Lines before and after each match
        #[arg(long, short = 'C', value_name = "N", default_value = "0")]
        context: usize,
        /// Matches at most
        #[arg(long, value_name = "N", default_value = "50", value_parser = number)]
        limit: usize,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Forget some
    Delete {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Forget what was not used for too long, and what is more than the quota
    Gc {
        /// For programs
        #[arg(long)]
        json: bool,
    },
}

/// Which turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[group(multiple = false)]
pub struct Select {
    /// The newest turn, failed or not
    #[arg(long)]
    last: bool,
    /// The turn of this response
    #[arg(long, value_name = "ID")]
    response: Option<Id>,
    /// The turn of this request: the x-request-id of its answer
    #[arg(long, value_name = "ID")]
    request: Option<Id>,
    /// All turns of this time, such as 90s, 15m, 1h or 2d
    #[arg(long, value_name = "TIME")]
    since: Option<Span>,
}

impl Select {
    /// With what is wanted of them.
    pub fn wanted(self, images: bool, encrypted: bool) -> Wanted {
        Wanted {
            select: self.into(),
            images,
            encrypted,
        }
    }
}

impl From<Select> for Selection {
    fn from(select: Select) -> Self {
        match select {
            Select {
                response: Some(id), ..
            } => Self::Response(id.0),
            Select {
                request: Some(id), ..
            } => Self::Request(id.0),
            Select {
                since: Some(span), ..
            } => Self::Since(span.0),
            Select { last: true, .. } => Self::Last,
            Select { last: false, .. } => Self::Failed,
        }
    }
}

/// A number that counts from 1.
fn number(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or("a number counts from 1")
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
    use std::time::Duration;

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

    #[test]
    fn a_selection_is_one_flag() {
        let selected = |flags: &str| {
            let line = format!("respondent bundle create{flags}");
            match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
                Ok(Some(Command::Bundle(Bundle::Create { select, .. }))) => Some(select.into()),
                Ok(_) | Err(_) => None,
            }
        };
        for (flags, select) in [
            ("", Selection::Failed),
            (" --images --encrypted", Selection::Failed),
            (" --last", Selection::Last),
            (" --response resp_1", Selection::Response("resp_1".into())),
            (" --request req_1", Selection::Request("req_1".into())),
            (" --since 1h", Selection::Since(Duration::from_hours(1))),
        ] {
            assert_eq!(selected(flags), Some(select), "{flags}");
        }
        for bad in [
            " --last --since 1h",
            " --response a --request b",
            " --since 1w",
            " --response ../x",
            " --response",
        ] {
            assert_eq!(selected(bad), None, "{bad}");
        }
    }

    #[test]
    fn turns_count_from_one() {
        for (n, fits) in [("1", true), ("20", true), ("0", false), ("-1", false)] {
            let line = format!("respondent replay a.tar.zst --turn {n}");
            assert_eq!(Cli::try_parse_from(line.split(' ')).is_ok(), fits, "{line}");
        }
    }
}
