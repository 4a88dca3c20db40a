//! Why our requests differ from recorded ones for the same conversation: the
//! whole list, each with its reason.

use std::collections::HashMap;

use registry::{
    CallIds, EnumSet, ExtraContentReplay, MaxTokensField, Model, Quirks, ReasoningControl,
    ReasoningReplay, ReasoningRequired, ResponseFormat,
};
use serde_json::{Value, json};

use super::requests::{SAID, thought_and_text};

/// How the model is spoken to.
pub struct Speech {
    pub quirks: Quirks,
    /// The fields that the provider's file adds to every request.
    pub extras: Vec<String>,
    pub model: Model,
}

/// Another way to say the same: both requests are brought to one form.
pub struct Rewrite {
    pub why: &'static str,
    pub apply: fn(&mut Value, &mut Value, &Speech),
}

/// A place where both differ, and when they may.
pub struct Leaf {
    /// `[]` is any place in a list, `*` at the end is everything below; `*`
    /// alone is a field of the request itself, `?` one that is not [`SAID`].
    pub at: &'static str,
    /// With the recorded value and ours; `None` is absent.
    pub when: fn(Option<&Value>, Option<&Value>, &Speech) -> bool,
    pub why: &'static str,
}

impl Leaf {
    pub fn is_at(&self, path: &str) -> bool {
        match self.at.strip_suffix('*') {
            Some("") => is_field(path),
            Some(above) => path.starts_with(above),
            None if self.at == "?" => is_field(path) && !SAID.contains(&path),
            None => path == self.at,
        }
    }
}

fn is_field(path: &str) -> bool {
    !path.contains(['.', '['])
}

pub const REWRITES: &[Rewrite] = &[
    Rewrite {
        why: "null is the same as absent",
        apply: |theirs, ours, _| {
            without_nulls(theirs);
            without_nulls(ours);
        },
    },
    Rewrite {
        why: "a call may come with no text, an empty text or an empty list",
        apply: |theirs, ours, _| {
            each_message(theirs, without_empty_content);
            each_message(ours, without_empty_content);
        },
    },
    Rewrite {
        why: "a list of one text is the text",
        apply: |theirs, ours, _| {
            each_message(theirs, plain_content);
            each_message(ours, plain_content);
        },
    },
    Rewrite {
        why: "an image is its address, in an object or not",
        apply: |theirs, ours, _| {
            each_message(theirs, image_objects);
            each_message(ours, image_objects);
        },
    },
    Rewrite {
        why: "the output limit has the name that the provider's file says",
        apply: |theirs, _, speech| {
            let name = match speech.quirks.max_tokens_field {
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
    Rewrite {
        why: "arguments are compared as the JSON that they are",
        apply: |theirs, ours, _| {
            each_message(theirs, parse_arguments);
            each_message(ours, parse_arguments);
        },
    },
    Rewrite {
        why: "earlier thinking goes back in the form that the provider's file says",
        apply: |theirs, ours, speech| {
            each_message(theirs, |message| thinking(message, speech));
            each_message(ours, |message| {
                if speech.quirks.reasoning_replay == ReasoningReplay::ThinkTags {
                    thinking(message, speech);
                }
            });
        },
    },
    Rewrite {
        why: "a word of the model stands between a tool's result and what the user says next",
        apply: |theirs, ours, speech| {
            if speech.quirks.answer_after_tool {
                without_bridges(theirs, ours);
            }
        },
    },
    Rewrite {
        why: "system messages have the role that the provider's file says",
        apply: |theirs, ours, _| {
            each_message(theirs, one_system_role);
            each_message(ours, one_system_role);
        },
    },
    Rewrite {
        why: "the leading system messages are joined",
        apply: |theirs, ours, _| {
            if theirs["messages"].as_array().map(Vec::len)
                != ours["messages"].as_array().map(Vec::len)
            {
                join_leading_systems(theirs);
            }
        },
    },
    Rewrite {
        why: "call ids have the form that the provider's file says",
        apply: |theirs, ours, speech| {
            if speech.quirks.call_ids != CallIds::Any {
                number_calls(theirs);
                number_calls(ours);
            }
        },
    },
    Rewrite {
        why: "tools of the provider's own have no counterpart in the Responses API",
        apply: |theirs, _, _| {
            if let Some(tools) = theirs.get_mut("tools").and_then(Value::as_array_mut) {
                tools.retain(|tool| tool["function"].is_object());
            }
        },
    },
    Rewrite {
        why: "an empty list says nothing",
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
    Rewrite {
        why: "a tool is a function, said or not",
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
    Rewrite {
        why: "required is called any by some",
        apply: |theirs, ours, _| {
            for request in [theirs, ours] {
                if request["tool_choice"] == "any" {
                    request["tool_choice"] = json!("required");
                }
            }
        },
    },
    Rewrite {
        why: "the provider's file adds fields to every request",
        apply: |theirs, ours, speech| {
            for name in &speech.extras {
                remove(ours, name);
                remove(theirs, name);
            }
        },
    },
];

pub const LEAVES: &[Leaf] = &[
    Leaf {
        at: "stream",
        when: |_, ours, _| ours == Some(&Value::Bool(true)),
        why: "we always ask for a stream",
    },
    Leaf {
        at: "stream_options",
        when: |theirs, _, speech| theirs.is_none() == speech.quirks.stream_usage,
        why: "we ask for the token counts wherever that is understood",
    },
    Leaf {
        at: "tool_choice",
        when: |theirs, ours, _| theirs == Some(&json!("auto")) && ours.is_none(),
        why: "auto is the default",
    },
    Leaf {
        at: "tool_choice",
        when: |_, _, speech| speech.quirks.tool_choice != EnumSet::all(),
        why: "the provider does not know every tool_choice",
    },
    Leaf {
        at: "tools[].function.strict",
        when: |_, ours, speech| ours.is_none() && !speech.quirks.strict_tools,
        why: "strict is sent where the provider's file says so",
    },
    Leaf {
        at: "tools[].function.parameters*",
        when: |_, _, speech| speech.quirks.schema != EnumSet::empty(),
        why: "schemas are brought to what the provider understands",
    },
    Leaf {
        at: "tools[].cache_control",
        when: is_dropped,
        why: "marks of a cache have no counterpart in the Responses API",
    },
    Leaf {
        at: "messages[].cache_control",
        when: is_dropped,
        why: "marks of a cache have no counterpart in the Responses API",
    },
    Leaf {
        at: "messages[].content[].cache_control",
        when: |theirs, ours, speech| {
            is_dropped(theirs, ours, speech) || speech.quirks.cache_control
        },
        why: "marks of a cache have no counterpart in the Responses API",
    },
    Leaf {
        at: "messages[].tool_calls[].cache_control",
        when: is_dropped,
        why: "marks of a cache have no counterpart in the Responses API",
    },
    Leaf {
        at: "messages[].tool_calls[].index",
        when: is_dropped,
        why: "the index belongs to streams",
    },
    Leaf {
        at: "messages[].name",
        when: |theirs, ours, speech| is_dropped(theirs, ours, speech) || speech.quirks.tool_names,
        why: "names of speakers have no counterpart, names of tools are sent where they are wanted",
    },
    Leaf {
        at: "messages[].prefix",
        when: is_dropped,
        why: "an answer to go on with has no counterpart in the Responses API",
    },
    Leaf {
        at: "tools[].eager_input_streaming",
        when: is_dropped,
        why: "an extension of one model's maker",
    },
    Leaf {
        at: "messages[].content[].image_url.detail",
        when: |theirs, ours, _| theirs.is_none() && ours == Some(&json!("auto")),
        why: "auto is the default",
    },
    Leaf {
        at: "messages[].content[].type",
        when: |theirs, ours, speech| {
            let is_file = theirs == Some(&json!("file")) && !speech.quirks.files;
            let is_image = theirs == Some(&json!("image_url")) && !speech.model.images;
            ours == Some(&json!("text")) && (is_file || is_image)
        },
        why: "a line stands in for a file or an image that the model does not take",
    },
    Leaf {
        at: "messages[].content[].text",
        when: |theirs, ours, speech| {
            let is_line = ours
                .and_then(Value::as_str)
                .is_some_and(|line| line.starts_with('['));
            let is_left_out = !speech.quirks.files || !speech.model.images;
            theirs.is_none() && is_line && is_left_out
        },
        why: "a line stands in for a file or an image that the model does not take",
    },
    Leaf {
        at: "messages[].content[].file",
        when: |theirs, ours, speech| is_dropped(theirs, ours, speech) && !speech.quirks.files,
        why: "a line stands in for a file or an image that the model does not take",
    },
    Leaf {
        at: "messages[].content[].image_url",
        when: |theirs, ours, speech| is_dropped(theirs, ours, speech) && !speech.model.images,
        why: "a line stands in for a file or an image that the model does not take",
    },
    Leaf {
        at: "messages[].reasoning_content",
        when: |theirs, ours, speech| {
            let says_nothing = |value: Option<&Value>| {
                value.is_none_or(|value| value.as_str().is_some_and(|text| text.trim().is_empty()))
            };
            let is_wanted = speech.quirks.reasoning_required != ReasoningRequired::Never;
            says_nothing(theirs) && says_nothing(ours) && (ours.is_none() || is_wanted)
        },
        why: "empty thinking is sent where thinking is demanded, and nowhere else",
    },
    Leaf {
        at: "messages[].tool_calls[].extra_content*",
        when: |_, _, speech| speech.quirks.call_extra == ExtraContentReplay::Required,
        why: "a placeholder stands in for a signature that was lost",
    },
    Leaf {
        at: "messages[].tool_calls[].extra_content",
        when: |theirs, ours, speech| {
            is_dropped(theirs, ours, speech) && speech.quirks.call_extra == ExtraContentReplay::None
        },
        why: "signatures go back to those who sent them",
    },
    Leaf {
        at: "reasoning_effort",
        when: |_, ours, speech| {
            let spoken = speech.quirks.reasoning_control;
            let has_field = matches!(
                spoken,
                ReasoningControl::Effort | ReasoningControl::ThinkingAndEffort
            );
            let is_level = ours
                .and_then(Value::as_str)
                .is_some_and(|level| speech.model.reasoning.iter().any(|known| known == level));
            (ours.is_none() && (!has_field || speech.model.reasoning.is_empty())) || is_level
        },
        why: "effort is said in the model's own words, and only to models that are known to have it",
    },
    Leaf {
        at: "reasoning*",
        when: |_, ours, speech| {
            ours.is_none() || speech.quirks.reasoning_control == ReasoningControl::Reasoning
        },
        why: "effort is all that a client can say of thinking",
    },
    Leaf {
        at: "thinking*",
        when: |theirs, ours, speech| {
            is_dropped(theirs, ours, speech)
                || matches!(
                    speech.quirks.reasoning_control,
                    ReasoningControl::Thinking | ReasoningControl::ThinkingAndEffort
                )
        },
        why: "thinking is switched by the effort that the client asks for",
    },
    Leaf {
        at: "*",
        when: |theirs, ours, speech| is_dropped(theirs, ours, speech) && !speech.model.sampling,
        why: "the model takes no sampling parameters",
    },
    Leaf {
        at: "max_tokens",
        when: |theirs, ours, speech| is_lower(theirs, ours, speech.model.max_output),
        why: "the output limit stays within the model's",
    },
    Leaf {
        at: "max_completion_tokens",
        when: |theirs, ours, speech| is_lower(theirs, ours, speech.model.max_output),
        why: "the output limit stays within the model's",
    },
    Leaf {
        at: "max_tokens",
        when: |theirs, _, speech| theirs.is_none() && speech.quirks.default_max_tokens.is_some(),
        why: "the provider's own default cuts answers short",
    },
    Leaf {
        at: "response_format*",
        when: |_, _, speech| speech.quirks.response_format != ResponseFormat::JsonSchema,
        why: "the provider knows no schemas for answers",
    },
    Leaf {
        at: "service_tier",
        when: |theirs, ours, speech| {
            is_dropped(theirs, ours, speech) && !speech.quirks.service_tier
        },
        why: "tiers are the provider's own",
    },
    Leaf {
        at: "parallel_tool_calls",
        when: |_, ours, speech| ours.is_none() && !speech.quirks.parallel_tool_calls,
        why: "the provider does not know parallel_tool_calls",
    },
    Leaf {
        at: "?",
        when: is_dropped,
        why: "no counterpart in the Responses API",
    },
];

fn is_dropped(theirs: Option<&Value>, ours: Option<&Value>, _: &Speech) -> bool {
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

fn thinking(message: &mut Value, speech: &Speech) {
    if message["role"] != "assistant" {
        return;
    }
    let Ok((thought, text)) = thought_and_text(message, speech) else {
        return;
    };
    let details = remove(message, "reasoning_details");
    let in_field = ["reasoning", "reasoning_content"]
        .map(|name| remove(message, name))
        .iter()
        .any(Option::is_some);
    let in_content = message["content"].is_array() || message["content"] != json!(text);
    if in_content && !thought.is_empty() && !in_field && details.is_none() {
        if text.is_empty() {
            remove(message, "content");
        } else {
            message["content"] = json!(text);
        }
    }
    if message.get("content").is_some_and(Value::is_null) {
        remove(message, "content");
    }
    if thought.is_empty() && details.is_none() {
        return;
    }
    match speech.quirks.reasoning_replay {
        ReasoningReplay::None => {}
        ReasoningReplay::ReasoningContent => message["reasoning_content"] = json!(thought),
        ReasoningReplay::Reasoning => message["reasoning"] = json!(thought),
        ReasoningReplay::ReasoningDetails => match details {
            Some(details) => message["reasoning_details"] = details,
            None => message["reasoning"] = json!(thought),
        },
        ReasoningReplay::ThinkTags => {
            message["content"] = json!(format!("<think>{thought}</think>{text}"));
        }
        ReasoningReplay::ThinkingParts => {
            let mut parts = vec![json!({"type": "thinking",
                "thinking": [{"type": "text", "text": thought}]})];
            if !text.is_empty() {
                parts.push(json!({"type": "text", "text": text}));
            }
            message["content"] = Value::Array(parts);
        }
    }
}

fn without_bridges(theirs: &Value, ours: &mut Value) {
    let Some(messages) = ours["messages"].as_array_mut() else {
        return;
    };
    let mut place = 1;
    while place < messages.len() {
        let is_bridge = messages[place - 1]["role"] == "tool"
            && messages[place]["role"] == "assistant"
            && messages[place].get("tool_calls").is_none()
            && theirs["messages"][place]["role"] == "user";
        if is_bridge {
            messages.remove(place);
        }
        place += 1;
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

/// Calls and their results keep their pairing under any names.
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
