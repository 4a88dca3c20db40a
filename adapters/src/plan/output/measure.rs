//! What an output is, how large, and under which id it is kept.

use sha2::{Digest, Sha256};

use super::{Header, OutputKind, header, kind};

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

impl Measure {
    /// The characters that count against a limit: those of the header do not.
    pub fn counted(&self) -> usize {
        self.chars.saturating_sub(self.header.chars)
    }
}

/// Measures a text. Linear, and nothing is copied.
pub fn measure(text: &str) -> Measure {
    let header = header::read(text);
    let body = text.get(header.bytes..).unwrap_or(text);
    let newlines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let open = !text.is_empty() && !text.ends_with('\n');
    Measure {
        kind: kind::of(body),
        chars: text.chars().count(),
        lines: newlines + usize::from(open),
        bytes: text.len(),
        id: id(text),
        header,
    }
}

/// The artifact id of a text.
pub fn id(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hash = Sha256::digest(text.as_bytes());
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
