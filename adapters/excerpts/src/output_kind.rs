//! The kinds of tool output.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// The kind of text of a tool output, guessed from the text. An excerpt names it; its layout, and
/// how its text is divided into units, depend on it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OutputKind {
    /// The output of a command, or a log.
    CommandOutput,
    /// A web page or search results.
    WebOrSearch,
    /// A file, source code or a diff.
    FileOrCodeOutput,
    /// One JSON document, or several, one per line.
    Json,
    /// Anything else: minified assets, binary data, base64.
    OpaqueToolOutput,
}

impl OutputKind {
    /// The name that excerpts, notices and the artifact store use.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
