//! The first and the last blocks of an HTML page as text.

use super::html;
use super::line_cut::{self, FirstAndLast, LineCut};
use crate::markup;

/// How many bytes are searched for the last blocks.
const TAIL_BYTES: usize = 64 * 1024;

/// The text of a page, if it fits.
pub(super) fn whole(page: &str, room: usize) -> Option<LineCut> {
    let start = first_blocks(page, room);
    start.is_whole.then_some(start)
}

/// The text of the first and of the last blocks.
pub(super) fn ends(page: &str, room: usize) -> FirstAndLast {
    let first = first_blocks(page, room);
    let last = last_blocks(page, first.bytes, room);
    FirstAndLast { first, last }
}

/// The text of as many first blocks as fit, and the beginning of the next one.
fn first_blocks(page: &str, room: usize) -> LineCut {
    let mut cut = LineCut {
        is_whole: true,
        ..LineCut::default()
    };
    let mut left = room;
    markup::for_each_block(page.as_bytes(), |start, end| {
        let plain = html::plain(page.get(start..end).unwrap_or_default());
        let lines = line_cut::first_lines(plain.trim_end(), left);
        cut.is_whole = lines.is_whole;
        cut.chars += lines.chars;
        left = left.saturating_sub(lines.text.chars().count());
        cut.text.push_str(&lines.text);
        cut.bytes = if lines.is_whole { end } else { start };
        if lines.chars > 0 {
            cut.shown.push((start, end));
        }
        lines.is_whole
    });
    cut
}

/// The text of as many last blocks behind the byte `from` as fit.
fn last_blocks(page: &str, from: usize, room: usize) -> LineCut {
    let start = page.ceil_char_boundary(page.len().saturating_sub(TAIL_BYTES).max(from));
    let mut tail = page.get(start..).unwrap_or_default();
    // The tail may begin in a script.
    if let Some(end) = tail.find("</script")
        && !tail.get(..end).unwrap_or_default().contains("<script")
    {
        tail = tail.get(end..).unwrap_or_default();
    } else if start > from {
        let tag = memchr::memchr(b'<', tail.as_bytes()).unwrap_or(tail.len());
        tail = tail.get(tag..).unwrap_or_default();
    }
    let mut blocks = Vec::new();
    markup::for_each_block(tail.as_bytes(), |start, end| {
        blocks.push((start, end));
        true
    });
    let mut cut = LineCut::default();
    let mut texts = Vec::new();
    for (start, end) in blocks.into_iter().rev() {
        let plain = html::plain(tail.get(start..end).unwrap_or_default());
        let chars = plain.chars().count() + 1;
        if cut.chars + chars > room {
            break;
        }
        cut.chars += chars;
        cut.bytes = tail.len() - start;
        let above = page.len() - tail.len();
        cut.shown.push((above + start, above + end));
        texts.push(plain);
    }
    for text in texts.iter().rev() {
        cut.text.push_str(text.trim_end());
        cut.text.push('\n');
    }
    cut
}
