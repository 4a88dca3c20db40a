//! What a file, source code or a diff defines or changes.

/// A text is divided into this many sections, and a definition of each is shown first.
const SECTIONS: usize = 64;

/// How many bytes of a section are searched.
const SEARCHED_BYTES: usize = 16 * 1024;

/// Lines of a text that define something: of each section the first one, preferably one that is not
/// indented, then the others. The sections come in such an order that the first few of them are
/// spread over all of the text.
pub(super) fn definitions(text: &str) -> Vec<(usize, usize)> {
    let bits = SECTIONS.ilog2();
    let size = text.len() / SECTIONS + 1;
    let places = (0..SECTIONS).map(|index| index.reverse_bits() >> (usize::BITS - bits));
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for place in places {
        let start = text.ceil_char_boundary((place * size).min(text.len()));
        let searched = text.floor_char_boundary((start + size.min(SEARCHED_BYTES)).min(text.len()));
        let (mut strong, mut weak) = (Vec::new(), None);
        let mut at = start;
        // A line belongs to the section in which it begins.
        while at < searched {
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).map_or(text.len(), |end| at + end + 1);
            let line = text.get(at..end).unwrap_or_default().trim_end();
            let range = (at, at + line.len());
            let is_whole = at > start || at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n');
            at = end;
            match definition(line).filter(|_| is_whole) {
                Some(true) => strong.push(range),
                Some(false) => weak = weak.or(Some(range)),
                None => {}
            }
        }
        let mut found = strong.into_iter();
        first.extend(found.next().or(weak));
        others.extend(found);
    }
    first.extend(others);
    first
}

/// Whether a definition is a strong line, mostly because it is not indented; `None` if a
/// line does not define anything.
fn definition(line: &str) -> Option<bool> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let indent = line.bytes().take_while(is_blank).count();
    let bare = line.get(indent..).unwrap_or_default();
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
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
        if !is_modifier(word) {
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
    if is_keyword(word) {
        return Some(at_margin);
    }
    // A function of C or a similar language.
    (at_margin
        && bare.ends_with('{')
        && bare.contains('(')
        && !matches!(word, "if" | "for" | "while" | "switch" | "else"))
    .then_some(true)
}

/// Whether a word may precede the keyword of a definition.
fn is_modifier(word: &str) -> bool {
    matches!(
        word,
        "pub"
            | "export"
            | "default"
            | "public"
            | "private"
            | "protected"
            | "static"
            | "async"
            | "abstract"
            | "final"
            | "unsafe"
            | "const"
            | "extern"
            | "override"
            | "internal"
            | "sealed"
            | "local"
            | "inline"
            | "virtual"
            | "declare"
            | "crate)"
            | "data"
            | "open"
            | "suspend"
    )
}

/// Whether a definition begins with this word.
fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "fn" | "struct"
            | "enum"
            | "trait"
            | "impl"
            | "mod"
            | "type"
            | "macro_rules!"
            | "def"
            | "class"
            | "function"
            | "interface"
            | "namespace"
            | "func"
            | "fun"
            | "object"
            | "module"
            | "record"
            | "union"
            | "typedef"
            | "template"
            | "sub"
            | "package"
            | "CREATE"
            | "ALTER"
            | "protocol"
            | "extension"
            | "defmodule"
            | "defp"
            | "resource"
            | "FROM"
    )
}
