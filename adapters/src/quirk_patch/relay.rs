//! The changes of quirks that only an upstream that speaks Responses has.

use std::fmt;

use registry::{EnumSet, RelayToolKind, ResponseFormat};
use serde::{Deserialize, Serialize};

/// A change of a quirk that only a Responses upstream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayPatch {
    /// The most capable `text.format` that is accepted.
    ResponseFormat(ResponseFormat),
    /// Kinds of tools that are sent as functions, or left out if they run at the provider.
    WithoutTools(EnumSet<RelayToolKind>),
}

impl fmt::Display for RelayPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ResponseFormat(ResponseFormat::JsonSchema) => "text.format is json_schema",
            Self::ResponseFormat(ResponseFormat::JsonObject) => {
                "text.format is json_object at most"
            }
            Self::ResponseFormat(ResponseFormat::None) => "text.format is left out",
            Self::WithoutTools(_) => "tools are sent as functions",
        })
    }
}
