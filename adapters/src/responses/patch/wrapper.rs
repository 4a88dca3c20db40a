//! Removes what models put around a patch: Markdown fences, JSON, a shell heredoc. A command
//! line that contains more than `apply_patch` is not changed, because dropping the rest, for
//! example a `cd`, would change its effect.

use std::borrow::Cow;

use serde_json::Value;

use super::add_note;
use super::grammar::{BEGIN, END};

/// Removes nested wrappers until none is left.
pub(super) fn strip_wrappers<'a>(input: &'a str, notes: &mut Vec<&'static str>) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(input);
    // Deeper nesting is not meant as a patch.
    for _ in 0..4 {
        let inner = from_json(&text)
            .map(|inner| (inner, "JSON wrapper removed"))
            .or_else(|| from_fence(&text).map(|inner| (inner, "Markdown fence removed")))
            .or_else(|| from_heredoc(&text).map(|inner| (inner, "shell wrapper removed")))
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

/// The lines between an opening and a closing Markdown fence, or the patch before a closing
/// fence that was never opened.
fn from_fence(text: &str) -> Option<String> {
    let (body, close) = text.trim().rsplit_once('\n')?;
    if close.trim_end() != "```" {
        return None;
    }
    if body.starts_with(BEGIN) {
        return body.trim_end().ends_with(END).then(|| body.to_owned());
    }
    let (open, inner) = body.split_once('\n').unwrap_or((body, ""));
    let language = open.trim_end().strip_prefix("```")?;
    let word = language
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_ ".contains(c));
    word.then(|| format!("{inner}\n"))
}

/// The body of `apply_patch <<'WORD'`.
fn from_heredoc(text: &str) -> Option<String> {
    let (command, rest) = text.trim().split_once('\n')?;
    let arguments = command.trim().strip_prefix("apply_patch")?.trim();
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
