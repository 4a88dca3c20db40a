//! The tool that lists artifacts.

use std::fmt::Write;

use adapters::plan::output;
use serde::Deserialize;

use super::error::ToolCallError;
use crate::artifacts::owner::{OwnerArtifacts, ReadError};
use crate::clock::http_date;
use crate::log::SafeText;
use crate::store::{ArtifactEntry, ArtifactFilter, ArtifactRange};

/// How many artifacts are listed when the request does not say.
pub(crate) const DEFAULT_LIMIT: usize = 20;
/// Largest number of artifacts listed.
pub(crate) const MAX_LIMIT: usize = 100;

/// How much of an output is read to find its first line, in bytes.
const BEGINNING_BYTES: u64 = 1_000;
/// Characters of the first line that are shown.
const BEGINNING_CHARS: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArguments {
    limit: Option<usize>,
    session: Option<String>,
}

/// Lists artifacts, newest first, with a line for each and its first line.
pub(super) async fn list(
    owned: &OwnerArtifacts,
    arguments: ListArguments,
) -> Result<String, ToolCallError> {
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let filter = ArtifactFilter {
        session: arguments.session,
        limit: limit + 1,
        after: None,
        id_prefix: None,
    };
    let entries = owned.list(&filter).await?;
    let mut out = match entries.len().min(limit) {
        0 => "[no artifacts]\n".to_owned(),
        1 => "[1 artifact]\n".to_owned(),
        count => format!("[{count} artifacts, newest first]\n"),
    };
    for entry in entries.iter().take(limit) {
        out.push_str(&describe(entry));
        match owned
            .read(&entry.id, &ArtifactRange::Bytes(0..BEGINNING_BYTES))
            .await
        {
            Ok(piece) => {
                let _ = writeln!(out, "    {}", beginning(&piece.text));
            }
            // It was deleted after the list was made.
            Err(ReadError::Missing { .. } | ReadError::MalformedId) => {}
            Err(error @ (ReadError::Store(_) | ReadError::SearchTimeout)) => {
                return Err(error.into());
            }
        }
    }
    if entries.len() > limit {
        out.push_str("[There are older ones.]\n");
    }
    Ok(out)
}

fn describe(entry: &ArtifactEntry) -> String {
    format!(
        "{} {}, {} characters, {} lines, call {}, session {}, {}\n",
        entry.id,
        entry.kind.name(),
        entry.chars,
        entry.lines,
        SafeText::up_to(&entry.call_id, 64),
        SafeText::up_to(&entry.session, 80),
        http_date(entry.created.saturating_mul(1000)),
    )
}

/// The beginning of the first line below the header that Codex writes.
fn beginning(text: &str) -> String {
    let header = output::measure(text).header.bytes;
    let body = text.get(header..).unwrap_or(text).trim_start();
    SafeText::up_to(body.lines().next().unwrap_or_default(), BEGINNING_CHARS).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::artifacts::owner::owner_with_texts;
    use crate::mcp::call::call_tool;

    #[tokio::test]
    async fn a_list_describes_each_artifact() {
        let command =
            "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n\ncargo test\nok";
        let (owned, ids) = owner_with_texts(&["old", command]).await;
        let text = call_tool(&owned, "artifact_list", json!({})).await.unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[0], "[2 artifacts, newest first]");
        let row = format!(
            "{} command_output, {} characters, 6 lines, call call_1,",
            ids[1],
            command.len()
        );
        assert!(lines[1].starts_with(&row), "{text}");
        assert_eq!(lines[2], "    cargo test");
        assert_eq!(lines[4], "    old");
        let one = call_tool(&owned, "artifact_list", json!({"limit": 1}))
            .await
            .unwrap();
        assert!(
            one.ends_with("cargo test\n[There are older ones.]\n"),
            "{one}"
        );
        let none = call_tool(&owned, "artifact_list", json!({"session": "x"}))
            .await
            .unwrap();
        assert_eq!(none, "[no artifacts]\n");
    }
}
