//! What an excerpt shows of a text: its first and last lines, and between them the units that the
//! search for evidence ranks highest.

use std::collections::HashMap;

use super::line_cut::{self, FirstAndLast, one_line};
use super::overview::{self, Overview};
use super::{ExcerptBody, ExcerptLayout, ExcerptSource, ExcerptStyle, html, json, page};
use crate::evidence::{self, Evidence, Form};
use crate::{OutputKind, paths};

/// Characters of the labels.
const LABEL_CHARS: usize = 90;

/// The percentage of the room for the units between the first and the last lines.
const EVIDENCE_PERCENT: usize = 72;

/// The same for JSON, whose first and last lines say little that its shape does not.
const JSON_EVIDENCE_PERCENT: usize = 76;

/// The same for minified text: hardly more than its evidence is shown.
const OPAQUE_EVIDENCE_PERCENT: usize = 92;

/// The best of these units get the longer limit.
const LONG_UNITS: usize = 4;
const MAX_LONG_UNIT_CHARS: usize = 420;
const MAX_UNIT_CHARS: usize = 240;

/// The number of units that are shown with the JSON object around them.
const WHOLE_OBJECTS: usize = 4;
const MAX_OBJECT_CHARS: usize = 320;

/// No unit is shown in less room.
const MIN_UNIT_CHARS: usize = 100;

/// Bytes that are shown before and behind a part of a long line.
const BEFORE_PART: usize = 80;
const BEHIND_PART: usize = 120;

/// Units with the same pattern that are shown.
const MAX_ALIKE: usize = 2;

/// Characters of a line number or a position, and of the count of the units before it.
const FRAME_CHARS: usize = 24;

/// Characters of the line above the hits of a file, besides its path.
const FILE_CHARS: usize = 24;

const MAX_PATHS: usize = 12;

/// A part of the text that is shown between the first and the last lines.
pub(super) struct ShownUnit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: String,
    /// How many units have its pattern.
    pub(super) alike: u32,
    /// Its pattern, if it was chosen for what is in it.
    pub(super) pattern: Option<u64>,
    /// Its place among the best units.
    pub(super) rank: usize,
}

impl ExcerptSource<'_> {
    /// What an excerpt shows of the output.
    pub(super) fn body(&self, layout: ExcerptLayout) -> ExcerptBody {
        let (text, kind, room) = (self.text, self.measure.kind, layout.room);
        if self.form == Form::Page
            && let Some(whole) = page::whole(text, room.saturating_sub(LABEL_CHARS))
        {
            return ExcerptBody {
                chars: whole.chars,
                lines: line_cut::lines_in(text, whole.shown),
                text: format!("As text:\n{}", whole.text),
            };
        }
        let head = match kind {
            OutputKind::Json => json::shape(text, room / 4),
            _ => self.overview.text(room),
        };
        // The searches are named last, when it is known what they would find; they have room for
        // themselves.
        let hints = self.hints("", layout);
        let fixed = head.chars().count() + hints.chars().count() + LABEL_CHARS;
        let spare = room.saturating_sub(fixed);
        let percent = match kind {
            OutputKind::Json => JSON_EVIDENCE_PERCENT,
            OutputKind::OpaqueToolOutput => OPAQUE_EVIDENCE_PERCENT,
            _ => EVIDENCE_PERCENT,
        };
        let planned_room = self.room_of_ends(spare * (100 - percent) / 200, layout.style);
        let mut ends = self.ends(planned_room);
        let between = ends.between(text);
        let mut units = self.choose(between, spare * percent / 100);
        let paths = match (kind, &self.overview) {
            (OutputKind::CommandOutput, Overview::Nothing | Overview::Table(_)) => {
                path_line(text, between, spare / 12)
            }
            _ => String::new(),
        };
        let used: usize = units.iter().map(ShownUnit::cost).sum();
        // What the units leave goes to both ends.
        let left = spare.saturating_sub(used + paths.chars().count());
        let final_room = self.room_of_ends(left / 2, layout.style);
        // A long line is read to its end for this.
        if final_room != planned_room {
            ends = self.ends(final_room);
        }
        let between = ends.between(text);
        // What is shown around a unit may be among the first lines by now; the unit itself is not.
        units.retain(|unit| unit.end > between.0 && unit.start < between.1);
        let middle = self.render(&units, between, &ends) + &paths;
        let labels = match kind {
            OutputKind::Json => [
                "Its beginning (a fragment, no whole JSON):\n",
                "Its end (a fragment):\n",
            ],
            OutputKind::OpaqueToolOutput => {
                ["Minified, encoded or binary. It begins:\n", "It ends:\n"]
            }
            _ => ["First lines:\n", "Last lines:\n"],
        };
        let shown = ends.text(labels, &middle);
        let chars: usize = units.iter().map(|unit| unit.text.chars().count()).sum();
        let ranges = units
            .iter()
            .map(|unit| (unit.start, unit.end))
            .chain(ends.first.shown.iter().copied())
            .chain(ends.last.shown.iter().copied());
        ExcerptBody {
            chars: chars + ends.first.chars + ends.last.chars,
            lines: line_cut::lines_in(text, ranges.collect()),
            text: head + &shown + &self.hints(&shown, layout),
        }
    }

    /// The searches that would find more than is shown.
    fn hints(&self, shown: &str, layout: ExcerptLayout) -> String {
        let texts = self
            .queries
            .iter()
            .filter_map(|it| it.text(shown, self.measure, layout.retention));
        let mut hints = String::new();
        for text in texts {
            if hints.chars().count() + text.chars().count() <= layout.room / 6 {
                hints.push_str(&text);
            }
        }
        hints
    }

    /// How many characters the first lines may have, and as many the last ones, if there are `room`
    /// characters for each.
    fn room_of_ends(&self, room: usize, style: ExcerptStyle) -> usize {
        match (style, self.measure.kind) {
            // Opaque text needs no long ends.
            (_, OutputKind::OpaqueToolOutput) => room.min(240),
            (ExcerptStyle::Adaptive, _) => room,
            (ExcerptStyle::Fixed, _) => room.min(1_200),
        }
    }

    /// The first and the last lines, with at most `room` characters each.
    fn ends(&self, room: usize) -> FirstAndLast {
        match self.form {
            Form::Page => page::ends(self.text, room),
            Form::Lines => {
                FirstAndLast::take(self.text, room, |start, end| self.fold_pattern(start, end))
            }
            Form::Minified | Form::Table(_) | Form::Xml => {
                FirstAndLast::take(self.text, room, |_, _| None)
            }
        }
    }

    /// Whether an odd number or identifier is between two bytes.
    pub(super) fn has_odd_number(&self, start: usize, end: usize) -> bool {
        let next = self.odd_numbers.partition_point(|place| *place < start);
        let place = self.odd_numbers.get(next);
        place.is_some_and(|place| *place < end)
    }

    /// The pattern of a line that may be folded with others like it: neither empty nor with an odd
    /// number.
    fn fold_pattern(&self, start: usize, end: usize) -> Option<u64> {
        let is_short = (1..=evidence::MAX_UNIT).contains(&(end - start));
        let is_alike = is_short && !self.has_odd_number(start, end);
        is_alike.then(|| evidence::pattern_of(self.text, self.form, (start, end)))
    }

    /// The units between two bytes that are shown in `room` characters, in their order.
    fn choose(&self, between: (usize, usize), room: usize) -> Vec<ShownUnit> {
        let mut shown: Vec<ShownUnit> = Vec::new();
        // A sixth is for the text around these units, where that says something.
        let around = match (self.form, &self.overview) {
            (Form::Lines, Overview::Hits(_))
            | (Form::Minified | Form::Page | Form::Table(_) | Form::Xml, _) => 0,
            (Form::Lines, _) => room / 6,
        };
        let (mut left, mut units) = (room - around, 0);
        let mut patterns: HashMap<u64, usize> = HashMap::new();
        let is_inside = |it: &&Evidence| it.focus >= between.0 && it.end <= between.1;
        let ranked = self.findings.evidence.iter();
        let ranked = ranked
            .take_while(|it| it.score >= evidence::MIN_SCORE)
            .filter(is_inside);
        for unit in ranked {
            let alike = patterns.entry(unit.pattern).or_default();
            *alike += 1;
            if *alike > MAX_ALIKE || overlaps(&shown, unit.start, unit.end) {
                continue;
            }
            let limit = match (self.form, shown.len()) {
                (Form::Lines | Form::Table(_), 0..LONG_UNITS) => MAX_LONG_UNIT_CHARS,
                _ => MAX_UNIT_CHARS,
            };
            let has_object = shown.len() < WHOLE_OBJECTS;
            let object = has_object.then(|| self.object(unit, between)).flatten();
            let mut found = object.unwrap_or_else(|| self.show(unit, between, limit));
            found.rank = units;
            let cost = found.cost() + self.file_cost(&found, &shown);
            let fits = cost <= left;
            let name = fits.then(|| self.name(&found, between, &shown)).flatten();
            let cost = cost + name.as_ref().map_or(0, ShownUnit::cost);
            if cost <= left {
                left -= cost;
                units += 1;
                shown.push(found);
                shown.extend(name);
            } else if left < MIN_UNIT_CHARS {
                break;
            }
        }
        left += around;
        let definitions = self.definitions.iter().copied();
        for (start, end) in self.lines_near(&shown).into_iter().chain(definitions) {
            if left <= FRAME_CHARS {
                break;
            }
            if start < between.0 || end > between.1 || overlaps(&shown, start, end) {
                continue;
            }
            let unit = self.plain_line((start, end), 160);
            if unit.cost() <= left && !unit.text.is_empty() {
                left -= unit.cost();
                shown.push(unit);
            }
        }
        shown.sort_by_key(|unit| unit.start);
        shown
    }

    /// A line that is shown for what is next to it.
    pub(super) fn plain_line(&self, (start, end): (usize, usize), limit: usize) -> ShownUnit {
        let line = self.text.get(start..end).unwrap_or_default();
        ShownUnit {
            start,
            end,
            text: one_line(line.trim_end(), limit),
            alike: 1,
            pattern: None,
            rank: usize::MAX,
        }
    }

    /// The characters of the line above a hit that names its file, if no other hit in that file is
    /// shown.
    fn file_cost(&self, unit: &ShownUnit, shown: &[ShownUnit]) -> usize {
        if !matches!(self.overview, Overview::Hits(_)) {
            return 0;
        }
        let path = |unit: &ShownUnit| overview::hit(&unit.text).map(|hit| hit.path.to_owned());
        let known = path(unit);
        if known.is_none() || shown.iter().any(|it| path(it) == known) {
            return 0;
        }
        FILE_CHARS
    }

    /// The lines next to the best units: one behind each, and those above that may say what it is
    /// about in JSON and in search results, where a line holds one value.
    fn lines_near(&self, shown: &[ShownUnit]) -> Vec<(usize, usize)> {
        const UNITS: usize = 6;
        if self.form != Form::Lines || matches!(self.overview, Overview::Hits(_)) {
            return Vec::new();
        }
        let bytes = self.text.as_bytes();
        let above = match self.measure.kind {
            OutputKind::Json | OutputKind::WebOrSearch => 2,
            _ => 0,
        };
        let mut lines = Vec::new();
        for unit in shown.iter().take(UNITS) {
            if bytes.get(unit.end) == Some(&b'\n') {
                let start = unit.end + 1;
                let rest = bytes.get(start..).unwrap_or_default();
                let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                lines.push((start, start + length));
            }
            let mut start = unit.start;
            for _ in 0..above {
                let before = start.checked_sub(1);
                let Some(end) = before.filter(|at| bytes.get(*at) == Some(&b'\n')) else {
                    break;
                };
                let rest = bytes.get(..end).unwrap_or_default();
                start = memchr::memrchr(b'\n', rest).map_or(0, |at| at + 1);
                lines.push((start, end));
            }
        }
        lines
    }

    /// The JSON object around a unit on one line; of a long one its beginning and the text around
    /// the unit.
    fn object(&self, unit: &Evidence, between: (usize, usize)) -> Option<ShownUnit> {
        if self.measure.kind != OutputKind::Json {
            return None;
        }
        let whole = |(start, end): (usize, usize)| {
            let text = json::joined_lines(self.text.get(start..end)?);
            (text.chars().count() <= MAX_OBJECT_CHARS).then_some((start, end, text))
        };
        let object = json::object_around(self.text, unit.focus, between).and_then(whole);
        let (start, end, text) = match object {
            Some(found) => found,
            None => json::row_around(self.text, unit.focus, between)?,
        };
        Some(ShownUnit {
            start,
            end,
            text,
            alike: unit.alike,
            pattern: Some(unit.pattern),
            rank: 0,
        })
    }

    /// A unit as it is shown: a whole line, a part of a long line with the text around it, or the
    /// text of a block of a page.
    fn show(&self, unit: &Evidence, between: (usize, usize), limit: usize) -> ShownUnit {
        let text = self.text;
        // The first lines may end inside of it.
        let (mut start, mut end) = (unit.start.max(between.0), unit.end);
        let raw = |start: usize, end: usize| text.get(start..end).unwrap_or_default();
        let shown = if self.form == Form::Page {
            let before = html::plain(raw(start, text.floor_char_boundary(unit.focus)));
            cut_around(&html::plain(raw(start, end)), before.chars().count(), limit)
        } else if self.form == Form::Xml {
            let focus = text.floor_char_boundary(unit.focus);
            let before = json::joined_lines(raw(start, focus));
            let shown = json::joined_lines(raw(start, end));
            cut_behind_name(&shown, before.chars().count(), limit)
        } else {
            let bytes = text.as_bytes();
            if bytes.get(end).is_some_and(|next| *next != b'\n') {
                let to = text.floor_char_boundary((end + BEHIND_PART).min(between.1).max(end));
                let more = bytes.get(end..to).unwrap_or_default();
                end += memchr::memchr(b'\n', more).unwrap_or(more.len());
            }
            let before = start.checked_sub(1).and_then(|at| bytes.get(at));
            if before.is_some_and(|before| *before != b'\n') {
                let from = start.saturating_sub(BEFORE_PART).max(between.0);
                let from = text.ceil_char_boundary(from).min(start);
                let more = bytes.get(from..start).unwrap_or_default();
                start = memchr::memrchr(b'\n', more).map_or(from, |at| from + at + 1);
            }
            let focus = raw(start, text.floor_char_boundary(unit.focus));
            cut_around(raw(start, end), focus.chars().count(), limit)
        };
        ShownUnit {
            start,
            end,
            text: shown,
            alike: unit.alike,
            pattern: Some(unit.pattern),
            rank: 0,
        }
    }
}

pub(super) fn overlaps(shown: &[ShownUnit], start: usize, end: usize) -> bool {
    shown.iter().any(|it| it.start < end && start < it.end)
}

impl ShownUnit {
    pub(super) fn cost(&self) -> usize {
        self.text.chars().count() + FRAME_CHARS
    }
}

/// At most `limit` characters of a line, around the one with the number `focus`.
pub(super) fn cut_around(line: &str, focus: usize, limit: usize) -> String {
    let count = line.chars().count();
    if count <= limit {
        return one_line(line.trim_end(), limit);
    }
    let from = focus.saturating_sub(limit / 3).min(count - limit);
    let rest = line.char_indices().nth(from);
    let rest = rest.and_then(|(at, _)| line.get(at..)).unwrap_or(line);
    let shown = one_line(rest, limit);
    if from > 0 {
        format!("…{shown}")
    } else {
        shown
    }
}

/// Like [`cut_around`], but a line that is cut at its start keeps its first characters as well.
fn cut_behind_name(line: &str, focus: usize, limit: usize) -> String {
    let head = line_cut::first_chars(line, limit / 3);
    let rest = line.get(head.len()..).unwrap_or_default();
    match focus.checked_sub(limit / 3) {
        Some(focus) if rest.chars().count() + limit / 3 > limit => {
            format!("{head}{}", cut_around(rest, focus, limit - limit / 3))
        }
        _ => cut_around(line, focus, limit),
    }
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
