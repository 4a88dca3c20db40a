//! The text of an output item, whatever form it has.

use std::borrow::Cow;

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
    if let Some(inner) = json::inner(json) {
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

fn runs(output: &RawValue) -> Option<Cow<'_, str>> {
    let runs: Vec<Run<'_>> = serde_json::from_str(output.get()).ok()?;
    join(
        runs.iter()
            .flat_map(|run| [run.stdout, run.stderr])
            .flatten(),
    )
}

/// A line end between two texts, as it is sent.
fn join<'a>(texts: impl Iterator<Item = &'a RawValue>) -> Option<Cow<'a, str>> {
    let mut joined: Option<Cow<'a, str>> = None;
    for text in texts.filter_map(|raw| json::inner(raw.get())) {
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
