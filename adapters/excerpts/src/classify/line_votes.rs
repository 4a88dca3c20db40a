//! Counts what the lines of a text look like, and derives its kind from the counts.

use memchr::memmem;

use super::super::OutputKind;
use super::line_rules::{LineLook, PATTERNS, RULES, RuleException};

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

/// A kind, and its conditions. The first rule whose conditions all hold decides.
type KindRule = (OutputKind, &'static [fn(&LineVotes) -> bool]);

/// The kind of a text by its lines.
const KIND_RULES: [KindRule; 11] = {
    use OutputKind::{CommandOutput, FileOrCodeOutput, OpaqueToolOutput, WebOrSearch};
    [
        (OpaqueToolOutput, &[|it| it.are(it.encoded, 80)]),
        (
            FileOrCodeOutput,
            &[
                |it| it.diff_headers > 0,
                |it| it.are(it.diff_changes + it.diff_headers, 12),
            ],
        ),
        (FileOrCodeOutput, &[|it| it.are(it.numbered, 60)]),
        (
            WebOrSearch,
            &[|it| it.are(it.tags, 50), |it| it.code * 2 < it.tags],
        ),
        (
            WebOrSearch,
            &[
                |it| it.urls > 0,
                |it| it.are(it.urls + it.fields, 8),
                |it| !it.are(it.command, 30),
                |it| !it.are(it.file(), 30),
            ],
        ),
        (
            FileOrCodeOutput,
            &[
                |it| it.are(it.file(), 35),
                |it| it.file() > it.command,
                |it| it.file() > it.prose,
            ],
        ),
        // A document in Markdown is a file, unless it has the addresses of a page.
        (
            FileOrCodeOutput,
            &[|it| it.is_prose(), |it| it.headings > 0, |it| it.urls == 0],
        ),
        (WebOrSearch, &[|it| it.is_prose()]),
        (
            FileOrCodeOutput,
            &[|it| it.are(it.headings, 20), |it| it.headings > it.command],
        ),
        (
            FileOrCodeOutput,
            &[
                |it| it.are(it.headings + it.file(), 50),
                |it| it.headings + it.file() > it.command,
            ],
        ),
        (CommandOutput, &[]),
    ]
};

/// The kind of a text that has words in long lines.
const LONG_LINE_RULES: [KindRule; 3] = [
    (
        OutputKind::FileOrCodeOutput,
        &[|it| it.code * 2 > it.lines, |it| it.lines > 4],
    ),
    (OutputKind::CommandOutput, &[|it| it.command * 2 > it.lines]),
    (OutputKind::WebOrSearch, &[]),
];

/// The kind of the first rule whose conditions hold. The last rule of a table has none.
fn kind_by(rules: &[KindRule], votes: &LineVotes) -> OutputKind {
    let holds = |(_, conditions): &&KindRule| conditions.iter().all(|holds| holds(votes));
    let rule = rules.iter().find(holds);
    rule.map_or(OutputKind::CommandOutput, |(kind, _)| *kind)
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
    /// Whether `lines` lines are at least this percentage of all.
    fn are(&self, lines: usize, percent: usize) -> bool {
        lines * 100 >= self.lines.max(1) * percent
    }

    /// The lines of a source file, and those of a configuration file if there is one.
    fn file(&self) -> usize {
        self.code + if self.sections > 0 { self.config } else { 0 }
    }

    fn is_prose(&self) -> bool {
        self.are(self.prose, 30) && self.prose > self.command
    }

    /// Prepares for the lines of a block.
    pub(super) fn open_block(&mut self, block: &[u8]) {
        self.block_has_url = memmem::find(block, b"://").is_some();
    }

    pub(super) fn add_line(&mut self, line: &[u8]) {
        let (line, coloured) = strip_colours(line);
        let indented = matches!(line.first(), Some(b' ' | b'\t'));
        let (line, numbered) = self.strip_line_number(line);
        let line = line.trim_ascii();
        self.numbered += usize::from(numbered);
        let (Some(&first), Some(&last)) = (line.first(), line.last()) else {
            self.lines += usize::from(numbered);
            return;
        };
        self.lines += 1;
        self.command += usize::from(coloured);
        match self.look(line, last, indented) {
            Some(LineLook::Log) => {
                self.log += 1;
                self.command += 1;
            }
            Some(LineLook::Command) => self.command += 1,
            Some(LineLook::Code) => self.code += 1,
            Some(LineLook::Setting) => {
                self.config += 1;
                self.sections += usize::from(indented || last == b':' || first == b'[');
            }
            Some(LineLook::Prose) => self.prose += 1,
            Some(LineLook::Heading) => self.headings += 1,
            Some(LineLook::Url) => self.urls += 1,
            Some(LineLook::Field) => {
                self.fields += 1;
                self.urls += usize::from(self.block_has_url && contains(line, "://"));
            }
            Some(LineLook::Tag) => self.tags += 1,
            Some(LineLook::Encoded) => self.encoded += 1,
            Some(LineLook::DiffHeader) => self.diff_headers += 1,
            Some(LineLook::DiffChange) => self.diff_changes += 1,
            None => {}
        }
    }

    /// What a line looks like: by the rules, or by the mix of its bytes if none matches. Of a long
    /// line the start and the last byte are read.
    fn look(&self, line: &[u8], last: u8, indented: bool) -> Option<LineLook> {
        let start = line.get(..READ_BYTES).unwrap_or(line);
        let long;
        let read = if start.len() < line.len() {
            long = [start, &[last]].concat();
            &long
        } else {
            line
        };
        let mix = ByteMix::of(start);
        let many_words = mix.spaces >= 5 && mix.symbols <= 3 && line.len() > 50;
        let is_except = |exception: RuleException| match exception {
            RuleException::Nowhere => false,
            RuleException::AboveDiff => self.diff_headers == 0,
            RuleException::OneCase => {
                let has = |class: fn(&u8) -> bool| start.iter().take(48).any(class);
                !has(u8::is_ascii_uppercase) || !has(u8::is_ascii_lowercase)
            }
            RuleException::ManyWords => many_words && matches!(last, b'.' | b','),
            RuleException::Sentence => mix.spaces >= 8 && mix.symbols == 0 && last == b'.',
        };
        let matches = PATTERNS.matches(read);
        let mut rules = matches.iter().filter_map(|index| RULES.get(index));
        let rule = rules.find(|(_, _, exception)| !is_except(*exception));
        let look = rule.map(|(_, look, _)| *look);
        if look != Some(LineLook::Tag) && self.block_has_url && contains(line, "](http") {
            return Some(LineLook::Url);
        }
        look.or_else(|| mix.look(start.len(), many_words, last, indented))
    }

    /// The kind of a text that has words in long lines.
    pub(super) fn kind_of_long_lines(&self) -> OutputKind {
        kind_by(&LONG_LINE_RULES, self)
    }

    /// The kind of a text by its lines.
    pub(super) fn kind(&self) -> OutputKind {
        kind_by(&KIND_RULES, self)
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
    /// What a line with these bytes in its start looks like, if no rule says it.
    fn look(&self, len: usize, many_words: bool, last: u8, indented: bool) -> Option<LineLook> {
        let mostly_non_ascii = self.non_ascii * 2 > len;
        if many_words && self.letters + self.non_ascii > self.digits * 4 && self.gaps == 0
            || mostly_non_ascii && self.equals + self.parens < 2 && len > 30
        {
            return Some(LineLook::Prose);
        }
        if self.gaps >= 2 {
            return Some(LineLook::Command);
        }
        let expression = self.equals > 0 && self.spaces > 0
            || self.parens >= 2 && matches!(last, b')' | b',' | b':')
            || last == b',' && indented;
        (expression && self.symbols >= 2).then_some(LineLook::Code)
    }
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

fn contains(line: &[u8], part: &str) -> bool {
    memmem::find(line, part.as_bytes()).is_some()
}
