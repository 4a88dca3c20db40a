//! Finding tags in text that is still escaped and may be split anywhere.

use std::borrow::Cow;

/// The text with `<`, `>` and `/` unescaped, which some servers escape.
pub(super) fn unescape_tag_chars(escaped: &str) -> Cow<'_, str> {
    if !escaped.contains("\\u003") && !escaped.contains("\\/") {
        return escaped.into();
    }
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let spelled = [
            ("u003c", '<'),
            ("u003C", '<'),
            ("u003e", '>'),
            ("u003E", '>'),
            ("/", '/'),
        ];
        let meant = spelled
            .iter()
            .find_map(|(escape, c)| Some((after.strip_prefix(escape)?, *c)));
        rest = if let Some((after, c)) = meant {
            out.push(c);
            after
        } else {
            out.push('\\');
            let mut chars = after.chars();
            out.extend(chars.next());
            chars.as_str()
        };
    }
    out.push_str(rest);
    out.into()
}

/// Splits a text at the first of the tags: what precedes and what follows it. Nothing behind that
/// is read, because a text may have many.
pub(super) fn split_at_tag<'t>(text: &'t str, tags: &[&str]) -> Option<(&'t str, &'t str)> {
    memchr::memchr_iter(b'<', text.as_bytes()).find_map(|at| {
        let (before, from_tag) = text.split_at_checked(at)?;
        let after = tags.iter().find_map(|tag| from_tag.strip_prefix(tag))?;
        Some((before, after))
    })
}

/// Splits off an end that may be the beginning of one of the tags.
pub(super) fn split_partial_tag<'t>(text: &'t str, tags: &[&str]) -> (&'t str, &'t str) {
    let longest = tags.iter().map(|tag| tag.len()).max().unwrap_or(0);
    let from = text.len().saturating_sub(longest);
    text.char_indices()
        .filter(|(at, c)| *at >= from && *c == '<')
        .find_map(|(at, _)| {
            let (before, end) = text.split_at_checked(at)?;
            tags.iter()
                .any(|tag| tag.starts_with(end))
                .then_some((before, end))
        })
        .unwrap_or((text, ""))
}

/// The text without leading escaped line breaks and, with `blanks`, without leading
/// spaces and tabs.
pub(super) fn trim_start(mut escaped: &str, blanks: bool) -> &str {
    loop {
        let next = escaped
            .strip_prefix("\\n")
            .or_else(|| escaped.strip_prefix("\\r"))
            .or_else(|| escaped.strip_prefix(' ').filter(|_| blanks))
            .or_else(|| escaped.strip_prefix("\\t").filter(|_| blanks));
        match next {
            Some(next) => escaped = next,
            None => return escaped,
        }
    }
}

/// The two pieces of an escaped text at every place where a server may split it: not within an
/// escape.
#[cfg(test)]
pub(super) fn splits(escaped: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_whole = |piece: &str| serde_json::from_str::<String>(&format!("\"{piece}\"")).is_ok();
    (1..escaped.len())
        .filter_map(|at| escaped.split_at_checked(at))
        .filter(move |(left, _)| is_whole(left))
}
