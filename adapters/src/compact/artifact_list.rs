//! Chooses the tool outputs that a summary lists, so that they can be read back.

use std::collections::{HashMap, HashSet};

use super::activity;
use crate::compaction_blob::{ArtifactLine, CompactionBlob};
use crate::plan::{Artifact, Bounds, Plan, output};
use crate::turn::{Item, ItemKind, Turn};

/// The maximum number of listed outputs, and the number that may be listed however small
/// the window is.
const MAX_LINES: usize = 40;
const MIN_LINES: usize = 4;

/// The list may take the window divided by this, at this many bytes a line.
const WINDOW_PARTS: usize = 32;
const LINE_BYTES: usize = 200;

/// An output that is sent whole is listed if it has at least this many characters.
const MIN_LISTED_CHARS: usize = 2_000;

const MAX_MADE_BY_CHARS: usize = 160;

/// An output of the history that has to be kept whole and listed in the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedArtifact {
    /// The index of its item.
    pub index: usize,
    /// The artifact with the whole text ([`crate::plan::output::text`] of the item).
    pub artifact: Artifact,
    /// Its line in the summary.
    pub line: ArtifactLine,
}

/// The outputs of the history that should stay readable, newest first, at most 40: those
/// that the plan shortened, and those of 2,000 characters and more that it sends whole.
/// Texts that were read back from an artifact are not among them.
pub fn listable_artifacts(turn: &Turn<'_>, plan: &Plan) -> Vec<ListedArtifact> {
    let calls = calls_by_output(turn);
    let mut seen = HashSet::new();
    let mut listed = Vec::new();
    for (index, item) in turn.items.iter().enumerate().rev() {
        if listed.len() == MAX_LINES {
            break;
        }
        let replacement = plan.replacements.get(&index);
        let shortened = replacement.and_then(|replacement| replacement.artifact.clone());
        let call = calls.get(&index).and_then(|call| turn.items.get(*call));
        let Some(artifact) = shortened.or_else(|| long_output(item, call)) else {
            continue;
        };
        if !seen.insert(artifact.id.clone()) {
            continue;
        }
        let line = ArtifactLine {
            id: artifact.id.clone(),
            kind: artifact.kind,
            chars: artifact.chars,
            made_by: call.map_or_else(String::new, |call| {
                activity::describe_call(call, MAX_MADE_BY_CHARS)
            }),
        };
        listed.push(ListedArtifact {
            index,
            artifact,
            line,
        });
    }
    listed
}

/// The artifact lines of a new summary: these outputs, then those that the summaries in
/// the history list, each artifact once. At most 40 lines, fewer in a small window.
pub fn artifact_lines(
    turn: &Turn<'_>,
    new: &[ListedArtifact],
    bounds: &Bounds,
) -> Vec<ArtifactLine> {
    let mut lines: Vec<ArtifactLine> = new.iter().map(|listed| listed.line.clone()).collect();
    let mut seen: HashSet<String> = lines.iter().map(|line| line.id.clone()).collect();
    let summaries = turn.items.iter().rev();
    let summaries = summaries.filter(|item| item.kind == ItemKind::Compaction);
    for blob in summaries.filter_map(|item| CompactionBlob::open(&item.encrypted_content()?)) {
        let older = blob.artifacts.into_iter();
        lines.extend(older.filter(|line| seen.insert(line.id.clone())));
    }
    let room = bounds.window_bytes() / WINDOW_PARTS / LINE_BYTES;
    lines.truncate(room.clamp(MIN_LINES, MAX_LINES));
    lines
}

/// The output of an item as an artifact, if it is long enough to be listed and no part of an
/// artifact that its call has read.
fn long_output(item: &Item<'_>, call: Option<&Item<'_>>) -> Option<Artifact> {
    if output::max_text_len(item) < MIN_LISTED_CHARS {
        return None;
    }
    let text = output::text(item)?;
    if text.chars().nth(MIN_LISTED_CHARS - 1).is_none()
        || (call.is_some_and(output::reads_artifact) && output::is_read_back(&text))
    {
        return None;
    }
    Some((&output::measure(&text)).into())
}

/// The call of each output, by the indices of their items.
fn calls_by_output(turn: &Turn<'_>) -> HashMap<usize, usize> {
    let mut calls = HashMap::new();
    let mut by_output = HashMap::new();
    for (index, item) in turn.items.iter().enumerate() {
        let Some(id) = item.call_id() else { continue };
        if item.kind.is_call() {
            calls.insert(id, index);
        } else if let Some(call) = calls.get(&id) {
            by_output.insert(index, *call);
        }
    }
    by_output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::plan;
    use crate::responses::request::TurnSource;

    #[test]
    fn long_outputs_are_listed_newest_first_with_the_call_that_made_them() {
        let earlier = CompactionBlob {
            summary: "s".into(),
            artifacts: vec![ArtifactLine {
                id: "art_old".into(),
                kind: output::OutputKind::Json,
                chars: 9,
                made_by: String::new(),
            }],
            retained_items: None,
            tail: Vec::new(),
        };
        let call = |id: &str, cmd: &str| json!({"type": "function_call", "call_id": id, "name": "exec_command", "arguments": json!({"cmd": cmd}).to_string()});
        let out = |id: &str, text: String| json!({"type": "function_call_output", "call_id": id, "output": text});
        let input = [
            json!({"type": "compaction", "encrypted_content": earlier.seal()}),
            call("a", "cat\n  long.txt"),
            out("a", "漢\n".repeat(1_000)),
            call("b", "ls"),
            out("b", "x".repeat(1_999)),
            call("c", "cat again.txt"),
            out("c", "y".repeat(2_000)),
            call("d", "cat long.txt"),
            out("d", "漢\n".repeat(1_000)),
        ];
        let source = TurnSource::new(json!({"model": "m", "input": input}).to_string());
        let turn = source.turn().unwrap();
        let new = listable_artifacts(&turn, &plan(&turn, &Bounds::none()));
        let listed: Vec<(usize, &str, usize)> = new
            .iter()
            .map(|new| (new.index, new.line.made_by.as_str(), new.line.chars))
            .collect();
        assert_eq!(
            listed,
            [
                (8, "exec_command cat long.txt", 2_000),
                (6, "exec_command cat again.txt", 2_000)
            ]
        );
        assert_eq!(
            new[0].artifact.id,
            output::artifact_id(&"漢\n".repeat(1_000))
        );
        let lines = artifact_lines(&turn, &new, &Bounds::none());
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2].id, "art_old");

        let many: Vec<ListedArtifact> = (0..60).map(|_| new[0].clone()).collect();
        let lengths = [4_096, 32_768, 262_144].map(|tokens| {
            let mut bounds = Bounds::none();
            bounds.window.tokens = tokens;
            artifact_lines(&turn, &many, &bounds).len()
        });
        assert_eq!(lengths, [4, 13, 40]);
    }
}
