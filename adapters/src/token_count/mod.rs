//! A neutral estimate of the input tokens of a request, for a client that asks. It follows what
//! OpenAI counts: messages and calls with the tokens around them, tools and schemas as the types
//! that the model reads. The bounds of a plan do not use it: they follow the bytes, and are
//! cautious.

mod text;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::text::tokens;
use crate::content::{ContentPart, read_parts};
use crate::item_text::arguments_json;
use crate::json::{self, only_from_object, string_value};
use crate::plan::{ItemAction, Plan};
use crate::turn::{Item, ItemKind, TextFormat, Turn};

/// What precedes the answer.
const ANSWER: f64 = 3.0;
/// The tokens around a message, a call, and a result.
const MESSAGE: f64 = 4.0;
const CALL: f64 = 9.0;
const RESULT: f64 = 7.0;
/// The tokens around all tools, and around each.
const TOOLS: f64 = 8.0;
const TOOL: f64 = 8.0;
/// The tokens around tools that came later.
const LATER_TOOLS: f64 = 60.0;
const FOUND_TOOLS: f64 = 180.0;
/// The tokens around the schema of an answer, and its tokens for each token of its JSON.
const FORMAT: f64 = 6.0;
const FORMAT_SHARE: f64 = 0.65;
/// An image of middling size, and one at the detail `low`.
const IMAGE: f64 = 600.0;
const SMALL_IMAGE: f64 = 85.0;

/// The definition of a tool or of a namespace.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Definition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
    parameters: Option<&'a RawValue>,
    format: Option<&'a RawValue>,
    tools: Option<&'a RawValue>,
    execution: Option<&'a RawValue>,
    defer_loading: Option<&'a RawValue>,
}
only_from_object!(Definition, "an object");

/// Estimates the tokens of a text.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; no text has 2^52 tokens"
)]
pub fn text_tokens(text: &str) -> u64 {
    tokens(text).ceil() as u64
}

/// Estimates the input tokens of a turn that is sent by this plan.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
pub fn input_tokens(turn: &Turn<'_>, plan: &Plan) -> u64 {
    let mut total = ANSWER;
    if let Some(instructions) = plan.instructions(turn) {
        total += MESSAGE + tokens(&instructions.decoded());
    }
    for (index, item) in turn.items.iter().enumerate() {
        let is_dropped = matches!(plan.actions.get(index), Some(ItemAction::Drop(_)));
        total += match item.kind {
            ItemKind::AdditionalTools => LATER_TOOLS,
            ItemKind::ToolSearchOutput | ItemKind::ServerToolSearch if item.tools().is_some() => {
                FOUND_TOOLS
            }
            ItemKind::Reasoning | ItemKind::ServerToolSearch => item_tokens(item, None),
            _ if is_dropped => 0.0,
            _ => item_tokens(item, plan.replacement_text(index)),
        };
    }
    let definitions = turn.tools.definitions();
    let searches = turn.tools.searchable().is_some();
    let offered = definitions.iter().map(|definition| {
        // A tool that a search has still to find is not in the prompt.
        let with_deferred = definition.found || !searches;
        definition_tokens(definition.raw, with_deferred)
    });
    let offered: f64 = offered.sum();
    if offered > 0.0 {
        total += TOOLS + offered;
    }
    if let TextFormat::JsonSchema {
        name,
        schema,
        description,
        ..
    } = &turn.controls.format
    {
        let description = description.as_ref().map(|text| tokens(&text.decoded()));
        let compact = serde_json::from_str::<Value>(schema.get()).map(|it| it.to_string());
        total += FORMAT + tokens(&name.decoded()) + description.unwrap_or_default();
        total += FORMAT_SHARE * tokens(&compact.unwrap_or_default());
    }
    total.round() as u64
}

/// An item as it is sent; `shown` is the text that replaces its own.
fn item_tokens(item: &Item<'_>, shown: Option<&str>) -> f64 {
    let shown = shown.map(tokens);
    match item.kind {
        kind if kind.is_call() || kind == ItemKind::ServerToolSearch => {
            let name = item.name().map_or(0.0, |name| tokens(&name));
            let input = || match item.input() {
                Some(input) => tokens(&input.decoded()),
                None => tokens(&arguments_json(item)),
            };
            CALL + name + shown.unwrap_or_else(input)
        }
        kind if kind.is_output() => RESULT + shown.unwrap_or_else(|| content_tokens(item.output())),
        ItemKind::Reasoning => {
            let content = content_tokens(item.content());
            MESSAGE + content.max(content_tokens(item.summary()))
        }
        _ => {
            let own = || match item.plain_text() {
                Some(text) => tokens(&text.decoded()),
                // What a hosted tool did and found is told in a message.
                None => content_tokens(item.content().or_else(|| item.output())),
            };
            MESSAGE + shown.unwrap_or_else(own)
        }
    }
}

/// A content that is a string or a list of parts.
fn content_tokens(content: Option<&RawValue>) -> f64 {
    let Some(raw) = content else {
        return 0.0;
    };
    if let Some(text) = string_value(Some(raw)) {
        return tokens(&text);
    }
    match read_parts(raw.get()) {
        Ok(parts) => parts.iter().map(part_tokens).sum(),
        Err(_) => tokens(raw.get()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn part_tokens(part: &ContentPart<'_>) -> f64 {
    if part.image_url.is_some() {
        let is_small = string_value(part.detail).is_some_and(|detail| detail == "low");
        return if is_small { SMALL_IMAGE } else { IMAGE };
    }
    if let Some(data) = part.file_data {
        let bytes = data.get().len() as f64;
        // Four characters of base64 are three bytes of text, and those are a token at most.
        return if part.is_text_file() {
            bytes * 3.0 / 16.0
        } else {
            100.0 + bytes / 60.0
        };
    }
    let text = string_value(part.text());
    text.map_or(0.0, |text| tokens(&text))
}

/// The tokens of a definition. Tools that a search has still to find count if `with_deferred`.
fn definition_tokens(raw: &RawValue, with_deferred: bool) -> f64 {
    let Ok(tool) = serde_json::from_str::<Definition<'_>>(raw.get()) else {
        return 0.0;
    };
    let text = |text: &Option<Cow<'_, str>>| text.as_deref().map_or(0.0, tokens);
    let parsed = |raw: Option<&RawValue>| -> Value {
        let value = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
        value.unwrap_or_default()
    };
    let runs_at_client = string_value(tool.execution).is_some_and(|by| by == "client");
    match tool.kind.as_deref().unwrap_or("function") {
        "namespace" => {
            let inside: Vec<&RawValue> = json::list(tool.tools);
            let inside = inside
                .iter()
                .map(|raw| definition_tokens(raw, with_deferred));
            let inside: f64 = inside.sum();
            if inside > 0.0 {
                TOOL + text(&tool.name) + text(&tool.description) + inside
            } else {
                0.0
            }
        }
        "function" | "custom" if !with_deferred && json::is_true(tool.defer_loading) => 0.0,
        // The API describes these tools itself, at length.
        "apply_patch" => 600.0,
        "tool_search" if !runs_at_client => 260.0,
        "shell" | "local_shell" => 100.0,
        "function" | "custom" | "tool_search" => {
            let grammar = parsed(tool.format);
            let grammar = grammar.get("definition").and_then(Value::as_str);
            let schema = schema_tokens(&parsed(tool.parameters));
            TOOL + text(&tool.name) + text(&tool.description) + schema + grammar.map_or(0.0, tokens)
        }
        // Other tools that run at a provider are left out.
        _ => 0.0,
    }
}

/// A schema as the type that a model reads: names with their types, descriptions, values.
fn schema_tokens(schema: &Value) -> f64 {
    let Value::Object(fields) = schema else {
        return 0.0;
    };
    let each = |value: &Value| -> f64 {
        match value {
            Value::Array(list) => list.iter().map(|one| 1.0 + schema_tokens(one)).sum(),
            Value::Object(_) => 1.0 + schema_tokens(value),
            _ => 0.0,
        }
    };
    let values = |values: &Value| -> f64 {
        let list = values.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .map(|value| 2.0 + tokens(&value.to_string()))
            .sum()
    };
    let of_field = |(name, value): (&String, &Value)| match name.as_str() {
        "properties" => {
            let properties = value.as_object().into_iter().flatten();
            let named = properties.map(|(name, value)| tokens(name) + 2.0 + schema_tokens(value));
            named.sum()
        }
        "$defs" | "definitions" => {
            let types = value.as_object().into_iter().flatten();
            types.map(|(_, value)| schema_tokens(value)).sum()
        }
        "description" => 2.0 + value.as_str().map_or(0.0, tokens),
        "type" if value == "object" => 3.0,
        "type" => 1.0,
        "enum" => values(value),
        "anyOf" | "oneOf" | "allOf" | "items" => each(value),
        "default" | "const" | "minimum" | "maximum" | "pattern" | "format" => {
            2.0 + tokens(&value.to_string())
        }
        _ => 0.0,
    };
    fields.iter().map(of_field).sum()
}

#[cfg(test)]
mod tests;
