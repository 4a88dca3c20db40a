//! Excerpts of lines: the first lines, key lines of the middle, and the last lines.

use super::key_lines::KeyLines;
use super::line_cut::{self, LineCut};
use super::{ExcerptBody, ExcerptInput, ExcerptStyle};
use crate::plan::output::paths;

/// Characters of the labels of an excerpt.
const LABEL_CHARS: usize = 110;

const MAX_PATHS: usize = 12;

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
        return ends.body(None, "");
    }
    let mut key_lines = KeyLines::new(text, layout.ignores_numbers);
    find(&mut key_lines);
    let paths = if layout.lists_paths {
        path_line(text, (from, to), room / 8)
    } else {
        String::new()
    };
    let key_room = room * layout.key_lines_percent / 100;
    let spare = room.saturating_sub(LABEL_CHARS + line_cut::char_count(&paths));
    let (middle, ..) = key_lines.render((from, to), input.lines_above, key_room);
    let half = spare.saturating_sub(line_cut::char_count(&middle)) / 2;
    let ends = FirstAndLast::take(input, half);
    let (middle, chars, lines) = key_lines.render(ends.middle(text), input.lines_above, key_room);
    let label = format!("{} ({} found):\n", layout.label, key_lines.found);
    let middle = (!middle.is_empty()).then_some((label + &middle, chars, lines));
    ends.body(middle, &paths)
}

struct FirstAndLast {
    first: LineCut,
    last: LineCut,
}

impl FirstAndLast {
    /// Takes lines with at most `room` characters from each end, fewer where the style
    /// says so.
    fn take(input: ExcerptInput<'_>, room: usize) -> Self {
        let room = match input.style {
            ExcerptStyle::Adaptive => room,
            ExcerptStyle::Fixed => room.min(1_200),
        };
        let first = line_cut::first_lines(input.text, room);
        let rest = input.text.get(first.bytes..).unwrap_or_default();
        Self {
            last: line_cut::last_lines(rest, room),
            first,
        }
    }

    /// The bytes between the first and the last lines.
    fn middle(&self, text: &str) -> (usize, usize) {
        (self.first.bytes, text.len().saturating_sub(self.last.bytes))
    }

    /// `middle` is the text of the key lines with their number of characters and lines.
    fn body(&self, middle: Option<(String, usize, usize)>, paths: &str) -> ExcerptBody {
        let mut text = String::new();
        if !self.first.text.is_empty() {
            text.push_str("First lines:\n");
            text.push_str(&self.first.text);
        }
        let (mut chars, mut lines) = (0, 0);
        if let Some((middle, middle_chars, middle_lines)) = middle {
            text.push_str(&middle);
            (chars, lines) = (middle_chars, middle_lines);
        }
        text.push_str(paths);
        if !self.last.text.is_empty() {
            text.push_str("Last lines:\n");
            text.push_str(&self.last.text);
        }
        ExcerptBody {
            text,
            chars: chars + self.first.chars + self.last.chars,
            lines: lines + self.first.lines + self.last.lines,
        }
    }
}

/// One line with paths that are named in the middle, near its start and its end.
fn path_line(text: &str, (from, to): (usize, usize), room: usize) -> String {
    const LABEL: &str = "Paths:";
    let middle = text.get(from..to).unwrap_or_default();
    let mut found = Vec::new();
    let mut left = room.saturating_sub(LABEL.len() + 1);
    for path in paths::find_paths(middle, MAX_PATHS) {
        let cost = line_cut::char_count(path) + 1;
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
