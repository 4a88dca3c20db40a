//! The tools by which a model reads artifacts.

use crate::turn::Item;

/// The name of the tool that returns a part of an artifact.
pub const READ_TOOL: &str = "artifact_read";

/// The name of the tool that searches artifacts.
pub const SEARCH_TOOL: &str = "artifact_search";

/// Whether a call is one of these tools, whose names may follow that of their MCP server. An output
/// of any other tool can only look like a part of an artifact.
pub fn reads_artifact(call: &Item<'_>) -> bool {
    let name = call.name().unwrap_or_default();
    [READ_TOOL, SEARCH_TOOL]
        .iter()
        .any(|tool| name.ends_with(tool))
}
