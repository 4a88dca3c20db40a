//! Whether the arguments of a call are whole, found out while they arrive. Every byte is read once:
//! the arguments are parsed only where their brackets are closed.

use serde::de::IgnoredAny;

use crate::json;

/// How far the arguments of one call were read, and what was found. Made with the call; the text
/// may only grow.
#[derive(Debug, Default)]
pub(crate) struct ArgumentsScan {
    /// The bytes of the escaped text that were read.
    scanned: usize,
    /// Open arrays and objects.
    depth: usize,
    in_string: bool,
    /// A backslash in a string precedes the next character.
    escaped: bool,
    /// The first byte that is not white space.
    first: Option<u8>,
    /// More than white space came after the verdict.
    is_unjudged: bool,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    /// More may make them whole.
    #[default]
    Open,
    Whole,
    /// Nothing makes them JSON any more.
    Broken,
}

impl ArgumentsScan {
    /// Whether the arguments are one JSON document. `escaped` are all of them so far, as the content
    /// of a JSON string.
    pub(crate) fn is_whole(&mut self, escaped: &str) -> bool {
        self.read(escaped);
        let is_new = std::mem::take(&mut self.is_unjudged) && self.verdict != Verdict::Broken;
        if is_new {
            // A number may go on; behind anything else there is no second value.
            self.verdict = Verdict::Open;
        }
        if is_new && self.depth == 0 && !self.in_string {
            self.verdict = match serde_json::from_str::<IgnoredAny>(&json::unescape(escaped)) {
                Ok(_) => Verdict::Whole,
                Err(error) if error.is_eof() => Verdict::Open,
                Err(_) => Verdict::Broken,
            };
        }
        self.verdict == Verdict::Whole
    }

    /// Whether they begin like an object.
    pub(crate) fn is_object(&self) -> bool {
        self.first == Some(b'{')
    }

    /// Whether there is only white space so far.
    pub(crate) fn is_blank(&mut self, escaped: &str) -> bool {
        self.read(escaped);
        self.first.is_none()
    }

    /// Reads what is new.
    fn read(&mut self, escaped: &str) {
        let mut rest = escaped.as_bytes().get(self.scanned..).unwrap_or_default();
        self.scanned = escaped.len();
        if self.verdict == Verdict::Broken {
            return;
        }
        while let Some((byte, after)) = next_byte(rest) {
            rest = after;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                self.is_unjudged = true;
                self.first.get_or_insert(byte);
            }
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// The first byte of the text that these bytes escape, and the rest. What is not ASCII is any other
/// byte, because JSON has such characters in strings alone.
fn next_byte(escaped: &[u8]) -> Option<(u8, &[u8])> {
    let (&first, rest) = escaped.split_first()?;
    if first != b'\\' {
        return Some((first, rest));
    }
    let (&letter, rest) = rest.split_first()?;
    Some(match letter {
        b'n' => (b'\n', rest),
        b'r' => (b'\r', rest),
        b't' => (b'\t', rest),
        b'u' => {
            let digits = rest
                .get(..4)
                .and_then(|digits| std::str::from_utf8(digits).ok());
            let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            let byte = unit.and_then(|unit| u8::try_from(unit).ok());
            let ascii = byte.filter(u8::is_ascii).unwrap_or(0x80);
            (ascii, rest.get(4..).unwrap_or_default())
        }
        other => (other, rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After which of its pieces a text is whole: `+` for each piece after which it is.
    fn verdicts(pieces: &[&str]) -> String {
        let (mut scan, mut text) = (ArgumentsScan::default(), String::new());
        let verdict = |piece: &&str| {
            text.push_str(&json::escape(piece));
            if scan.is_whole(&text) { '+' } else { '-' }
        };
        pieces.iter().map(verdict).collect()
    }

    #[test]
    fn r5_arguments_are_whole_at_their_last_bracket() {
        for (pieces, expected) in [
            (&[" \n", "{", "\"a\\\"}", "\":1", "}", " \n"][..], "----++"),
            (&["{}", " ", "x", "}"], "++--"),
            (&["{\"a\":\"}\"", "]", "}"], "---"),
            (&["[", "[", "]", "]"], "---+"),
            (&["tr", "ue"], "-+"),
            (&["1", "2", "x", "5"], "++--"),
            (&["\"漢}", "\""], "-+"),
            (&["{]", "}"], "--"),
            (&["", "", "{}"], "--+"),
        ] {
            assert_eq!(verdicts(pieces), expected, "{pieces:?}");
        }
        let mut scan = ArgumentsScan::default();
        assert!(scan.is_whole(r"\u007b\u0022a\u0022:\u00221\u005c\u0022}\u0022\u007d"));
    }
}
