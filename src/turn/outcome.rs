//! How a turn ended, as one word.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// How a turn ended, as the client saw it. Written to log, metrics and bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// The client got `response.completed`.
    Completed,
    /// The client got `response.incomplete`.
    Incomplete,
    /// The client got `response.failed`, or an HTTP error after a request to a provider.
    Failed,
    /// The request itself was at fault, so no provider was asked.
    Refused,
    /// The client left before the end.
    Disconnected,
    /// The client cancelled it while it ran in the background.
    Cancelled,
}

impl Outcome {
    /// The name in log, metrics and bundles.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Whether the client got an error.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::Refused => true,
            Self::Completed | Self::Incomplete | Self::Disconnected | Self::Cancelled => false,
        }
    }
}
