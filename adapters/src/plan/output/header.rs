//! The lines that Codex writes above what a command printed.
//!
//! Of `exec_command`: `Chunk ID:`, `Wall time:`, `Process exited with code N` (or
//! `Process running with session ID N`), `Original token count: N`, `Output:`. Of
//! `apply_patch`: `Exit code:`, `Wall time:`, `Output:`. Where Codex cut the output
//! itself: `Warning: truncated output (original token count: N)`, then `Total output
//! lines: N` or `... N bytes omitted ...`, and an empty line (Codex 0.169).

/// What the first lines of an output say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// How the command ended.
    pub exit_code: Option<i64>,
    /// How many tokens there were before Codex cut the output.
    pub original_tokens: Option<u64>,
    /// How many lines there were before Codex cut the output.
    pub total_lines: Option<u64>,
    /// Whether Codex cut the output: in its middle stands `…N tokens truncated…`.
    pub cut: bool,
    /// Characters of the header, its line ends included.
    pub chars: usize,
    /// Bytes of the header.
    pub bytes: usize,
}

/// No header is longer.
const LINES: usize = 12;

/// Reads the header. It is empty where the text does not begin with one.
pub(super) fn read(text: &str) -> Header {
    let mut header = Header::default();
    let mut at = 0;
    let mut cut = false;
    for _ in 0..LINES {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        let end = memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
        let line = rest
            .get(..end)
            .unwrap_or(rest)
            .trim_end_matches(['\n', '\r']);
        // The line behind a header of a cut output is empty.
        if !(header.take(line, &mut cut) || cut && line.is_empty()) {
            break;
        }
        header.cut |= cut;
        cut &= !line.is_empty();
        at += end;
    }
    header.cut |= cut;
    header.bytes = at;
    header.chars = text.get(..at).map_or(0, |head| head.chars().count());
    header
}

impl Header {
    fn take(&mut self, line: &str, cut: &mut bool) -> bool {
        if let Some(code) = line.strip_prefix("Process exited with code ") {
            return set(&mut self.exit_code, code);
        }
        if let Some(code) = line.strip_prefix("Exit code: ") {
            return set(&mut self.exit_code, code);
        }
        if let Some(count) = line.strip_prefix("Original token count: ") {
            return set(&mut self.original_tokens, count);
        }
        if let Some(lines) = line.strip_prefix("Total output lines: ") {
            *cut = true;
            return set(&mut self.total_lines, lines);
        }
        if let Some(rest) = line.strip_prefix("Warning: truncated output (original token count: ") {
            *cut = true;
            return set(&mut self.original_tokens, rest.trim_end_matches(')'));
        }
        if let Some(time) = line.strip_prefix("Wall time: ") {
            return time.ends_with("seconds");
        }
        matches!(line, "Output:" | "Process timed out")
            || line.starts_with("Chunk ID: ") && line.len() < 40
            || line.starts_with("Process running with session ID ")
            || *cut && line.starts_with("... ") && line.ends_with(" bytes omitted ...")
    }
}

fn set<T: std::str::FromStr>(field: &mut Option<T>, digits: &str) -> bool {
    let value = digits.trim().parse().ok();
    let read = value.is_some();
    *field = value.or(field.take());
    read
}
