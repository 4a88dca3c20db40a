//! The command-line grammar: flags, commands, their help texts, and the exit codes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::Flags;
use crate::config::inputs::GLOBAL_OPTIONS;
use crate::diagnostics::selection::{BundleQuery, Selection, TimeSpan, TurnId};

/// Exit code for success, and for turns that are equal.
pub const EXIT_OK: u8 = 0;

/// Exit code for turns that differ. Any error without a code of its own ends with 1, too.
pub const EXIT_DIFFERENT: u8 = 1;

/// Exit code for checks of which one failed.
pub const EXIT_FAILED: u8 = 1;

/// Exit code for a replay that could not be run to its end; `EX_SOFTWARE` of sysexits.
pub const EXIT_REPLAY_FAILED: u8 = 70;

/// Exit code for a file that is not a bundle or cannot be replayed; `EX_DATAERR` of sysexits.
pub const EXIT_BAD_FILE: u8 = 65;

/// Exit code for an invalid configuration or command line; `EX_USAGE` of sysexits.
pub const EXIT_BAD_USAGE: u8 = 64;

mod examples;

/// A local server that lets Codex and OpenAI SDKs use the models of other providers
///
/// Respondent answers the OpenAI Responses API on this machine and translates each request for the
/// provider of the model: Kimi, GLM, DeepSeek, Qwen, Gemini, OpenRouter, a local server and others.
/// Without a command it starts the server. Without a key an offline demo model answers.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, after_help = examples::TOP)]
pub struct Cli {
    /// The flags that override the configuration.
    #[command(flatten)]
    pub flags: Flags,
    /// When to use colours: auto means on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = GLOBAL_OPTIONS
    )]
    pub color: ColorChoice,
    /// The command to run; without one, the server is started.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// The options of `respondent doctor`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DoctorArgs {
    /// Ask this provider only; with --url, the name to give the provider
    #[arg(long, value_name = "ID")]
    pub provider: Option<String>,
    /// Ask for this model instead of the first one
    #[arg(long)]
    pub model: Option<String>,
    /// Ask the provider at this address, which need not be configured
    #[arg(long)]
    pub url: Option<String>,
    /// The environment variable with the key for --url
    #[arg(long, value_name = "NAME", requires = "url")]
    pub key_env: Option<String>,
    /// Also send a prompt that is larger than the window, which may be charged for
    #[arg(long)]
    pub overflow: bool,
    /// Write the provider file, beside the configuration, if it does not exist
    #[arg(long)]
    pub write: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The Codex program
    #[arg(long, value_name = "FILE", default_value = "codex")]
    pub codex: OsString,
}

/// The commands of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum CliCommand {
    /// Start the server (the default)
    #[default]
    #[command(after_help = examples::SERVE)]
    Serve,
    /// Check the configuration and print the settings, providers and models in use
    #[command(after_help = examples::CHECK)]
    Check,
    /// List the models that can be used, with their prices
    #[command(after_help = examples::MODELS)]
    Models {
        /// List the models of this provider only
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
        /// Also list the providers that are off, and how to turn them on
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check this machine and the providers with real requests, and measure how a provider differs
    ///
    /// A model gets at most 12 small requests, 20,000 tokens and a minute. What was measured and differs
    /// from what is known is shown as a provider file.
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// Show what the server is doing, and the tokens and costs of today and this week
    #[command(after_help = examples::STATUS)]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the tokens and costs of each day by model and, where clients share the server, by client
    #[command(after_help = examples::USAGE)]
    Usage {
        /// How far back to go, in whole days: 7d is today and the six days before
        #[arg(long, value_name = "TIME", default_value = "7d")]
        since: TimeSpan,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a program with the models of this server, without setting anything up
    #[command(subcommand)]
    Run(RunCommand),
    /// Set up the Codex CLI to use this server
    #[command(subcommand)]
    Codex(CodexCommand),
    /// List recorded turns, and write them to files that can be reported and replayed
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// Read and delete the full text of tool outputs that were shortened for the model
    #[command(subcommand)]
    Artifacts(ArtifactsCommand),
    /// List, read and cancel background responses
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Inspect, copy, move and delete what is stored: tool outputs, responses, conversations
    #[command(subcommand)]
    Store(StoreCommand),
    /// Make tokens for several clients of one server, each with its own data and limits
    #[command(subcommand)]
    Clients(ClientsCommand),
    /// Run an MCP server on standard input and output, with tools that read stored tool outputs
    ///
    /// This is for programs that start their MCP servers themselves. The running server
    /// offers the same tools at /mcp.
    #[command(after_help = examples::MCP)]
    Mcp,
    /// Replay a recorded turn offline and compare the result with the recording
    ///
    /// The recorded request runs through this program against the recorded bytes of the
    /// provider, with the recorded clock, ids and timing. Nothing leaves this machine, unless
    /// --live sends the request to a provider.
    #[command(after_help = examples::REPLAY)]
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
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands to a directory
    #[command(after_help = examples::MAN)]
    Man {
        /// The directory to write the pages to; without it, the main page is printed
        dir: Option<PathBuf>,
    },
}

/// `respondent bundle`: files with recorded turns.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum BundleCommand {
    /// Write recorded turns to a new file; by default the newest turn that failed
    #[command(after_help = examples::BUNDLE_CREATE)]
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
    /// List the recorded turns, newest first
    #[command(after_help = examples::BUNDLE_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what happened in the turns of a bundle file, without their contents
    #[command(after_help = examples::BUNDLE_SHOW)]
    Show {
        /// The bundle file
        file: PathBuf,
    },
    /// Show the differences between the turns of two bundle files
    #[command(after_help = examples::BUNDLE_DIFF)]
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
    /// List the stored tool outputs, newest first
    #[command(after_help = examples::ARTIFACTS_LIST)]
    List {
        /// Maximum number of outputs to list
        #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
        limit: usize,
        /// List only outputs that come after this one in the list
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// List only outputs of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a stored tool output or a part of it, byte for byte
    #[command(after_help = examples::ARTIFACTS_SHOW)]
    Show {
        /// The id of the output, or the beginning of it
        id: String,
        /// Print these lines, counted from 1; without the second number, all following lines
        #[arg(long, value_name = "FROM-TO", conflicts_with = "bytes")]
        lines: Option<String>,
        /// Print these bytes, counted from 0 and extended to whole characters
        #[arg(long, value_name = "FROM-TO")]
        bytes: Option<String>,
        /// Print JSON, with the metadata of the output
        #[arg(long)]
        json: bool,
    },
    /// Print the lines of a stored tool output that contain a text
    #[command(after_help = examples::ARTIFACTS_SEARCH)]
    Search {
        /// The id of the output, or the beginning of it
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
    /// Delete stored tool outputs
    #[command(after_help = examples::ARTIFACTS_DELETE)]
    Delete {
        /// The ids of the outputs, or the beginnings of them
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Delete the stored tool outputs that have expired or exceed the quota
    #[command(after_help = examples::ARTIFACTS_GC)]
    Gc {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `respondent jobs`: the background responses of the running server.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum JobsCommand {
    /// List background responses, newest first
    #[command(after_help = examples::JOBS_LIST)]
    List {
        /// Maximum number of responses to list
        #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a background response as it is now, as JSON
    #[command(after_help = examples::JOBS_SHOW)]
    Show {
        /// The id of the response, or the beginning of it
        id: String,
    },
    /// Cancel a background response that is queued or running
    #[command(after_help = examples::JOBS_CANCEL)]
    Cancel {
        /// The id of the response, or the beginning of it
        id: String,
    },
    /// Print the text of a background response from its beginning, and follow it to its end
    #[command(after_help = examples::JOBS_TAIL)]
    Tail {
        /// The id of the response, or the beginning of it
        id: String,
    },
}

/// `respondent clients`: those who share a server.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ClientsCommand {
    /// Print a new token for a client, and the lines of the configuration that let it in
    #[command(after_help = examples::CLIENTS_ADD)]
    Add {
        /// The name of the client, which owns what it stores
        name: String,
    },
}

/// `respondent store`: the database in the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum StoreCommand {
    /// Show how much is stored, and how much disk space the files take
    #[command(after_help = examples::STORE_STATS)]
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read the whole database and report what is wrong with it
    #[command(after_help = examples::STORE_CHECK)]
    Check,
    /// Copy the database to a new file, also while the server runs
    #[command(after_help = examples::STORE_BACKUP)]
    Backup {
        /// The file, which must not exist
        file: PathBuf,
    },
    /// Write all responses and conversations to a new file, as JSON lines
    #[command(after_help = examples::STORE_EXPORT)]
    Export {
        /// The file, which must not exist
        file: PathBuf,
    },
    /// Import responses and conversations from an exported file; ids that already exist are skipped
    #[command(after_help = examples::STORE_IMPORT)]
    Import {
        /// The exported file
        file: PathBuf,
    },
    /// Delete everything that is stored: tool outputs, responses, conversations and usage
    #[command(after_help = examples::STORE_PURGE)]
    Purge {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// The flags of `bundle create` that select turns; without any, the newest failed turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[group(multiple = false)]
pub struct SelectArgs {
    /// Write the newest turn, failed or not
    #[arg(long)]
    last: bool,
    /// Write the turn with this response id, or the only one whose id begins with this
    #[arg(long, value_name = "ID")]
    response: Option<TurnId>,
    /// Write the turn with this request id (the x-request-id of its response), or the only one
    /// whose id begins with this
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
        .ok_or("it must be 1 or more")
}

/// `respondent run`: a program that uses this server for one run.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum RunCommand {
    /// Run Codex with the models of this server
    ///
    /// If no server runs on the configured address, one runs as long as Codex does; it logs to
    /// run.log in the data directory. Codex gets its settings as arguments: its own files stay as
    /// they are. A file proxy-config.toml in the working directory is read only if --config names
    /// it.
    #[command(after_help = examples::RUN_CODEX)]
    Codex {
        /// The model to start with; the default model if left out
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// The Codex program
        #[arg(long, value_name = "PROGRAM", default_value = "codex")]
        codex: std::ffi::OsString,
        /// The arguments of Codex; options of respondent come before them
        #[arg(
            value_name = "ARGS",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        args: Vec<std::ffi::OsString>,
    },
}

/// `respondent codex`: setup of the Codex CLI.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum CodexCommand {
    /// Write a Codex profile for this server, with a catalog of its models
    ///
    /// `codex -p respondent` uses the profile. Codex's own configuration stays as it is, unless
    /// --default is given.
    #[command(after_help = examples::CODEX_SETUP)]
    Setup {
        /// The model to start with; the default model if left out
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// Change Codex's config.toml instead, so that plain `codex` uses this server
        #[arg(long)]
        default: bool,
        /// Show each file that would be written and what changes in it, and write nothing
        #[arg(long)]
        dry_run: bool,
        /// The Codex program, whose prompt is copied into the model catalog
        #[arg(long, value_name = "PROGRAM", default_value = "codex")]
        codex: std::ffi::OsString,
    },
    /// Undo `codex setup`: remove what it wrote, and nothing else
    #[command(after_help = examples::CODEX_REMOVE)]
    Remove,
    /// Show whether Codex is set up for this server, and with which model
    #[command(after_help = examples::CODEX_STATUS)]
    Status,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    /// The command with this path, such as `bundle create`, and all those below it.
    fn commands(path: &str, command: &clap::Command) -> Vec<(String, clap::Command)> {
        let mut all = vec![(path.to_owned(), command.clone())];
        for inner in command.get_subcommands() {
            if inner.get_name() != "help" {
                all.extend(commands(&format!("{path} {}", inner.get_name()), inner));
            }
        }
        all
    }

    #[test]
    fn every_command_has_examples_that_can_be_parsed() {
        let mut cli = Cli::command();
        cli.build();
        let mut examples = 0;
        for (path, command) in commands("respondent", &cli) {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let has_inner = command.get_subcommands().next().is_some();
            assert!(has_inner || help.contains(&format!("  {path}")), "{path}");
            for line in help.lines() {
                let Some(line) = line.strip_prefix("  respondent") else {
                    continue;
                };
                // What follows two spaces explains the example; what follows a sign is the shell's.
                let line = line.split("  ").next().unwrap();
                let line = line.split([';', '|', '>', '&']).next().unwrap();
                let words = line.split_whitespace().map(|word| word.trim_matches('\''));
                let parsed = Cli::try_parse_from(std::iter::once("respondent").chain(words));
                let is_help = |error: &clap::Error| error.kind() == ErrorKind::DisplayHelp;
                assert!(
                    parsed.as_ref().map_or_else(is_help, |_| true),
                    "{path}: {line}: {parsed:?}"
                );
                examples += 1;
            }
        }
        assert!(examples > 20, "{examples}");
    }

    #[test]
    fn the_global_flags_have_a_heading_of_their_own() {
        let mut cli = Cli::command();
        cli.build();
        for (path, command) in commands("respondent", &cli) {
            let help = command.clone().render_long_help().to_string();
            let (own, global) = help.split_once("\nGlobal options:\n").unwrap();
            for flag in ["--config", "--listen", "--data-dir", "--log", "--color"] {
                assert!(!own.contains(&format!("{flag} <")), "{path}: {flag}");
                assert!(global.contains(&format!("{flag} <")), "{path}: {flag}");
            }
        }
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
