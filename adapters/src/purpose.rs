//! The purpose of an upstream request: the next answer, a summary of the history, or the
//! next answer to a history whose beginning a summary replaces. `compact::apply_purpose`
//! changes a turn for its purpose before it is planned.

use std::sync::Arc;

/// The purpose of an upstream request. The server chooses it; one turn of a client can
/// need several requests with different purposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The next answer.
    #[default]
    Answer,
    /// A request for a summary of the history.
    Summary {
        /// How the model is asked for the summary.
        mode: SummaryMode,
        /// Whether the request ends with the client's own prompt for a summary, so that
        /// ours is not appended.
        prompted: bool,
        /// The `tools` of the session as a JSON list, for a request that comes without
        /// them: the provider has cached the history behind these tools.
        tools: Option<Arc<str>>,
    },
    /// The next answer after a summary: the items before `from` are replaced.
    Compacted {
        /// The `encrypted_content` of the compaction item that holds the summary.
        blob: Arc<str>,
        /// The first item that stays, as an index into the request's items.
        from: usize,
    },
}

/// How a model is asked for a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryMode {
    /// As the next turn of the same history, so that the provider's prompt cache is
    /// used: the tools stay and `tool_choice` is `none`.
    NextTurn,
    /// Without tools, and shortened until the request fits the model's window.
    FitWindow,
}

impl Purpose {
    /// A request for a summary in this mode, with our prompt.
    pub fn summary(mode: SummaryMode) -> Self {
        Self::Summary {
            mode,
            prompted: false,
            tools: None,
        }
    }

    /// How the summary is asked for; `None` if the request does not ask for one.
    pub fn summary_mode(&self) -> Option<SummaryMode> {
        match self {
            Self::Summary { mode, .. } => Some(*mode),
            Self::Answer | Self::Compacted { .. } => None,
        }
    }
}
