//! The tools that run in the server, and their limits: `[tools]`.

use std::time::Duration;

use registry::duration::{self, DurationText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mcp_servers::McpSpec;

/// Which tools run in the server, and how much they may do in one answer, as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ToolSpec {
    /// Whether models may read artifacts with tools of the server. They are offered where a model
    /// sees the id of one, unless the client has such tools itself.
    pub artifacts: bool,
    /// The most characters of artifacts that a model reads with them in one answer.
    pub max_artifact_chars: usize,
    /// The most rounds of an answer whose calls are run.
    pub max_rounds: u32,
    /// After how many rounds in a row without a usable call, such as because of arguments that do
    /// not fit, the answer ends with an error.
    pub max_unusable_rounds: u32,
    /// The most calls that are run in an answer; without a limit of its own if absent.
    pub max_calls: Option<u32>,
    /// The most time of a call, whatever its tool allows.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub call_timeout: Duration,
    /// `[tools.mcp]`: the MCP servers that requests may name.
    pub mcp: McpSpec,
}

impl Default for ToolSpec {
    fn default() -> Self {
        let ToolConfig {
            artifacts,
            max_artifact_chars,
            max_rounds,
            max_unusable_rounds,
            max_calls,
            call_timeout,
        } = ToolConfig::default();
        Self {
            artifacts,
            max_artifact_chars,
            max_rounds,
            max_unusable_rounds,
            max_calls,
            call_timeout,
            mcp: McpSpec::default(),
        }
    }
}

impl From<&ToolSpec> for ToolConfig {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            artifacts: spec.artifacts,
            max_artifact_chars: spec.max_artifact_chars,
            max_rounds: spec.max_rounds,
            max_unusable_rounds: spec.max_unusable_rounds,
            max_calls: spec.max_calls,
            call_timeout: spec.call_timeout,
        }
    }
}

/// Which tools run in the server, and how much they may do in one answer. A recorded turn has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ToolConfig {
    /// Whether models may read artifacts with tools of the server. They are offered where a model
    /// sees the id of one, unless the client has such tools itself.
    pub artifacts: bool,
    /// The most characters of artifacts that a model reads with them in one answer.
    pub max_artifact_chars: usize,
    /// The most rounds of an answer whose calls are run.
    pub max_rounds: u32,
    /// After how many rounds in a row without a usable call, such as because of arguments that do
    /// not fit, the answer ends with an error.
    pub max_unusable_rounds: u32,
    /// The most calls that are run in an answer; without a limit of its own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// The most time of a call, whatever its tool allows.
    #[serde(with = "duration")]
    pub call_timeout: Duration,
}

impl Default for ToolConfig {
    fn default() -> Self {
        Self {
            artifacts: true,
            // What was too long for the request must not come back whole.
            max_artifact_chars: 48_000,
            // Tools that read and search need few; a model that needs more usually asks for the
            // same thing again and again.
            max_rounds: 10,
            max_unusable_rounds: 3,
            max_calls: None,
            call_timeout: Duration::from_secs(45),
        }
    }
}
