//! Which artifacts there are.

use std::fmt::Write;

use adapters::plan::output;
use serde::Deserialize;

use super::call::Unanswered;
use crate::artifacts::owner::{OwnerArtifacts, ReadError};
use crate::diagnostics::listing::http_date;
use crate::log::SafeText;
use crate::store::{ArtifactEntry, ArtifactFilter, ArtifactRange};

/// How many are listed when the call does not say.
pub(super) const LIMIT: usize = 20;
/// How many are listed at most.
pub(super) const MOST: usize = 100;

/// Bytes in which the first lines of an output are.
const START: u64 = 1_000;
/// Characters of it that are shown.
const SHOWN: usize = 100;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    limit: Option<usize>,
    session: Option<String>,
}

/// A line for each, the newest first, and how it begins.
pub(super) async fn list(owned: &OwnerArtifacts, ask: Ask) -> Result<String, Unanswered> {
    let limit = ask.limit.unwrap_or(LIMIT).clamp(1, MOST);
    let filter = ArtifactFilter {
        session: ask.session,
        limit: limit + 1,
        after: None,
    };
    let entries = owned.list(&filter).await?;
    let mut out = match entries.len().min(limit) {
        0 => "[no artifacts]\n".to_owned(),
        1 => "[1 artifact]\n".to_owned(),
        count => format!("[{count} artifacts, newest first]\n"),
    };
    for entry in entries.iter().take(limit) {
        out.push_str(&line(entry));
        match owned.read(&entry.id, &ArtifactRange::Bytes(0..START)).await {
            Ok(piece) => {
                let _ = writeln!(out, "    {}", beginning(&piece.text));
            }
            // It went since the list was made.
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

fn line(entry: &ArtifactEntry) -> String {
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

/// The first characters below the lines that Codex writes, in one line.
fn beginning(text: &str) -> String {
    let header = output::measure(text).header.bytes;
    let body = text.get(header..).unwrap_or(text).trim_start();
    SafeText::up_to(body.lines().next().unwrap_or_default(), SHOWN).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::artifacts::owner::owner_with_texts;
    use crate::mcp::call::ask;

    #[tokio::test]
    async fn a_list_tells_what_each_is() {
        let command =
            "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n\ncargo test\nok";
        let (owned, ids) = owner_with_texts(&["old", command]).await;
        let said = ask(&owned, "artifact_list", json!({})).await.text;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 5, "{said}");
        assert_eq!(lines[0], "[2 artifacts, newest first]");
        let row = format!(
            "{} command_output, {} characters, 6 lines, call call_1,",
            ids[1],
            command.len()
        );
        assert!(lines[1].starts_with(&row), "{said}");
        assert_eq!(lines[2], "    cargo test");
        assert_eq!(lines[4], "    old");
        let one = ask(&owned, "artifact_list", json!({"limit": 1})).await.text;
        assert!(
            one.ends_with("cargo test\n[There are older ones.]\n"),
            "{one}"
        );
        let none = ask(&owned, "artifact_list", json!({"session": "x"}))
            .await
            .text;
        assert_eq!(none, "[no artifacts]\n");
    }
}
