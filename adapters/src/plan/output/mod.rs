//! Tool outputs as text: what kind of output it is, and what of it is shown.
//!
//! [`text`] decodes the output of an item, [`measure`] says what it is and how
//! large, [`excerpt`], [`notice`] and [`page`] say what is sent instead. All are
//! functions of their arguments alone: the bytes of a history stay what they were.

use serde::{Deserialize, Serialize};

mod excerpt;
mod header;
mod hints;
mod kind;
mod measure;
mod read_back;
mod text;

pub use excerpt::{SHORTENED, Style, VISIBLE, excerpt, how_to_read, notice};
pub use header::Header;
pub use measure::{Measure, id, measure};
pub use read_back::{is_read_back, page, read_back_head};
pub use text::{length_bound, text};

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
    /// One JSON document, or one a line.
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
