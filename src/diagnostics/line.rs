//! One record, one line: text from outside cannot forge records or drive a
//! terminal.
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Shows a text with everything escaped that could end a line, move a cursor or
/// reorder what is read, and cut after a number of characters.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    text: &'a str,
    longest: usize,
}

impl<'a> Line<'a> {
    /// At most 200 characters of this text.
    pub fn new(text: &'a str) -> Self {
        Self::up_to(text, 200)
    }

    /// At most `longest` characters of this text.
    pub fn up_to(text: &'a str, longest: usize) -> Self {
        Self { text, longest }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.text.chars();
        for character in characters.by_ref().take(self.longest) {
            escape(character, f)?;
        }
        if characters.next().is_some() {
            f.write_char('…')
        } else {
            Ok(())
        }
    }
}

/// A writer that takes whole records and escapes each, but for its last newline.
///
/// It holds for every record, whatever its fields are made of. The escapes are
/// those of JSON, so a JSON record stays one.
#[derive(Debug)]
pub struct OneLine<W>(
    /// Where the records go.
    pub W,
);

impl<W: Write> Write for OneLine<W> {
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

/// Control characters of both sets, line separators, and marks that change the
/// direction of text. All lie in the basic plane, so four digits name them.
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

    use super::{Line, OneLine};

    // S44
    #[test]
    fn a_value_stays_on_its_line() {
        let forged = "gpt\r\n2026-01-01 INFO all is well\x1b[2J\u{9b}31m\u{202e}\u{2028}\0";
        let shown = Line::new(forged).to_string();
        assert_eq!(
            shown,
            r"gpt\r\n2026-01-01 INFO all is well\u001b[2J\u009b31m\u202e\u2028\u0000"
        );
        assert_eq!(
            Line::new("Zwölf Boxkämpfer 箱").to_string(),
            "Zwölf Boxkämpfer 箱"
        );
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(Line::up_to("äöü", 2).to_string(), "äö…");
        assert_eq!(Line::up_to("äöü", 3).to_string(), "äöü");
    }

    // S44
    #[test]
    fn a_record_is_one_line_and_json_stays_json() {
        let mut out = OneLine(Vec::new());
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
