//! The bytes of an upstream's answer: the chunks of a Chat Completions stream in any framing that
//! the event stream format allows.

use std::fmt::Write as _;

/// How the events are framed.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent freedoms of a format"
)]
pub struct SseFraming {
    pub line_end: &'static str,
    pub bom: bool,
    pub space: bool,
    pub comments: bool,
    pub names: bool,
    /// Each chunk is split over two data lines.
    pub lines: bool,
    pub done: bool,
}

impl SseFraming {
    pub const PLAIN: Self = Self {
        line_end: "\n",
        bom: false,
        space: true,
        comments: false,
        names: false,
        lines: false,
        done: true,
    };

    /// The stream of these chunks.
    pub fn render(&self, chunks: &[String]) -> Vec<u8> {
        let end = self.line_end;
        let space = if self.space { " " } else { "" };
        let mut out = String::new();
        if self.bom {
            out.push('\u{feff}');
        }
        let done = self.done.then(|| "[DONE]".to_owned());
        for data in chunks.iter().chain(&done) {
            if self.comments {
                write!(out, ": still here{end}{end}").unwrap();
            }
            if self.names {
                write!(out, "id: 7{end}event: message{end}unknown{end}").unwrap();
            }
            let data = if self.lines {
                let second = format!("{end}data:{space}\"choices\":");
                data.replacen("\"choices\":", &second, 1)
            } else {
                data.clone()
            };
            write!(out, "data:{space}{data}{end}{end}").unwrap();
        }
        out.into_bytes()
    }
}

/// A JSON string of UTF-16 units. Halves of a surrogate pair are kept; in the ASCII form
/// everything but ASCII is escaped.
pub fn json_string(units: &[u16], ascii: bool) -> String {
    let mut out = String::from("\"");
    for unit in char::decode_utf16(units.iter().copied()) {
        match unit {
            Ok(c) if c.is_ascii() || !ascii => {
                let quoted = serde_json::to_string(&c).unwrap();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            Ok(c) => {
                for half in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{half:04x}").unwrap();
                }
            }
            Err(half) => write!(out, "\\u{:04X}", half.unpaired_surrogate()).unwrap(),
        }
    }
    out.push('"');
    out
}

/// Splits bytes into reads. The sizes are used in order and repeated.
pub fn reads<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (chunk, rest) = bytes.split_at((*size).clamp(1, bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}
