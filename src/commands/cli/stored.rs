//! The commands on what a server keeps: tool outputs, responses, conversations, and the clients
//! that own them.

use std::path::PathBuf;

use clap::Subcommand;

use super::{examples, positive};

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

/// `respondent workflows`: workflows, and runs of them.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum WorkflowsCommand {
    /// List the workflows: those of the program, and those of the folder in [workflows]
    #[command(after_help = examples::WORKFLOWS_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the variables and the nodes of a workflow
    #[command(after_help = examples::WORKFLOWS_SHOW)]
    Show {
        /// The id of the workflow
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a workflow in the running server, and print its answer
    ///
    /// The run goes on in the background if this command is ended.
    #[command(after_help = examples::WORKFLOWS_RUN)]
    Run {
        /// The id of the workflow
        id: String,
        /// The input
        input: Vec<String>,
        /// A variable
        #[arg(long, value_name = "NAME=VALUE")]
        var: Vec<String>,
        /// The model of the nodes that name none
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
    },
    /// Answer the question of a workflow that waits for a person, and print what follows
    #[command(after_help = examples::WORKFLOWS_ANSWER)]
    #[command(group = clap::ArgGroup::new("decision").required(true))]
    Answer {
        /// The id of the response that asks
        response: String,
        /// Approve it
        #[arg(long, group = "decision")]
        approve: bool,
        /// Refuse it
        #[arg(long, group = "decision")]
        refuse: bool,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
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
    /// List the clients of the configuration, with their limits
    #[command(after_help = examples::CLIENTS_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a client out of the configuration file, so that its token is no longer accepted
    #[command(after_help = examples::CLIENTS_REMOVE)]
    Remove {
        /// The name of the client
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
