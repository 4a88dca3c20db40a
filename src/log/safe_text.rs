//! Text from outside on one line of a log or a terminal. It can neither forge a record nor send
//! escape sequences.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Displays a text from outside, cut after a number of characters. Whatever could end the line,
/// move the cursor or change the direction of the text is escaped.
#[derive(Debug, Clone, Copy)]
pub struct SafeText<'a> {
    text: &'a str,
    max_chars: usize,
}

impl<'a> SafeText<'a> {
    /// Displays at most 200 characters of the text.
    pub fn new(text: &'a str) -> Self {
        Self::up_to(text, 200)
    }

    /// Displays at most `max_chars` characters of the text.
    pub fn up_to(text: &'a str, max_chars: usize) -> Self {
        Self { text, max_chars }
    }
}

impl fmt::Display for SafeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, is_cut) = match self.text.char_indices().nth(self.max_chars) {
            Some((end, _)) => (self.text.get(..end).unwrap_or_default(), true),
            None => (self.text, false),
        };
        if shown.contains(is_risky) {
            for character in shown.chars() {
                escape(character, f)?;
            }
        } else {
            f.write_str(shown)?;
        }
        if is_cut { f.write_char('…') } else { Ok(()) }
    }
}

/// Escapes a text of several lines for a terminal. Line ends and tabs stay as they are.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| is_risky(character) && character != '\n' && character != '\t') {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => escaped.push(character),
            '\r' if characters.peek() == Some(&'\n') => escaped.push(character),
            // Writing to a string cannot fail.
            character => escape(character, &mut escaped).unwrap_or_default(),
        }
    }
    escaped.into()
}

/// A writer that takes one whole record per call and escapes everything in it but the newline at
/// its end.
///
/// The escapes are those of JSON, so a record in JSON stays valid JSON.
#[derive(Debug)]
pub(super) struct SafeWriter<W>(pub(super) W);

impl<W: Write> Write for SafeWriter<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let (text, end) = text
            .strip_suffix('\n')
            .map_or((&*text, ""), |text| (text, "\n"));
        if !end.is_empty() && !text.contains(is_risky) {
            self.0.write_all(record)?;
            return Ok(record.len());
        }
        let mut line = String::with_capacity(text.len() + 16);
        for character in text.chars() {
            escape(character, &mut line).map_err(io::Error::other)?;
        }
        line.push_str(end);
        self.0.write_all(line.as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn escape(character: char, to: &mut impl fmt::Write) -> fmt::Result {
    match character {
        '\n' => to.write_str("\\n"),
        '\r' => to.write_str("\\r"),
        '\t' => to.write_str("\\t"),
        risky if is_risky(risky) => write!(to, "\\u{:04x}", u32::from(risky)),
        plain => to.write_char(plain),
    }
}

/// Control characters (C0 and C1), line separators, and marks that change the direction of text.
/// All are in the basic multilingual plane, so four hexadecimal digits are enough to escape them.
fn is_risky(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{061c}'
                | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{SafeText, SafeWriter};

    #[test]
    fn a_value_stays_on_its_line() {
        let forged = "gpt\r\n2026-01-01 INFO all is well\x1b[2J\u{9b}31m\u{202e}\u{2028}\0";
        let shown = SafeText::new(forged).to_string();
        assert_eq!(
            shown,
            r"gpt\r\n2026-01-01 INFO all is well\u001b[2J\u009b31m\u202e\u2028\u0000"
        );
        assert_eq!(
            SafeText::new("Zwölf Boxkämpfer 箱").to_string(),
            "Zwölf Boxkämpfer 箱"
        );
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(SafeText::up_to("äöü", 2).to_string(), "äö…");
        assert_eq!(SafeText::up_to("äöü", 3).to_string(), "äöü");
    }

    #[test]
    fn a_record_is_one_line_and_json_stays_json() {
        let mut out = SafeWriter(Vec::new());
        out.write_all(b"{\"m\":\"a\x7fb\xc2\x9b\"}\n").unwrap();
        out.write_all(b"plain\n").unwrap();
        out.write_all(b"one\ntwo\x1b[31m\n").unwrap();
        let text = String::from_utf8(out.0).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [r#"{"m":"a\u007fb\u009b"}"#, "plain", r"one\ntwo\u001b[31m"]
        );
        let value: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(value["m"], "a\u{7f}b\u{9b}");
    }
}
