//! The commands that set Codex up and run it.

use std::ffi::OsString;

use clap::Subcommand;

use super::examples;

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
        codex: OsString,
        /// The arguments of Codex; options of respondent come before them
        #[arg(
            value_name = "ARGS",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        args: Vec<OsString>,
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
        codex: OsString,
    },
    /// Undo `codex setup`: remove what it wrote, and nothing else
    #[command(after_help = examples::CODEX_REMOVE)]
    Remove,
    /// Show whether Codex is set up for this server, and with which model
    #[command(after_help = examples::CODEX_STATUS)]
    Status,
}
