//! Placeholders for secrets: text of the same length, with a few letters of a hash
//! that distinguish one secret from another.

use sha2::{Digest, Sha256};

/// Padding byte; not a hex digit, so a placeholder never parses as a number. The
/// same holds for [`LETTERS`].
const PAD: u8 = b'x';
/// The letters that encode the hash, four bits each.
const LETTERS: &[u8; 16] = b"ghijklmnopqrstuv";
/// Number of hash letters: two bytes of a keyed hash distinguish the secrets of one
/// turn and reveal nothing about a secret of reasonable length.
const TELLING: usize = 4;

/// Makes placeholders. The hash is keyed with all known secrets, so that a short
/// secret cannot be found by brute force.
pub(super) struct Filler {
    key: [u8; 32],
}

impl Filler {
    /// A generator for a configuration with these secrets.
    pub(super) fn new<'s>(secrets: impl Iterator<Item = &'s str>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"filler");
        for secret in secrets {
            hash.update(Sha256::digest(secret.as_bytes()));
        }
        Self {
            key: hash.finalize().into(),
        }
    }

    /// The bytes of the placeholder for a secret, as an endless iterator.
    pub(super) fn of(&self, secret: &[u8]) -> impl Iterator<Item = u8> {
        let mut hash = Sha256::new();
        hash.update(self.key);
        // White space is left out of the hash: text extracted from HTML has other
        // white space than the page.
        for word in secret.split(u8::is_ascii_whitespace) {
            hash.update(word);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let size = secret.iter().filter(|byte| !is_kept(**byte)).count();
        let letters = hash.into_iter().take(TELLING.min(size / 4)).map(|byte| {
            let letter = LETTERS.get(usize::from(byte & 15));
            letter.copied().unwrap_or(PAD)
        });
        letters.chain(std::iter::repeat(PAD))
    }
}

/// Bytes never replaced: their JSON escape has another length, or normalisation
/// turns them into a space.
pub(super) fn is_kept(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b' ' | 8 | 9 | 10 | 12 | 13)
}

/// Whether a text consists of placeholders already.
pub(super) fn is_filler(text: &[u8]) -> bool {
    let (mut size, mut pads, mut letters, mut row) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut rows = true;
    for byte in text.iter().filter(|byte| !is_kept(**byte)) {
        size += 1;
        if *byte == PAD {
            pads += 1;
            row += 1;
        } else if LETTERS.contains(byte) {
            if row > 0 {
                rows &= row > 2;
                (letters, row) = (0, 0);
            }
            letters += 1;
            rows &= letters <= TELLING;
        } else {
            return false;
        }
    }
    pads * 4 >= size * 3 || rows && row > 2
}

/// A placeholder for opaque contents that still decodes as base64: `sha256/` and the
/// hex digits of the content's hash, as far as they fit. `None` if the content is such
/// a placeholder already.
pub(super) fn by_hash(content: &[u8]) -> Option<Vec<u8>> {
    if is_hash(content) {
        return None;
    }
    let padding = content
        .iter()
        .rev()
        .take_while(|byte| **byte == b'=')
        .count();
    let size = content.len() - padding;
    let mut filler = b"sha256/".to_vec();
    for byte in Sha256::digest(content) {
        filler.extend(format!("{byte:02x}").bytes());
    }
    // `A` as the last character: its unused low bits must be zero.
    filler.truncate(size.saturating_sub(1));
    filler.resize(size, b'A');
    filler.resize(content.len(), b'=');
    Some(filler)
}

fn is_hash(content: &[u8]) -> bool {
    let head = b"sha256/";
    let size = content.iter().take_while(|byte| **byte != b'=').count();
    let text = content.get(..size).unwrap_or_default();
    let digits = match text.strip_prefix(head) {
        Some(rest) => rest,
        None if size > head.len() + 1 => return false,
        None => return head.iter().zip(text).all(|(a, b)| a == b || *b == b'A'),
    };
    let hash = digits.iter().take(64);
    let hash = hash
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        .count();
    digits.iter().skip(hash).all(|byte| *byte == b'A') && (hash == 64 || hash + 1 >= digits.len())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn fill(secret: &str) -> String {
        let filler = Filler::new(["key"].into_iter());
        let bytes = filler.of(secret.as_bytes()).take(secret.len()).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn placeholders_are_recognised() {
        for secret in [
            "a",
            "abcd",
            "abcdef",
            "hunter22",
            "sk-0123456789abcdef",
            "sk-0123456789abcdeg",
        ] {
            let filler = fill(secret);
            assert!(is_filler(filler.as_bytes()), "{filler}");
            assert!(is_filler(
                format!("{filler}{}", fill("sk-other-0123456789")).as_bytes()
            ));
            assert!(!is_filler(secret.as_bytes()), "{secret}");
        }
        assert_ne!(fill("sk-0123456789abcdef"), fill("sk-0123456789abcdeg"));
        for word in ["linux", "unix", "ghost", "hinxxunix"] {
            assert!(!is_filler(word.as_bytes()), "{word}");
        }
    }

    #[test]
    fn opaque_contents_stay_base64() {
        for content in ["QQ==", "c2lnbmVk", "aGVsbG8gd29ybGQ=", &"QUJD".repeat(40)] {
            let filler = by_hash(content.as_bytes()).unwrap();
            assert_eq!(filler.len(), content.len());
            assert!(by_hash(&filler).is_none(), "{content}");
            STANDARD.decode(&filler).unwrap();
        }
    }
}
