//! What an output is, how large, and under which id it is kept.

use sha2::{Digest, Sha256};

use super::kind::{self, Scan};
use super::{Header, OutputKind, header};

/// Bytes that are read at once: they stay in the nearest cache.
const BLOCK: usize = 32 * 1024;

/// All that is known of an output before anything of it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// What it is.
    pub kind: OutputKind,
    /// Unicode scalar values.
    pub chars: usize,
    /// Lines, the last one with or without its end.
    pub lines: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    /// `art_` and 32 hexadecimal digits of the SHA-256 of the text.
    pub id: String,
    /// What its first lines say.
    pub header: Header,
}

/// `…N tokens truncated…`, however large N is.
const CUT_MARK: usize = 40;

impl Measure {
    /// The characters that count against a limit: those that Codex writes above an
    /// output, and where it cut it, do not.
    pub fn counted(&self) -> usize {
        let mark = if self.header.cut { CUT_MARK } else { 0 };
        self.chars.saturating_sub(self.header.chars + mark)
    }
}

/// Measures a text in one pass over it. Linear, and nothing is copied.
pub fn measure(text: &str) -> Measure {
    let header = header::read(text);
    let (head, mut rest) = text
        .as_bytes()
        .split_at_checked(header.bytes)
        .unwrap_or_default();
    let mut hash = Sha256::new_with_prefix(head);
    let mut chars = header.chars;
    let mut newlines = memchr::memchr_iter(b'\n', head).count();
    let mut scan = Scan::default();
    while !rest.is_empty() {
        let (block, tail) = rest.split_at_checked(block(rest)).unwrap_or((rest, &[]));
        hash.update(block);
        // All but the bytes that go on with a character.
        chars += kind::count(block, |byte| byte & 0xc0 != 0x80);
        newlines += memchr::memchr_iter(b'\n', block).count();
        scan.feed(block);
        rest = tail;
    }
    let open = !text.is_empty() && !text.ends_with('\n');
    Measure {
        kind: scan.kind(header.total_lines.is_some()),
        chars,
        lines: newlines + usize::from(open),
        bytes: text.len(),
        id: named(&hash.finalize()),
        header,
    }
}

/// How much is read at once: to a line end, unless a line is longer than a block.
fn block(rest: &[u8]) -> usize {
    let most = rest.get(..BLOCK).unwrap_or(rest);
    if most.len() == rest.len() {
        return rest.len();
    }
    memchr::memrchr(b'\n', most).map_or(most.len(), |end| end + 1)
}

/// The artifact id of a text.
pub fn id(text: &str) -> String {
    named(&Sha256::digest(text.as_bytes()))
}

fn named(hash: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = String::with_capacity(36);
    id.push_str("art_");
    for byte in hash.iter().take(16) {
        for half in [byte >> 4, byte & 15] {
            id.push(char::from(
                DIGITS.get(usize::from(half)).copied().unwrap_or(b'0'),
            ));
        }
    }
    id
}
