//! A request body becomes a [`Turn`] that borrows from it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::tools;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::text::Text;
use crate::tools::Toolbox;
use crate::turn::{Controls, Echo, Fields, Format, Item, ItemKind, Turn, string};

/// The deepest nesting of a request: twice what most JSON readers allow.
const DEPTH: usize = 256;

/// The bytes of a turn. A [`Turn`] borrows from them.
#[derive(Debug)]
pub struct Source {
    body: String,
}

impl Source {
    /// Takes a request body.
    pub fn new(body: String) -> Self {
        Self { body }
    }

    /// Reads the turn. Errors are the client's and name the parameter.
    pub fn turn(&self) -> Result<Turn<'_>, Fault> {
        parse(&self.body)
    }
}

/// The top level. Scalars are raw too, so that a wrong type gets a message
/// that names it.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<Input<'a>>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    background: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    top_p: Option<&'a RawValue>,
    #[serde(borrow)]
    presence_penalty: Option<&'a RawValue>,
    #[serde(borrow)]
    frequency_penalty: Option<&'a RawValue>,
    #[serde(borrow)]
    top_logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    max_output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    max_tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow)]
    parallel_tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    include: Option<&'a RawValue>,
    #[serde(borrow)]
    truncation: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    safety_identifier: Option<&'a RawValue>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    context_management: Option<&'a RawValue>,
    #[serde(borrow)]
    moderation: Option<&'a RawValue>,
}

fn parse(json: &str) -> Result<Turn<'_>, Fault> {
    if json::lone_surrogate_anywhere(json) {
        return Err(Fault::invalid("input", "A string holds half of a UTF-16 surrogate pair (a \\ud800-\\udfff escape without its partner). Send the whole character or U+FFFD.")
            .with_code("invalid_json"));
    }
    if json::deeper_than(json, DEPTH) {
        return Err(Fault::invalid(
            "body",
            format!("Arrays and objects of the request body lie more than {DEPTH} deep."),
        )
        .with_code("invalid_json"));
    }
    let body: Body<'_> = serde_json::from_str(json).map_err(|error| not_json(json, &error))?;
    let mut notes = Notes::default();

    let model = match body.model.map(RawValue::get) {
        None => {
            return Err(Fault::invalid("model", "The parameter 'model' is missing.")
                .with_code("missing_required_parameter"));
        }
        Some(_) => string(body.model)
            .filter(|model| !model.trim().is_empty())
            .ok_or_else(|| {
                Fault::invalid("model", "The parameter 'model' must be a non-empty string.")
            })?,
    };
    refuse_what_needs_a_store(&body)?;
    check_metadata(body.metadata)?;
    let items = match body.input {
        Some(Input::Items(items)) => items,
        Some(Input::Text(text)) => vec![Item::user(text)],
        None => Vec::new(),
    };
    if items.is_empty() && body.instructions.is_none() {
        return Err(Fault::invalid(
            "input",
            "The parameter 'input' is missing: send a string or a list of items.",
        )
        .with_code("missing_required_parameter"));
    }
    let instructions = match body.instructions {
        None => None,
        Some(raw) => Some(Text::from_raw(raw).ok_or_else(|| {
            Fault::invalid(
                "instructions",
                "The parameter 'instructions' must be a string.",
            )
        })?),
    };

    let mut controls = Controls {
        temperature: number(body.temperature, "temperature", 0.0..=2.0)?,
        top_p: number(body.top_p, "top_p", 0.0..=1.0)?,
        presence_penalty: number(body.presence_penalty, "presence_penalty", -2.0..=2.0)?,
        frequency_penalty: number(body.frequency_penalty, "frequency_penalty", -2.0..=2.0)?,
        top_logprobs: integer(body.top_logprobs, "top_logprobs", 0..=20)?,
        max_output_tokens: integer(body.max_output_tokens, "max_output_tokens", 1..=u64::MAX)?,
        service_tier: string(body.service_tier),
        prompt_cache_key: body.prompt_cache_key.and_then(Text::from_raw),
        ..Controls::default()
    };
    read_text(body.text, &mut controls)?;
    read_reasoning(body.reasoning, &mut controls);
    read_include(body.include, &mut controls, &mut notes);
    for update in items
        .iter()
        .filter(|item| item.kind == ItemKind::ConfigurationUpdate)
    {
        read_text(update.text(), &mut controls)?;
        read_reasoning(update.reasoning(), &mut controls);
    }
    for (name, raw) in [
        ("context_management", body.context_management),
        ("moderation", body.moderation),
    ] {
        if raw.is_some() {
            notes.add("parameter_ignored", name);
        }
    }
    if string(body.truncation).is_some_and(|mode| mode == "auto") {
        notes.add(
            "parameter_ignored",
            "truncation: nothing is dropped; an overflow is reported",
        );
    }

    let mut toolbox = Toolbox::default();
    let mut dropped = Vec::new();
    let inside = items.iter().filter(|item| {
        matches!(
            item.kind,
            ItemKind::AdditionalTools | ItemKind::ToolSearchOutput
        )
    });
    for list in body.tools.into_iter().chain(inside.filter_map(Item::tools)) {
        tools::collect(list, &mut toolbox, &mut dropped)?;
    }
    for kind in &dropped {
        notes.add("tool_dropped", kind.clone());
    }
    let choice = tools::choice(body.tool_choice, &toolbox, &dropped)?;

    Ok(Turn {
        model,
        stream: flag(body.stream, "stream")?.unwrap_or(false),
        instructions,
        items,
        tools: toolbox,
        choice,
        parallel: flag(body.parallel_tool_calls, "parallel_tool_calls")?,
        controls,
        echo: Echo {
            instructions: body.instructions,
            metadata: body.metadata,
            prompt_cache_key: body.prompt_cache_key,
            reasoning: body.reasoning,
            safety_identifier: body.safety_identifier,
            text: body.text,
            tool_choice: body.tool_choice,
            tools: body.tools,
            truncation: body.truncation,
            max_tool_calls: body.max_tool_calls,
            user: body.user,
        },
        notes,
    })
}

/// The message for a body that does not parse, with the place.
fn not_json(json: &str, error: &serde_json::Error) -> Fault {
    let what = match error.classify() {
        serde_json::error::Category::Data => "does not fit the Responses API",
        _ => "is not valid JSON",
    };
    let hint = if json.trim_start().starts_with('{') {
        ""
    } else {
        " It must be one JSON object."
    };
    Fault::invalid("body", format!("The request body {what}: {error}.{hint}"))
        .with_code("invalid_json")
}

/// Nothing is stored yet: what refers to stored things cannot be found.
fn refuse_what_needs_a_store(body: &Body<'_>) -> Result<(), Fault> {
    if let Some(id) = string(body.previous_response_id) {
        return Err(Fault::invalid("previous_response_id", format!("Previous response with id '{id}' not found. Responses are not stored: send the whole input."))
            .with_code("previous_response_not_found"));
    }
    if body.conversation.is_some() {
        return Err(Fault::invalid(
            "conversation",
            "Conversations are not stored: send the whole input.",
        )
        .with_code("conversation_not_found"));
    }
    if flag(body.background, "background")?.unwrap_or(false) {
        return Err(Fault::invalid(
            "background",
            "Background responses are not available: send the request without 'background'.",
        )
        .with_code("unsupported_parameter"));
    }
    if body.prompt.is_some() {
        return Err(Fault::invalid(
            "prompt",
            "Stored prompts are not available: send 'instructions' and 'input'.",
        )
        .with_code("unsupported_parameter"));
    }
    Ok(())
}

/// At most 16 pairs of strings, keys up to 64 and values up to 512 characters.
fn check_metadata(metadata: Option<&RawValue>) -> Result<(), Fault> {
    let Some(metadata) = metadata else {
        return Ok(());
    };
    let wrong = |message: &str| Fault::invalid("metadata", message.to_owned());
    let pairs: std::collections::HashMap<Cow<'_, str>, String> =
        serde_json::from_str(metadata.get()).map_err(|_| {
            wrong("The parameter 'metadata' must be an object whose values are strings.")
        })?;
    if pairs.len() > 16 {
        return Err(wrong("The parameter 'metadata' holds more than 16 pairs."));
    }
    if pairs.keys().any(|key| key.chars().count() > 64) {
        return Err(wrong("A key of 'metadata' is longer than 64 characters."));
    }
    if pairs.values().any(|value| value.chars().count() > 512) {
        return Err(wrong(
            "A value of 'metadata' is longer than 512 characters.",
        ));
    }
    Ok(())
}

fn read_text<'a>(raw: Option<&'a RawValue>, controls: &mut Controls<'a>) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        format: Option<FormatFields<'a>>,
        #[serde(borrow)]
        verbosity: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct FormatFields<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        schema: Option<&'a RawValue>,
        strict: Option<bool>,
        #[serde(borrow)]
        description: Option<&'a RawValue>,
    }
    let Some(raw) = raw else { return Ok(()) };
    let part: Part<'a> = serde_json::from_str(raw.get()).map_err(|error| {
        Fault::invalid(
            "text",
            format!("The parameter 'text' cannot be read: {error}."),
        )
    })?;
    if part.verbosity.is_some() {
        controls.verbosity = string(part.verbosity);
    }
    let Some(format) = part.format else {
        return Ok(());
    };
    controls.format = match format.kind.as_deref() {
        None | Some("text") => Format::Text,
        Some("json_object") => Format::JsonObject,
        Some("json_schema") => Format::JsonSchema {
            name: format.name.and_then(Text::from_raw).ok_or_else(|| {
                Fault::invalid("text.format.name", "A JSON schema needs a 'name'.")
            })?,
            schema: format.schema.ok_or_else(|| {
                Fault::invalid(
                    "text.format.schema",
                    "The format 'json_schema' needs a 'schema'.",
                )
            })?,
            strict: format.strict,
            description: format.description.and_then(Text::from_raw),
        },
        Some(other) => {
            return Err(Fault::invalid(
                "text.format.type",
                format!(
                    "The text format '{other}' is not known: use text, json_object or json_schema."
                ),
            ));
        }
    };
    Ok(())
}

fn read_reasoning<'a>(raw: Option<&'a RawValue>, controls: &mut Controls<'a>) {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        effort: Option<&'a RawValue>,
    }
    let part = raw.and_then(|raw| serde_json::from_str::<Part<'a>>(raw.get()).ok());
    if let Some(effort) = part.and_then(|part| string(part.effort)) {
        controls.effort = Some(effort);
    }
}

fn read_include(raw: Option<&RawValue>, controls: &mut Controls<'_>, notes: &mut Notes) {
    let list: Vec<Cow<'_, str>> = raw
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    for entry in list {
        match entry.as_ref() {
            "reasoning.encrypted_content" => controls.encrypted_reasoning = true,
            "message.output_text.logprobs" => controls.logprobs = true,
            other => notes.add("include_ignored", other),
        }
    }
}

fn number(
    raw: Option<&RawValue>,
    name: &'static str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>, Fault> {
    scalar(raw, name, "a number", |value: &f64| range.contains(value)).map_err(|mut fault| {
        let (low, high) = (range.start(), range.end());
        fault.message = format!("{} Allowed is {low} to {high}.", fault.message);
        fault
    })
}

fn integer(
    raw: Option<&RawValue>,
    name: &'static str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, Fault> {
    scalar(raw, name, "a whole number in its range", |value| {
        range.contains(value)
    })
}

fn flag(raw: Option<&RawValue>, name: &'static str) -> Result<Option<bool>, Fault> {
    scalar(raw, name, "true or false", |_| true)
}

fn scalar<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
    name: &'static str,
    wanted: &str,
    fits: impl Fn(&T) -> bool,
) -> Result<Option<T>, Fault> {
    let Some(raw) = raw else { return Ok(None) };
    match serde_json::from_str(raw.get()) {
        Ok(value) if fits(&value) => Ok(Some(value)),
        _ => Err(Fault::invalid(
            name,
            format!("The parameter '{name}' must be {wanted}."),
        )),
    }
}

/// `input` is a string or a list of items.
enum Input<'a> {
    Text(&'a RawValue),
    Items(Vec<Item<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Input<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'a RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            return Ok(Self::Text(raw));
        }
        serde_json::from_str::<Items<'a>>(raw.get())
            .map(|items| Self::Items(items.0))
            .map_err(de::Error::custom)
    }
}

struct Items<'a>(Vec<Item<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Vec<Item<'de>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of items for 'input'")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(fields) = list.next_element::<Fields<'de>>()? {
                    items.push(Item::new(fields));
                }
                Ok(items)
            }

            fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
                Err(de::Error::custom(
                    "'input' is an object; it must be a string or a list of items",
                ))
            }
        }
        deserializer.deserialize_seq(List).map(Items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_makes_no_sense_is_told_where() {
        for (body, param, code) in [
            ("", "body", Some("invalid_json")),
            ("[]", "body", Some("invalid_json")),
            (
                r#"{"model":"m","input":"a","input":"b"}"#,
                "body",
                Some("invalid_json"),
            ),
            (r#"{"model":"m","input":{}}"#, "body", Some("invalid_json")),
            (
                r#"{"model":"m","input":"\ud800"}"#,
                "input",
                Some("invalid_json"),
            ),
            (
                r#"{"input":"a"}"#,
                "model",
                Some("missing_required_parameter"),
            ),
            (r#"{"model":7,"input":"a"}"#, "model", None),
            (r#"{"model":" ","input":"a"}"#, "model", None),
            (
                r#"{"model":"m"}"#,
                "input",
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","input":[]}"#,
                "input",
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","input":"a","instructions":7}"#,
                "instructions",
                None,
            ),
            (
                r#"{"model":"m","input":"a","temperature":3}"#,
                "temperature",
                None,
            ),
            (r#"{"model":"m","input":"a","top_p":"1"}"#, "top_p", None),
            (
                r#"{"model":"m","input":"a","top_logprobs":21}"#,
                "top_logprobs",
                None,
            ),
            (
                r#"{"model":"m","input":"a","max_output_tokens":0}"#,
                "max_output_tokens",
                None,
            ),
            (
                r#"{"model":"m","input":"a","stream":"yes"}"#,
                "stream",
                None,
            ),
            (
                r#"{"model":"m","input":"a","metadata":{"k":1}}"#,
                "metadata",
                None,
            ),
            (
                r#"{"model":"m","input":"a","previous_response_id":"resp_1"}"#,
                "previous_response_id",
                Some("previous_response_not_found"),
            ),
            (
                r#"{"model":"m","input":"a","conversation":"conv_1"}"#,
                "conversation",
                Some("conversation_not_found"),
            ),
            (
                r#"{"model":"m","input":"a","background":true}"#,
                "background",
                Some("unsupported_parameter"),
            ),
            (
                r#"{"model":"m","input":"a","prompt":{"id":"p"}}"#,
                "prompt",
                Some("unsupported_parameter"),
            ),
            (
                r#"{"model":"m","input":"a","text":{"format":{"type":"xml"}}}"#,
                "text.format.type",
                None,
            ),
            (
                r#"{"model":"m","input":"a","text":{"format":{"type":"json_schema","name":"n"}}}"#,
                "text.format.schema",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tools":[{"type":"function"}]}"#,
                "tools",
                None,
            ),
            (r#"{"model":"m","input":"a","tools":{}}"#, "tools", None),
            (
                r#"{"model":"m","input":"a","tool_choice":"maybe"}"#,
                "tool_choice",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tool_choice":"required"}"#,
                "tool_choice",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}"#,
                "tool_choice",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tool_choice":{"type":"function","name":"f"}}"#,
                "tool_choice",
                None,
            ),
        ] {
            let fault = Source::new(body.into()).turn().unwrap_err();
            assert_eq!(fault.kind, crate::fault::Kind::InvalidRequest, "{body}");
            assert_eq!(fault.param.as_deref(), Some(param), "{body}");
            assert_eq!(fault.code(), code, "{body}");
        }
    }

    #[test]
    fn what_is_unknown_is_no_error() {
        for body in [
            r#"{"model":"m","input":"a","client_metadata":{"a":"b"},"access_programs":[]}"#,
            r#"{"model":"m","input":[{"type":"new_item","x":[1]}]}"#,
            r#"{"model":"m","input":"a","tools":[{"type":"new_tool","format":{"type":"text"}}]}"#,
            r#"{"model":"m","input":"a","temperature":null,"tools":null,"tool_choice":null,"metadata":null}"#,
            r#"{"model":"m","instructions":"only"}"#,
        ] {
            assert!(Source::new(body.into()).turn().is_ok(), "{body}");
        }
    }
}
