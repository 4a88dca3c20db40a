//! The headings of a page or of a text in Markdown.

use std::collections::HashSet;

use super::{MORE_CHARS, html, one_line};
use crate::evidence::Form;

/// A text with at least this many headings has many.
const MANY: usize = 8;

/// No more headings are kept.
const MAX_HEADINGS: usize = 2_000;

const MAX_HEADING_CHARS: usize = 60;

/// The most headings that are read of a page, whose text has to be found.
const MAX_READ: usize = 40;

/// The headings of a text, at most [`MAX_HEADINGS`] of them.
pub(in crate::excerpt) struct Headings {
    texts: Vec<String>,
    count: usize,
    /// How many begin with more than one sign, which comments seldom do.
    nested: usize,
}

/// A heading and its place.
#[derive(Default)]
struct Found {
    ranges: Vec<(usize, usize)>,
    count: usize,
    nested: usize,
}

/// Finds the headings.
pub(super) fn read(text: &str, form: Form) -> Headings {
    let found = if form == Form::Page {
        of_page(text)
    } else {
        of_markdown(text)
    };
    // As many as may be shown, spread over all of the text.
    let ranges = found.ranges;
    let step = ranges.len().div_ceil(MAX_READ).max(1);
    let headings = ranges.iter().step_by(step).map(|(start, end)| {
        let heading = text.get(*start..*end).unwrap_or_default();
        let heading = if form == Form::Page {
            html::plain(heading).replace('\n', " ")
        } else {
            heading.to_owned()
        };
        let heading = without_addresses(heading.trim_start_matches(['#', ' ']));
        one_line(heading.trim(), MAX_HEADING_CHARS)
    });
    let mut known = HashSet::new();
    let mut is_new = |heading: &String| !heading.is_empty() && known.insert(heading.clone());
    Headings {
        texts: headings.filter(|heading| is_new(heading)).collect(),
        count: found.count,
        nested: found.nested,
    }
}

/// A heading with the text of its links alone.
fn without_addresses(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, behind)) = rest.split_once("](") {
        text.push_str(&before.replacen('[', "", 1));
        rest = behind.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text
}

/// Drops every second heading when there are too many.
fn thin(ranges: &mut Vec<(usize, usize)>, step: &mut usize) {
    if ranges.len() >= MAX_HEADINGS {
        let kept = ranges.iter().copied().step_by(2).collect();
        *ranges = kept;
        *step *= 2;
    }
}

fn of_page(text: &str) -> Found {
    let bytes = text.as_bytes();
    let (mut found, mut step) = (Found::default(), 1);
    for at in memchr::memmem::find_iter(bytes, b"<h") {
        let is_heading = matches!(bytes.get(at + 2), Some(b'1'..=b'4'))
            && matches!(bytes.get(at + 3), Some(b'>' | b' '));
        if !is_heading {
            continue;
        }
        if found.count.is_multiple_of(step) {
            let rest = bytes.get(at..at + 600).or_else(|| bytes.get(at..));
            let rest = rest.unwrap_or_default();
            let end = memchr::memmem::find(rest, b"</h").unwrap_or(rest.len());
            found.ranges.push((at, text.floor_char_boundary(at + end)));
            thin(&mut found.ranges, &mut step);
        }
        found.count += 1;
        found.nested += 1;
    }
    found
}

fn of_markdown(text: &str) -> Found {
    let bytes = text.as_bytes();
    let (mut found, mut step) = (Found::default(), 1);
    // A heading behind an empty line: a comment of a script has none above it.
    let first = bytes.starts_with(b"#").then_some(0);
    let behind_empty = memchr::memmem::find_iter(bytes, b"\n\n#").map(|at| at + 2);
    for start in first.into_iter().chain(behind_empty) {
        let rest = bytes.get(start..).unwrap_or_default();
        let signs = rest
            .iter()
            .take(5)
            .take_while(|byte| **byte == b'#')
            .count();
        if signs > 4 || rest.get(signs) != Some(&b' ') {
            continue;
        }
        if found.count.is_multiple_of(step) {
            let rest = rest.get(..400).unwrap_or(rest);
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            found
                .ranges
                .push((start, text.floor_char_boundary(start + end)));
            thin(&mut found.ranges, &mut step);
        }
        found.count += 1;
        found.nested += usize::from(signs > 1);
    }
    found
}

impl Headings {
    pub(super) fn are_many(&self) -> bool {
        self.count >= MANY && self.nested * 2 >= MANY
    }

    pub(super) fn text(&self, room: usize) -> String {
        let head = format!("{} headings, such as: ", self.count);
        let left = room.saturating_sub(head.len());
        // Spread over the text, in its order, and as many as fit.
        let fits = |step: usize| -> Option<String> {
            let few = self.texts.iter().step_by(step).map(String::as_str);
            let chars: usize = few.clone().map(|text| text.chars().count() + 2).sum();
            (chars + MORE_CHARS <= left).then(|| few.collect::<Vec<_>>().join(", "))
        };
        let found = (1..=self.texts.len()).find_map(fits);
        match found {
            Some(list) => format!("{head}{list}\n"),
            None => format!("({} headings in all)\n", self.count),
        }
    }
}
