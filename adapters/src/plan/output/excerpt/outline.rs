//! What a file, source code or a diff defines or changes.

/// A text is divided into so many sections, and a definition of each is shown.
const SECTIONS: usize = 32;

/// How many bytes of a section are searched.
const SEARCHED_BYTES: usize = 4 * 1024;

/// The words that may precede the keyword of a definition.
const MODIFIERS: &str = "\
    pub export default public private protected static async abstract final unsafe const extern \
    override internal sealed local inline virtual declare crate) data open suspend";

/// The words with which a definition begins.
const KEYWORDS: &str = "\
    fn struct enum trait impl mod type macro_rules! def class function interface namespace func \
    fun object module record union typedef template sub package CREATE ALTER protocol extension \
    defmodule defp resource FROM";

/// Lines between two bytes that define something, spread over all of the text, in such an order
/// that the first few of them are spread, too.
pub(super) fn definitions(text: &str, (from, to): (usize, usize)) -> Vec<(usize, usize)> {
    let bits = SECTIONS.ilog2();
    let places = (0..SECTIONS).map(|index| index.reverse_bits() >> (usize::BITS - bits));
    let mut found = Vec::new();
    for place in places {
        let start = text.ceil_char_boundary(from + (to - from) / SECTIONS * place);
        let end = (start + SEARCHED_BYTES).min(start + (to - from) / SECTIONS);
        let section = text.get(start..text.floor_char_boundary(end.min(to)));
        let mut weak = None;
        let mut at = start;
        for line in section.unwrap_or_default().split_inclusive('\n') {
            let range = (at, at + line.trim_end().len());
            let is_whole = line.ends_with('\n') && (at > start || place == 0);
            at += line.len();
            match definition(line.trim_end()).filter(|_| is_whole) {
                Some(true) => {
                    weak = Some(range);
                    break;
                }
                Some(false) => weak = weak.or(Some(range)),
                None => {}
            }
        }
        found.extend(weak);
    }
    found
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
