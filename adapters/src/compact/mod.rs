//! Compaction: a long history becomes a summary that any model can go on from.
//!
//! [`Purpose`] makes a request for a summary of a request, or puts a summary in the
//! place of its history. A summary travels as a [`Blob`]; [`is_useful`] judges what a
//! model wrote, [`extract`] stands in where no model can, [`list`] names the tool
//! outputs that stay readable.

use std::sync::Arc;

mod apply;
mod blob;
mod deeds;
mod extract;
mod listed;
mod prompt;
#[cfg(test)]
mod tests;
mod useful;

pub use apply::late;
pub(crate) use apply::{apply, settle};
pub use blob::{Blob, Line, SEALED};
pub use extract::extract;
pub use listed::{Listed, artifacts, list};
pub use prompt::PROMPT;
pub use useful::{is_useful, tidy};

/// What a request is to become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The next answer.
    #[default]
    Answer,
    /// A summary of the history.
    Summary {
        /// How it is asked for.
        form: Form,
        /// Whether the request ends with the client's own prompt for a summary, so
        /// that ours is not appended.
        prompted: bool,
        /// The `tools` of the session, a JSON list, for a request that comes without
        /// them: the provider's cache holds the history behind them.
        tools: Option<Arc<str>>,
    },
    /// The next answer behind a summary: the items before `from` are replaced.
    Compacted {
        /// The compaction item's `encrypted_content`.
        blob: Arc<str>,
        /// The first item that stays, by its index among the request's items.
        from: usize,
    },
}

/// How a summary is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the next turn of the same history, so that the provider's cache answers:
    /// tools stay, `tool_choice` is `none`.
    NextTurn,
    /// Without tools, cut to what the window takes.
    Cut,
}

impl Purpose {
    /// A summary in this form, asked for with our prompt.
    pub fn summary(form: Form) -> Self {
        Self::Summary {
            form,
            prompted: false,
            tools: None,
        }
    }

    /// How a summary is asked for, if one is.
    pub fn form(&self) -> Option<Form> {
        match self {
            Self::Summary { form, .. } => Some(*form),
            Self::Answer | Self::Compacted { .. } => None,
        }
    }
}
