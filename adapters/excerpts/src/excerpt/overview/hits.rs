//! The hits of a search in files: `path:line:text`, and their number in each file.

use std::collections::HashMap;

use super::{by_count, one_line};

/// How many first lines tell whether a text is a list of hits, and the percentage of them that must
/// be hits.
const FIRST_LINES: usize = 60;
const LEAST_PERCENT: usize = 75;

/// No more files are counted one by one.
const MAX_FILES: usize = 4_096;

const MAX_PATH_BYTES: usize = 240;

/// The path of a hit as it is shown in a list.
const MAX_PATH_CHARS: usize = 80;

/// A line of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::excerpt) struct Hit<'t> {
    pub(in crate::excerpt) path: &'t str,
    /// The number of the line and its text.
    pub(in crate::excerpt) rest: &'t str,
}

/// The hit in a line: a path, a colon, the number of a line, and another colon.
pub(in crate::excerpt) fn hit(line: &str) -> Option<Hit<'_>> {
    let bytes = line.as_bytes();
    let start = bytes
        .get(..bytes.len().min(MAX_PATH_BYTES))
        .unwrap_or(bytes);
    // The letter of a drive has a colon, too.
    let from = match start {
        [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic() => 2,
        _ => 0,
    };
    let colon = from + memchr::memchr(b':', start.get(from..)?)?;
    let digits = start.get(colon + 1..)?;
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let count = count.count();
    if count == 0 || digits.get(count) != Some(&b':') {
        return None;
    }
    let path = line.get(..colon)?;
    let first = path.bytes().next()?;
    let (mut has_blank, mut has_letter, mut has_sign) = (false, false, false);
    // Without a branch: the compiler makes vectors of this loop.
    for byte in path.bytes() {
        has_blank |= byte.is_ascii_whitespace();
        has_letter |= byte.is_ascii_alphabetic();
        has_sign |= matches!(byte, b'/' | b'\\' | b'.');
    }
    let is_named = has_letter && (first.is_ascii_alphabetic() || has_sign);
    (is_named && !has_blank).then_some(Hit {
        path,
        rest: line.get(colon + 1..)?,
    })
}

/// The hit in a line that has the same path as the hit before it.
fn hit_in<'t>(line: &'t str, path: &str) -> Option<Hit<'t>> {
    let rest = line.strip_prefix(path).filter(|_| !path.is_empty())?;
    let rest = rest.strip_prefix(':')?;
    let digits = rest.as_bytes();
    let most = MAX_PATH_BYTES.checked_sub(path.len() + 1)?;
    let digits = digits.get(..most).unwrap_or(digits);
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let count = count.count();
    if count == 0 || digits.get(count) != Some(&b':') {
        return None;
    }
    let path = line.get(..path.len())?;
    Some(Hit { path, rest })
}

/// How many hits each file has.
pub(in crate::excerpt) struct HitCounts {
    /// The files in the order of their first hits.
    files: Vec<(String, usize)>,
    hits: usize,
    /// Whether there are more files than are counted.
    has_more: bool,
}

impl HitCounts {
    /// Counts the hits of a text; `None` if most of its lines are something else.
    pub(super) fn of(text: &str) -> Option<Self> {
        let first = text.lines().filter(|line| !line.trim().is_empty());
        let (mut lines, mut found) = (0, 0);
        for line in first.take(FIRST_LINES) {
            lines += 1;
            found += usize::from(hit(line).is_some());
        }
        if lines < FIRST_LINES / 4 || found * 100 < lines * LEAST_PERCENT {
            return None;
        }
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut counts = Self {
            files: Vec::new(),
            hits: 0,
            has_more: false,
        };
        let mut last = ("", None);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]) {
            let line = text.get(start..end).unwrap_or_default();
            let line = line.strip_suffix('\r').unwrap_or(line);
            start = end + 1;
            let Some(hit) = hit_in(line, last.0).or_else(|| hit(line)) else {
                continue;
            };
            counts.hits += 1;
            if hit.path != last.0 {
                let known = places.get(hit.path).copied();
                if known.is_none() && counts.files.len() < MAX_FILES {
                    places.insert(hit.path, counts.files.len());
                    counts.files.push((hit.path.to_owned(), 0));
                }
                let place = places.get(hit.path).copied();
                counts.has_more |= place.is_none();
                last = (hit.path, place);
            }
            if let Some((_, count)) = last.1.and_then(|place| counts.files.get_mut(place)) {
                *count += 1;
            }
        }
        counts.files.sort_by_key(|(_, hits)| *hits);
        Some(counts)
    }

    /// How many hits a file has; `None` if they were not counted.
    pub(in crate::excerpt) fn of_file(&self, path: &str) -> Option<usize> {
        let file = self.files.iter().find(|(known, _)| known == path);
        file.map(|(_, hits)| *hits)
    }

    /// All files, those with most hits first; or, if they do not fit, those with fewest.
    pub(super) fn text(&self, room: usize) -> String {
        let more = if self.has_more { "at least " } else { "" };
        let name =
            |(path, hits): &(String, usize)| format!("{} {hits}", one_line(path, MAX_PATH_CHARS));
        let head = format!("{} hits in {more}{} files: ", self.hits, self.files.len());
        let left = room.saturating_sub(head.len());
        format!("{head}{}\n", by_count(&self.files, name, left))
    }
}
