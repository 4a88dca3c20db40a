//! Finds a range of bytes or lines in a text. A line includes the `\n` that ends it, which the last
//! line may lack. A `\r` is a character like any other.

use std::ops::Range;

use super::model::ArtifactRange;

/// The position of a range in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextPosition {
    /// The range in bytes, at boundaries of characters.
    pub bytes: Range<usize>,
    /// The line in which it begins; lines are counted from 1.
    pub first_line: u64,
}

/// Finds a range. One beyond the end is empty and positioned at the end.
pub(crate) fn locate(text: &str, range: &ArtifactRange) -> TextPosition {
    let bytes = match range {
        ArtifactRange::Whole => 0..text.len(),
        ArtifactRange::Bytes(range) => widen_to_chars(text, range),
        ArtifactRange::Lines { from, count } => {
            let start = offset_after_lines(text, from.saturating_sub(1));
            let rest = text.get(start..).unwrap_or_default();
            start..start + offset_after_lines(rest, *count)
        }
    };
    let before = text.get(..bytes.start).unwrap_or_default();
    TextPosition {
        first_line: 1 + count_newlines(before),
        bytes,
    }
}

/// The number of line ends in a text.
pub(crate) fn count_newlines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// The offset after this many lines, or the end of the text if it has fewer.
pub(crate) fn offset_after_lines(text: &str, count: u64) -> usize {
    let Some(last) = count.checked_sub(1) else {
        return 0;
    };
    usize::try_from(last)
        .ok()
        .and_then(|last| memchr::memchr_iter(b'\n', text.as_bytes()).nth(last))
        .map_or(text.len(), |newline| newline + 1)
}

/// Cuts a range at the end of the text and widens it to whole characters.
pub(crate) fn widen_to_chars(text: &str, range: &Range<u64>) -> Range<usize> {
    let within = |offset: u64| {
        usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(text.len())
    };
    let start = text.floor_char_boundary(within(range.start));
    if range.end <= range.start {
        return start..start;
    }
    start..text.ceil_char_boundary(within(range.end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines, found one character at a time.
    fn lines_of(text: &str) -> Vec<String> {
        let mut lines = vec![String::new()];
        for character in text.chars() {
            lines.last_mut().unwrap().push(character);
            if character == '\n' {
                lines.push(String::new());
            }
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    proptest! {
        #[test]
        fn lines_are_those_that_a_reader_counts(
            text in "([a-z漢é😀\r]{0,3}\n?){0,12}", from in 0..16u64, count in 0..16u64,
        ) {
            let found = locate(&text, &ArtifactRange::Lines { from, count });
            let lines = lines_of(&text);
            let skip = usize::try_from(from.max(1) - 1).unwrap();
            let wanted: String =
                lines.iter().skip(skip).take(usize::try_from(count).unwrap()).cloned().collect();
            prop_assert_eq!(text.get(found.bytes.clone()), Some(wanted.as_str()));
            if !wanted.is_empty() {
                prop_assert_eq!(found.first_line, from.max(1));
            }
            let lines_before = count_newlines(text.get(..found.bytes.start).unwrap());
            prop_assert_eq!(found.first_line, lines_before + 1);
        }

        #[test]
        fn bytes_are_widened_to_whole_characters(
            text in "[a漢é😀\r\n]{0,12}", start in 0..60u64, length in 0..60u64,
        ) {
            let found = locate(&text, &ArtifactRange::Bytes(start..start + length));
            let wanted: String = text
                .char_indices()
                .filter(|(at, c)| {
                    let at = *at as u64;
                    length > 0 && at + c.len_utf8() as u64 > start && at < start + length
                })
                .map(|(_, c)| c)
                .collect();
            prop_assert_eq!(text.get(found.bytes), Some(wanted.as_str()));
        }
    }

    #[test]
    fn a_range_without_bytes_is_empty_within_a_character_too() {
        let text = "éa\r\n😀\n\n😀";
        assert_eq!(locate(text, &ArtifactRange::Bytes(6..6)).bytes.len(), 0);
    }

    #[test]
    fn what_lies_beyond_the_end_is_empty_and_stands_at_the_end() {
        let text = "a\nb";
        for part in [
            ArtifactRange::Bytes(7..9),
            ArtifactRange::Bytes(u64::MAX - 1..u64::MAX),
            ArtifactRange::Lines { from: 3, count: 1 },
            ArtifactRange::Lines {
                from: u64::MAX,
                count: u64::MAX,
            },
        ] {
            let found = locate(text, &part);
            assert_eq!(
                found,
                TextPosition {
                    bytes: 3..3,
                    first_line: 2
                },
                "{part:?}"
            );
        }
        let backwards = ArtifactRange::Bytes(Range { start: 2, end: 1 });
        assert_eq!(locate(text, &backwards).bytes, 2..2);
    }
}
