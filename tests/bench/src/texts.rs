//! Sample tool outputs of each kind. The same arguments always give the same text.

use std::fmt::Write as _;

/// A kind of tool output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleKind {
    Log,
    Code,
    Json,
    Html,
    Search,
    Prose,
    Chinese,
    Minified,
    Base64,
}

impl SampleKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Log,
        Self::Code,
        Self::Json,
        Self::Html,
        Self::Search,
        Self::Prose,
        Self::Chinese,
        Self::Minified,
        Self::Base64,
    ];

    /// The kind of the output of a round: mostly logs, code and JSON.
    pub(crate) fn for_round(round: usize) -> Self {
        match round % 8 {
            0 | 3 | 6 => Self::Log,
            1 | 4 => Self::Code,
            2 => Self::Json,
            5 => Self::Search,
            _ => Self::Html,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Code => "code",
            Self::Json => "JSON",
            Self::Html => "HTML",
            Self::Search => "search results",
            Self::Prose => "prose",
            Self::Chinese => "Chinese",
            Self::Minified => "minified",
            Self::Base64 => "base64",
        }
    }

    /// A text of this kind with about this many bytes.
    pub(crate) fn sample(self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 400);
        let mut line = 0_usize;
        if self == Self::Json {
            text.push_str("{\"items\": [\n");
        }
        if self == Self::Html {
            text.push_str("<!DOCTYPE html>\n<html><body>\n");
        }
        while text.len() < bytes {
            line += 1;
            self.line(&mut text, line);
        }
        if self == Self::Json {
            text.push_str("{}]}\n");
        }
        text
    }

    fn line(self, text: &mut String, line: usize) {
        let number = line.wrapping_mul(2_654_435_761) % 100_003;
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Log if line.is_multiple_of(97) => writeln!(
                text,
                "2026-05-01T12:{:02}:{:02}Z ERROR store: cannot open /var/lib/app/{number}.db: denied",
                line / 60 % 60,
                line % 60
            ),
            Self::Log => writeln!(
                text,
                "2026-05-01T12:{:02}:{:02}Z INFO worker-{}: request {number} took {} ms, \"ok\"",
                line / 60 % 60,
                line % 60,
                line % 8,
                number % 977
            ),
            Self::Code => match line % 7 {
                0 => writeln!(
                    text,
                    "pub fn read_{number}(parts: &mut Parts<'_>) -> Result<Name, Fault> {{"
                ),
                1 => writeln!(
                    text,
                    "    let name = parts.next().ok_or(\"no name {number}\")?;"
                ),
                2 => writeln!(
                    text,
                    "    if name.len() > {number} {{\n        return Err(Fault::Long);\n    }}"
                ),
                3 => writeln!(text, "    // Whoever wrote this wanted the last one."),
                4 => writeln!(text, "    Ok(Name {{ name, line: {number} }})"),
                5 => writeln!(text, "}}"),
                _ => writeln!(text),
            },
            Self::Json => writeln!(
                text,
                "  {{\"id\": {number}, \"name\": \"item {line}\", \"tags\": [\"a\", \"b\"], \"done\": {}, \"path\": \"C:\\\\x\\\\{number}\"}},",
                line.is_multiple_of(2)
            ),
            Self::Html => writeln!(
                text,
                "<div class=\"row r{number}\"><a href=\"/item/{number}\">Item {line}</a> <p>It has a few words of text &amp; more.</p></div>"
            ),
            Self::Search => writeln!(
                text,
                "Title: Result {line}\nURL: https://example.org/{number}\nSnippet: Some words on what is found at that place, no more than that.\n"
            ),
            Self::Prose => writeln!(
                text,
                "The reader splits at every newline and drops what follows the last one, as page {number} has it; whoever calls it next must look at the caller before the parser is mended."
            ),
            Self::Chinese => writeln!(
                text,
                "读取器在每个换行符处分割，并丢弃最后一个换行符之后的内容，见第{number}页的说明与示例，下一步检查调用者。"
            ),
            Self::Minified => write!(
                text,
                "function a{number}(b,c){{return b?c.d[{line}]:e(f,\"g\",b)}}var h{line}=a{number}(1,2);"
            ),
            Self::Base64 => writeln!(
                text,
                "{:016x}QmFzZTY0IGlzIG5vIHRleHQgdGhhdCBzb21lYm9keSByZWFkcywg{number:05}",
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ),
        };
    }
}
