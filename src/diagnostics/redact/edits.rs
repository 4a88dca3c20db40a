//! Replacements of parts of a text.

use std::ops::Range;

use crate::diagnostics::bundle::BodyChunk;

/// Replaces a range of bytes. An edit that changes nothing keeps others away from its range.
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) with: Vec<u8>,
}

/// The edits of one text, sorted and without overlaps.
pub(super) struct Edits(Vec<Edit>);

impl Edits {
    /// Of edits that overlap, the one that begins first counts, or the longer one.
    pub(super) fn new(mut edits: Vec<Edit>) -> Self {
        edits.sort_by_key(|edit| (edit.range.start, usize::MAX - edit.range.end));
        let mut end = 0;
        edits.retain(|edit| {
            let is_free = edit.range.start >= end;
            if is_free {
                end = edit.range.end;
            }
            is_free
        });
        Self(edits)
    }

    pub(super) fn into_list(self) -> Vec<Edit> {
        self.0
    }

    /// The text with all edits.
    pub(super) fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut edited = Vec::with_capacity(text.len());
        let mut done = 0;
        for Edit { range, with } in &self.0 {
            edited.extend_from_slice(text.get(done..range.start).unwrap_or_default());
            edited.extend_from_slice(with);
            done = range.end;
        }
        edited.extend_from_slice(text.get(done..).unwrap_or_default());
        edited
    }

    /// Corrects the lengths of the chunks in which the text came. A border within a replaced range
    /// stays within its replacement or moves to its end; an empty chunk is removed.
    pub(super) fn move_borders(&self, chunks: &mut Vec<BodyChunk>) {
        let mut edits = self.0.iter().peekable();
        let (mut at, mut grown, mut shrunk, mut done) = (0, 0, 0, 0);
        chunks.retain_mut(|chunk| {
            let was_empty = chunk.length == 0;
            at += chunk.length;
            while let Some(edit) = edits.next_if(|edit| edit.range.end <= at) {
                grown += edit.with.len();
                shrunk += edit.range.len();
            }
            let cut = edits.peek().filter(|edit| edit.range.start < at);
            let cut_off = cut.map_or(0, |edit| {
                let within = at - edit.range.start;
                within.saturating_sub(edit.with.len())
            });
            let end = at + grown - shrunk - cut_off;
            chunk.length = end - done;
            done = end;
            was_empty || chunk.length > 0
        });
    }

    /// The parts of sorted ranges that are not edited.
    pub(super) fn without_edited(&self, ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if self.0.is_empty() {
            return ranges;
        }
        let mut left = Vec::new();
        for range in ranges {
            let first = self.0.partition_point(|edit| edit.range.end <= range.start);
            let mut start = range.start;
            let edits = self.0.iter().skip(first).map(|edit| &edit.range);
            for edited in edits.take_while(|edited| edited.start < range.end) {
                if start < edited.start {
                    left.push(start..edited.start);
                }
                start = edited.end;
            }
            if start < range.end {
                left.push(start..range.end);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits() -> Edits {
        let edit = |range, with: &str| Edit {
            range,
            with: with.into(),
        };
        Edits::new(vec![
            edit(7..9, ""),
            edit(2..5, "xyxyxy"),
            edit(3..4, "?"),
            edit(5..6, "-"),
        ])
    }

    #[test]
    fn only_what_is_edited_changes() {
        assert_eq!(edits().apply(b"0123456789"), b"01xyxyxy-69");
        assert_eq!(
            edits().without_edited(vec![0..3, 4..7, 8..10]),
            [0..2, 6..7, 9..10]
        );
    }

    #[test]
    fn chunks_are_as_long_as_the_text() {
        for cuts in 0_usize..1 << 9 {
            let ends = (1..=10).filter(|end| *end == 10 || cuts >> (end - 1) & 1 == 1);
            let mut chunks = Vec::new();
            let mut start = 0;
            for end in ends {
                let length = end - start;
                chunks.push(BodyChunk { at_us: 0, length });
                start = end;
            }
            edits().move_borders(&mut chunks);
            let total: usize = chunks.iter().map(|chunk| chunk.length).sum();
            assert_eq!(total, 11, "{cuts:b}");
            assert!(chunks.iter().all(|chunk| chunk.length > 0), "{cuts:b}");
        }
    }
}
