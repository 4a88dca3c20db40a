//! Counts what the lines of a text look like, and derives its kind from the counts.

use memchr::memmem;

use super::super::OutputKind;
use super::keywords;

/// How many bytes of a line are read.
const READ_BYTES: usize = 112;

/// The number of lines of each look. A line may count for more than one.
#[derive(Default)]
pub(super) struct LineVotes {
    /// Lines that are not blank.
    pub(super) lines: usize,
    /// Lines that begin with a time or a log level.
    pub(super) log: usize,
    /// Lines that a command printed, log lines included.
    command: usize,
    /// Lines of a source file.
    code: usize,
    /// `key = value`, `key: value`, `[section]`.
    config: usize,
    /// The lines among these that only a configuration file has.
    sections: usize,
    /// Lines with a line number that follows the one before.
    numbered: usize,
    prose: usize,
    headings: usize,
    /// Lines that begin with a URL or hold a Markdown link.
    urls: usize,
    /// Fields of search results.
    fields: usize,
    /// Lines that begin with an HTML tag.
    tags: usize,
    /// Base64 and hexadecimal dumps.
    encoded: usize,
    diff_headers: usize,
    diff_changes: usize,
    last_number: usize,
    /// Whether there is a URL in the current block.
    block_has_url: bool,
}

/// Counts of the bytes at the start of a line.
#[derive(Default)]
struct ByteMix {
    spaces: usize,
    letters: usize,
    digits: usize,
    non_ascii: usize,
    symbols: usize,
    equals: usize,
    parens: usize,
    /// Spaces that follow a space.
    gaps: usize,
}

impl LineVotes {
    /// Prepares for the lines of a block.
    pub(super) fn open_block(&mut self, block: &[u8]) {
        self.block_has_url = memmem::find(block, b"://").is_some();
    }

    pub(super) fn add_line(&mut self, line: &[u8]) {
        let (line, coloured) = strip_colours(line);
        let indented = matches!(line.first(), Some(b' ' | b'\t'));
        let (line, numbered) = self.strip_line_number(line);
        let line = line.trim_ascii();
        let (Some(&first), Some(&last)) = (line.first(), line.last()) else {
            self.lines += usize::from(numbered);
            self.numbered += usize::from(numbered);
            return;
        };
        self.lines += 1;
        self.numbered += usize::from(numbered);
        self.command += usize::from(coloured);
        let start = line.get(..READ_BYTES).unwrap_or(line);
        if self.count_web_line(line, first) {
            return;
        }
        if self.count_diff_line(line, first) {
            return;
        }
        let word = first_word(start);
        let after = start.get(word.len()).copied();
        if is_log_line(start) {
            self.log += 1;
            self.command += 1;
            return;
        }
        if is_encoded(line) {
            self.encoded += 1;
            return;
        }
        if is_source_position(start) || is_file_listing(start) {
            self.command += 1;
            return;
        }
        let statement = matches!(last, b'{' | b'}' | b';' | b'(' | b'[')
            || matches!(first, b'}' | b')' | b']' | b'@')
            || matches!(
                start.get(..2),
                Some(b"//" | b"/*" | b"*/" | b"* " | b"#[" | b"#!")
            )
            || start.starts_with(b"#include")
            || start.starts_with(b"#define");
        if statement && !matches!(start, [b'[', .., b']']) {
            self.code += 1;
            return;
        }
        let mix = ByteMix::of(start);
        let many_words = mix.spaces >= 5 && mix.symbols <= 3 && line.len() > 50;
        let keyword = keywords::begins_code(word)
            && matches!(after, None | Some(b' ' | b'(' | b':' | b'.' | b'<'));
        if keyword && !(many_words && matches!(last, b'.' | b',')) {
            self.code += 1;
            return;
        }
        if keywords::begins_command_output(word)
            && !matches!(after, Some(b'=' | b'(' | b'.' | b'_'))
            && !is_sentence(&mix, last)
        {
            self.command += 1;
            return;
        }
        if is_runner_line(start) {
            self.command += 1;
            return;
        }
        if first == b'#' {
            self.headings += 1;
            return;
        }
        if matches!(start, [b'[', .., b']']) {
            self.config += 1;
            self.sections += 1;
            return;
        }
        if is_setting(start, word, last) {
            self.config += 1;
            self.sections += usize::from(indented || last == b':');
            return;
        }
        let mostly_non_ascii = mix.non_ascii * 2 > start.len();
        if many_words && mix.letters + mix.non_ascii > mix.digits * 4 && mix.gaps == 0
            || mostly_non_ascii && mix.equals + mix.parens < 2 && start.len() > 30
        {
            self.prose += 1;
            return;
        }
        if mix.gaps >= 2 {
            self.command += 1;
            return;
        }
        let expression = mix.equals > 0 && mix.spaces > 0
            || mix.parens >= 2 && matches!(last, b')' | b',' | b':')
            || last == b',' && indented;
        self.code += usize::from(expression && mix.symbols >= 2);
    }

    /// The kind of a text that has words in long lines.
    pub(super) fn kind_of_long_lines(&self) -> OutputKind {
        if self.code * 2 > self.lines && self.lines > 4 {
            OutputKind::FileOrCodeOutput
        } else if self.command * 2 > self.lines {
            OutputKind::CommandOutput
        } else {
            OutputKind::WebOrSearch
        }
    }

    /// The kind of a text by its lines.
    pub(super) fn kind(&self) -> OutputKind {
        let lines = self.lines.max(1);
        let share = |part: usize, percent: usize| part * 100 >= lines * percent;
        if share(self.encoded, 80) {
            return OutputKind::OpaqueToolOutput;
        }
        if self.diff_headers > 0 && share(self.diff_changes + self.diff_headers, 12) {
            return OutputKind::FileOrCodeOutput;
        }
        if share(self.numbered, 60) {
            return OutputKind::FileOrCodeOutput;
        }
        let file = self.code + if self.sections > 0 { self.config } else { 0 };
        if share(self.tags, 50) && self.code * 2 < self.tags {
            return OutputKind::WebOrSearch;
        }
        let web = self.urls + self.fields;
        if self.urls > 0 && share(web, 8) && !share(self.command, 30) && !share(file, 30) {
            return OutputKind::WebOrSearch;
        }
        if share(file, 35) && file > self.command && file > self.prose {
            return OutputKind::FileOrCodeOutput;
        }
        if share(self.prose, 30) && self.prose > self.command {
            return if self.headings > 0 && self.urls == 0 {
                OutputKind::FileOrCodeOutput
            } else {
                OutputKind::WebOrSearch
            };
        }
        if share(self.headings, 20) && self.headings > self.command {
            return OutputKind::FileOrCodeOutput;
        }
        if share(self.headings + file, 50) && file + self.headings > self.command {
            return OutputKind::FileOrCodeOutput;
        }
        OutputKind::CommandOutput
    }

    /// The line without the number that `cat -n`, `nl` and viewers put before it, and
    /// whether it had one.
    fn strip_line_number<'l>(&mut self, line: &'l [u8]) -> (&'l [u8], bool) {
        let start = line.trim_ascii_start();
        let digits = start
            .iter()
            .take(8)
            .take_while(|byte| byte.is_ascii_digit());
        let (count, number) = digits.fold((0, 0_usize), |(count, number), digit| {
            (count + 1, number * 10 + usize::from(digit - b'0'))
        });
        if count == 0 {
            return (line, false);
        }
        let rest = start.get(count..).unwrap_or_default();
        let behind = match rest {
            [b'\t' | b':' | b'|', rest @ ..] | [b' ', b'|', rest @ ..] => Some(rest),
            _ => rest.strip_prefix("→".as_bytes()),
        };
        let follows = number == self.last_number + 1 || self.last_number == 0;
        self.last_number = number;
        match behind {
            Some(behind) if follows && rest.first() != Some(&b':') => (behind, true),
            // `grep -n` and `sed -n =` write a colon after the number: the numbers must
            // be consecutive.
            Some(behind) if follows && self.last_number > 1 && self.numbered > 0 => (behind, true),
            Some(behind) if number == 1 && rest.first() == Some(&b':') => (behind, true),
            Some(_) | None => (line, false),
        }
    }

    /// Counts a line of a web page or of search results. Returns whether it is one.
    fn count_web_line(&mut self, line: &[u8], first: u8) -> bool {
        if first == b'<'
            && line
                .get(1)
                .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'!'))
        {
            self.tags += 1;
            return true;
        }
        if self.block_has_url {
            let bare = line
                .strip_prefix(b"<")
                .or_else(|| line.strip_prefix(b"- "))
                .or_else(|| line.strip_prefix(b"* "))
                .or_else(|| line.strip_prefix(b"("))
                .unwrap_or(line);
            if bare.starts_with(b"http://")
                || bare.starts_with(b"https://")
                || memmem::find(line, b"](http").is_some()
            {
                self.urls += 1;
                return true;
            }
        }
        let unstarred = line
            .strip_prefix(b"**")
            .or_else(|| line.strip_prefix(b"- "))
            .unwrap_or(line);
        let word = first_word(unstarred);
        let field = keywords::is_result_field(word)
            && matches!(unstarred.get(word.len()), Some(b':' | b'*'));
        if field {
            self.fields += 1;
            let has_url = self.block_has_url && memmem::find(line, b"://").is_some();
            self.urls += usize::from(has_url);
        }
        field
    }

    /// Counts a header line of a diff, or a changed line after one. Returns whether it is
    /// one.
    fn count_diff_line(&mut self, line: &[u8], first: u8) -> bool {
        let is_header = line.starts_with(b"diff --git ")
            || line.starts_with(b"@@ -")
            || line.starts_with(b"+++ ")
            || line.starts_with(b"*** Update File: ")
            || line.starts_with(b"--- a/");
        if is_header {
            self.diff_headers += 1;
            return true;
        }
        if self.diff_headers > 0 && matches!(first, b'+' | b'-') {
            self.diff_changes += 1;
            return true;
        }
        false
    }
}

impl ByteMix {
    fn of(start: &[u8]) -> Self {
        let mut mix = Self::default();
        let mut last = b'x';
        for &byte in start {
            match byte {
                b' ' => {
                    mix.spaces += 1;
                    mix.gaps += usize::from(last == b' ');
                }
                b'a'..=b'z' | b'A'..=b'Z' => mix.letters += 1,
                b'0'..=b'9' => mix.digits += 1,
                0x80.. => mix.non_ascii += 1,
                b'=' => {
                    mix.equals += 1;
                    mix.symbols += 1;
                }
                b'(' | b')' => {
                    mix.parens += 1;
                    mix.symbols += 1;
                }
                b'{' | b'}' | b'[' | b']' | b';' | b'<' | b'>' | b'|' | b'\\' | b'$' | b'_'
                | b'"' | b':' | b'&' => {
                    mix.symbols += 1;
                }
                _ => {}
            }
            last = byte;
        }
        mix
    }
}

fn is_sentence(mix: &ByteMix, last: u8) -> bool {
    mix.spaces >= 8 && mix.symbols == 0 && last == b'.'
}

/// The line without its carriage return, byte order mark, and the colour codes at its
/// start, and whether it had colours.
fn strip_colours(line: &[u8]) -> (&[u8], bool) {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let mut coloured = false;
    while let Some(rest) = line.strip_prefix(b"\x1b[") {
        let end = rest.iter().take(12).position(u8::is_ascii_alphabetic);
        let Some(behind) = end.and_then(|end| rest.get(end + 1..)) else {
            break;
        };
        line = behind;
        coloured = true;
    }
    (line, coloured)
}

/// The letters with which a line begins.
fn first_word(line: &[u8]) -> &[u8] {
    let end = line
        .iter()
        .take(16)
        .position(|byte| !byte.is_ascii_alphabetic())
        .unwrap_or(line.len().min(16));
    line.get(..end).unwrap_or_default()
}

/// Whether a line begins with a time or a log level, with or without a bracket.
fn is_log_line(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"[").unwrap_or(line);
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = line.get(digits).copied();
    match digits {
        4 => {
            matches!(sign, Some(b'-' | b'/'))
                && line
                    .get(5..7)
                    .is_some_and(|month| month.iter().all(u8::is_ascii_digit))
        }
        1 | 2 => {
            matches!(sign, Some(b':' | b'/'))
                && line
                    .get(digits + 1..digits + 3)
                    .is_some_and(|next| next.iter().all(u8::is_ascii_digit))
                && matches!(line.get(digits + 3), Some(b':' | b' ' | b'/' | b'.'))
        }
        0 => {
            let word = first_word(line);
            let level = matches!(
                word,
                b"ERROR"
                    | b"WARN"
                    | b"WARNING"
                    | b"INFO"
                    | b"DEBUG"
                    | b"TRACE"
                    | b"FATAL"
                    | b"error"
                    | b"info"
                    | b"warn"
            );
            let month = word.len() == 3
                && matches!(
                    word,
                    b"Jan"
                        | b"Feb"
                        | b"Mar"
                        | b"Apr"
                        | b"May"
                        | b"Jun"
                        | b"Jul"
                        | b"Aug"
                        | b"Sep"
                        | b"Oct"
                        | b"Nov"
                        | b"Dec"
                )
                && matches!(
                    line.get(3..6),
                    Some([b' ', b' ' | b'0'..=b'9', b'0'..=b'9'])
                );
            level
                && matches!(
                    line.get(word.len()),
                    Some(b']' | b' ' | b':' | b'[' | b'\t')
                )
                || month
        }
        // Other numbers are not taken for times, such as the seconds since boot that `dmesg`
        // writes.
        _ => false,
    }
}

/// Whether a line is base64 or a hexadecimal dump.
fn is_encoded(line: &[u8]) -> bool {
    if line.len() < 48 {
        return false;
    }
    let head = line.get(..48).unwrap_or_default();
    let is_hexadecimal = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    if let [address @ .., _, _] = line.get(..10).unwrap_or_default()
        && is_hexadecimal(address)
        && matches!(line.get(8..10), Some([b':' | b' ', b' ']))
    {
        return true;
    }
    let is_base64 = head
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    is_base64
        && (head.iter().any(u8::is_ascii_uppercase) && head.iter().any(u8::is_ascii_lowercase)
            || is_hexadecimal(head))
}

/// Whether a line begins with a position such as `path:12:`, as compilers and searches
/// write it.
fn is_source_position(line: &[u8]) -> bool {
    let has_drive = matches!(line, [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let from = if has_drive { 2 } else { 0 };
    let Some(colon) = line
        .get(from..)
        .and_then(|rest| memchr::memchr3(b':', b' ', b'(', rest))
        .map(|at| at + from)
    else {
        return false;
    };
    let (Some(path), Some(rest)) = (line.get(..colon), line.get(colon..)) else {
        return false;
    };
    let digits = rest
        .iter()
        .skip(1)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let behind = rest.get(digits + 1);
    let is_path = memchr::memchr3(b'.', b'/', b'\\', path).is_some();
    digits > 0
        && is_path
        && (rest.first() == Some(&b':') && matches!(behind, Some(b':' | b'-' | b' ') | None)
            || rest.first() == Some(&b'(') && matches!(behind, Some(b',' | b')')))
}

/// Whether a line is a file with its permissions, as `ls -l` writes it, or only a path.
fn is_file_listing(line: &[u8]) -> bool {
    if let Some(permissions) = line.get(..10)
        && matches!(permissions.first(), Some(b'd' | b'-' | b'l'))
        && permissions
            .iter()
            .skip(1)
            .all(|byte| matches!(byte, b'r' | b'w' | b'x' | b'-' | b's' | b't'))
        && permissions
            .get(1..4)
            .is_some_and(|own| memchr::memchr(b'r', own).is_some())
    {
        return true;
    }
    line.len() < READ_BYTES
        && memchr::memchr2(b'/', b'\\', line).is_some()
        && !line.iter().any(|byte| {
            matches!(
                byte,
                b' ' | b'\t' | b'"' | b'\'' | b'=' | b'(' | b'{' | b';' | b'<' | b'>' | b',' | b'*'
            )
        })
        && !line.starts_with(b"//")
}

/// Whether a line is drawn by a test runner, a shell or a progress bar.
fn is_runner_line(line: &[u8]) -> bool {
    const MARKS: [&str; 14] = [
        "=== ", "--- ", "$ ", "✓", "✗", "✔", "✘", "├", "│", "└", "-->", "...", "==", "%",
    ];
    MARKS.iter().any(|mark| line.starts_with(mark.as_bytes()))
        || line.ends_with(b" ... ok")
        || line.ends_with(b"FAILED")
        || line.ends_with(b"PASSED")
        || line.starts_with(b"File \"")
}

/// Whether a line is `key = value`, `key: value`, `- item` or `KEY=value`.
fn is_setting(line: &[u8], word: &[u8], last: u8) -> bool {
    if line.starts_with(b"- ") {
        return last != b'.';
    }
    let key = line
        .iter()
        .take(48)
        .take_while(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'"')
        })
        .count();
    if key == 0 || word.is_empty() && line.first() != Some(&b'"') {
        return false;
    }
    let rest = line.get(key..).unwrap_or_default();
    rest.starts_with(b" = ")
        || rest.starts_with(b"=")
        || rest.starts_with(b": ") && !rest.starts_with(b":  ")
        || rest == b":"
}
