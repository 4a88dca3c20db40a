//! Takes whole lines from the beginning or the end of a text, and cuts lines that are too
//! long.

use std::borrow::Cow;

/// The minimum characters that are left of a line that is cut.
const MIN_LINE_PART: usize = 40;

/// The maximum characters of the marker of a cut line.
const MARKER_CHARS: usize = 34;

/// Lines shown of a run that differs only in numbers.
const SHOWN_OF_RUN: usize = 2;

/// Characters of the line that replaces those that are not shown.
const FOLD_CHARS: usize = 30;

/// Bytes of one run that are read before the cut ends there.
const MAX_FOLDED_BYTES: usize = 64 * 1024;

/// Some lines of the beginning or the end of a text.
#[derive(Default)]
pub(super) struct LineCut {
    /// The lines, each with a line end.
    pub(super) text: String,
    /// Characters of the original that it shows.
    pub(super) chars: usize,
    /// Whether it shows the lines of the original whole.
    pub(super) is_whole: bool,
    /// Bytes of the original up to the first part that is missing. Lines that are folded are not.
    pub(super) bytes: usize,
    /// The ranges of the original that it shows.
    pub(super) shown: Vec<(usize, usize)>,
    /// The patterns of its lines, folded ones included.
    pub(super) patterns: Vec<u64>,
}

pub(super) fn first_chars(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    match text.char_indices().nth(limit) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

fn last_chars(text: &str, limit: usize) -> &str {
    let Some(back) = limit.checked_sub(1) else {
        return "";
    };
    match text.char_indices().nth_back(back) {
        Some((start, _)) => text.get(start..).unwrap_or(text),
        None => text,
    }
}

/// A line without colour codes and control characters, cut to `limit` characters.
pub(super) fn one_line(line: &str, limit: usize) -> String {
    let mut clean = String::with_capacity(limit.min(line.len()));
    let mut left = limit;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.as_str().starts_with('[') {
                characters.find(char::is_ascii_alphabetic);
            }
            continue;
        }
        if left == 0 {
            clean.pop();
            clean.push('…');
            break;
        }
        left -= 1;
        clean.push(if character.is_control() {
            ' '
        } else {
            character
        });
    }
    clean.truncate(clean.trim_end().len());
    clean
}

/// The first lines of a text, in at most `room` characters. A line that is too long is cut
/// and says how much is missing.
pub(super) fn first_lines(text: &str, room: usize) -> LineCut {
    cut_lines(text, room, TextEnd::First, |_, _| None)
}

/// An end of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextEnd {
    First,
    Last,
}

impl TextEnd {
    /// The line at this end, with its line break, and the other lines.
    fn split_line(self, text: &str) -> (&str, &str) {
        match self {
            Self::First => {
                let end = memchr::memchr(b'\n', text.as_bytes()).map_or(text.len(), |end| end + 1);
                text.split_at_checked(end).unwrap_or((text, ""))
            }
            Self::Last => {
                let inner = text.strip_suffix('\n').unwrap_or(text);
                let start = memchr::memrchr(b'\n', inner.as_bytes()).map_or(0, |end| end + 1);
                let (others, line) = text.split_at_checked(start).unwrap_or(("", text));
                (line, others)
            }
        }
    }
}

/// Lines that follow each other and have the same pattern.
#[derive(Default)]
struct Run {
    pattern: Option<u64>,
    shown: usize,
    folded: usize,
    folded_bytes: usize,
}

impl Run {
    /// The line that replaces those that are not shown.
    fn note(&self) -> Option<String> {
        (self.folded > 0).then(|| format!("… {} lines like this", self.folded))
    }
}

/// The lines at one end of a text; see [`first_lines`]. Of lines with the same pattern that follow
/// each other only the first ones are shown, counted from that end; those without one are never
/// folded.
fn cut_lines(
    text: &str,
    room: usize,
    end: TextEnd,
    pattern: impl Fn(usize, usize) -> Option<u64>,
) -> LineCut {
    let mut cutter = LineCutter {
        text,
        room,
        end,
        pattern,
        remaining: text,
        left: room,
        run: Run::default(),
        lines: Vec::new(),
        cut: LineCut {
            is_whole: true,
            ..LineCut::default()
        },
    };
    while !cutter.remaining.is_empty() && cutter.take_line() {}
    cutter.finish()
}

/// Takes lines from one end of a text, one after the other. Made for each end by [`cut_lines`].
struct LineCutter<'t, P> {
    text: &'t str,
    room: usize,
    end: TextEnd,
    /// The pattern of the line between two bytes, if it may be folded.
    pattern: P,
    /// The lines that were not read yet.
    remaining: &'t str,
    /// The characters that may still be shown.
    left: usize,
    /// The run that the last line belongs to.
    run: Run,
    /// The lines to show, from this end on.
    lines: Vec<Cow<'t, str>>,
    cut: LineCut,
}

impl<'t, P: Fn(usize, usize) -> Option<u64>> LineCutter<'t, P> {
    /// Folds the next line, or shows it whole or in part. False if there is no room for it.
    fn take_line(&mut self) -> bool {
        let (line, remaining) = self.end.split_line(self.remaining);
        self.remaining = remaining;
        let at = self.offset_of(line, remaining);
        let shown = without_newline(line);
        let pattern = (self.pattern)(at, at + shown.len());
        if pattern.is_none() || pattern != self.run.pattern {
            self.end_run();
            self.run.pattern = pattern;
        } else if self.run.shown >= SHOWN_OF_RUN && self.cut.is_whole && self.may_fold() {
            return self.fold(line);
        }
        let length = char_count_up_to(shown, self.left);
        if length < self.left && length <= max_line_chars(self.room) {
            self.push_whole(line, at, length);
            true
        } else {
            self.push_part(line, at)
        }
    }

    /// Where a line begins in the text, if these lines remain after it.
    fn offset_of(&self, line: &str, remaining: &str) -> usize {
        match self.end {
            TextEnd::First => self.text.len() - remaining.len() - line.len(),
            TextEnd::Last => remaining.len(),
        }
    }

    /// Ends the run of the last line: a note tells how many of its lines are not shown.
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.lines.extend(run.note().map(Cow::Owned));
    }

    /// Whether a further line of the run is folded. It is not if it is the last of the run and the
    /// only one: a note would be no shorter.
    fn may_fold(&self) -> bool {
        if self.run.folded > 0 {
            return true;
        }
        if self.left <= FOLD_CHARS {
            return false;
        }
        let (next, behind) = self.end.split_line(self.remaining);
        let at = self.offset_of(next, behind);
        (self.pattern)(at, at + without_newline(next).len()) == self.run.pattern
    }

    /// Counts a line of the run that is not shown. False if too many of them were read.
    fn fold(&mut self, line: &str) -> bool {
        if self.run.folded_bytes > MAX_FOLDED_BYTES {
            self.cut.is_whole = false;
            return false;
        }
        if self.run.folded == 0 {
            self.left -= FOLD_CHARS;
        }
        self.run.folded += 1;
        self.run.folded_bytes += line.len();
        self.cut.bytes += line.len();
        self.cut.patterns.extend(self.run.pattern);
        true
    }

    /// Shows a line with this number of characters.
    fn push_whole(&mut self, line: &'t str, at: usize, length: usize) {
        self.run.shown += 1;
        self.cut.chars += length + 1;
        self.cut.patterns.extend(self.run.pattern);
        self.cut.shown.push((at, at + line.len()));
        self.left -= length + 1;
        self.lines.push(without_newline(line).into());
        if self.cut.is_whole {
            self.cut.bytes += line.len();
        }
    }

    /// Shows the part of a line that is nearest to this end. False if there is no room for one.
    fn push_part(&mut self, line: &str, at: usize) -> bool {
        let most = self.left.min(max_line_chars(self.room) + MARKER_CHARS);
        let has_room = most >= MARKER_CHARS + MIN_LINE_PART;
        if has_room {
            let kept = most - MARKER_CHARS - 1;
            let shown = without_newline(line);
            let length = shown.chars().count();
            let missing = length.saturating_sub(kept);
            let end = at + shown.len();
            let (marked, range, bytes) = match self.end {
                TextEnd::First => {
                    let part = first_chars(shown, kept);
                    let marked = format!("{part}… [{missing} more characters]");
                    (marked, (at, at + part.len()), part.len())
                }
                TextEnd::Last => {
                    let part = last_chars(shown, kept);
                    let marked = format!("[{missing} more characters] …{part}");
                    let bytes = part.len() + line.len() - shown.len();
                    (marked, (end - part.len(), end), bytes)
                }
            };
            if self.cut.is_whole {
                self.cut.bytes += bytes;
            }
            self.cut.shown.push(range);
            self.cut.chars += kept.min(length);
            self.left = self.left.saturating_sub(marked.chars().count() + 1);
            self.lines.push(marked.into());
        }
        self.cut.is_whole = false;
        has_room
    }

    /// The lines that were taken, in the order of the text.
    fn finish(mut self) -> LineCut {
        self.end_run();
        if self.end == TextEnd::Last {
            self.lines.reverse();
        }
        for line in &self.lines {
            self.cut.text.push_str(line);
            self.cut.text.push('\n');
        }
        self.cut
    }
}

fn without_newline(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

/// The maximum characters of one line in `room` characters.
fn max_line_chars(room: usize) -> usize {
    (room / 2).clamp(80, 600)
}

/// The number of characters of a line; a number above `limit` only says that the line has
/// more than `limit`.
fn char_count_up_to(line: &str, limit: usize) -> usize {
    if line.len() > (limit + 1) * 4 {
        return limit + 1;
    }
    line.chars().count()
}

/// The lines of both ends of a text.
pub(super) struct FirstAndLast {
    pub(super) first: LineCut,
    /// With ranges of the whole text.
    pub(super) last: LineCut,
}

impl FirstAndLast {
    /// Takes lines with at most `room` characters from each end. `pattern` is that of the line
    /// between two bytes, if it may be folded.
    pub(super) fn take(
        text: &str,
        room: usize,
        pattern: impl Fn(usize, usize) -> Option<u64>,
    ) -> Self {
        let first = cut_lines(text, room, TextEnd::First, &pattern);
        let from = first.bytes;
        let rest = text.get(from..).unwrap_or_default();
        let mut last = cut_lines(rest, room, TextEnd::Last, |start, end| {
            pattern(from + start, from + end)
        });
        for (start, end) in &mut last.shown {
            *start += from;
            *end += from;
        }
        Self { first, last }
    }

    /// The bytes between the first and the last lines.
    pub(super) fn between(&self, text: &str) -> (usize, usize) {
        let to = text.len().saturating_sub(self.last.bytes);
        (self.first.bytes, to.max(self.first.bytes))
    }

    /// How many of its lines have this pattern.
    pub(super) fn alike(&self, pattern: u64) -> usize {
        let patterns = self.first.patterns.iter().chain(&self.last.patterns);
        patterns.filter(|found| **found == pattern).count()
    }

    /// The ends below their labels, around another text.
    pub(super) fn text(&self, [first, last]: [&str; 2], middle: &str) -> String {
        let mut text = String::new();
        for (label, shown) in [
            (first, self.first.text.as_str()),
            ("", middle),
            (last, &self.last.text),
        ] {
            if !shown.is_empty() {
                text.push_str(label);
                text.push_str(shown);
            }
        }
        text
    }
}

/// How many lines of a text have a part in one of these ranges.
pub(super) fn lines_in(text: &str, mut ranges: Vec<(usize, usize)>) -> usize {
    ranges.sort_unstable();
    let bytes = text.as_bytes();
    let mut lines = 0;
    // The end of the ranges before.
    let mut to = 0;
    for (start, end) in ranges {
        let start = start.max(to);
        let Some(range) = bytes.get(start..end).filter(|range| !range.is_empty()) else {
            continue;
        };
        let last = to.checked_sub(1).and_then(|last| bytes.get(last));
        let gap = bytes.get(to..start).unwrap_or_default();
        let goes_on =
            last.is_some_and(|last| *last != b'\n') && memchr::memchr(b'\n', gap).is_none();
        let inside = range.split_last().map_or(range, |(_, inside)| inside);
        lines += usize::from(!goes_on) + memchr::memchr_iter(b'\n', inside).count();
        to = end;
    }
    lines
}
