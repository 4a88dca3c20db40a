//! First lines, telling lines of the middle, last lines.

use super::cut::{self, Cut};
use super::hits::Hits;
use super::{Part, Style, Task};
use crate::plan::output::hints;

/// Characters of the labels of an excerpt.
const LABELS: usize = 110;

/// Paths that are named.
const PATHS: usize = 12;

/// How an excerpt of lines is made.
pub(super) struct Frame {
    /// What the lines of the middle are called.
    pub(super) label: &'static str,
    /// Percent of the room that they may fill.
    pub(super) share: usize,
    /// Whether lines that differ in numbers only are shown once.
    pub(super) alike: bool,
    /// Whether paths are named.
    pub(super) paths: bool,
}

/// First and last lines, and of what is between them the hits.
pub(super) fn show<'t>(task: Task<'t>, frame: &Frame, find: impl FnOnce(&mut Hits<'t>)) -> Part {
    let Task { text, room, .. } = task;
    let ends = ends(task, room.saturating_sub(LABELS) / 2);
    let (from, to) = ends.middle(text);
    if from >= to || room < 400 {
        return ends.part(None, "");
    }
    let mut hits = Hits::new(text, frame.alike);
    find(&mut hits);
    let paths = if frame.paths {
        named(text, (from, to), room / 8)
    } else {
        String::new()
    };
    let budget = room * frame.share / 100;
    let spare = room.saturating_sub(LABELS + cut::chars(&paths));
    let (middle, ..) = hits.show((from, to), task.above, budget);
    let half = spare.saturating_sub(cut::chars(&middle)) / 2;
    let ends = self::ends(task, half);
    let (middle, held, lines) = hits.show(ends.middle(text), task.above, budget);
    let label = format!("{} ({} found):\n", frame.label, hits.found);
    let middle = (!middle.is_empty()).then_some((label + &middle, held, lines));
    ends.part(middle, &paths)
}

struct Ends {
    first: Cut,
    last: Cut,
}

/// The first and the last lines in this room each, less where the style says so.
fn ends(task: Task<'_>, room: usize) -> Ends {
    let room = match task.style {
        Style::Adaptive => room,
        Style::Fixed => room.min(1_200),
    };
    let first = cut::first(task.text, room);
    let rest = task.text.get(first.bytes..).unwrap_or_default();
    Ends {
        last: cut::last(rest, room),
        first,
    }
}

impl Ends {
    fn middle(&self, text: &str) -> (usize, usize) {
        (self.first.bytes, text.len().saturating_sub(self.last.bytes))
    }

    fn part(&self, middle: Option<(String, usize, usize)>, paths: &str) -> Part {
        let mut text = String::new();
        if !self.first.text.is_empty() {
            text.push_str("First lines:\n");
            text.push_str(&self.first.text);
        }
        let (mut chars, mut lines) = (0, 0);
        if let Some((middle, held, count)) = middle {
            text.push_str(&middle);
            (chars, lines) = (held, count);
        }
        text.push_str(paths);
        if !self.last.text.is_empty() {
            text.push_str("Last lines:\n");
            text.push_str(&self.last.text);
        }
        Part {
            text,
            chars: chars + self.first.chars + self.last.chars,
            lines: lines + self.first.lines + self.last.lines,
        }
    }
}

/// A line with the paths that the middle names near its start and its end.
fn named(text: &str, (from, to): (usize, usize), room: usize) -> String {
    const LABEL: &str = "Paths:";
    let middle = text.get(from..to).unwrap_or_default();
    let mut found = Vec::new();
    let mut left = room.saturating_sub(LABEL.len() + 1);
    for path in hints::paths(middle, PATHS) {
        let cost = cut::chars(path) + 1;
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
