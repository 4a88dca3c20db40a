//! Removes what models put around a patch: Markdown fences, tags, JSON, a shell heredoc. A command
//! line that contains more than `apply_patch` is not changed, because dropping the rest, for
//! example a `cd`, would change its effect.

use std::borrow::Cow;

use serde_json::Value;

use super::add_note;
use super::grammar::{BEGIN, END, plain_marker};
use crate::arguments::{strip_remains, strip_tag};

/// Removes nested wrappers until none is left.
pub(super) fn strip_wrappers<'a>(input: &'a str, notes: &mut Vec<&'static str>) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(input.trim_start_matches('\u{feff}'));
    if text.len() < input.len() {
        add_note(notes, "byte order mark removed");
    }
    // Deeper nesting is not meant as a patch.
    for _ in 0..4 {
        let inner = from_json(&text)
            .map(|inner| (inner, "JSON wrapper removed"))
            .or_else(|| from_fence(&text).map(|inner| (inner, "Markdown fence removed")))
            .or_else(|| from_tags(&text).map(|inner| (inner, "tags removed")))
            .or_else(|| from_heredoc(&text).map(|inner| (inner, "shell wrapper removed")))
            .or_else(|| from_quotes(&text).map(|inner| (inner, "quotes removed")))
            .or_else(|| from_escaped_line(&text).map(|inner| (inner, "JSON escapes undone")));
        let Some((inner, done)) = inner else { break };
        add_note(notes, done);
        text = Cow::Owned(inner);
    }
    text
}

/// The patch in a JSON string, `{"input": …}`, `{"patch": …}` or `{"command":
/// ["apply_patch", …]}`, if the JSON contains nothing else.
fn from_json(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '"', '[']) {
        return None;
    }
    let value = match serde_json::from_str(text.trim()).ok()? {
        Value::Object(object) if object.len() == 1 => {
            let (key, value) = object.into_iter().next()?;
            ["input", "patch", "command"]
                .contains(&key.as_str())
                .then_some(value)?
        }
        other => other,
    };
    match value {
        Value::String(inner) => Some(inner),
        Value::Array(words) => match words.as_slice() {
            [Value::String(command), Value::String(inner)] if command == "apply_patch" => {
                Some(inner.clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The lines between an opening and a closing Markdown fence. One of them may be missing if the
/// patch has its marker there.
fn from_fence(text: &str) -> Option<String> {
    let text = text.trim();
    let (first, rest) = text.split_once('\n')?;
    let (body, last) = text.rsplit_once('\n')?;
    let marks = |line: &str| line.len() - line.trim_start_matches(['`', '~']).len();
    let language = first.trim_end().get(marks(first)..)?;
    let mut language = language.chars();
    let opens =
        marks(first) >= 3 && language.all(|c| c.is_ascii_alphanumeric() || "-_ ".contains(c));
    let closes = marks(last) >= 3 && marks(last) == last.trim_end().len();
    match (opens, closes) {
        (true, true) => Some(match rest.rsplit_once('\n') {
            Some((inner, _)) => format!("{inner}\n"),
            None => String::new(),
        }),
        (true, false) => is_marked(last, END).then(|| rest.to_owned()),
        (false, true) => {
            let end = body.trim_end().rsplit('\n').next()?;
            (is_marked(first, BEGIN) && is_marked(end, END)).then(|| body.to_owned())
        }
        (false, false) => None,
    }
}

/// A patch between tags such as `<patch>`. Those on one side may be missing.
fn from_tags(text: &str) -> Option<String> {
    let text = text.trim();
    let begin = strip_tag(text).map_or(text, str::trim_start);
    let (patch, tail) = begin.split_at_checked(begin.rfind(END)? + END.len())?;
    let is_tagged = patch.len() < text.len() && strip_remains(tail).is_empty();
    (is_tagged && is_marked(patch.split('\n').next()?, BEGIN)).then(|| format!("{patch}\n"))
}

/// A patch between quotation marks.
fn from_quotes(text: &str) -> Option<String> {
    let text = text.trim();
    let quotes = ["\"\"\"", "'''", "\"", "'", "`"].into_iter();
    let mut inner = quotes.filter_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    let inner = inner.next()?.trim_start_matches('\n');
    is_marked(inner.split('\n').next()?, BEGIN).then(|| inner.to_owned())
}

/// Whether the line is this marker, in whatever form.
fn is_marked(line: &str, marker: &str) -> bool {
    line.trim_end() == marker || plain_marker(line, true).is_some_and(|plain| plain == marker)
}

/// The body of `apply_patch <<'WORD'`, of `cat <<'WORD' | apply_patch` or of `<<'WORD'`.
fn from_heredoc(text: &str) -> Option<String> {
    let (command, rest) = text.trim().split_once('\n')?;
    let command = command.trim();
    let piped = command.strip_prefix("cat").and_then(|rest| {
        let word = rest.trim_end().strip_suffix("apply_patch")?;
        word.trim_end().strip_suffix('|')
    });
    let alone = Some(command).filter(|command| command.starts_with("<<"));
    let arguments = command
        .strip_prefix("apply_patch")
        .or(piped)
        .or(alone)?
        .trim();
    if arguments.is_empty() {
        return Some(rest.to_owned());
    }
    let word = arguments.strip_prefix("<<")?.trim_start();
    let quoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| word.strip_prefix(quote)?.strip_suffix(quote));
    let (body, close) = rest.rsplit_once('\n')?;
    let delimiter = quoted.unwrap_or(word);
    let plain = !delimiter.is_empty()
        && delimiter
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain || close.trim_end() != delimiter || body.lines().any(|line| line == delimiter) {
        return None;
    }
    // Without quotes around the delimiter a shell would expand these characters.
    if quoted.is_none() && body.contains(['$', '`', '\\']) {
        return None;
    }
    Some(format!("{body}\n"))
}

/// A patch on one line in which all line ends and quotes are JSON escapes.
fn from_escaped_line(text: &str) -> Option<String> {
    let text = text.trim();
    let one_line = text.starts_with(BEGIN) && text.contains("\\n") && !text.contains('\n');
    let inner = one_line.then(|| serde_json::from_str::<String>(&format!("\"{text}\"")))?;
    inner.ok()
}
