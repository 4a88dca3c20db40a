//! A file, source code, a diff: what it defines or changes, between its first and
//! last lines.

use super::frame::{self, Frame};
use super::hits::Hits;
use super::{Part, Task};

const FRAME: Frame = Frame {
    label: "Definitions between them, by line",
    share: 45,
    alike: false,
    paths: false,
};

pub(super) fn show(task: Task<'_>) -> Part {
    frame::show(task, &FRAME, |hits| find(task.text, hits))
}

fn find<'t>(text: &'t str, hits: &mut Hits<'t>) {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let end = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or(rest);
        if let Some(strong) = defines(line) {
            hits.add(at, line, strong);
        }
        at += end + 1;
    }
}

/// Whether a line defines something; `true` if it stands at the margin.
fn defines(line: &str) -> Option<bool> {
    let bare = line.trim_start_matches([' ', '\t']);
    let digits = bare.len()
        - bare
            .trim_start_matches(|byte: char| byte.is_ascii_digit())
            .len();
    // Lines of `cat -n` have their own numbers.
    let (bare, margin) = match bare
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
        return (margin && !bare.ends_with('.'))
            .then_some(bare.starts_with("#define ") || bare.starts_with("## "));
    }
    if first == b'[' {
        return (margin && bare.ends_with(']')).then_some(true);
    }
    if !first.is_ascii_alphabetic() {
        return None;
    }
    let mut words = bare.split([' ', '(', '<', ':']);
    let mut word = words.next()?;
    // What may stand before the word that says what is defined.
    for _ in 0..4 {
        if !matches!(
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
        ) {
            break;
        }
        if word == "const" && margin && !bare.contains(" fn ") {
            return Some(false);
        }
        if matches!(
            word,
            "public" | "private" | "protected" | "static" | "virtual" | "inline"
        ) && bare.contains('(')
            && bare.trim_end().ends_with('{')
        {
            return Some(margin);
        }
        word = words.next()?;
    }
    let defines = matches!(
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
    );
    if defines {
        return Some(margin);
    }
    // A function of C and its kin.
    (margin
        && bare.ends_with('{')
        && bare.contains('(')
        && !matches!(word, "if" | "for" | "while" | "switch" | "else"))
    .then_some(true)
}
