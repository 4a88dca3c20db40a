//! The names of the tools, and the errors of their calls.

use crate::artifacts::owner::ReadError;
use crate::artifacts::search::InvalidQuery;

pub(crate) use adapters::plan::output::{READ_TOOL as READ, SEARCH_TOOL as SEARCH};

/// The name of the tool that lists.
pub(super) const LIST: &str = "artifact_list";

/// The names of all.
pub(crate) const NAMES: [&str; 3] = [READ, SEARCH, LIST];

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolCallError {
    #[error("There is no tool of this name; there are {READ}, {SEARCH} and {LIST}.")]
    NoTool,
    #[error("The arguments do not fit: {0}.")]
    Arguments(String),
    #[error("{}", unsearchable("query", .0))]
    Query(#[from] InvalidQuery),
    #[error("{0} {advice}", advice = advice(.0))]
    Unread(ReadError),
}

/// Tells the model how to go on.
fn advice(unread: &ReadError) -> &'static str {
    match unread {
        ReadError::Missing { .. } => {
            "artifact_list shows which there are; else run the command again."
        }
        ReadError::MalformedId => "Copy the id from the excerpt, or call artifact_list.",
        ReadError::SearchTimeout => "Then read around what it finds.",
        ReadError::Store(_) => "Nothing is known to be lost.",
    }
}

/// The message for a pattern that cannot be searched for, with the name of the parameter
/// that it came in.
pub(crate) fn unsearchable(parameter: &str, error: &InvalidQuery) -> String {
    format!("{parameter} cannot be searched for: {error}.")
}

impl From<ReadError> for ToolCallError {
    fn from(error: ReadError) -> Self {
        Self::Unread(error)
    }
}
