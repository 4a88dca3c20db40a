//! The text of an output item, whatever form it has.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;
use crate::turn::{Item, ItemKind};

/// Which forms the output of an item may have.
enum Form {
    /// A string, or a list of content parts.
    Parts,
    /// A string, or some other JSON.
    Json,
    /// A string, or a list of `{stdout, stderr, outcome}`.
    Shell,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Run<'a> {
    #[serde(borrow)]
    stdout: Option<&'a RawValue>,
    #[serde(borrow)]
    stderr: Option<&'a RawValue>,
    #[serde(borrow)]
    outcome: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    exit_code: Option<i64>,
}

/// The text of a tool output, decoded: a string; the text parts of a list, a line
/// each, whatever else the list holds; of a hosted shell's runs what they printed; of
/// outputs that are other JSON, that JSON. `None` for items that are no outputs, for
/// the outputs of a tool search, whose tools are named elsewhere, and for outputs
/// without text.
pub fn text<'a>(item: &Item<'a>) -> Option<Cow<'a, str>> {
    let form = form(item.kind)?;
    let output = item.output()?;
    let json = output.get();
    if let Some(inner) = json::unquote(json) {
        return (!inner.is_empty()).then(|| json::unescape(inner));
    }
    match form {
        Form::Parts if json.starts_with('[') => parts(output),
        Form::Shell => runs(output).or(Some(json.into())),
        Form::Parts | Form::Json => (json != "null").then_some(json.into()),
    }
}

/// At most so many characters has the text of an output, found without decoding it:
/// no escape is shorter than what it stands for. 0 where [`text`] is `None` for the
/// item's type.
pub fn length_bound(item: &Item<'_>) -> usize {
    match (form(item.kind), item.output()) {
        (Some(_), Some(output)) => output.get().len(),
        (None, _) | (_, None) => 0,
    }
}

fn form(kind: ItemKind) -> Option<Form> {
    match kind {
        ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput => Some(Form::Parts),
        ItemKind::LocalShellCallOutput | ItemKind::ApplyPatchCallOutput => Some(Form::Json),
        ItemKind::ShellCallOutput => Some(Form::Shell),
        ItemKind::Message
        | ItemKind::Reasoning
        | ItemKind::FunctionCall
        | ItemKind::CustomToolCall
        | ItemKind::ToolSearchCall
        | ItemKind::ToolSearchOutput
        | ItemKind::LocalShellCall
        | ItemKind::ShellCall
        | ItemKind::ApplyPatchCall
        | ItemKind::AdditionalTools
        | ItemKind::ConfigurationUpdate
        | ItemKind::WebSearchCall
        | ItemKind::AgentMessage
        | ItemKind::ItemReference
        | ItemKind::Compaction
        | ItemKind::CompactionTrigger
        | ItemKind::Hosted
        | ItemKind::Unknown => None,
    }
}

fn parts(output: &RawValue) -> Option<Cow<'_, str>> {
    let parts: Vec<Part<'_>> = serde_json::from_str(output.get()).ok()?;
    let texts = parts.iter().filter_map(|part| part.text.or(part.refusal));
    join(texts)
}

/// What the runs of a hosted shell printed, each below a header as Codex writes it.
fn runs(output: &RawValue) -> Option<Cow<'_, str>> {
    let runs: Vec<Run<'_>> = serde_json::from_str(output.get()).ok()?;
    let mut all = String::new();
    for run in &runs {
        if !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        let outcome = run
            .outcome
            .and_then(|outcome| serde_json::from_str::<Outcome<'_>>(outcome.get()).ok());
        match outcome {
            Some(Outcome {
                exit_code: Some(code),
                ..
            }) => {
                let _ = writeln!(all, "Exit code: {code}\nOutput:");
            }
            Some(Outcome {
                kind: Some(kind), ..
            }) if kind == "timeout" => all.push_str("Process timed out\nOutput:\n"),
            Some(_) | None => {}
        }
        let printed = join([run.stdout, run.stderr].into_iter().flatten());
        all.push_str(&printed.unwrap_or_default());
    }
    (!all.is_empty()).then_some(all.into())
}

/// A line end between two texts, as it is sent.
fn join<'a>(texts: impl Iterator<Item = &'a RawValue>) -> Option<Cow<'a, str>> {
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
        Item::new(serde_json::from_str(json).unwrap())
    }

    // S2-Ga
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
            assert!(chars <= length_bound(&item), "{json}");
        }
    }
}
