//! Finds the blocks of an HTML page and the text between tags, without decoding anything.

use memchr::memmem;

use super::evidence::{MAX_UNIT, for_each_line_part};

/// Elements within a line of text, and the cells of a row. Those of one letter belong to them,
/// too, except `p`.
const INLINE: [u64; 22] = [
    name_of(b"em"),
    name_of(b"strong"),
    name_of(b"span"),
    name_of(b"code"),
    name_of(b"small"),
    name_of(b"sub"),
    name_of(b"sup"),
    name_of(b"font"),
    name_of(b"kbd"),
    name_of(b"abbr"),
    name_of(b"mark"),
    name_of(b"img"),
    name_of(b"wbr"),
    name_of(b"td"),
    name_of(b"th"),
    name_of(b"cite"),
    name_of(b"del"),
    name_of(b"ins"),
    name_of(b"label"),
    name_of(b"time"),
    name_of(b"tt"),
    name_of(b"var"),
];

/// Other elements that HTML pages consist of.
const BLOCKS: [u64; 22] = [
    name_of(b"html"),
    name_of(b"head"),
    name_of(b"body"),
    name_of(b"div"),
    name_of(b"br"),
    name_of(b"hr"),
    name_of(b"ul"),
    name_of(b"ol"),
    name_of(b"li"),
    name_of(b"tr"),
    name_of(b"table"),
    name_of(b"h1"),
    name_of(b"h2"),
    name_of(b"h3"),
    name_of(b"h4"),
    name_of(b"pre"),
    name_of(b"script"),
    name_of(b"style"),
    name_of(b"section"),
    name_of(b"nav"),
    name_of(b"input"),
    name_of(b"button"),
];

/// Elements whose content is no text.
const HIDDEN: [&[u8]; 3] = [b"script", b"style", b"svg"];

/// A name of at most eight letters, in lower case, packed into a number.
const fn name_of(name: &[u8]) -> u64 {
    let mut number = 0;
    let mut rest = name;
    while let [first, others @ ..] = rest {
        number = (number << 8) | (*first | 0x20) as u64;
        rest = others;
    }
    number
}

/// Whether these bytes begin with the name of an HTML element.
pub(super) fn is_html_name(bytes: &[u8]) -> bool {
    let letters = bytes
        .iter()
        .take(8)
        .take_while(|byte| byte.is_ascii_alphanumeric());
    let length = letters.count();
    let number = name_of(bytes.get(..length).unwrap_or_default());
    length == 1 || INLINE.contains(&number) || BLOCKS.contains(&number)
}

/// What begins with `<`, by what it means for the text.
enum Tag {
    /// It separates what precedes it from what follows, and ends at this offset. The content of a
    /// hidden element is part of it.
    Block { end: usize, is_hidden: bool },
    /// A tag within a line of text, or a comment.
    Inline(usize),
    /// No tag: the sign itself.
    Text,
}

/// The tag at `at`, where there is a `<`.
#[inline]
fn tag(bytes: &[u8], at: usize) -> Tag {
    let rest = bytes.get(at..).unwrap_or_default();
    let (name, is_end) = match rest {
        [b'<', b'/', name @ ..] => (name, true),
        [b'<', b'!', b'-', b'-', ..] => {
            let end = memmem::find(rest, b"-->").map_or(rest.len(), |end| end + 3);
            return Tag::Inline(at + end);
        }
        [b'<', name @ ..] => (name, false),
        _ => return Tag::Text,
    };
    match name.first() {
        Some(first) if first.is_ascii_alphabetic() || *first == b'!' => {}
        _ => return Tag::Text,
    }
    let end = memchr::memchr(b'>', rest).map_or(rest.len(), |end| end + 1);
    let letters = name.iter().take(8);
    let length = letters.take_while(|byte| byte.is_ascii_alphanumeric());
    let length = length.count();
    let number = name_of(name.get(..length).unwrap_or_default());
    if !is_end
        && let Some(hidden) = HIDDEN.iter().find(|hidden| name_of(hidden) == number)
        && !rest.get(..end).is_some_and(|tag| tag.ends_with(b"/>"))
    {
        return Tag::Block {
            end: at + hidden_end(rest, end, hidden),
            is_hidden: true,
        };
    }
    let is_one_letter = length == 1 && number != name_of(b"p");
    if is_one_letter || INLINE.contains(&number) {
        Tag::Inline(at + end)
    } else {
        Tag::Block {
            end: at + end,
            is_hidden: false,
        }
    }
}

/// Where the element ends whose content is not shown.
fn hidden_end(rest: &[u8], from: usize, name: &[u8]) -> usize {
    let mut at = from;
    while let Some(found) = memmem::find(rest.get(at..).unwrap_or_default(), b"</") {
        at += found + 2;
        let end = rest.get(at..at + name.len()).unwrap_or_default();
        if end.eq_ignore_ascii_case(name) {
            return memchr::memchr(b'>', rest.get(at..).unwrap_or_default())
                .map_or(rest.len(), |end| at + end + 1);
        }
    }
    rest.len()
}

/// Calls `block` with the range of each block, from the tag that begins it to the next such tag,
/// until it returns `false`. Of a block with much text each line or part is one.
pub(super) fn for_each_block(bytes: &[u8], mut block: impl FnMut(usize, usize) -> bool) {
    // Where the block begins, its text, and the text since its last tag.
    let (mut start, mut text, mut run) = (0, 0, 0);
    let mut at = 0;
    loop {
        let open = memchr::memchr(b'<', bytes.get(at..).unwrap_or_default());
        let open = open.map_or(bytes.len(), |open| at + open);
        let tag = tag(bytes, open);
        if matches!(tag, Tag::Text) && open < bytes.len() {
            at = open + 1;
            continue;
        }
        if open - run > MAX_UNIT {
            let mut goes_on = true;
            for_each_line_part(bytes, run, open, |from, to| {
                if goes_on && has_text(bytes, from, to) {
                    goes_on = block(start.max(if from == run { start } else { from }), to);
                }
            });
            if !goes_on {
                return;
            }
            (start, text) = (open, open);
        }
        let is_long = open - start > 2 * MAX_UNIT;
        match tag {
            Tag::Inline(end) if !is_long => (at, run) = (end, end),
            Tag::Block { end, .. } | Tag::Inline(end) => {
                if has_text(bytes, text, open) && !block(start, open) {
                    return;
                }
                start = if matches!(
                    tag,
                    Tag::Block {
                        is_hidden: true,
                        ..
                    }
                ) {
                    end
                } else {
                    open
                };
                (text, run, at) = (end, end, end);
            }
            Tag::Text => {
                if has_text(bytes, text, open) {
                    block(start, open);
                }
                return;
            }
        }
    }
}

fn has_text(bytes: &[u8], start: usize, end: usize) -> bool {
    let text = bytes.get(start..end).unwrap_or_default();
    text.iter().any(|byte| !byte.is_ascii_whitespace())
}

/// Calls `text` with the ranges between the tags of a block.
pub(super) fn for_each_text(
    bytes: &[u8],
    (start, end): (usize, usize),
    mut text: impl FnMut(usize, usize),
) {
    let bytes = bytes.get(..end).unwrap_or(bytes);
    let mut from = start;
    let mut at = start;
    while let Some(found) = memchr::memchr(b'<', bytes.get(at..).unwrap_or_default()) {
        let open = at + found;
        match tag(bytes, open) {
            Tag::Block { end: next, .. } | Tag::Inline(next) => {
                if from < open {
                    text(from, open);
                }
                from = next;
                at = next;
            }
            Tag::Text => at = open + 1,
        }
    }
    if from < end {
        text(from, end);
    }
}
