//! Finds the elements of an XML document that is no HTML page, without decoding anything.

use memchr::memmem;

use super::evidence::{MAX_UNIT, for_each_line_part};
use super::markup;

/// An element is one unit up to this many bytes.
const ELEMENT_BYTES: usize = 240;
/// An element is one unit up to this many tags.
const ELEMENT_TAGS: usize = 32;

/// The most elements around a place that are looked at.
const MAX_DEPTH: usize = 32;

/// How many bytes at the beginning are read to tell XML from HTML.
const START_BYTES: usize = 16 * 1024;
/// The fewest tags that they must have.
const START_TAGS: usize = 8;

/// Whether a text is XML, but no HTML: most of its tags have names that HTML does not have.
pub(super) fn is_xml(text: &[u8]) -> bool {
    let start = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let start = start.trim_ascii_start();
    let start = start.get(..START_BYTES).unwrap_or(start);
    if start.first() != Some(&b'<') {
        return false;
    }
    let (mut tags, mut ends, mut html) = (0, 0, 0);
    for at in memchr::memchr_iter(b'<', start) {
        match start.get(at + 1..).unwrap_or_default() {
            [b'/', ..] => ends += 1,
            name @ [first, ..] if first.is_ascii_alphabetic() => {
                tags += 1;
                html += usize::from(markup::is_html_name(name));
            }
            _ => {}
        }
    }
    ends += memmem::find_iter(start, "/>").count();
    tags >= START_TAGS && html * 4 < tags && ends * 3 >= tags
}

/// Where the tag, comment or declaration ends that begins at `at`, and how many elements it opens
/// or closes; `None` if it is none, or has no end.
fn tag(bytes: &[u8], at: usize) -> Option<(usize, isize)> {
    let rest = bytes.get(at..)?;
    let behind = |end: &str| memmem::find(rest, end.as_bytes()).map(|found| at + found + end.len());
    let tag_end = || memchr::memchr(b'>', rest).map(|end| at + end + 1);
    match rest {
        [b'<', b'/', ..] => Some((tag_end()?, -1)),
        [b'<', b'!', b'-', b'-', ..] => Some((behind("-->")?, 0)),
        [b'<', b'!', b'[', ..] => Some((behind("]]>")?, 0)),
        [b'<', b'!' | b'?', ..] => Some((tag_end()?, 0)),
        [b'<', first, ..] if first.is_ascii_alphabetic() || *first == b'_' => {
            let end = tag_end()?;
            let is_empty = bytes.get(end - 2) == Some(&b'/');
            Some((end, isize::from(!is_empty)))
        }
        _ => None,
    }
}

/// Whether a text begins like a tag, a comment or a declaration.
fn opens_tag(text: &[u8]) -> bool {
    match text {
        [b'<', b'/' | b'!' | b'?', ..] => true,
        [b'<', first, ..] => first.is_ascii_alphabetic() || *first == b'_',
        _ => false,
    }
}

/// The end of the element at `at`; `None` if it is too long or has too many tags.
fn short_element(bytes: &[u8], mut at: usize) -> Option<usize> {
    let bytes = bytes.get(..(at + ELEMENT_BYTES).min(bytes.len()))?;
    let mut depth = 0;
    for _ in 0..ELEMENT_TAGS {
        let (end, opened) = tag(bytes, at)?;
        depth += opened;
        if depth <= 0 {
            return Some(end);
        }
        at = end + memchr::memchr(b'<', bytes.get(end..)?)?;
    }
    None
}

/// Whether an element is a key, and the next one its value.
pub(super) fn is_key(element: &[u8]) -> bool {
    element.starts_with(b"<key>") || element.starts_with(b"<name>")
}

/// Where the value ends whose key is the element from `start` to `end`, as property lists and
/// settings have them.
fn value_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let key = bytes.get(start..end)?;
    let rest = bytes.get(end..)?;
    let blanks = rest.len() - rest.trim_ascii_start().len();
    let value = rest.get(blanks..)?;
    let has_value = match key.get(1) {
        Some(b'k') => !value.starts_with(b"</"),
        _ => value.starts_with(b"<value>"),
    };
    (is_key(key) && has_value).then(|| short_element(bytes, end + blanks))?
}

/// Calls `unit` with the range of each short element, and of each tag of a longer one with the text
/// behind it.
pub(super) fn for_each_element(bytes: &[u8], mut unit: impl FnMut(usize, usize)) {
    let text_end = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        memchr::memchr(b'<', rest).map_or(bytes.len(), |end| from + end)
    };
    let mut start = 0;
    while let Some(first) = bytes.get(start) {
        if first.is_ascii_whitespace() {
            start += 1;
            continue;
        }
        let is_end = bytes.get(start + 1) == Some(&b'/');
        if !is_end && let Some(end) = short_element(bytes, start) {
            let end = value_end(bytes, start, end).unwrap_or(end);
            unit(start, end);
            start = end;
            continue;
        }
        let rest = bytes.get(start..).unwrap_or_default();
        let behind = match tag(bytes, start) {
            Some((end, _)) => end,
            // Nothing later in the text can close it.
            None if opens_tag(rest) => bytes.len(),
            None => start + 1,
        };
        let end = text_end(behind);
        let found = bytes.get(start..end).unwrap_or_default();
        let length = found.trim_ascii_end().len();
        if length > MAX_UNIT {
            for_each_line_part(bytes, start, start + length, &mut unit);
        } else if !is_end || start + length > behind {
            unit(start, start + length);
        }
        start = end;
    }
}

/// The start tags of the elements around the byte `at`, the inner ones first, of those that begin
/// behind `from`. At most [`MAX_DEPTH`].
pub(super) fn tags_around(bytes: &[u8], from: usize, at: usize) -> Vec<(usize, usize)> {
    // A start tag around `at` ends before it.
    let bytes = bytes.get(..at).unwrap_or(bytes);
    let mut found = Vec::new();
    let mut depth = 0;
    let mut to = at;
    while let Some(open) = memchr::memrchr(b'<', bytes.get(from..to).unwrap_or_default())
        && found.len() < MAX_DEPTH
    {
        to = from + open;
        let Some((end, opened)) = tag(bytes, to) else {
            continue;
        };
        depth -= opened;
        if depth < 0 {
            depth = 0;
            found.push((to, end));
        }
    }
    found
}
