//! A recorded Chat request is converted into the Responses request that a client would have sent.
//! Encoding that must give the recorded request again, except for the differences that
//! `differences` explains.

use std::collections::BTreeSet;

use adapters::baggage::Baggage;
use adapters::event::ReasoningStateForm;
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use adapters::wire::{EncodeOptions, encode};
use registry::{Provider, ReasoningReplay, ThinkTags};
use serde_json::{Map, Value, json};

use super::body::Recording;
use super::compare::compare;
use super::differences::ProviderProfile;
use super::{assert_no_problems, providers};

/// The fields of a Chat request that have a counterpart in the Responses API. A client cannot send
/// the others.
pub const SHARED_FIELDS: &[&str] = &[
    "frequency_penalty",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "verbosity",
];

pub fn check(folder: &str, recordings: &[Recording]) {
    let provider = providers::provider(folder);
    let mut problems = Vec::new();
    for recording in recordings {
        if let Some(request) = &recording.request {
            let unexplained = unexplained_differences(&provider, request, &mut BTreeSet::new());
            for problem in unexplained.unwrap_or_default() {
                problems.push(format!("{folder}/{}: {problem}", recording.name));
            }
        }
    }
    assert_no_problems(&problems);
}

/// The unexplained differences; `None` for a request that no client of the Responses API can send.
/// The reasons that were needed are added to `used`.
pub fn unexplained_differences(
    provider: &Provider,
    recorded: &Value,
    used: &mut BTreeSet<&'static str>,
) -> Option<Vec<String>> {
    let name = recorded["model"].as_str().unwrap_or_default();
    let (dialect, model) = providers::model(provider, name);
    let profile = ProviderProfile {
        quirks: *dialect.quirks.as_chat().unwrap(),
        extras: dialect.body.iter().map(|(name, _)| name.clone()).collect(),
        model,
    };
    let origin = format!("{}/{name}", provider.id);
    let request = match as_responses(recorded, &origin, &profile) {
        Ok(request) => request,
        Err(why) => {
            used.insert(why);
            return None;
        }
    };
    let source = TurnSource::new(request.to_string());
    let options = EncodeOptions {
        origin: &origin,
        ..EncodeOptions::new(&dialect, &profile.model, name)
    };
    let encoded = source
        .turn()
        .and_then(|turn| encode(&turn, &plan(&turn, &Bounds::none()), &options))
        .map(|request| request.encoded);
    Some(match encoded {
        Ok(encoded) => {
            let ours = serde_json::from_slice(&encoded.body).unwrap();
            compare(recorded, ours, &profile, used)
        }
        Err(fault) => vec![format!("is refused: {fault}; {request}")],
    })
}

/// The equivalent Responses request. The error names what the Responses API cannot express.
fn as_responses(
    chat: &Value,
    origin: &str,
    profile: &ProviderProfile,
) -> Result<Value, &'static str> {
    let mut converted = Map::new();
    converted.insert("model".to_owned(), chat["model"].clone());
    for (theirs, ours) in [
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("presence_penalty", "presence_penalty"),
        ("frequency_penalty", "frequency_penalty"),
        ("max_tokens", "max_output_tokens"),
        ("max_completion_tokens", "max_output_tokens"),
        ("parallel_tool_calls", "parallel_tool_calls"),
        ("top_logprobs", "top_logprobs"),
        ("service_tier", "service_tier"),
        ("prompt_cache_key", "prompt_cache_key"),
        ("stream", "stream"),
    ] {
        if let Some(value) = chat.get(theirs).filter(|value| !value.is_null()) {
            converted.insert(ours.to_owned(), value.clone());
        }
    }
    if chat["logprobs"] == true {
        converted.insert(
            "include".to_owned(),
            json!(["message.output_text.logprobs"]),
        );
    }
    let effort = [&chat["reasoning_effort"], &chat["reasoning"]["effort"]]
        .into_iter()
        .find(|effort| effort.is_string());
    if let Some(effort) = effort {
        converted.insert("reasoning".to_owned(), json!({"effort": effort}));
    }
    let mut text = Map::new();
    if let Some(format) = format(&chat["response_format"]) {
        text.insert("format".to_owned(), format);
    }
    if chat["verbosity"].is_string() {
        text.insert("verbosity".to_owned(), chat["verbosity"].clone());
    }
    if !text.is_empty() {
        converted.insert("text".to_owned(), Value::Object(text));
    }
    let tools: Vec<Value> = list(&chat["tools"]).filter_map(tool).collect();
    if !tools.is_empty() {
        converted.insert("tools".to_owned(), Value::Array(tools));
    }
    if let Some(choice) = tool_choice(&chat["tool_choice"]) {
        converted.insert("tool_choice".to_owned(), choice);
    }
    let mut input = Vec::new();
    for message in list(&chat["messages"]) {
        push_items(&mut input, message, origin, profile)?;
    }
    converted.insert("input".to_owned(), Value::Array(input));
    Ok(Value::Object(converted))
}

fn format(format: &Value) -> Option<Value> {
    if format["type"] != "json_schema" {
        return (format["type"] == "json_object").then(|| json!({"type": "json_object"}));
    }
    let mut converted = Map::new();
    converted.insert("type".to_owned(), json!("json_schema"));
    for (name, value) in format["json_schema"].as_object()? {
        converted.insert(name.clone(), value.clone());
    }
    Some(Value::Object(converted))
}

fn tool(tool: &Value) -> Option<Value> {
    let mut converted = Map::new();
    converted.insert("type".to_owned(), json!("function"));
    for (name, value) in tool["function"].as_object()? {
        converted.insert(name.clone(), value.clone());
    }
    Some(Value::Object(converted))
}

fn tool_choice(choice: &Value) -> Option<Value> {
    match choice.as_str() {
        // Mistral's name for it.
        Some("any") => Some(json!("required")),
        Some(mode) => Some(json!(mode)),
        None => {
            let name = choice["function"]["name"].as_str()?;
            Some(json!({"type": "function", "name": name}))
        }
    }
}

fn push_items(
    input: &mut Vec<Value>,
    message: &Value,
    origin: &str,
    profile: &ProviderProfile,
) -> Result<(), &'static str> {
    match message["role"].as_str().unwrap_or_default() {
        "assistant" => {
            let (reasoning, text) = reasoning_and_text(message, profile)?;
            let details = &message["reasoning_details"];
            if !reasoning.is_empty() || details.is_array() {
                let details = details.is_array().then(|| details.to_string());
                let states = details.map(|json| (ReasoningStateForm::new('d'), json));
                let baggage = Baggage {
                    reasoning: reasoning.clone(),
                    origin: origin.to_owned(),
                    states: states.into_iter().collect(),
                };
                input.push(json!({
                    "type": "reasoning", "id": format!("rs_{}", input.len()),
                    "summary": [{"type": "summary_text", "text": reasoning}],
                    "encrypted_content": baggage.seal(),
                }));
            }
            if !text.is_empty() {
                input.push(json!({"type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": text}]}));
            }
            for call in list(&message["tool_calls"]) {
                let function = &call["function"];
                if call["extra_content"].is_object() {
                    let extra = call["extra_content"].to_string();
                    let baggage = Baggage {
                        origin: origin.to_owned(),
                        states: vec![(ReasoningStateForm::new('x'), extra)],
                        ..Baggage::default()
                    };
                    input.push(
                        json!({"type": "reasoning", "id": format!("rs_{}", input.len()),
                        "summary": [], "encrypted_content": baggage.seal()}),
                    );
                }
                input.push(json!({"type": "function_call", "call_id": call["id"],
                    "name": function["name"], "arguments": function["arguments"]}));
            }
        }
        "tool" => input.push(json!({"type": "function_call_output",
            "call_id": message["tool_call_id"], "output": content(&message["content"])?})),
        "function" => return Err("messages of the deprecated functions are not tool results"),
        role => input.push(json!({"type": "message", "role": role,
            "content": content(&message["content"])?})),
    }
    Ok(())
}

fn content(content: &Value) -> Result<Value, &'static str> {
    let Value::Array(parts) = content else {
        return Ok(content.clone());
    };
    let part = |part: &Value| match part["type"].as_str().unwrap_or_default() {
        "text" => Ok(json!({"type": "input_text", "text": part["text"]})),
        "image_url" => {
            let image = &part["image_url"];
            let url = image.get("url").unwrap_or(image);
            let mut converted = json!({"type": "input_image", "image_url": url});
            if image["detail"].is_string() {
                converted["detail"] = image["detail"].clone();
            }
            Ok(converted)
        }
        "file" if part["file"]["file_data"].is_string() => {
            let mut converted = part["file"].clone();
            converted["type"] = json!("input_file");
            Ok(converted)
        }
        "file" => Err("a file given by id or address is stored at the provider"),
        "document_url" => Err("the Responses API has no documents by address"),
        "input_audio" | "audio_url" => Err("audio is not supported in requests"),
        "video_url" => Err("the Responses API does not support video"),
        _ => Err("a content type that the Responses API does not have"),
    };
    parts
        .iter()
        .map(part)
        .collect::<Result<Vec<_>, _>>()
        .map(Value::Array)
}

/// The reasoning and the text of an assistant message, which a client receives separately.
pub fn reasoning_and_text(
    message: &Value,
    profile: &ProviderProfile,
) -> Result<(String, String), &'static str> {
    let mut reasoning = String::new();
    let mut text = String::new();
    match &message["content"] {
        Value::Array(parts) => {
            for part in parts {
                match part["type"].as_str() {
                    Some("text") => text += part["text"].as_str().unwrap_or_default(),
                    Some("thinking") => {
                        for piece in list(&part["thinking"]) {
                            reasoning += piece["text"].as_str().unwrap_or_default();
                        }
                    }
                    _ => return Err("an assistant message with more than text"),
                }
            }
        }
        content => text += content.as_str().unwrap_or_default(),
    }
    for name in ["reasoning_content", "reasoning"] {
        if reasoning.is_empty() {
            reasoning += message[name].as_str().unwrap_or_default();
        }
    }
    if reasoning.is_empty() {
        reasoning = list(&message["reasoning_details"])
            .filter_map(|detail| {
                detail["text"]
                    .as_str()
                    .or_else(|| detail["summary"].as_str())
            })
            .collect();
    }
    let has_tags = profile.quirks.think_tags != ThinkTags::Off
        || profile.quirks.reasoning_replay == ReasoningReplay::ThinkTags;
    if has_tags
        && let Some((tagged, rest)) = text
            .strip_prefix("<think>")
            .and_then(|text| text.split_once("</think>"))
    {
        return Ok((tagged.trim().to_owned(), rest.trim_start().to_owned()));
    }
    Ok((reasoning, text))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
