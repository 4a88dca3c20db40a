//! Excerpts of lines: the first lines, key lines of the middle, and the last lines.

use super::key_lines::KeyLines;
use super::line_cut::FirstAndLast;
use super::{ExcerptBody, ExcerptInput};
use crate::plan::output::paths;

/// Characters of the labels of an excerpt.
const LABEL_CHARS: usize = 110;

const MAX_PATHS: usize = 12;

/// The labels of the first and the last lines.
pub(super) const LABELS: [&str; 2] = ["First lines:\n", "Last lines:\n"];

/// How an excerpt of lines is laid out.
pub(super) struct LineLayout {
    /// The label of the key lines.
    pub(super) label: &'static str,
    /// The percentage of the room that the key lines may take.
    pub(super) key_lines_percent: usize,
    /// Whether lines that differ in numbers only count as the same line.
    pub(super) ignores_numbers: bool,
    /// Whether the paths of the middle are listed.
    pub(super) lists_paths: bool,
}

/// The first and the last lines, and those of the lines between them that `find` adds.
pub(super) fn excerpt_body<'t>(
    input: ExcerptInput<'t>,
    layout: &LineLayout,
    find: impl FnOnce(&mut KeyLines<'t>),
) -> ExcerptBody {
    let ExcerptInput { text, room, .. } = input;
    let ends = FirstAndLast::take(input, room.saturating_sub(LABEL_CHARS) / 2);
    let (from, to) = ends.middle(text);
    if from >= to || room < 400 {
        return ends.body(LABELS, ("", 0, 0));
    }
    let mut key_lines = KeyLines::new(text, layout.ignores_numbers);
    find(&mut key_lines);
    let paths = if layout.lists_paths {
        path_line(text, (from, to), room / 8)
    } else {
        String::new()
    };
    let key_room = room * layout.key_lines_percent / 100;
    let spare = room.saturating_sub(LABEL_CHARS + paths.chars().count());
    let (middle, ..) = key_lines.render((from, to), input.lines_above, key_room);
    let half = spare.saturating_sub(middle.chars().count()) / 2;
    let ends = FirstAndLast::take(input, half);
    let (middle, chars, lines) = key_lines.render(ends.middle(text), input.lines_above, key_room);
    let label = format!("{} ({} found):\n", layout.label, key_lines.found);
    let middle = if middle.is_empty() {
        paths
    } else {
        label + &middle + &paths
    };
    ends.body(LABELS, (&middle, chars, lines))
}

/// One line with paths that are named in the middle, near its start and its end.
fn path_line(text: &str, (from, to): (usize, usize), room: usize) -> String {
    const LABEL: &str = "Paths:";
    let middle = text.get(from..to).unwrap_or_default();
    let mut found = Vec::new();
    let mut left = room.saturating_sub(LABEL.len() + 1);
    for path in paths::find_paths(middle, MAX_PATHS) {
        let cost = path.chars().count() + 1;
        if cost <= left {
            left -= cost;
            found.push(path);
        }
    }
    if found.is_empty() {
        return String::new();
    }
    format!("{LABEL} {}\n", found.join(" "))
}
