//! The command-line grammar: flags, commands, their help texts, and the exit codes.

use std::path::PathBuf;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

pub use bundle::{BundleCommand, SelectArgs};
pub use codex::{CodexCommand, RunCommand};
pub use doctor::DoctorArgs;
pub use service::ServiceCommand;
pub use stored::{ArtifactsCommand, ClientsCommand, JobsCommand, StoreCommand, WorkflowsCommand};

use crate::app::web::MAX_RESULTS;
use crate::commands::usage::UsageSpan;
use crate::config::Flags;
use crate::config::inputs::GLOBAL_OPTIONS;

mod bundle;
mod codex;
mod doctor;
mod examples;
mod groups;
mod service;
mod stored;
#[cfg(test)]
mod tests;

/// Exit code for success, and for turns that are equal.
pub const EXIT_OK: u8 = 0;

/// Exit code for turns that differ. Any error without a code of its own ends with 1, too.
pub const EXIT_DIFFERENT: u8 = 1;

/// Exit code if one of several checks failed.
pub const EXIT_FAILED: u8 = 1;

/// Exit code for a replay that could not be run to its end; `EX_SOFTWARE` of sysexits.
pub const EXIT_REPLAY_FAILED: u8 = 70;

/// Exit code for a file that is not a bundle or cannot be replayed; `EX_DATAERR` of sysexits.
pub const EXIT_BAD_FILE: u8 = 65;

/// Exit code for an invalid configuration or command line, as of most programs.
pub const EXIT_BAD_USAGE: u8 = 2;

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

impl Cli {
    /// The program's command as people see it: its help shows the commands in groups.
    pub fn grouped() -> clap::Command {
        groups::grouped(Self::command())
    }
}

/// The commands of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum CliCommand {
    /// Start the server (the default)
    #[default]
    #[command(after_help = examples::SERVE)]
    Serve,
    /// Start a server in the background, and wait until it answers
    ///
    /// It has the keys of this shell's environment until it is stopped, logs to server.log in the
    /// data directory, and is found by the other commands at its address. It has no terminal, so it
    /// goes on when this one is closed.
    #[command(after_help = examples::START)]
    Start,
    /// Stop the server, once its running turns have ended
    #[command(after_help = examples::STOP)]
    Stop,
    /// Stop the server and start one with this shell's environment
    #[command(after_help = examples::RESTART)]
    Restart,
    /// Show the end of the server's log
    #[command(after_help = examples::LOGS)]
    Logs {
        /// Number of lines
        #[arg(short = 'n', long, value_name = "N", default_value = "50")]
        lines: usize,
        /// Go on with what is logged from now on
        #[arg(short, long)]
        follow: bool,
    },
    /// Run the server as a service of your user, from login on
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Check the configuration and print the settings, providers and models in use
    #[command(after_help = examples::CHECK)]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of the configuration file, with which editors complete and check it
    #[command(after_help = examples::SCHEMA)]
    Schema {
        /// Print the schema of a file in providers/ instead
        #[arg(long)]
        provider: bool,
    },
    /// List the models that can be used, with their prices
    #[command(after_help = examples::MODELS)]
    Models {
        /// List the models of this provider only
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
        /// Also list the providers that are off, and how to turn them on
        #[arg(long)]
        all: bool,
        /// Show what was learned of models from refusals and from what providers count
        #[arg(long, conflicts_with = "all")]
        learned: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check this machine and the providers with real requests, and measure how a provider differs
    ///
    /// A model gets at most 12 small requests, 20,000 tokens and a minute. Differences between
    /// what was measured and what is known are printed as a provider file.
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// Show what the server is doing, and the tokens and costs of today
    #[command(after_help = examples::STATUS)]
    Status {
        /// Show everything: this week, all providers, what was learned, the disk
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the tokens and costs of each day by model and, where clients share the server, by
    /// client
    #[command(after_help = examples::USAGE)]
    Usage {
        /// How far back to go: 7d is today and the six days before, 3h the last three hours from a
        /// whole hour on
        #[arg(long, value_name = "TIME", default_value = "7d")]
        since: UsageSpan,
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
    /// Search the web as the models of this server do
    #[command(after_help = examples::SEARCH)]
    Search {
        /// The words to search for
        #[arg(required = true)]
        words: Vec<String>,
        /// Number of results, at most 20
        #[arg(long, value_name = "N", value_parser = results)]
        results: Option<usize>,
        /// Only results of this domain and those below it; may be given several times
        #[arg(long = "domain", value_name = "DOMAIN")]
        domains: Vec<String>,
        /// Print JSON, with the search engines that were asked
        #[arg(long)]
        json: bool,
    },
    /// Read a page of the web as the models of this server do
    #[command(after_help = examples::OPEN)]
    Open {
        /// The address of the page
        url: String,
        /// Print only the places of the page with this text
        #[arg(long, value_name = "TEXT")]
        find: Option<String>,
        /// Print the parts of a long page that fit these words
        #[arg(long, value_name = "WORDS", conflicts_with = "find")]
        query: Option<String>,
        /// Read on in a long page from this character
        #[arg(long, value_name = "N", conflicts_with = "find")]
        from: Option<usize>,
        /// Print the whole page as Markdown
        #[arg(long, conflicts_with_all = ["find", "query", "from"])]
        markdown: bool,
        /// Print JSON, with what is known of the page
        #[arg(long)]
        json: bool,
    },
    /// List, read and cancel background responses
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// List, show and run workflows
    #[command(subcommand)]
    Workflows(WorkflowsCommand),
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

/// Parses a number of results.
fn results(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MAX_RESULTS).contains(number));
    number.ok_or_else(|| format!("it must be 1 to {MAX_RESULTS}"))
}

/// Parses a number above 0.
fn positive(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or("it must be 1 or more")
}
