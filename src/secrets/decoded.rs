//! Undoes one encoding of a text, wherever it occurs in the text, and remembers where each
//! decoded byte comes from.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use memchr::memchr;

/// Shorter runs of base64 or hexadecimal characters are not decoded.
const MIN_RUN: usize = 8;
/// A base64 line of at least this many characters may continue in the next line.
const MIN_WRAPPED_LINE: usize = 60;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// An encoding in which a text may hold a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// The escapes of a JSON string.
    Json,
    /// The character references of HTML.
    Html,
    Percent,
    /// Runs of characters of either base64 alphabet. The encoded text may begin anywhere in a
    /// word, so this many characters at the beginning of each run are skipped.
    Base64(usize),
    /// Runs of hexadecimal digits, without the first ones: this many are skipped.
    Hex(usize),
}

/// A text after one encoding was undone.
pub(super) struct Decoded {
    /// The decoded bytes. Runs are separated by zero bytes, and what is between them is left
    /// out; text between escapes stays.
    pub(super) bytes: Vec<u8>,
    /// Where the bytes come from, in increasing order.
    sections: Vec<Section>,
    /// The number of characters of the text that encode `per_bytes` bytes, within a section.
    chars: usize,
    /// The number of bytes that `chars` characters of the text encode.
    per_bytes: usize,
}

/// The bytes from `at` to the next section come from the text at `from`.
struct Section {
    at: u32,
    from: u32,
}

/// Decodes an escape at the beginning of a text: its byte and the length of the escape.
type DecodeEscape = fn(&[u8]) -> Option<(u8, usize)>;

impl Decoded {
    /// Decodes `text`; `None` if nothing in it has this encoding, or if it is beyond 4 GiB.
    pub(super) fn of(text: &[u8], encoding: Encoding) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        let (chars, per_bytes) = match encoding {
            Encoding::Json | Encoding::Html | Encoding::Percent => (1, 1),
            Encoding::Base64(_) => (4, 3),
            Encoding::Hex(_) => (2, 1),
        };
        let mut decoded = Self {
            bytes: Vec::new(),
            sections: Vec::new(),
            chars,
            per_bytes,
        };
        match encoding {
            Encoding::Json => decoded.escapes(text, b'\\', json_escape),
            Encoding::Html => decoded.escapes(text, b'&', html_escape),
            Encoding::Percent => decoded.escapes(text, b'%', percent_escape),
            Encoding::Base64(skip) => {
                let to_standard = |byte: &u8| match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => *other,
                };
                let text: Vec<u8> = text.iter().map(to_standard).collect();
                decoded.runs(&text, skip, is_base64, decode_base64);
            }
            Encoding::Hex(skip) => decoded.runs(text, skip, is_hex, decode_hex),
        }
        (!decoded.sections.is_empty()).then_some(decoded)
    }

    /// The smallest range of the text that holds all of a range of the decoded bytes.
    pub(super) fn source(&self, part: Range<usize>) -> Range<usize> {
        let chars_before = |at: usize, round_up: bool| {
            let after = self.sections.partition_point(|one| one.at as usize <= at);
            let Some(section) = after.checked_sub(1).and_then(|at| self.sections.get(at)) else {
                return at;
            };
            let chars = (at - section.at as usize) * self.chars;
            let chars = if round_up {
                chars.div_ceil(self.per_bytes)
            } else {
                chars / self.per_bytes
            };
            section.from as usize + chars
        };
        chars_before(part.start, false)..chars_before(part.end, true)
    }

    /// The next byte comes from the text at `from`.
    fn section(&mut self, from: usize) {
        if let (Ok(at), Ok(from)) = (u32::try_from(self.bytes.len()), u32::try_from(from)) {
            self.sections.push(Section { at, from });
        }
    }

    fn escapes(&mut self, text: &[u8], sign: u8, decode: DecodeEscape) {
        let (mut done, mut at) = (0, 0);
        while let Some(next) = text.get(at..).and_then(|rest| memchr(sign, rest)) {
            at += next;
            let Some((byte, length)) = text.get(at..).and_then(decode) else {
                at += 1;
                continue;
            };
            self.bytes
                .extend_from_slice(text.get(done..at).unwrap_or_default());
            self.bytes.push(byte);
            at += length;
            done = at;
            self.section(at);
        }
        if done > 0 {
            self.bytes
                .extend_from_slice(text.get(done..).unwrap_or_default());
        }
    }

    fn runs(
        &mut self,
        text: &[u8],
        skip: usize,
        fits: fn(u8) -> bool,
        decode: fn(&[u8], &mut Vec<u8>),
    ) {
        let mut at = 0;
        let mut continues = false;
        while let Some(next) = text
            .get(at..)
            .and_then(|rest| rest.iter().position(|byte| fits(*byte)))
        {
            let start = at + next;
            let rest = text.get(start..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| fits(**byte)).count();
            at = start + length;
            if !continues && length < MIN_RUN {
                continue;
            }
            let skip = if continues { 0 } else { skip };
            self.section(start + skip);
            decode(rest.get(skip..length).unwrap_or_default(), &mut self.bytes);
            let end = text.get(at..).unwrap_or_default();
            let next_line = end.strip_prefix(b"\r\n").or(end.strip_prefix(b"\n"));
            // Hexadecimal digits are not wrapped in practice.
            continues = self.per_bytes == 3
                && length >= MIN_WRAPPED_LINE
                && (length - skip).is_multiple_of(4)
                && next_line
                    .and_then(<[u8]>::first)
                    .is_some_and(|byte| fits(*byte));
            if !continues {
                self.bytes.push(0);
            }
        }
    }
}

/// The byte that a JSON escape encodes, and the length of the escape. A character beyond ASCII
/// becomes byte 255, which no UTF-8 text contains.
fn json_escape(text: &[u8]) -> Option<(u8, usize)> {
    let byte = match text.get(1)? {
        sign @ (b'"' | b'\\' | b'/') => *sign,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let code = hex_value(text.get(2..6)?)?;
            let ascii = u8::try_from(code).ok().filter(u8::is_ascii);
            return Some((ascii.unwrap_or(u8::MAX), 6));
        }
        _ => return None,
    };
    Some((byte, 2))
}

/// The names that HTML has for characters of keys, and for those that may be around them.
const HTML_NAMES: [(&[u8], u8); 28] = [
    (b"amp", b'&'),
    (b"AMP", b'&'),
    (b"lt", b'<'),
    (b"gt", b'>'),
    (b"quot", b'"'),
    (b"QUOT", b'"'),
    (b"apos", b'\''),
    (b"sol", b'/'),
    (b"bsol", b'\\'),
    (b"plus", b'+'),
    (b"equals", b'='),
    (b"lowbar", b'_'),
    (b"UnderBar", b'_'),
    (b"period", b'.'),
    (b"comma", b','),
    (b"colon", b':'),
    (b"semi", b';'),
    (b"commat", b'@'),
    (b"num", b'#'),
    (b"percnt", b'%'),
    (b"dollar", b'$'),
    (b"ast", b'*'),
    (b"excl", b'!'),
    (b"quest", b'?'),
    (b"lpar", b'('),
    (b"rpar", b')'),
    (b"nbsp", b' '),
    (b"Tab", b'\t'),
];

/// The longest character reference that is read, for the zeros that may come before a number.
const MAX_HTML_REFERENCE: usize = 16;

/// The byte that a character reference encodes, and its length. A character beyond ASCII becomes
/// byte 255, as in [`json_escape`]. Browsers read numbers without the semicolon, too.
fn html_escape(text: &[u8]) -> Option<(u8, usize)> {
    let text = text.get(1..text.len().min(MAX_HTML_REFERENCE))?;
    let Some(number) = text.strip_prefix(b"#") else {
        let end = text.iter().position(|byte| *byte == b';')?;
        let name = text.get(..end)?;
        let (_, byte) = HTML_NAMES.iter().find(|(known, _)| *known == name)?;
        return Some((*byte, 1 + end + 1));
    };
    let (sign, radix) = match number.first()? {
        b'x' | b'X' => (1, 16),
        _ => (0, 10),
    };
    let digits = number.get(sign..)?;
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let count = digits.iter().take_while(is_digit).count();
    let code = digits.get(..count)?.iter().try_fold(0_u32, |code, digit| {
        let digit = char::from(*digit).to_digit(radix)?;
        Some(code.saturating_mul(radix).saturating_add(digit))
    })?;
    let semicolon = usize::from(digits.get(count) == Some(&b';'));
    let ascii = u8::try_from(code).ok().filter(u8::is_ascii);
    (count > 0).then_some((ascii.unwrap_or(u8::MAX), 2 + sign + count + semicolon))
}

fn percent_escape(text: &[u8]) -> Option<(u8, usize)> {
    let byte = hex_value(text.get(1..3)?)?;
    Some((u8::try_from(byte).ok()?, 3))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

fn decode_base64(run: &[u8], bytes: &mut Vec<u8>) {
    // A single character behind the last whole group encodes no byte.
    let length = run.len() - usize::from(run.len() % 4 == 1);
    // Fails for other characters only, which a run does not contain.
    let _ = BASE64.decode_vec(run.get(..length).unwrap_or_default(), bytes);
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn decode_hex(run: &[u8], bytes: &mut Vec<u8>) {
    let values = run.chunks_exact(2).filter_map(hex_value);
    bytes.extend(values.filter_map(|value| u8::try_from(value).ok()));
}

/// The value of up to eight hexadecimal digits.
fn hex_value(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        Some(value * 16 + char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, encoding: Encoding, sought: &str) -> String {
        let decoded = Decoded::of(text.as_bytes(), encoding).unwrap();
        let at = memchr::memmem::find(&decoded.bytes, sought.as_bytes()).unwrap();
        text.get(decoded.source(at..at + sought.len()))
            .unwrap()
            .to_owned()
    }

    #[test]
    fn what_is_found_decoded_is_found_in_the_text() {
        for (text, encoding, sought, found) in [
            (r"a\u0073k\/1\n", Encoding::Json, "sk/1", r"\u0073k\/1"),
            (r"a\nsk-1 \q", Encoding::Json, "sk-1", "sk-1"),
            ("%41%73k-1%2", Encoding::Percent, "sk-1", "%73k-1"),
            (
                "a&#x73;k&#0045;1&amp;b&c",
                Encoding::Html,
                "sk-1&b",
                "&#x73;k&#0045;1&amp;b",
            ),
            ("&#115k&#x2D1&#8364;", Encoding::Html, "k", "k"),
            ("&sol;&#47&plus;", Encoding::Html, "//+", "&sol;&#47&plus;"),
            ("x 00736b2d31 y", Encoding::Hex(0), "sk-1", "736b2d31"),
            ("x 0736b2d310 y", Encoding::Hex(1), "sk-1", "736b2d31"),
        ] {
            assert_eq!(source(text, encoding, sought), found, "{text}");
        }
        assert!(Decoded::of(b"no escape, no run", Encoding::Json).is_none());
        assert!(Decoded::of(b"a && b &c; &#; &#x; &#x", Encoding::Html).is_none());
        assert!(Decoded::of(b"no escape, no run", Encoding::Base64(0)).is_none());
    }

    #[test]
    fn base64_is_decoded_wherever_it_begins() {
        for lead in 0..3 {
            for skip in 0..4 {
                let encoded = BASE64.encode(format!("{}one two three", "~".repeat(lead)));
                let encoded = encoded.trim_end_matches('=');
                let text = format!("say {}{encoded} at last", "xyz".get(..skip).unwrap());
                let found = source(&text, Encoding::Base64(skip), "two");
                let at = encoded.find(&found).unwrap();
                assert_eq!(at, (lead + 4) * 8 / 6, "{text}");
                assert_eq!(found.len(), ((lead + 7) * 8).div_ceil(6) - at, "{text}");
            }
        }
    }

    #[test]
    fn wrapped_base64_is_one_text() {
        let encoded = BASE64.encode("one two three four five six seven eight nine ten eleven");
        let (line, rest) = encoded.split_at_checked(60).unwrap();
        let text = format!("{line}\r\n{rest}");
        assert_eq!(source(&text, Encoding::Base64(0), "nine").len(), 6);
        let decoded = Decoded::of(text.as_bytes(), Encoding::Base64(0)).unwrap();
        assert!(memchr::memmem::find(&decoded.bytes, b"ten eleven").is_some());
    }
}
