//! The complete list of differences between Respondent's requests and the recorded requests for the
//! same conversation, each with its reason. "Theirs" is the recorded request, "ours" is the one
//! that Respondent makes.

use std::collections::HashMap;

use registry::{
    CallIds, ChatQuirks, EnumSet, ExtraContentReplay, MaxTokensField, Model, ReasoningControl,
    ReasoningReplay, ReasoningRequired, ResponseFormat,
};
use serde_json::{Value, json};

use super::requests::{SHARED_FIELDS, reasoning_and_text};

/// The properties of the provider and the model that affect a request.
pub struct ProviderProfile {
    pub quirks: ChatQuirks,
    /// The fields that the provider's file adds to every request.
    pub extras: Vec<String>,
    pub model: Model,
}

/// Brings two equivalent forms of a request to the same form before the comparison.
pub struct Normalization {
    pub why: &'static str,
    pub apply: fn(&mut Value, &mut Value, &ProviderProfile),
}

/// A path at which the requests may differ, and under which condition.
pub struct AllowedDifference {
    /// `[]` is any index of a list, and `*` at the end is everything below. `*` alone is any field
    /// of the request itself, and `?` is any such field that is not in [`SHARED_FIELDS`].
    pub at: &'static str,
    /// The condition, with the recorded value and ours; `None` is absent.
    pub when: fn(Option<&Value>, Option<&Value>, &ProviderProfile) -> bool,
    pub why: &'static str,
}

impl AllowedDifference {
    pub fn matches_path(&self, path: &str) -> bool {
        match self.at.strip_suffix('*') {
            Some("") => is_field(path),
            Some(parent) => path.starts_with(parent),
            None if self.at == "?" => is_field(path) && !SHARED_FIELDS.contains(&path),
            None => path == self.at,
        }
    }
}

fn is_field(path: &str) -> bool {
    !path.contains(['.', '['])
}

pub const NORMALIZATIONS: &[Normalization] = &[
    Normalization {
        why: "null is the same as absent",
        apply: |theirs, ours, _| {
            without_nulls(theirs);
            without_nulls(ours);
        },
    },
    Normalization {
        why: "a call may come with no text, an empty text or an empty list",
        apply: |theirs, ours, _| {
            each_message(theirs, without_empty_content);
            each_message(ours, without_empty_content);
        },
    },
    Normalization {
        why: "a list with a single text equals the text",
        apply: |theirs, ours, _| {
            each_message(theirs, plain_content);
            each_message(ours, plain_content);
        },
    },
    Normalization {
        why: "an image address may be in an object or not",
        apply: |theirs, ours, _| {
            each_message(theirs, image_objects);
            each_message(ours, image_objects);
        },
    },
    Normalization {
        why: "the provider's file names the field of the output limit",
        apply: |theirs, _, profile| {
            let name = match profile.quirks.max_tokens_field {
                MaxTokensField::MaxTokens => "max_tokens",
                MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
                MaxTokensField::None => return,
            };
            for other in ["max_tokens", "max_completion_tokens"] {
                if let Some(limit) = remove(theirs, other) {
                    theirs[name] = limit;
                }
            }
        },
    },
    Normalization {
        why: "arguments are compared as JSON",
        apply: |theirs, ours, _| {
            each_message(theirs, parse_arguments);
            each_message(ours, parse_arguments);
        },
    },
    Normalization {
        why: "earlier reasoning is sent in the form that the provider's file sets",
        apply: |theirs, ours, profile| {
            each_message(theirs, |message| normalize_reasoning(message, profile));
            each_message(ours, |message| {
                if profile.quirks.reasoning_replay == ReasoningReplay::ThinkTags {
                    normalize_reasoning(message, profile);
                }
            });
        },
    },
    Normalization {
        why: "a short assistant message separates a tool's result from the next user message",
        apply: |theirs, ours, profile| {
            if profile.quirks.answer_after_tool {
                remove_inserted_messages(theirs, ours);
            }
        },
    },
    Normalization {
        why: "system messages have the role that the provider's file sets",
        apply: |theirs, ours, _| {
            each_message(theirs, one_system_role);
            each_message(ours, one_system_role);
        },
    },
    Normalization {
        why: "the leading system messages are joined",
        apply: |theirs, ours, _| {
            if theirs["messages"].as_array().map(Vec::len)
                != ours["messages"].as_array().map(Vec::len)
            {
                join_leading_systems(theirs);
            }
        },
    },
    Normalization {
        why: "call ids have the form that the provider's file sets",
        apply: |theirs, ours, profile| {
            if profile.quirks.call_ids != CallIds::Any {
                number_calls(theirs);
                number_calls(ours);
            }
        },
    },
    Normalization {
        why: "provider-specific tools have no counterpart in the Responses API",
        apply: |theirs, _, _| {
            if let Some(tools) = theirs.get_mut("tools").and_then(Value::as_array_mut) {
                tools.retain(|tool| tool["function"].is_object());
            }
        },
    },
    Normalization {
        why: "an empty list is the same as absent",
        apply: |theirs, _, _| {
            if theirs["tools"].as_array().is_some_and(Vec::is_empty) {
                remove(theirs, "tools");
            }
            each_message(theirs, |message| {
                if message["tool_calls"].as_array().is_some_and(Vec::is_empty) {
                    remove(message, "tool_calls");
                }
            });
        },
    },
    Normalization {
        why: "the type of a tool is `function` even if it is absent",
        apply: |theirs, _, _| {
            for tool in theirs
                .get_mut("tools")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                tool["type"] = json!("function");
            }
        },
    },
    Normalization {
        why: "some providers call `required` `any`",
        apply: |theirs, ours, _| {
            for request in [theirs, ours] {
                if request["tool_choice"] == "any" {
                    request["tool_choice"] = json!("required");
                }
            }
        },
    },
    Normalization {
        why: "the provider's file adds fields to every request",
        apply: |theirs, ours, profile| {
            for name in &profile.extras {
                remove(ours, name);
                remove(theirs, name);
            }
        },
    },
];

pub const ALLOWED_DIFFERENCES: &[AllowedDifference] = &[
    AllowedDifference {
        at: "stream",
        when: |_, ours, _| ours == Some(&Value::Bool(true)),
        why: "we always ask for a stream",
    },
    AllowedDifference {
        at: "stream_options",
        when: |theirs, _, profile| theirs.is_none() == profile.quirks.stream_usage,
        why: "we ask for token counts wherever the provider supports that",
    },
    AllowedDifference {
        at: "tool_choice",
        when: |theirs, ours, _| theirs == Some(&json!("auto")) && ours.is_none(),
        why: "auto is the default",
    },
    AllowedDifference {
        at: "tool_choice",
        when: |_, _, profile| profile.quirks.tool_choice != EnumSet::all(),
        why: "the provider does not support every tool_choice",
    },
    AllowedDifference {
        at: "tools[].function.strict",
        when: |_, ours, profile| ours.is_none() && !profile.quirks.strict_tools,
        why: "strict is sent only if the provider's file says so",
    },
    AllowedDifference {
        at: "tools[].function.parameters*",
        when: |_, _, profile| profile.quirks.schema != EnumSet::empty(),
        why: "schemas are reduced to what the provider supports",
    },
    AllowedDifference {
        at: "tools[].cache_control",
        when: is_dropped,
        why: "cache markers have no counterpart in the Responses API",
    },
    AllowedDifference {
        at: "messages[].cache_control",
        when: is_dropped,
        why: "cache markers have no counterpart in the Responses API",
    },
    AllowedDifference {
        at: "messages[].content[].cache_control",
        when: |theirs, ours, profile| {
            is_dropped(theirs, ours, profile) || profile.quirks.cache_control
        },
        why: "cache markers have no counterpart in the Responses API",
    },
    AllowedDifference {
        at: "messages[].tool_calls[].cache_control",
        when: is_dropped,
        why: "cache markers have no counterpart in the Responses API",
    },
    AllowedDifference {
        at: "messages[].tool_calls[].index",
        when: is_dropped,
        why: "the index is meaningful only in streams",
    },
    AllowedDifference {
        at: "messages[].name",
        when: |theirs, ours, profile| {
            is_dropped(theirs, ours, profile) || profile.quirks.tool_names
        },
        why: "names of participants have no counterpart, and names of tools are sent only if they are required",
    },
    AllowedDifference {
        at: "messages[].prefix",
        when: is_dropped,
        why: "an answer to be continued has no counterpart in the Responses API",
    },
    AllowedDifference {
        at: "tools[].eager_input_streaming",
        when: is_dropped,
        why: "an extension of a single provider",
    },
    AllowedDifference {
        at: "messages[].content[].image_url.detail",
        when: |theirs, ours, _| theirs.is_none() && ours == Some(&json!("auto")),
        why: "auto is the default",
    },
    AllowedDifference {
        at: "messages[].content[].type",
        when: |theirs, ours, profile| {
            let is_file = theirs == Some(&json!("file")) && !profile.quirks.files;
            let is_image = theirs == Some(&json!("image_url")) && !profile.model.images;
            ours == Some(&json!("text")) && (is_file || is_image)
        },
        why: "a line of text replaces a file or an image that the model does not support",
    },
    AllowedDifference {
        at: "messages[].content[].text",
        when: |theirs, ours, profile| {
            let is_notice = ours
                .and_then(Value::as_str)
                .is_some_and(|line| line.starts_with('['));
            let is_unsupported = !profile.quirks.files || !profile.model.images;
            theirs.is_none() && is_notice && is_unsupported
        },
        why: "a line of text replaces a file or an image that the model does not support",
    },
    AllowedDifference {
        at: "messages[].content[].file",
        when: |theirs, ours, profile| is_dropped(theirs, ours, profile) && !profile.quirks.files,
        why: "a line of text replaces a file or an image that the model does not support",
    },
    AllowedDifference {
        at: "messages[].content[].image_url",
        when: |theirs, ours, profile| is_dropped(theirs, ours, profile) && !profile.model.images,
        why: "a line of text replaces a file or an image that the model does not support",
    },
    AllowedDifference {
        at: "messages[].reasoning_content",
        when: |theirs, ours, profile| {
            let is_empty = |value: Option<&Value>| {
                value.is_none_or(|value| value.as_str().is_some_and(|text| text.trim().is_empty()))
            };
            let is_required = profile.quirks.reasoning_required != ReasoningRequired::Never;
            is_empty(theirs) && is_empty(ours) && (ours.is_none() || is_required)
        },
        why: "empty reasoning is sent only where reasoning is required",
    },
    AllowedDifference {
        at: "messages[].tool_calls[].extra_content*",
        when: |_, _, profile| profile.quirks.call_extra == ExtraContentReplay::Required,
        why: "a placeholder replaces a lost signature",
    },
    AllowedDifference {
        at: "messages[].tool_calls[].extra_content",
        when: |theirs, ours, profile| {
            is_dropped(theirs, ours, profile)
                && profile.quirks.call_extra == ExtraContentReplay::None
        },
        why: "signatures are sent only to the provider that made them",
    },
    AllowedDifference {
        at: "reasoning_effort",
        when: |_, ours, profile| {
            let control = profile.quirks.reasoning_control;
            let has_field = matches!(
                control,
                ReasoningControl::Effort | ReasoningControl::ThinkingAndEffort
            );
            let is_level = ours
                .and_then(Value::as_str)
                .is_some_and(|level| profile.model.reasoning.iter().any(|known| known == level));
            (ours.is_none() && (!has_field || profile.model.reasoning.is_empty())) || is_level
        },
        why: "effort is sent with the model's own level names, and only to models that support it",
    },
    AllowedDifference {
        at: "reasoning*",
        when: |_, ours, profile| {
            ours.is_none() || profile.quirks.reasoning_control == ReasoningControl::Reasoning
        },
        why: "effort is the only reasoning setting that a client can send",
    },
    AllowedDifference {
        at: "thinking*",
        when: |theirs, ours, profile| {
            is_dropped(theirs, ours, profile)
                || matches!(
                    profile.quirks.reasoning_control,
                    ReasoningControl::Thinking | ReasoningControl::ThinkingAndEffort
                )
        },
        why: "thinking is switched on or off by the effort that the client asks for",
    },
    AllowedDifference {
        at: "*",
        when: |theirs, ours, profile| is_dropped(theirs, ours, profile) && !profile.model.sampling,
        why: "the model does not support sampling parameters",
    },
    AllowedDifference {
        at: "max_tokens",
        when: |theirs, ours, profile| is_lower(theirs, ours, profile.model.max_output),
        why: "the output limit is capped at the model's maximum",
    },
    AllowedDifference {
        at: "max_completion_tokens",
        when: |theirs, ours, profile| is_lower(theirs, ours, profile.model.max_output),
        why: "the output limit is capped at the model's maximum",
    },
    AllowedDifference {
        at: "max_tokens",
        when: |theirs, _, profile| theirs.is_none() && profile.quirks.default_max_tokens.is_some(),
        why: "the provider's default limit would truncate answers",
    },
    AllowedDifference {
        at: "response_format*",
        when: |_, _, profile| profile.quirks.response_format != ResponseFormat::JsonSchema,
        why: "the provider does not support schemas for answers",
    },
    AllowedDifference {
        at: "service_tier",
        when: |theirs, ours, profile| {
            is_dropped(theirs, ours, profile) && !profile.quirks.service_tier
        },
        why: "service tiers are provider-specific",
    },
    AllowedDifference {
        at: "parallel_tool_calls",
        when: |_, ours, profile| ours.is_none() && !profile.quirks.parallel_tool_calls,
        why: "the provider does not support parallel_tool_calls",
    },
    AllowedDifference {
        at: "?",
        when: is_dropped,
        why: "no counterpart in the Responses API",
    },
];

fn is_dropped(theirs: Option<&Value>, ours: Option<&Value>, _: &ProviderProfile) -> bool {
    theirs.is_some() && ours.is_none()
}

fn is_lower(theirs: Option<&Value>, ours: Option<&Value>, limit: Option<u64>) -> bool {
    let (theirs, ours) = (theirs.and_then(Value::as_u64), ours.and_then(Value::as_u64));
    ours.is_some() && ours == limit && theirs > ours
}

fn remove(object: &mut Value, name: &str) -> Option<Value> {
    object.as_object_mut()?.shift_remove(name)
}

fn each_message(request: &mut Value, change: impl Fn(&mut Value)) {
    request["messages"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .for_each(change);
}

fn without_nulls(request: &mut Value) {
    let drop = |object: &mut Value| {
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    };
    drop(request);
    for message in request["messages"].as_array_mut().into_iter().flatten() {
        drop(message);
        for part in message
            .get_mut("content")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            drop(part);
        }
    }
    for tool in request
        .get_mut("tools")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        drop(tool);
        tool.get_mut("function").map(drop);
    }
}

fn without_empty_content(message: &mut Value) {
    let calls = message.get("tool_calls").is_some();
    let is_empty = match message.get("content") {
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(parts)) => parts.is_empty(),
        _ => false,
    };
    if calls && is_empty {
        remove(message, "content");
    }
}

fn plain_content(message: &mut Value) {
    let text = match message["content"].as_array().map(Vec::as_slice) {
        Some([part]) if part["type"] == "text" => part["text"].clone(),
        _ => return,
    };
    message["content"] = text;
}

fn image_objects(message: &mut Value) {
    let parts = message.get_mut("content").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        if part.get("image_url").is_some_and(Value::is_string) {
            part["image_url"] = json!({"url": part["image_url"]});
        }
    }
}

fn parse_arguments(message: &mut Value) {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        let arguments = &mut call["function"]["arguments"];
        let text = arguments.as_str().unwrap_or_default();
        let text = if text.is_empty() { "{}" } else { text };
        if let Ok(parsed) = serde_json::from_str(text) {
            *arguments = parsed;
        }
    }
}

/// Moves the reasoning of an assistant message to where the provider expects it.
fn normalize_reasoning(message: &mut Value, profile: &ProviderProfile) {
    if message["role"] != "assistant" {
        return;
    }
    let Ok((reasoning, text)) = reasoning_and_text(message, profile) else {
        return;
    };
    let details = remove(message, "reasoning_details");
    let in_field = ["reasoning", "reasoning_content"]
        .map(|name| remove(message, name))
        .iter()
        .any(Option::is_some);
    let in_content = message["content"].is_array() || message["content"] != json!(text);
    if in_content && !reasoning.is_empty() && !in_field && details.is_none() {
        if text.is_empty() {
            remove(message, "content");
        } else {
            message["content"] = json!(text);
        }
    }
    if message.get("content").is_some_and(Value::is_null) {
        remove(message, "content");
    }
    if reasoning.is_empty() && details.is_none() {
        return;
    }
    match profile.quirks.reasoning_replay {
        ReasoningReplay::None => {}
        ReasoningReplay::ReasoningContent => message["reasoning_content"] = json!(reasoning),
        ReasoningReplay::Reasoning => message["reasoning"] = json!(reasoning),
        ReasoningReplay::ReasoningDetails => match details {
            Some(details) => message["reasoning_details"] = details,
            None => message["reasoning"] = json!(reasoning),
        },
        ReasoningReplay::ThinkTags => {
            message["content"] = json!(format!("<think>{reasoning}</think>{text}"));
        }
        ReasoningReplay::ThinkingParts => {
            let mut parts = vec![json!({"type": "thinking",
                "thinking": [{"type": "text", "text": reasoning}]})];
            if !text.is_empty() {
                parts.push(json!({"type": "text", "text": text}));
            }
            message["content"] = Value::Array(parts);
        }
    }
}

/// Removes the assistant messages that we insert between a tool result and a user message.
fn remove_inserted_messages(theirs: &Value, ours: &mut Value) {
    let Some(messages) = ours["messages"].as_array_mut() else {
        return;
    };
    let mut index = 1;
    while index < messages.len() {
        let is_inserted = messages[index - 1]["role"] == "tool"
            && messages[index]["role"] == "assistant"
            && messages[index].get("tool_calls").is_none()
            && theirs["messages"][index]["role"] == "user";
        if is_inserted {
            messages.remove(index);
        }
        index += 1;
    }
}

fn one_system_role(message: &mut Value) {
    if message["role"] == "developer" {
        message["role"] = json!("system");
    }
}

fn join_leading_systems(request: &mut Value) {
    let Some(messages) = request["messages"].as_array_mut() else {
        return;
    };
    let leading = messages
        .iter()
        .take_while(|message| message["role"] == "system")
        .count();
    if leading < 2 {
        return;
    }
    let texts: Vec<String> = messages
        .drain(..leading)
        .map(|message| match &message["content"] {
            Value::Array(parts) => parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect::<Vec<_>>()
                .join("\n\n"),
            content => content.as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    messages.insert(0, json!({"role": "system", "content": texts.join("\n\n")}));
}

/// Replaces call ids by numbers, so that only the pairing of calls and results is compared.
fn number_calls(request: &mut Value) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut number = |id: &mut Value| {
        let next = numbers.len();
        let text = id.as_str().unwrap_or_default().to_owned();
        *id = json!(*numbers.entry(text).or_insert(next));
    };
    for message in request["messages"].as_array_mut().into_iter().flatten() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            number(&mut call["id"]);
        }
        if message.get("tool_call_id").is_some() {
            number(&mut message["tool_call_id"]);
        }
    }
}
