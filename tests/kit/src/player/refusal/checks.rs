//! The checks of the rules.

use super::{BreachTokens, ReasoningRequirement, RefusalRule, RuleBreach, schema};
use crate::player::http::PlayerRequest;
use crate::player::responses_checks;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

impl RefusalRule {
    /// The first thing in the request that breaks the rule.
    pub(super) fn breach(&self, request: &PlayerRequest) -> Option<RuleBreach> {
        let messages = request.messages();
        let field = |name: &str| request.json.get(name).filter(|value| !value.is_null());
        let any = |test: &dyn Fn(&Value) -> Option<String>| {
            let mut messages = messages.iter().enumerate();
            messages.find_map(|(index, message)| test(message).map(|found| breach_at(index, found)))
        };
        let follows = |first: &str, second: &str| {
            let mut pairs = messages.windows(2).enumerate();
            pairs.find_map(|(index, pair)| match pair {
                [a, b] if role(a) == first && role(b) == second => {
                    Some(breach_at(index + 1, String::new()))
                }
                _ => None,
            })
        };
        let named = |name: &str| field(name).map(|value| breach_at(0, value.to_string()));
        match self {
            Self::Developer => any(&|message| broken_if(role(message) == "developer")),
            Self::SystemRole => any(&|message| broken_if(role(message) == "system")),
            Self::LateSystem => any(&|message| {
                let first = messages
                    .first()
                    .is_some_and(|first| std::ptr::eq(first, message));
                broken_if(!first && matches!(role(message), "system" | "developer"))
            }),
            Self::UserAfterTool => follows("tool", "user"),
            Self::UserAfterUser => follows("user", "user"),
            Self::EmptyAssistant => any(&|message| {
                let empty = match message.get("content") {
                    None | Some(Value::Null) => true,
                    Some(Value::String(text)) => text.is_empty(),
                    Some(_) => false,
                };
                broken_if(role(message) == "assistant" && empty && calls(message).is_empty())
            }),
            Self::EmptyContent => any(&|message| broken_if(has_empty_text(message))),
            Self::NullContent => {
                any(&|message| broken_if(message.get("content") == Some(&Value::Null)))
            }
            Self::MissingContent => any(&|message| broken_if(message.get("content").is_none())),
            Self::UnmatchedResults => unmatched_result(messages),
            Self::UnansweredCalls => unanswered_call(messages),
            Self::BadArguments => any(&|message| {
                let mut calls = calls(message).iter();
                let bad = calls.find(|call| {
                    let text = call.pointer("/function/arguments").and_then(Value::as_str);
                    serde_json::from_str::<Map<String, Value>>(text.unwrap_or_default()).is_err()
                });
                bad.map(|call| text(call, "id").to_owned())
            }),
            Self::SameCallIds => {
                let mut seen = BTreeSet::new();
                let mut ids = messages.iter().flat_map(calls).map(|call| text(call, "id"));
                ids.find(|id| !seen.insert(*id))
                    .map(|id| breach_at(0, id.to_owned()))
            }
            Self::CallIdForm => ids(messages)
                .find(|(_, id)| {
                    id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric())
                })
                .map(|(index, id)| breach_at(index, id.to_owned())),
            Self::CallIdCharacters => {
                let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                ids(messages)
                    .find(|(_, id)| !id.bytes().all(is_word))
                    .map(|(index, id)| breach_at(index, id.to_owned()))
            }
            Self::CallIdLength(limit) => ids(messages)
                .find(|(_, id)| id.chars().count() > *limit)
                .map(|(index, id)| RuleBreach {
                    tokens: with_limit(limit),
                    ..breach_at(index, id.to_owned())
                }),
            Self::MissingToolNames => any(&|message| {
                broken_if(role(message) == "tool" && text(message, "name").is_empty())
            }),
            Self::MissingReasoningContent(need) => any(&|message| {
                let thought = message.get("reasoning_content").and_then(Value::as_str);
                broken_if(
                    role(message) == "assistant"
                        && match need {
                            ReasoningRequirement::Calls => {
                                !calls(message).is_empty() && thought.unwrap_or_default().is_empty()
                            }
                            ReasoningRequirement::Always => thought.is_none(),
                        },
                )
            }),
            Self::ReasoningContentUnknown => {
                any(&|message| broken_if(message.get("reasoning_content").is_some()))
            }
            Self::MissingThoughtSignature => unsigned_call(messages),
            Self::Images => any(&|message| images(message).next()),
            Self::ImageUrls => any(&|message| images(message).find(|url| url.starts_with("http"))),
            Self::ImageWithoutText => any(&|message| {
                let has_text = parts(message)
                    .iter()
                    .any(|part| !text(part, "text").is_empty());
                images(message).next().filter(|_| !has_text)
            }),
            Self::ToolImages => {
                any(&|message| images(message).next().filter(|_| role(message) == "tool"))
            }
            Self::UnknownFields(known) => {
                let mut fields = request.json.as_object().into_iter().flat_map(Map::keys);
                let unknown = fields.find(|field| !known.contains(field));
                unknown.map(|field| breach_at(0, field.clone()))
            }
            Self::Fields(refused) => {
                let found = refused.iter().find(|name| field(name).is_some());
                found.map(|name| breach_at(0, name.clone()))
            }
            Self::EffortOtherThan(levels) => {
                let effort = field("reasoning_effort").and_then(Value::as_str);
                let other = effort.filter(|effort| levels.iter().all(|level| level != effort));
                other.map(|effort| breach_at(0, effort.to_owned()))
            }
            Self::MessageLength(limit) => any(&|message| {
                let is_limited = matches!(role(message), "system" | "user");
                let length = text(message, "content").chars().count() as u64;
                broken_if(is_limited && length > *limit)
            })
            .map(|breach| RuleBreach {
                tokens: with_limit(limit),
                ..breach
            }),
            Self::StrictTools => {
                let mut tools = request.tools().enumerate();
                let strict = tools.find(|(_, function)| function.get("strict").is_some());
                strict.map(|(index, function)| breach_at(index, text(function, "name").to_owned()))
            }
            Self::MaxTokensUnsupported => named("max_tokens"),
            Self::MaxCompletionTokensUnsupported => named("max_completion_tokens"),
            Self::MaxTokensLimit(limit) => {
                let output = output_limit(request);
                (output > *limit).then(|| RuleBreach {
                    tokens: with_limit(limit),
                    ..breach_at(0, output.to_string())
                })
            }
            Self::Window(limit) | Self::DenseWindow(limit) => {
                let bytes = request.body.len() as u64;
                let prompt = match self {
                    Self::DenseWindow(_) => bytes * 10 / 27,
                    _ => bytes / 4,
                };
                let tokens = BreachTokens {
                    prompt,
                    output: output_limit(request),
                    limit: limit.to_string(),
                };
                (tokens.prompt.saturating_add(tokens.output) > *limit).then(|| RuleBreach {
                    tokens,
                    ..RuleBreach::default()
                })
            }
            Self::Temperature => {
                let one = field("temperature").and_then(Value::as_f64);
                named("temperature").filter(|_| one != Some(1.0))
            }
            Self::TemperatureAbove(hundredths) => {
                let value = field("temperature").and_then(Value::as_f64);
                #[expect(clippy::cast_precision_loss, reason = "a small number")]
                let highest = *hundredths as f64 / 100.0;
                let value = value.filter(|value| *value > highest);
                value.map(|value| breach_at(0, value.to_string()))
            }
            Self::ToolChoiceOtherThan(accepted) => {
                let choice = field("tool_choice").map(|choice| match choice.as_str() {
                    Some(choice) => choice.to_owned(),
                    None => "specified".to_owned(),
                });
                let other = choice.filter(|choice| !accepted.contains(choice));
                other.map(|choice| breach_at(0, choice))
            }
            Self::ToolChoiceRequired => {
                let free = ["auto", "none"].map(Value::from);
                field("tool_choice")
                    .filter(|choice| !free.contains(choice))
                    .map(|choice| breach_at(0, choice.to_string()))
            }
            Self::ParallelToolCalls => named("parallel_tool_calls"),
            Self::JsonSchema => request
                .json
                .pointer("/response_format/type")
                .filter(|kind| *kind == "json_schema")
                .map(|kind| breach_at(0, kind.to_string())),
            Self::StreamOptions => named("stream_options"),
            Self::BadSchemaKimi => bad_schema(request, schema::outside_moonshot),
            Self::BadSchemaGemini => bad_schema(request, schema::outside_gemini),
            Self::InvalidResponsesRequest | Self::BeyondFunctions if !request.is_responses() => {
                None
            }
            Self::InvalidResponsesRequest => {
                responses_checks::problem(&request.json).map(|found| breach_at(0, found))
            }
            Self::BeyondFunctions => {
                responses_checks::beyond_functions(&request.json).map(|found| breach_at(0, found))
            }
            Self::At(rule) => rule.breach(request),
            Self::BadSchemaRoot => {
                let mut tools = request.tools().enumerate();
                tools.find_map(|(index, function)| {
                    let schema = function.get("parameters")?;
                    let name = text(function, "name").to_owned();
                    (!schema::has_plain_root(schema)).then(|| breach_at(index, name))
                })
            }
        }
    }
}

fn breach_at(index: usize, found: String) -> RuleBreach {
    RuleBreach {
        found,
        index,
        ..RuleBreach::default()
    }
}

fn with_limit(limit: &impl ToString) -> BreachTokens {
    BreachTokens {
        limit: limit.to_string(),
        ..BreachTokens::default()
    }
}

fn broken_if(broken: bool) -> Option<String> {
    broken.then(String::new)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn role(message: &Value) -> &str {
    text(message, "role")
}

fn calls(message: &Value) -> &[Value] {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    calls.map_or(&[], Vec::as_slice)
}

/// The ids of all calls, and those that results refer to, with the index of their message.
fn ids(messages: &[Value]) -> impl Iterator<Item = (usize, &str)> {
    messages.iter().enumerate().flat_map(|(index, message)| {
        let result = message.get("tool_call_id").and_then(Value::as_str);
        let calls = calls(message).iter().map(|call| text(call, "id"));
        calls.chain(result).map(move |id| (index, id))
    })
}

fn parts(message: &Value) -> &[Value] {
    let parts = message.get("content").and_then(Value::as_array);
    parts.map_or(&[], Vec::as_slice)
}

fn has_empty_text(message: &Value) -> bool {
    let empty = |text: Option<&Value>| text.and_then(Value::as_str) == Some("");
    empty(message.get("content")) || parts(message).iter().any(|part| empty(part.get("text")))
}

/// The URLs of the images of a message.
fn images(message: &Value) -> impl Iterator<Item = String> {
    parts(message).iter().filter_map(|part| {
        let image = part.get("image_url")?;
        let url = image.get("url").unwrap_or(image);
        Some(url.as_str().unwrap_or_default().to_owned())
    })
}

fn output_limit(request: &PlayerRequest) -> u64 {
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let limits = names
        .iter()
        .filter_map(|name| request.json.get(name).and_then(Value::as_u64));
    limits.max().unwrap_or(0)
}

/// The first result without a call in the assistant message before it.
fn unmatched_result(messages: &[Value]) -> Option<RuleBreach> {
    let mut open_calls: &[Value] = &[];
    for (index, message) in messages.iter().enumerate() {
        if role(message) != "tool" {
            open_calls = calls(message);
            continue;
        }
        let id = text(message, "tool_call_id");
        if !open_calls.iter().any(|call| text(call, "id") == id) {
            return Some(breach_at(index, id.to_owned()));
        }
    }
    None
}

/// The first call without a result directly after its message.
fn unanswered_call(messages: &[Value]) -> Option<RuleBreach> {
    for (index, message) in messages.iter().enumerate() {
        let behind = messages.get(index.saturating_add(1)..).unwrap_or_default();
        let results: Vec<&str> = behind
            .iter()
            .take_while(|message| role(message) == "tool")
            .map(|message| text(message, "tool_call_id"))
            .collect();
        let missing = calls(message)
            .iter()
            .map(|call| text(call, "id"))
            .find(|id| !results.contains(id));
        if let Some(id) = missing {
            return Some(breach_at(index, id.to_owned()));
        }
    }
    None
}

/// The first message of the running turn whose first call has no signature.
fn unsigned_call(messages: &[Value]) -> Option<RuleBreach> {
    let begun = messages.iter().rposition(|message| role(message) == "user");
    let turn = messages.iter().enumerate().skip(begun.unwrap_or(0));
    for (index, message) in turn {
        let Some(call) = calls(message).first() else {
            continue;
        };
        let signature = call.pointer("/extra_content/google/thought_signature");
        if signature
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty()
        {
            let name = call.pointer("/function/name").and_then(Value::as_str);
            return Some(breach_at(index, name.unwrap_or_default().to_owned()));
        }
    }
    None
}

fn bad_schema(request: &PlayerRequest, check: fn(&Value) -> Option<String>) -> Option<RuleBreach> {
    let mut tools = request.tools().enumerate();
    tools.find_map(|(index, function)| {
        let found = check(function.get("parameters")?)?;
        Some(breach_at(index, found))
    })
}
