//! Reads and checks the parameters of a request other than its input and its tools.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::{only_from_object, string_value};
use crate::members::Members;
use crate::notes::Notes;
use crate::text::Text;
use crate::turn::{Controls, TextFormat};

/// The parameters of Chat Completions that change the answer: what the Responses API has in their
/// place, and a value that changes nothing.
const CHAT_PARAMETERS: &[(&str, &str, &str)] = &[
    ("messages", "input", ""),
    ("response_format", "text.format", ""),
    ("max_tokens", "max_output_tokens", ""),
    ("max_completion_tokens", "max_output_tokens", ""),
    ("functions", "tools", ""),
    ("function_call", "tool_choice", ""),
    ("reasoning_effort", "reasoning.effort", ""),
    ("verbosity", "text.verbosity", ""),
    ("logprobs", "top_logprobs", "false"),
    ("stop", "", "[]"),
    ("n", "", "1"),
];

/// The fault of a parameter that only Chat Completions has, in the words of OpenAI. To leave it out
/// would answer something that the client did not ask for.
pub(super) fn refuse_chat_parameter(name: &str, value: &RawValue) -> Option<Fault> {
    let mut known = CHAT_PARAMETERS.iter();
    let (name, moved_to, harmless) = known.find(|(known, ..)| *known == name)?;
    if value.get() == *harmless {
        return None;
    }
    let rest = if moved_to.is_empty() {
        "The Responses API has no such parameter: leave it out.".to_owned()
    } else {
        format!(
            "In the Responses API, this parameter has moved to '{moved_to}'. Try again with the new parameter."
        )
    };
    let message = format!("Unsupported parameter: '{name}'. {rest}");
    Some(Fault::invalid(*name, message).with_code("unsupported_parameter"))
}

/// The limits of OpenAI's API: at most 16 pairs of strings, keys of up to 64 and values of
/// up to 512 characters.
pub(super) fn check_metadata(metadata: Option<&RawValue>) -> Result<(), Fault> {
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

/// `truncation`: whether the oldest items may be dropped if the history does not fit.
pub(super) fn read_truncation(raw: Option<&RawValue>) -> Result<bool, Fault> {
    match raw.map(|raw| string_value(Some(raw))) {
        None => Ok(false),
        Some(Some(mode)) if mode == "disabled" => Ok(false),
        Some(Some(mode)) if mode == "auto" => Ok(true),
        Some(_) => Err(Fault::invalid(
            "truncation",
            "The parameter 'truncation' must be 'auto' or 'disabled'.",
        )),
    }
}

/// OpenAI's reference: `compact_threshold` is at least 1000. With less, the items that
/// compaction keeps would not fit.
const MIN_COMPACT_THRESHOLD: u64 = 1_000;

/// `context_management`: the smallest `compact_threshold` in tokens, `u64::MAX` for an
/// entry without one, `None` without an entry.
pub(super) fn read_context_management(raw: Option<&RawValue>) -> Result<Option<u64>, Fault> {
    #[derive(Deserialize)]
    #[serde(remote = "Self")]
    struct ContextManagementEntry<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        compact_threshold: Option<&'a RawValue>,
    }
    only_from_object!(ContextManagementEntry, "an object");
    let Some(raw) = raw else { return Ok(None) };
    let entries: Vec<ContextManagementEntry<'_>> = serde_json::from_str(raw.get()).map_err(|_| {
        Fault::invalid(
            "context_management",
            "The parameter 'context_management' must be a list of objects, such as [{\"type\":\"compaction\",\"compact_threshold\":100000}].",
        )
    })?;
    let mut from: Option<u64> = None;
    for (index, entry) in entries.iter().enumerate() {
        if string_value(entry.kind).as_deref() != Some("compaction") {
            return Err(Fault::invalid(
                format!("context_management[{index}].type"),
                "The only type of context management is 'compaction'.",
            ));
        }
        let threshold = read_integer(
            entry.compact_threshold,
            "context_management.compact_threshold",
            MIN_COMPACT_THRESHOLD..=u64::MAX,
        )?;
        let threshold = threshold.unwrap_or(u64::MAX);
        from = Some(from.map_or(threshold, |from| from.min(threshold)));
    }
    Ok(from)
}

/// Reads the parameter `text` (format and verbosity) into `controls`.
pub(super) fn read_text<'a>(
    raw: Option<&'a RawValue>,
    controls: &mut Controls<'a>,
) -> Result<(), Fault> {
    #[derive(Deserialize)]
    #[serde(remote = "Self")]
    struct TextParameter<'a> {
        #[serde(borrow)]
        format: Option<TextFormatFields<'a>>,
        verbosity: Option<&'a RawValue>,
    }
    only_from_object!(TextParameter, "an object");
    #[derive(Deserialize)]
    #[serde(remote = "Self")]
    struct TextFormatFields<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
        name: Option<&'a RawValue>,
        schema: Option<&'a RawValue>,
        strict: Option<bool>,
        description: Option<&'a RawValue>,
    }
    only_from_object!(TextFormatFields, "an object");
    let Some(raw) = raw else { return Ok(()) };
    let part: TextParameter<'a> = serde_json::from_str(raw.get()).map_err(|error| {
        Fault::invalid(
            "text",
            format!("The parameter 'text' cannot be read: {error}."),
        )
    })?;
    if part.verbosity.is_some() {
        controls.verbosity = string_value(part.verbosity);
    }
    let Some(format) = part.format else {
        return Ok(());
    };
    controls.format = match format.kind.as_deref() {
        None | Some("text") => TextFormat::Text,
        Some("json_object") => TextFormat::JsonObject,
        Some("json_schema") => TextFormat::JsonSchema {
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

/// Reads the effort of the parameter `reasoning` into `controls`.
pub(super) fn read_reasoning<'a>(
    raw: Option<&'a RawValue>,
    controls: &mut Controls<'a>,
) -> Result<(), Fault> {
    #[derive(Deserialize)]
    #[serde(remote = "Self")]
    struct ReasoningParameter<'a> {
        #[serde(borrow)]
        effort: Option<&'a RawValue>,
    }
    only_from_object!(ReasoningParameter, "an object");
    let Some(raw) = raw else { return Ok(()) };
    let part: ReasoningParameter<'a> =
        serde_json::from_str(raw.get()).map_err(|_| no_object("reasoning"))?;
    if let Some(effort) = string_value(part.effort) {
        controls.effort = Some(effort);
    }
    Ok(())
}

fn no_object(name: &'static str) -> Fault {
    Fault::invalid(name, format!("The parameter '{name}' must be an object."))
}

/// Reads the parameter `include` into `controls`; a note lists unknown entries.
/// The entry of `include` that asks for what a search has found, addresses alone.
pub(super) const SEARCH_SOURCES: &str = "web_search_call.action.sources";
/// The entry of `include` that asks for what a search has found.
pub(super) const SEARCH_RESULTS: &str = "web_search_call.results";

pub(super) fn read_include(raw: Option<&RawValue>, controls: &mut Controls<'_>, notes: &mut Notes) {
    let list: Vec<Cow<'_, str>> = raw
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    for entry in list {
        match entry.as_ref() {
            "reasoning.encrypted_content" => controls.encrypted_reasoning = true,
            "message.output_text.logprobs" => controls.logprobs = true,
            SEARCH_SOURCES => controls.search_sources = true,
            SEARCH_RESULTS => controls.search_results = true,
            other => notes.add("include_ignored", other),
        }
    }
}

pub(super) fn read_number(
    raw: Option<&RawValue>,
    name: &'static str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>, Fault> {
    read_scalar(raw, name, "a number", |value: &f64| range.contains(value)).map_err(|mut fault| {
        let (low, high) = (range.start(), range.end());
        fault.message = format!("{} Allowed is {low} to {high}.", fault.message);
        fault
    })
}

pub(super) fn read_integer(
    raw: Option<&RawValue>,
    name: &'static str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, Fault> {
    read_scalar(raw, name, "a whole number in its range", |value| {
        range.contains(value)
    })
}

pub(super) fn read_bool(raw: Option<&RawValue>, name: &'static str) -> Result<Option<bool>, Fault> {
    read_scalar(raw, name, "true or false", |_| true)
}

fn read_scalar<'a, T: Deserialize<'a>>(
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

/// Reads the `comparison_response_id` of `prompt_cache_options`. The other options are for a cache
/// that the client controls, which no provider here has; a note names them.
pub(super) fn read_cache_comparison(
    options: Option<&RawValue>,
    notes: &mut Notes,
) -> Result<Option<String>, Fault> {
    const NAME: &str = "prompt_cache_options";
    const COMPARED: &str = "comparison_response_id";
    let Some(options) = options else {
        return Ok(None);
    };
    let members = Members::read(options.get()).ok_or_else(|| no_object(NAME))?;
    if members.iter().any(|(name, _)| name != COMPARED) {
        notes.add("parameter_ignored", NAME);
    }
    Ok(members.text(COMPARED).map(Cow::into_owned))
}
