//! The excerpt of a file, source code or a diff: what it defines or changes, between its
//! first and its last lines.

use super::key_lines::KeyLines;
use super::line_excerpt::{self, LineLayout};
use super::{ExcerptBody, ExcerptInput};

const LAYOUT: LineLayout = LineLayout {
    label: "Definitions between them, by line",
    key_lines_percent: 45,
    ignores_numbers: false,
    lists_paths: false,
};

/// The words that may precede the keyword of a definition.
const MODIFIERS: &str = "\
    pub export default public private protected static async abstract final unsafe const extern \
    override internal sealed local inline virtual declare crate) data open suspend";

/// The words with which a definition begins.
const KEYWORDS: &str = "\
    fn struct enum trait impl mod type macro_rules! def class function interface namespace func \
    fun object module record union typedef template sub package CREATE ALTER protocol extension \
    defmodule defp resource FROM";

pub(super) fn excerpt_body(input: ExcerptInput<'_>) -> ExcerptBody {
    line_excerpt::excerpt_body(input, &LAYOUT, |key_lines| {
        find_definitions(input.text, key_lines);
    })
}

fn find_definitions<'t>(text: &'t str, key_lines: &mut KeyLines<'t>) {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let end = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or(rest);
        if let Some(is_strong) = definition(line) {
            key_lines.add(at, line, is_strong);
        }
        at += end + 1;
    }
}

/// Whether a definition is a strong line, mostly because it is not indented; `None` if a
/// line does not define anything.
fn definition(line: &str) -> Option<bool> {
    let bare = line.trim_start_matches([' ', '\t']);
    let digits = bare.len()
        - bare
            .trim_start_matches(|byte: char| byte.is_ascii_digit())
            .len();
    // The lines of `cat -n` have line numbers.
    let (bare, at_margin) = match bare
        .get(digits..)
        .and_then(|rest| rest.strip_prefix(['\t', ':', '|', '→']))
    {
        Some(rest) if digits > 0 => (rest.trim_start(), !rest.starts_with([' ', '\t'])),
        Some(_) | None => (bare, bare.len() == line.len()),
    };
    let first = bare.as_bytes().first().copied()?;
    if matches!(first, b'@' | b'+' | b'd' | b'*')
        && (bare.starts_with("@@ ")
            || bare.starts_with("+++ ")
            || bare.starts_with("diff --git ")
            || bare.starts_with("*** "))
    {
        return Some(true);
    }
    if first == b'#'
        && (bare.starts_with("# ") || bare.starts_with("## ") || bare.starts_with("#define "))
    {
        return (at_margin && !bare.ends_with('.'))
            .then_some(bare.starts_with("#define ") || bare.starts_with("## "));
    }
    if first == b'[' {
        return (at_margin && bare.ends_with(']')).then_some(true);
    }
    if !first.is_ascii_alphabetic() {
        return None;
    }
    let mut words = bare.split([' ', '(', '<', ':']);
    let mut word = words.next()?;
    // Modifiers may precede the keyword of a definition.
    for _ in 0..4 {
        if !is_one_of(word, MODIFIERS) {
            break;
        }
        if word == "const" && at_margin && !bare.contains(" fn ") {
            return Some(false);
        }
        if matches!(
            word,
            "public" | "private" | "protected" | "static" | "virtual" | "inline"
        ) && bare.contains('(')
            && bare.trim_end().ends_with('{')
        {
            return Some(at_margin);
        }
        word = words.next()?;
    }
    if is_one_of(word, KEYWORDS) {
        return Some(at_margin);
    }
    // A function of C or a similar language.
    (at_margin
        && bare.ends_with('{')
        && bare.contains('(')
        && !matches!(word, "if" | "for" | "while" | "switch" | "else"))
    .then_some(true)
}

fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|known| known == word)
}
