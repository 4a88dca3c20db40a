//! The text of an output item, whatever JSON its output is.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::content::{self, ContentPart};
use crate::json;
use crate::result_text::output_has_parts;
use crate::turn::{Item, ItemKind};

/// The JSON that the output of an item may be.
enum OutputShape {
    /// A string, or a list of content parts.
    Parts,
    /// A string, or some other JSON.
    Json,
    /// A string, or a list of `{stdout, stderr, outcome}`.
    Shell,
}

#[derive(Deserialize)]
struct ShellRun<'a> {
    #[serde(borrow)]
    stdout: Option<&'a RawValue>,
    stderr: Option<&'a RawValue>,
    outcome: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ShellOutcome<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    exit_code: Option<i64>,
}

/// The decoded text of a tool output:
/// - of a string, the string;
/// - of a list of content parts, the texts of its text parts, one per line;
/// - of the runs of a hosted shell, what they printed;
/// - of any other JSON, that JSON.
///
/// `None` for an item that is not an output, for the output of a tool search, whose tools
/// are sent in another way, and for an output without text.
pub fn text<'a>(item: &'a Item<'_>) -> Option<Cow<'a, str>> {
    let shape = shape(item.kind)?;
    let output = item.output()?;
    let json = output.get();
    if let Some(inner) = json::unquote(json) {
        return (!inner.is_empty()).then(|| json::unescape(inner));
    }
    match shape {
        OutputShape::Parts if json.starts_with('[') => part_texts(output),
        OutputShape::Shell => shell_runs(output).or(Some(json.into())),
        OutputShape::Parts | OutputShape::Json => (json != "null").then_some(json.into()),
    }
}

/// An upper limit of the characters of [`text`], found without decoding it: no escape is shorter
/// than its character. 0 for items that are not outputs and for outputs of a tool search.
pub fn max_text_len(item: &Item<'_>) -> usize {
    match (shape(item.kind), item.output()) {
        (Some(_), Some(output)) => output.get().len(),
        (None, _) | (_, None) => 0,
    }
}

fn shape(kind: ItemKind) -> Option<OutputShape> {
    if output_has_parts(kind) {
        Some(OutputShape::Parts)
    } else if kind == ItemKind::ShellCallOutput {
        Some(OutputShape::Shell)
    } else {
        let is_output = kind.is_output() && kind != ItemKind::ToolSearchOutput;
        (is_output || kind.is_hosted()).then_some(OutputShape::Json)
    }
}

/// The texts of a list of content parts, one per line, or a list of something else.
fn part_texts(output: &RawValue) -> Option<Cow<'_, str>> {
    let Some(parts) = content::output_parts(output.get()) else {
        return Some(output.get().into());
    };
    let texts = parts.iter().filter_map(ContentPart::text);
    join_lines(texts)
}

/// The outputs of the runs of a hosted shell, each below a header in the form of Codex.
fn shell_runs(output: &RawValue) -> Option<Cow<'_, str>> {
    let runs: Vec<ShellRun<'_>> = serde_json::from_str(output.get()).ok()?;
    let mut all = String::new();
    for run in &runs {
        if !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        let outcome = run
            .outcome
            .and_then(|outcome| serde_json::from_str::<ShellOutcome<'_>>(outcome.get()).ok());
        match outcome {
            Some(ShellOutcome {
                exit_code: Some(code),
                ..
            }) => {
                let _ = writeln!(all, "Exit code: {code}\nOutput:");
            }
            Some(ShellOutcome {
                kind: Some(kind), ..
            }) if kind == "timeout" => all.push_str("Process timed out\nOutput:\n"),
            Some(_) | None => {}
        }
        let printed = join_lines([run.stdout, run.stderr].into_iter().flatten());
        all.push_str(&printed.unwrap_or_default());
    }
    (!all.is_empty()).then_some(all.into())
}

/// Joins the texts that are not empty, with a line end between two of them.
fn join_lines<'a>(texts: impl Iterator<Item = &'a RawValue>) -> Option<Cow<'a, str>> {
    let mut joined: Option<Cow<'a, str>> = None;
    for text in texts.filter_map(|raw| json::unquote(raw.get())) {
        if text.is_empty() {
            continue;
        }
        let text = json::unescape(text);
        match &mut joined {
            None => joined = Some(text),
            Some(joined) => {
                let joined = joined.to_mut();
                joined.push('\n');
                joined.push_str(&text);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(json: &str) -> Item<'_> {
        Item::new(serde_json::from_str(json).unwrap(), json)
    }

    /// Promise: The text of every kind of output item is bounded, whether it is a string or an
    /// array and whether its call is present or not.
    #[test]
    fn every_output_item_has_its_text() {
        for (json, expected) in [
            (
                r#"{"type":"function_call_output","call_id":"c","output":"a\n\"b\" \u6f6e"}"#,
                Some("a\n\"b\" 潮"),
            ),
            (
                r#"{"type":"function_call_output","call_id":"c","output":""}"#,
                None,
            ),
            (
                r#"{"type":"function_call_output","call_id":"c","output":null}"#,
                None,
            ),
            (r#"{"type":"function_call_output","call_id":"c"}"#, None),
            (
                r#"{"type":"function_call_output","call_id":"c","output":{"a":1}}"#,
                Some(r#"{"a":1}"#),
            ),
            (
                r#"{"type":"function_call_output","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:,"},{"type":"input_text","text":"b"}]}"#,
                Some("a\nb"),
            ),
            (
                r#"{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:,"}]}"#,
                None,
            ),
            (
                r#"{"type":"custom_tool_call_output","output":"x"}"#,
                Some("x"),
            ),
            (
                r#"{"type":"custom_tool_call_output","output":[{"type":"output_text","text":"x\ny"}]}"#,
                Some("x\ny"),
            ),
            (
                r#"{"type":"local_shell_call_output","output":"x"}"#,
                Some("x"),
            ),
            (
                r#"{"type":"local_shell_call_output","output":{"stdout":"x"}}"#,
                Some(r#"{"stdout":"x"}"#),
            ),
            (r#"{"type":"shell_call_output","output":"x"}"#, Some("x")),
            (
                r#"{"type":"shell_call_output","output":[{"stdout":"x","stderr":"y","outcome":{"type":"exit","exit_code":3}},{"stdout":"","stderr":"z","outcome":{"type":"timeout"}}]}"#,
                Some("Exit code: 3\nOutput:\nx\ny\nProcess timed out\nOutput:\nz"),
            ),
            (
                r#"{"type":"shell_call_output","output":{"x":1}}"#,
                Some(r#"{"x":1}"#),
            ),
            (
                r#"{"type":"apply_patch_call_output","output":"Done."}"#,
                Some("Done."),
            ),
            (
                r#"{"type":"apply_patch_call_output","status":"failed"}"#,
                None,
            ),
            (
                r#"{"type":"tool_search_output","tools":[],"output":"x"}"#,
                None,
            ),
            (r#"{"type":"message","role":"user","content":"x"}"#, None),
            (r#"{"type":"function_call","arguments":"{}"}"#, None),
        ] {
            let item = item(json);
            assert_eq!(text(&item).as_deref(), expected, "{json}");
            let chars = expected.unwrap_or_default().chars().count();
            assert!(chars <= max_text_len(&item), "{json}");
        }
    }
}
