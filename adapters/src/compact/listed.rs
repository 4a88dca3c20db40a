//! The tool outputs that a summary lists.

use std::collections::{HashMap, HashSet};

use super::{Blob, Line, deeds};
use crate::plan::{Artifact, Bounds, Plan, output};
use crate::turn::{Item, ItemKind, Turn};

/// At most so many are listed.
const MOST: usize = 40;

/// So many are, however small the window.
const LEAST: usize = 4;

/// The part of the window that the list may take, and the bytes of a line.
const SHARE: usize = 32;
const LINE: usize = 200;

/// From how many characters on an output is worth a line.
const WORTH: usize = 2_000;

/// The characters of a line on what made an output.
const MADE_BY: usize = 160;

/// An output of the history that is to be kept whole and named in the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The item.
    pub index: usize,
    /// What is kept: [`crate::plan::output::text`] of the item.
    pub artifact: Artifact,
    /// What the summary says of it.
    pub line: Line,
}

/// The outputs of the history that stay readable, newest first, at most 40: those
/// that were shortened, and whole ones of 2,000 characters and more. What was read
/// back from an artifact is none.
pub fn artifacts(turn: &Turn<'_>, plan: &Plan) -> Vec<Listed> {
    let makers = makers(turn);
    let mut seen = HashSet::new();
    let mut listed = Vec::new();
    for (index, item) in turn.items.iter().enumerate().rev() {
        if listed.len() == MOST {
            break;
        }
        let kept = plan.shown.get(&index);
        let kept = kept.and_then(|shown| shown.artifact.clone());
        let Some(artifact) = kept.or_else(|| worth_a_line(item)) else {
            continue;
        };
        if !seen.insert(artifact.id.clone()) {
            continue;
        }
        let maker = makers.get(&index).and_then(|call| turn.items.get(*call));
        let line = Line {
            id: artifact.id.clone(),
            kind: artifact.kind,
            chars: artifact.chars,
            made_by: maker.map_or_else(String::new, |call| deeds::call(call, MADE_BY)),
        };
        listed.push(Listed {
            index,
            artifact,
            line,
        });
    }
    listed
}

/// The lines of a new blob: these outputs, and those that the summaries in the
/// history list already, each once; at most 40, fewer in a small window.
pub fn list(turn: &Turn<'_>, new: &[Listed], bounds: &Bounds) -> Vec<Line> {
    let mut lines: Vec<Line> = new.iter().map(|listed| listed.line.clone()).collect();
    let mut seen: HashSet<String> = lines.iter().map(|line| line.id.clone()).collect();
    let summaries = turn.items.iter().rev();
    let summaries = summaries.filter(|item| item.kind == ItemKind::Compaction);
    for blob in summaries.filter_map(|item| Blob::open(&item.encrypted_content()?)) {
        let older = blob.artifacts.into_iter();
        lines.extend(older.filter(|line| seen.insert(line.id.clone())));
    }
    let room = bounds.window_bytes() / SHARE / LINE;
    lines.truncate(room.clamp(LEAST, MOST));
    lines
}

fn worth_a_line(item: &Item<'_>) -> Option<Artifact> {
    if output::length_bound(item) < WORTH {
        return None;
    }
    let text = output::text(item)?;
    if text.chars().nth(WORTH - 1).is_none() || output::is_read_back(&text) {
        return None;
    }
    let measure = output::measure(&text);
    Some(Artifact {
        id: measure.id,
        kind: measure.kind,
        chars: measure.chars,
        lines: measure.lines,
        bytes: measure.bytes,
    })
}

/// The call of each output.
fn makers(turn: &Turn<'_>) -> HashMap<usize, usize> {
    let mut calls = HashMap::new();
    let mut makers = HashMap::new();
    for (index, item) in turn.items.iter().enumerate() {
        let Some(id) = item.call_id() else { continue };
        if item.kind.is_call() {
            calls.insert(id, index);
        } else if let Some(call) = calls.get(&id) {
            makers.insert(index, *call);
        }
    }
    makers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::plan;
    use crate::responses::request::TurnSource;

    #[test]
    fn long_outputs_are_listed_newest_first_with_the_call_that_made_them() {
        let earlier = Blob {
            summary: "s".into(),
            artifacts: vec![Line {
                id: "art_old".into(),
                kind: output::OutputKind::Json,
                chars: 9,
                made_by: String::new(),
            }],
            late: None,
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
        let new = artifacts(&turn, &plan(&turn, &Bounds::none()));
        let told: Vec<(usize, &str, usize)> = new
            .iter()
            .map(|new| (new.index, new.line.made_by.as_str(), new.line.chars))
            .collect();
        assert_eq!(
            told,
            [
                (8, "exec_command cat long.txt", 2_000),
                (6, "exec_command cat again.txt", 2_000)
            ]
        );
        assert_eq!(new[0].artifact.id, output::id(&"漢\n".repeat(1_000)));
        let lines = list(&turn, &new, &Bounds::none());
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2].id, "art_old");

        let many: Vec<Listed> = (0..60).map(|_| new[0].clone()).collect();
        let lengths = [4_096, 32_768, 262_144].map(|tokens| {
            let mut bounds = Bounds::none();
            bounds.window.tokens = tokens;
            list(&turn, &many, &bounds).len()
        });
        assert_eq!(lengths, [4, 13, 40]);
    }
}
