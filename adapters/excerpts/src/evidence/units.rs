//! Cuts a text into units: lines, parts of long lines, or the blocks of a page.

use crate::places::Places;
use crate::{elements, markup};

/// How a text is cut into units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Lines; those that are too long in parts.
    Lines,
    /// The same, where most names have a letter or two and say nothing.
    Minified,
    /// Lines of cells with this byte between them.
    Table(u8),
    /// The blocks of an HTML page, without tags, scripts and comments.
    Page,
    /// The elements of an XML document, with their tags.
    Xml,
}

/// The lines that tell whether a text is a table, and the most separators in a row of one.
const TABLE_LINES: usize = 40;
const MAX_SEPARATORS: usize = 256;

/// A longer line is cut into parts.
pub(crate) const MAX_UNIT: usize = 400;

/// The least and the most bytes of a part of a line. A part ends behind a statement, a row or a
/// sentence, or, if none ends in time, behind its last word.
const PART: (usize, usize) = (48, 240);

impl Form {
    /// A table if most of the first lines have the same number of cells, at least three. Cells may
    /// be in quotes.
    pub(crate) fn of_lines(text: &str) -> Self {
        let lines = text.as_bytes().split(|byte| *byte == b'\n');
        let first: Vec<&[u8]> = lines.take(TABLE_LINES).collect();
        let is_table = |separator: &u8| {
            let mut counts = [0_usize; MAX_SEPARATORS];
            for line in &first {
                let count = Separators::new(line, *separator).count();
                if let Some(lines) = counts.get_mut(count).filter(|_| count >= 2) {
                    *lines += 1;
                }
            }
            let most = counts.into_iter().max().unwrap_or_default();
            most >= 6 && most * 4 >= first.len() * 3
        };
        let found = [b',', b'\t', b';', b'|'].into_iter().find(is_table);
        found.map_or(Self::Lines, Self::Table)
    }

    /// The byte between cells.
    #[inline]
    pub(super) fn separator(self) -> Option<u8> {
        match self {
            Self::Table(separator) => Some(separator),
            Self::Lines | Self::Minified | Self::Page | Self::Xml => None,
        }
    }

    /// The letters of the shortest word that counts.
    #[inline]
    pub(super) fn least_word(self) -> usize {
        if self == Self::Minified { 3 } else { 1 }
    }

    /// Calls `unit` with the range of each unit, in their order.
    #[inline]
    pub(super) fn for_each_unit(self, bytes: &[u8], mut unit: impl FnMut(usize, usize)) {
        match self {
            Self::Page => markup::for_each_block(bytes, |start, end| {
                unit(start, end);
                true
            }),
            Self::Xml => elements::for_each_element(bytes, unit),
            Self::Lines | Self::Minified | Self::Table(_) => {
                for_each_line_part(bytes, 0, bytes.len(), unit);
            }
        }
    }
}

/// The separators of a row of a table that are outside of quotes, where they are text.
pub(crate) struct Separators<'t> {
    row: &'t [u8],
    separator: u8,
    /// The places of separators and quotes.
    places: Places<'t, 3>,
    /// The quote that is open.
    open: Option<u8>,
}

impl<'t> Separators<'t> {
    pub(crate) fn new(row: &'t [u8], separator: u8) -> Self {
        Self {
            row,
            separator,
            places: Places::new(row, [separator, b'"', b'\'']),
            open: None,
        }
    }
}

impl Iterator for Separators<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            let place = self.places.next()?;
            let byte = *self.row.get(place)?;
            match self.open {
                None if byte == self.separator => return Some(place),
                None => {
                    let before = place.checked_sub(1).and_then(|at| self.row.get(at));
                    let is_in_word = before.is_some_and(|it| {
                        it.is_ascii_alphanumeric() || *it == b'_' || !it.is_ascii()
                    });
                    // An apostrophe is in a word or behind it.
                    self.open = Some(byte).filter(|_| byte != b'\'' || !is_in_word);
                }
                Some(open) if open == byte => self.open = None,
                Some(_) => {}
            }
        }
    }
}

/// Calls `part` with the range of each line between two bytes, or of each part of a long line.
#[inline]
pub(crate) fn for_each_line_part(
    bytes: &[u8],
    from: usize,
    to: usize,
    mut part: impl FnMut(usize, usize),
) {
    let range = bytes.get(from..to).unwrap_or_default();
    let mut start = from;
    for end in memchr::memchr_iter(b'\n', range).chain([range.len()]) {
        let end = from + end;
        if end - start <= MAX_UNIT {
            if start < end {
                part(start, end);
            }
        } else {
            while start < end {
                let to = part_end(bytes, start, end);
                part(start, to);
                start = to;
            }
        }
        start = end + 1;
    }
}

/// Where the part of a long line ends that begins at `start`.
fn part_end(bytes: &[u8], start: usize, end: usize) -> usize {
    if end - start <= PART.1 {
        return end;
    }
    let part = bytes.get(start..start + PART.1).unwrap_or_default();
    let (_, searched) = part.split_at_checked(PART.0).unwrap_or_default();
    for at in memchr::memchr3_iter(b'}', b';', b'.', searched) {
        let at = PART.0 + at;
        match (part.get(at), part.get(at + 1)) {
            (Some(b'.'), Some(b' ')) => return start + at + 1,
            (Some(b'.'), _) => {}
            // The comma behind a row belongs to it.
            (_, Some(b',')) => return start + at + 2,
            (_, _) => return start + at + 1,
        }
    }
    if let Some(gap) = memchr::memrchr3(b' ', b',', b'>', searched) {
        return start + PART.0 + gap + 1;
    }
    let mut at = start + PART.1;
    while bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
        at -= 1;
    }
    at
}
