//! Finds the line that names the record of another line: the entry of a log above a stack trace,
//! the header of a section, the first line of a paragraph, the name among keys with the same
//! prefix, or the nearest line around it that is indented less and is like no other.

use memchr::memmem;

use super::ExcerptSource;
use super::body::{ShownUnit, overlaps};
use super::overview::Overview;
use crate::evidence::Form;
use crate::{OutputKind, elements};

/// The best of these units are shown with the lines that name their records.
const NAMED_UNITS: usize = 18;
/// The same of JSON, where a unit is shown with the start of its row as well.
const NAMED_JSON_UNITS: usize = 9;
const MAX_NAME_CHARS: usize = 140;

/// How many bytes and lines above a line are searched, and how many bytes of a record.
const SEARCHED_BYTES: usize = 8 * 1024;
const SEARCHED_LINES: usize = 240;

/// The most indexes of a key that are tried.
const MAX_PREFIXES: usize = 3;

/// A line is like no other if no line within this many bytes is the same.
const NEAR_BYTES: usize = 32 * 1024;

/// The first bytes of a line, in which the time of an entry is looked for.
const TIME_BYTES: usize = 40;

/// The words with which people name things. Others end with one of them.
const NAMING: [&str; 14] = [
    "name", "id", "uid", "title", "label", "dn", "package", "module", "host", "summary", "path",
    "commit", "msgctxt", "msgid",
];

impl ExcerptSource<'_> {
    /// The line that names the record of a unit, if it is not shown yet.
    pub(super) fn name(
        &self,
        unit: &ShownUnit,
        between: (usize, usize),
        shown: &[ShownUnit],
    ) -> Option<ShownUnit> {
        let named = match self.measure.kind {
            OutputKind::Json => NAMED_JSON_UNITS,
            _ => NAMED_UNITS,
        };
        let has_records = match self.form {
            Form::Lines | Form::Xml => true,
            // A row is a record itself, unless there are tables below each other.
            Form::Table(_) => {
                let from = unit.start.saturating_sub(SEARCHED_BYTES);
                let above = self.text.as_bytes().get(from..unit.start);
                above.is_some_and(|above| memmem::find(above, b"\n\n").is_some())
            }
            Form::Page | Form::Minified => false,
        };
        if !has_records
            || matches!(
                self.overview,
                Overview::Hits(_) | Overview::Diff(_) | Overview::Page(..)
            )
            || unit.rank >= named
        {
            return None;
        }
        let (start, end) = match self.form {
            Form::Xml => name_of_element(self.text, unit.start),
            _ => name_of(self.text, unit.start),
        }?;
        let is_shown = start < between.0 || end > between.1 || overlaps(shown, start, end);
        let is_inside = unit.start < end && start < unit.end;
        (!is_shown && !is_inside).then(|| self.plain_line((start, end), MAX_NAME_CHARS))
    }
}

/// A line between two bytes, and the blanks before its text.
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    end: usize,
    indent: usize,
}

impl Line {
    fn at(text: &str, start: usize) -> Self {
        let rest = text.as_bytes().get(start..).unwrap_or_default();
        let end = start + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..end - start).unwrap_or_default();
        let bare = line.trim_ascii_start();
        Self {
            start,
            end,
            indent: line.len() - bare.len(),
        }
    }

    fn above(text: &str, below: Self) -> Option<Self> {
        let end = below.start.checked_sub(1)?;
        let before = text.as_bytes().get(..end)?;
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        Some(Self::at(text, start))
    }

    fn below(self, text: &str) -> Option<Self> {
        (self.end + 1 < text.len()).then(|| Self::at(text, self.end + 1))
    }

    fn bare(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default().trim()
    }

    fn is_blank(self, text: &str) -> bool {
        self.bare(text).is_empty()
    }

    /// Whether no line near it is the same.
    fn is_unique(self, text: &str) -> bool {
        let bare = self.bare(text);
        if bare.len() < 3 {
            return false;
        }
        let from = self.start.saturating_sub(NEAR_BYTES);
        let to = (self.end + NEAR_BYTES).min(text.len());
        let near = text.as_bytes().get(from..to).unwrap_or_default();
        memmem::find_iter(near, bare.as_bytes()).nth(1).is_none()
    }

    /// Whether the last word of its key is one with which people name things.
    fn is_naming(self, text: &str) -> bool {
        let bare = self.bare(text);
        let key = bare.strip_prefix("<key>").unwrap_or(bare);
        let key = key.trim_start_matches(|it: char| !it.is_alphanumeric());
        let end = if key.len() < bare.len() && bare.starts_with('<') {
            key.find([' ', '/', '>', '<'])
        } else {
            let end = key.find([':', '=', '"', '<', '>', '\t']);
            end.or_else(|| key.find("  ")).or_else(|| key.find(' '))
        };
        let words = key.get(..end.unwrap_or(key.len())).unwrap_or_default();
        let mut words = words.rsplit(|it: char| !it.is_alphanumeric());
        words.find(|word| !word.is_empty()).is_some_and(|word| {
            let word = word.to_lowercase();
            let is_id = word.ends_with("id") && word.len() > 7;
            NAMING.contains(&word.as_str()) || word.ends_with("name") || is_id
        })
    }

    /// Whether it is a comment, which is about the line below.
    fn is_comment(self, text: &str) -> bool {
        self.bare(text).starts_with(['#', ';']) || self.bare(text).starts_with("//")
    }

    /// What the keys of its record begin with, as in `ships[3].name = ` or `ship.3.name = `: all up
    /// to an index, the longest first.
    fn key_prefixes(self, text: &str) -> impl Iterator<Item = &str> {
        let key = self.bare(text).split_once(['=', ':']);
        let key = key.map_or("", |(key, _)| key);
        let is_index = |before: &str| before.ends_with(|it: char| it.is_ascii_digit() || it == ']');
        let ends = key.rmatch_indices(['.', '[']).map(|(at, _)| at);
        ends.filter(move |at| key.get(..*at).is_some_and(is_index))
            .filter_map(move |at| key.get(..=at))
            .take(MAX_PREFIXES)
    }

    /// Whether it closes what a line above has opened.
    fn closes(self, text: &str) -> bool {
        let bare = self.bare(text);
        bare.starts_with(['}', ')', ']']) || bare.starts_with("</") || bare == "end"
    }

    /// Whether it only divides records. So does a line in brackets or of signs that occurs again,
    /// such as `[STREAM]` or `-[ RECORD ]---`.
    fn divides(self, text: &str) -> bool {
        let bare = self.bare(text);
        let signs = bare.bytes().take_while(|byte| b"-=*+~_[".contains(byte));
        let is_frame = bare.starts_with('[') && bare.ends_with(']') || signs.count() > 1;
        bare == "}"
            || ["---", "BEGIN", "END"]
                .iter()
                .any(|it| bare.starts_with(it))
            || is_frame && !self.is_unique(text)
    }

    /// Whether the last cell of this row of a table goes on in the next line.
    fn opens_cell(self, text: &str) -> bool {
        let line = text.get(self.start..self.end).unwrap_or_default();
        let quote = line
            .rfind('"')
            .filter(|_| line.matches('"').count() % 2 == 1);
        quote.is_some_and(|at| {
            line.get(..at)
                .is_some_and(|before| before.ends_with([',', ';', '\t']))
        })
    }

    /// Whether it begins the section of a list of settings.
    fn is_section(self, text: &str) -> bool {
        let bare = self.bare(text);
        bare.starts_with('[') && bare.ends_with(']')
    }

    /// Whether it is an entry of a log: it begins with a time of day, or with a level before that.
    fn is_entry(self, text: &str) -> bool {
        let line = text
            .as_bytes()
            .get(self.start..self.end)
            .unwrap_or_default();
        let line = line.get(..TIME_BYTES).unwrap_or(line);
        let is_time = |time: &[u8]| {
            let mut bytes = time.iter().enumerate();
            bytes.all(|(at, byte)| match at % 3 {
                2 => *byte == b':',
                _ => byte.is_ascii_digit(),
            })
        };
        let Some(at) = line.windows(8).position(is_time) else {
            return false;
        };
        let before = line.get(..at).unwrap_or_default();
        self.indent == 0
            && memmem::find(before, b": ").is_none()
            && memmem::find(before, b" = ").is_none()
    }
}

/// The line that names the record of the line at `at`, if that is another one.
pub(super) fn name_of(text: &str, at: usize) -> Option<(usize, usize)> {
    let odd = Line::at(text, at);
    let range = |line: Line| (line.start, line.end);
    let before = at.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    let is_part = before.is_some_and(|before| *before != b'\n');
    if is_part || odd.is_entry(text) || odd.is_section(text) {
        return None;
    }
    let above = || {
        std::iter::successors(Line::above(text, odd), |line| Line::above(text, *line))
            .take(SEARCHED_LINES)
            .take_while(|line| odd.start - line.start <= SEARCHED_BYTES)
    };
    let below = || {
        std::iter::successors(Some(odd), |line| line.below(text))
            .take(SEARCHED_LINES)
            .take_while(|line| line.end - odd.start <= SEARCHED_BYTES)
    };
    // A comment is about the line below.
    let meant = below().find(|line| !line.is_comment(text));
    let meant = meant
        .filter(|line| line.indent == odd.indent)
        .unwrap_or(odd);
    let in_record = || {
        meant.key_prefixes(text).find_map(|prefix| {
            let lines = above()
                .chain(below())
                .filter(|line| line.bare(text).starts_with(prefix));
            named(text, &lines.collect::<Vec<_>>(), odd)
        })
    };
    let name = named(text, &[meant], odd)
        .or_else(in_record)
        .or_else(|| above().find(|line| line.is_entry(text)));
    if name.is_some() {
        return name.map(range);
    }
    // A line that closes a record belongs to it, with what follows on the line.
    let mut level = odd.indent + usize::from(odd.closes(text));
    // The lines of the record, the last one first, and how many of them are below a blank line.
    let (mut lines, mut paragraph) = (Vec::new(), None);
    for line in above() {
        let is_blank = line.is_blank(text);
        if level == 0 && (is_blank || line.divides(text)) {
            let name = name_of_paragraph(text, &lines, odd);
            // The first line of a record needs no other.
            if name.is_some() || lines.is_empty() {
                return name.map(range);
            }
        }
        if is_blank {
            paragraph = paragraph.or(Some(lines.len()));
        }
        if is_blank || line.closes(text) {
            continue;
        }
        if line.opens_cell(text) {
            return Some(range(line));
        }
        if line.indent < level {
            level = line.indent;
            if let Some(name) = name_in(text, line, odd) {
                return Some(range(name));
            }
        }
        lines.push(line);
        if level == 0 && line.is_section(text) && line.is_unique(text) {
            return Some(range(line));
        }
    }
    let paragraph = paragraph.and_then(|count| lines.get(..count));
    let name = paragraph.and_then(|lines| name_of_paragraph(text, lines, odd));
    let is_name = |line: &&Line| {
        line.bare(text).contains([':', '=', '"']) && line.is_naming(text) && line.is_unique(text)
    };
    name.or_else(|| lines.iter().find(is_name).copied())
        .map(range)
}

/// The line that names the record of `odd`. `above` has the lines of the record above it, the last
/// one first. That is the first line of the record, if it is no comment; else a line with a name,
/// which may be below; else any line that is like no other.
fn name_of_paragraph(text: &str, above: &[Line], odd: Line) -> Option<Line> {
    let is_name = |line: &&Line| line.is_unique(text);
    let mut lines: Vec<Line> = above.iter().rev().copied().collect();
    let first = lines
        .first()
        .filter(is_name)
        .copied()
        .filter(|line| !line.is_comment(text));
    let below = std::iter::successors(odd.below(text), |line| line.below(text))
        .take_while(|line| !line.is_blank(text) && !line.divides(text));
    lines.extend(below.take_while(|line| line.end - odd.start <= SEARCHED_BYTES));
    first
        .or_else(|| named(text, &lines, odd))
        .or_else(|| above.iter().rev().find(is_name).copied())
}

/// The tag or the short element that names the element of an XML document at `at`.
pub(super) fn name_of_element(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let part = |start: usize, end: usize| Line {
        start,
        end,
        indent: 0,
    };
    let odd = part(at, at + 1);
    let from = at.saturating_sub(SEARCHED_BYTES);
    let tags = elements::tags_around(bytes, from, at);
    let name = tags.into_iter().find_map(|(start, end)| {
        let tag = part(start, end);
        if tag.is_unique(text) {
            return Some(tag);
        }
        let mut inside = Vec::new();
        let above = bytes.get(end..at).unwrap_or_default();
        elements::for_each_element(above, |from, to| inside.push(part(end + from, end + to)));
        named(text, &inside, odd)
    });
    name.map(|line| (line.start, line.end))
}

/// The line that names the record which begins with `first`: this itself, a comment above it, or
/// one inside.
fn name_in(text: &str, first: Line, odd: Line) -> Option<Line> {
    if first.is_unique(text) {
        return Some(first);
    }
    let comment = Line::above(text, first).filter(|line| {
        let bare = line.bare(text);
        line.indent == first.indent && bare.starts_with(['#', '/', ';']) && line.is_unique(text)
    });
    if comment.is_some() {
        return comment;
    }
    let below = std::iter::successors(first.below(text), |line| line.below(text));
    let inside = below
        .take_while(|line| line.is_blank(text) || line.indent > first.indent)
        .take_while(|line| line.end - first.start <= SEARCHED_BYTES);
    let lines: Vec<Line> = inside.collect();
    named(text, &lines, odd)
}

/// The first of these lines that names something, or that follows a line which only announces a
/// name, such as `name:` or `<name>`.
fn named(text: &str, lines: &[Line], odd: Line) -> Option<Line> {
    let mut pairs = lines
        .iter()
        .zip(lines.iter().skip(1).map(Some).chain([None]));
    pairs.find_map(|(line, next)| {
        let is_name = |line: &&Line| line.start != odd.start && line.is_unique(text);
        let is_key = line.bare(text).ends_with(['>', ':']);
        let found = line.is_naming(text).then_some(line).filter(is_name);
        let behind = next.filter(|next| is_key && line.is_naming(text) && is_name(next));
        found.or(behind).copied()
    })
}
