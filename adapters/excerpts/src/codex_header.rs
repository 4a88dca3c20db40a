//! The header lines that Codex writes above the output of a command.
//!
//! For `exec_command`: `Chunk ID:`, `Wall time:`, `Process exited with code N` (or
//! `Process running with session ID N`), `Original token count: N`, `Output:`. For
//! `apply_patch`: `Exit code:`, `Wall time:`, `Output:`. Where Codex cut the output
//! itself: `Warning: truncated output (original token count: N)`, then `Total output
//! lines: N` or `... N bytes omitted ...`, and an empty line (Codex 0.169).

/// The values in the header of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodexHeader {
    /// The exit code of the command.
    pub exit_code: Option<i64>,
    /// How many tokens the output had before Codex cut it.
    pub original_tokens: Option<u64>,
    /// How many lines the output had before Codex cut it.
    pub total_lines: Option<u64>,
    /// Whether Codex cut the output. `…N tokens truncated…` then replaces its middle.
    pub cut: bool,
    /// Characters of the header, including its line ends.
    pub chars: usize,
    /// Bytes of the header.
    pub bytes: usize,
}

/// The most lines of a header.
const MAX_LINES: usize = 12;

/// Parses the header. It is empty where the text does not begin with one.
pub(super) fn parse(text: &str) -> CodexHeader {
    let mut header = CodexHeader::default();
    let mut at = 0;
    let mut cut = false;
    for _ in 0..MAX_LINES {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        let end = memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
        let line = rest
            .get(..end)
            .unwrap_or(rest)
            .trim_end_matches(['\n', '\r']);
        // An empty line follows the header of a cut output.
        if !(header.parse_line(line, &mut cut) || cut && line.is_empty()) {
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

impl CodexHeader {
    /// Whether a line belongs to the header. `cut` becomes true at a line that Codex writes
    /// only when it cut the output.
    fn parse_line(&mut self, line: &str, cut: &mut bool) -> bool {
        if let Some(code) = line.strip_prefix("Process exited with code ") {
            return parse_into(&mut self.exit_code, code);
        }
        if let Some(code) = line.strip_prefix("Exit code: ") {
            return parse_into(&mut self.exit_code, code);
        }
        if let Some(count) = line.strip_prefix("Original token count: ") {
            return parse_into(&mut self.original_tokens, count);
        }
        if let Some(lines) = line.strip_prefix("Total output lines: ") {
            *cut = true;
            return parse_into(&mut self.total_lines, lines);
        }
        if let Some(rest) = line.strip_prefix("Warning: truncated output (original token count: ") {
            *cut = true;
            return parse_into(&mut self.original_tokens, rest.trim_end_matches(')'));
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

/// Parses a number into `field`, and returns whether the text was one. Otherwise `field`
/// keeps its value.
fn parse_into<T: std::str::FromStr>(field: &mut Option<T>, digits: &str) -> bool {
    let value = digits.trim().parse().ok();
    let is_number = value.is_some();
    *field = value.or(field.take());
    is_number
}
