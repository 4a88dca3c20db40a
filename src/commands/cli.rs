//! The command-line grammar: flags, commands, their help texts, and the exit codes.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Flags;
use crate::diagnostics::selection::{BundleQuery, Selection, TimeSpan, TurnId};

/// Exit code for success, and for turns that are equal.
pub const EXIT_OK: u8 = 0;

/// Exit code for turns that differ. Any error without a code of its own ends with 1, too.
pub const EXIT_DIFFERENT: u8 = 1;

/// Exit code for a replay that could not be run to its end; `EX_SOFTWARE` of sysexits.
pub const EXIT_REPLAY_FAILED: u8 = 70;

/// Exit code for a file that is not a bundle or cannot be replayed; `EX_DATAERR` of sysexits.
pub const EXIT_BAD_FILE: u8 = 65;

/// Exit code for an invalid configuration or command line; `EX_USAGE` of sysexits.
pub const EXIT_BAD_USAGE: u8 = 64;

/// Answers the OpenAI Responses API for every model.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Cli {
    /// The flags that override the configuration.
    #[command(flatten)]
    pub flags: Flags,
    /// The command to run; without one, the server is started.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// The commands of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum CliCommand {
    /// Start the server (the default)
    #[default]
    Serve,
    /// Check the configuration and print the settings, providers and models in use
    Check,
    /// List the models of every provider with their prices
    Models {
        /// List the models of this provider only
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set up Codex
    #[command(subcommand)]
    Codex(CodexCommand),
    /// Write recorded turns to a file, to report or replay them
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// Read the full text of tool outputs that were shortened
    #[command(subcommand)]
    Artifacts(ArtifactsCommand),
    /// Run an MCP server on standard input and output, with tools that read artifacts
    ///
    /// This is for programs that start their MCP servers themselves. The running server
    /// offers the same tools at /mcp.
    Mcp,
    /// Replay a recorded turn offline and compare the result with the recording
    ///
    /// The recorded request runs through this program against the recorded bytes of the
    /// provider, with the recorded clock, ids and timing. Nothing leaves this machine, unless
    /// --live sends the request to a provider.
    #[command(after_help = REPLAY_EXIT_CODES)]
    Replay {
        /// The bundle file
        file: PathBuf,
        /// The number of the turn in the bundle; all turns if left out
        #[arg(long, value_name = "N", value_parser = positive)]
        turn: Option<usize>,
        /// Send the request to this model, with the configured key, and show what changed;
        /// redacted secrets, images and encrypted contents are sent as their placeholders
        #[arg(long, value_name = "PROVIDER/MODEL")]
        live: Option<String>,
        /// Print the response events of the replay
        #[arg(long)]
        events: bool,
    },
}

const REPLAY_EXIT_CODES: &str = "Exit code: 0 if everything is equal, 1 if something differs (the \
    differences are printed), 65 if the file cannot be used, 70 if the replay could not be run to \
    its end, 64 if the command line or the configuration is invalid.";

const DIFF_EXIT_CODES: &str =
    "Exit code: 0 if the turns are equal, 1 if they differ, 65 if a file cannot be used.";

/// `respondent bundle`: files with recorded turns.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum BundleCommand {
    /// Write recorded turns to a new file; by default the newest turn that failed
    Create {
        /// The turns to write.
        #[command(flatten)]
        select: SelectArgs,
        /// The file, which must not exist, or - for standard output; if left out, the file is
        /// named after the turn
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Include images instead of their hashes
        #[arg(long)]
        images: bool,
        /// Include encrypted contents instead of their hashes
        #[arg(long)]
        encrypted: bool,
    },
    /// List the recorded turns
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the turns in a bundle
    Show {
        /// The bundle file
        file: PathBuf,
    },
    /// Show the differences between the turns of two bundles
    #[command(after_help = DIFF_EXIT_CODES)]
    Diff {
        /// The first bundle file
        a: PathBuf,
        /// The second bundle file
        b: PathBuf,
    },
}

/// `respondent artifacts`: the full text of tool outputs that were shortened.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ArtifactsCommand {
    /// List artifacts, newest first
    List {
        /// Maximum number of artifacts to list
        #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
        limit: usize,
        /// List only artifacts that come after this one in the list
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// List only artifacts of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print an artifact or a part of it, byte for byte
    Show {
        /// The id of the artifact
        id: String,
        /// Print these lines, counted from 1; without the second number, all following lines
        #[arg(long, value_name = "FROM-TO", conflicts_with = "bytes")]
        lines: Option<String>,
        /// Print these bytes, counted from 0 and extended to whole characters
        #[arg(long, value_name = "FROM-TO")]
        bytes: Option<String>,
        /// Print JSON, with the artifact's metadata
        #[arg(long)]
        json: bool,
    },
    /// Print the lines of an artifact that match a text
    Search {
        /// The id of the artifact
        id: String,
        /// The text to search for
        query: String,
        /// Treat the text as a regular expression
        #[arg(long)]
        regex: bool,
        /// Ignore upper and lower case
        #[arg(long, short)]
        ignore_case: bool,
        /// Number of lines to print before and after each match
        #[arg(long, short = 'C', value_name = "N", default_value = "0")]
        context: usize,
        /// Maximum number of matches
        #[arg(long, value_name = "N", default_value = "50", value_parser = positive)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete artifacts
    Delete {
        /// The ids of the artifacts
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Delete artifacts that have expired or exceed the quota
    Gc {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The flags of `bundle create` that select turns; without any, the newest failed turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[group(multiple = false)]
pub struct SelectArgs {
    /// Write the newest turn, failed or not
    #[arg(long)]
    last: bool,
    /// Write the turn with this response id
    #[arg(long, value_name = "ID")]
    response: Option<TurnId>,
    /// Write the turn with this request id, the x-request-id of its response
    #[arg(long, value_name = "ID")]
    request: Option<TurnId>,
    /// Write all turns of the last 90s, 15m, 1h or 2d, for example
    #[arg(long, value_name = "TIME")]
    since: Option<TimeSpan>,
}

impl SelectArgs {
    /// The request for a bundle of these turns, with or without images and encrypted
    /// contents.
    pub fn wanted(self, images: bool, encrypted: bool) -> BundleQuery {
        BundleQuery {
            selection: self.into(),
            images,
            encrypted,
        }
    }
}

impl From<SelectArgs> for Selection {
    fn from(select: SelectArgs) -> Self {
        match select {
            SelectArgs {
                response: Some(id), ..
            } => Self::Response(id.0),
            SelectArgs {
                request: Some(id), ..
            } => Self::Request(id.0),
            SelectArgs {
                since: Some(span), ..
            } => Self::Since(span.0),
            SelectArgs { last: true, .. } => Self::Last,
            SelectArgs { last: false, .. } => Self::Failed,
        }
    }
}

/// Parses a number above 0.
fn positive(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or("a number counts from 1")
}

/// `respondent codex`: setup of the Codex CLI.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum CodexCommand {
    /// Print the block for Codex's config.toml
    Print,
    /// Write a model catalog with the prompt of the installed Codex
    Catalog {
        /// The Codex program to take the prompt from
        #[arg(long, value_name = "PROGRAM", default_value = "codex")]
        codex: std::ffi::OsString,
        /// The file to write, or - for standard output; in Codex's directory if left out
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
    fn the_definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_go_before_or_after_the_command() {
        for line in [
            "respondent --listen [::1]:1 check",
            "respondent check --listen [::1]:1",
        ] {
            let cli = parse(line);
            assert_eq!(cli.flags.listen.as_deref(), Some("[::1]:1"));
            assert_eq!(cli.command, Some(CliCommand::Check));
        }
    }

    #[test]
    fn serve_is_the_default() {
        assert_eq!(
            parse("respondent").command.unwrap_or_default(),
            CliCommand::Serve
        );
        assert_eq!(parse("respondent serve").command, Some(CliCommand::Serve));
    }

    #[test]
    fn turns_are_selected_by_at_most_one_flag() {
        let selected = |flags: &str| {
            let line = format!("respondent bundle create{flags}");
            match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
                Ok(Some(CliCommand::Bundle(BundleCommand::Create { select, .. }))) => {
                    Some(select.into())
                }
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
