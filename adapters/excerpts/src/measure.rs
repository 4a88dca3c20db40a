//! Measures an output: its kind, its size, and the id of its artifact.

use sha2::{Digest, Sha256};

use super::classify::{self, Classifier};
use crate::{CodexHeader, OutputKind, codex_header};

/// Bytes that are read at once. They fit into the first-level cache of a processor, as
/// each block is read several times.
const BLOCK_BYTES: usize = 32 * 1024;

/// The kind and the sizes of an output. Made by [`measure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputMeasure {
    /// The kind of output.
    pub kind: OutputKind,
    /// Its length in Unicode scalar values.
    pub chars: usize,
    /// Its number of lines, including a last line without a line end.
    pub lines: usize,
    /// Its length in bytes of UTF-8.
    pub bytes: usize,
    /// Its artifact id: `art_` and the first 32 hexadecimal digits of the SHA-256 of the
    /// text.
    pub id: String,
    /// The lines that Codex wrote above it.
    pub header: CodexHeader,
}

/// The characters of `…N tokens truncated…`, however large N is.
const CUT_MARK_CHARS: usize = 40;

impl OutputMeasure {
    /// The characters of the output itself, without those that Codex added: the header
    /// and the mark where it cut the output.
    pub fn chars_without_header(&self) -> usize {
        let mark = if self.header.cut { CUT_MARK_CHARS } else { 0 };
        self.chars.saturating_sub(self.header.chars + mark)
    }
}

/// Measures a text block by block, in one pass and without copying it.
pub fn measure(text: &str) -> OutputMeasure {
    read_blocks(text, &|| false)
}

/// As [`measure`]; `None` if the work has to stop before the end of the text. `stop` is asked for
/// each block of the text.
pub fn measure_until(text: &str, stop: &dyn Fn() -> bool) -> Option<OutputMeasure> {
    let measure = read_blocks(text, stop);
    (!stop()).then_some(measure)
}

/// Measures a text, or its beginning if the work is stopped.
fn read_blocks(text: &str, stop: &dyn Fn() -> bool) -> OutputMeasure {
    let header = codex_header::parse(text);
    let (head, body) = text.split_at_checked(header.bytes).unwrap_or_default();
    let (head, mut rest) = (head.as_bytes(), body.as_bytes());
    let mut hash = Sha256::new_with_prefix(head);
    let mut newlines = memchr::memchr_iter(b'\n', head).count();
    let is_json = classify::is_json(body, header.total_lines.is_some());
    let mut classifier = Classifier::default();
    let mut chars = header.chars;
    while !rest.is_empty() {
        if stop() {
            break;
        }
        let (block, tail) = rest
            .split_at_checked(block_len(rest))
            .unwrap_or((rest, &[]));
        hash.update(block);
        // Every byte but the continuation bytes of UTF-8 begins a character.
        chars += classify::count_bytes(block, |byte| byte & 0xc0 != 0x80);
        newlines += memchr::memchr_iter(b'\n', block).count();
        if !is_json {
            classifier.feed(block);
        }
        rest = tail;
    }
    let has_open_line = !text.is_empty() && !text.ends_with('\n');
    let kind = if is_json {
        OutputKind::Json
    } else {
        classifier.kind()
    };
    OutputMeasure {
        kind,
        chars,
        lines: newlines + usize::from(has_open_line),
        bytes: text.len(),
        id: format_id(&hash.finalize()),
        header,
    }
}

/// The length of the next block. It ends at a line end, unless it has none.
fn block_len(rest: &[u8]) -> usize {
    let longest = rest.get(..BLOCK_BYTES).unwrap_or(rest);
    if longest.len() == rest.len() {
        return rest.len();
    }
    memchr::memrchr(b'\n', longest).map_or(longest.len(), |end| end + 1)
}

/// The artifact id of a text: `art_` and the first 32 hexadecimal digits of its SHA-256.
pub fn artifact_id(text: &str) -> String {
    format_id(&Sha256::digest(text.as_bytes()))
}

fn format_id(hash: &[u8]) -> String {
    let first = hash.first_chunk().copied().unwrap_or_default();
    format!("art_{:032x}", u128::from_be_bytes(first))
}
