//! Compaction: a long history becomes a summary that any model can go on from.

/// What a request is to become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The next answer.
    #[default]
    Answer,
    /// A summary of the history.
    Summary(Form),
    /// The next answer behind a summary: the items before `from` are replaced.
    Compacted {
        /// The compaction item's `encrypted_content`.
        blob: std::sync::Arc<str>,
        /// The first item that stays.
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
