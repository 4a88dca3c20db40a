//! The commands on files with recorded turns.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{examples, positive};
use crate::diagnostics::selection::{BundleQuery, Selection, TimeSpan, TurnId};

/// `respondent bundle`: files with recorded turns.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum BundleCommand {
    /// Write recorded turns to a new file; by default the newest turn of an agent that failed
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
        /// Maximum number of turns to list
        #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
        limit: usize,
        /// List all turns
        #[arg(long, conflicts_with = "limit")]
        all: bool,
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

/// The flags of `bundle create` that select turns; without any, the newest failed turn
/// of an agent.
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
