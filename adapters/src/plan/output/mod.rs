//! Tool outputs as text: what kind of output it is, and what of it is shown.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::turn::Item;

/// What an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// What a command printed, or a log.
    CommandOutput,
    /// A web page or the results of a search.
    WebOrSearch,
    /// A file, source code, a diff.
    FileOrCodeOutput,
    /// One JSON document.
    Json,
    /// Anything else: minified assets, binary data, base64.
    OpaqueToolOutput,
}

impl OutputKind {
    /// The name in excerpts and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommandOutput => "command_output",
            Self::WebOrSearch => "web_or_search",
            Self::FileOrCodeOutput => "file_or_code_output",
            Self::Json => "json",
            Self::OpaqueToolOutput => "opaque_tool_output",
        }
    }
}

/// The text of a tool output, decoded: a string, or the text parts of a list, a
/// line each; of outputs that are other JSON, that JSON. `None` for items that are
/// no outputs or have no text.
pub fn text<'a>(_item: &Item<'a>) -> Option<Cow<'a, str>> {
    None
}
