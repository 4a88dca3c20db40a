//! What strict providers refuse, as rules that a script names: each a check on the request, and the
//! status and words of the refusal.
//!
//! The words are those of the provider that is best known for the rule; a script that plays another
//! one gives its own.

mod checks;
mod schema;

use super::http::PlayerRequest;
use super::script::ScriptedAnswer;
use serde::Deserialize;
use serde_json::{Value, json};

/// A rule, and how its breach is told.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "RefusalJson")]
pub struct ScriptedRefusal {
    /// What is refused.
    pub rule: RefusalRule,
    /// Status of the reply; 400 if absent.
    pub status: Option<u16>,
    /// The message in OpenAI's envelope, in place of the usual one. `{found}` and `{index}` stand
    /// for what broke the rule and the position of its message, `{limit}` for the rule's number,
    /// `{wanted}`, `{prompt}` and `{output}` for tokens.
    pub message: Option<String>,
    /// The whole body, in whose strings the same names are replaced.
    pub json: Option<Value>,
}

/// In JSON a rule alone, or an object with the rule and its words.
#[derive(Deserialize)]
#[serde(untagged)]
enum RefusalJson {
    Rule(RefusalRule),
    Worded(WordedRefusal),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WordedRefusal {
    rule: RefusalRule,
    status: Option<u16>,
    message: Option<String>,
    json: Option<Value>,
}

impl From<RefusalJson> for ScriptedRefusal {
    fn from(form: RefusalJson) -> Self {
        match form {
            RefusalJson::Rule(rule) => Self {
                rule,
                status: None,
                message: None,
                json: None,
            },
            RefusalJson::Worded(worded) => Self {
                rule: worded.rule,
                status: worded.status,
                message: worded.message,
                json: worded.json,
            },
        }
    }
}

/// What is refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalRule {
    /// A message with the role `developer`.
    Developer,
    /// A message with the role `system`.
    SystemRole,
    /// A system message that is not the first message.
    LateSystem,
    /// A user message right behind a tool message.
    UserAfterTool,
    /// Two user messages in a row.
    UserAfterUser,
    /// An assistant message with neither content nor calls.
    EmptyAssistant,
    /// An empty text.
    EmptyContent,
    /// Content that is null.
    NullContent,
    /// A message without the key `content`.
    MissingContent,
    /// A tool message that answers no call of the assistant message before it.
    UnmatchedResults,
    /// A call that no tool message right behind answers.
    UnansweredCalls,
    /// Arguments of a call that are no JSON object.
    BadArguments,
    /// Two calls of the conversation with one id.
    SameCallIds,
    /// Call ids that are not nine letters and digits.
    CallIdForm,
    /// Call ids of more than so many characters.
    CallIdLength(usize),
    /// Tool messages without the name of their tool.
    MissingToolNames,
    /// Assistant messages without `reasoning_content`.
    MissingReasoningContent(ReasoningRequirement),
    /// `reasoning_content` in a message.
    ReasoningContentUnknown,
    /// The first call of an assistant message behind the last user message without
    /// `extra_content.google.thought_signature`.
    MissingThoughtSignature,
    /// Images.
    Images,
    /// Images that are given by an http or https URL.
    ImageUrls,
    /// Images in tool messages.
    ToolImages,
    /// Fields of the request that are not among these.
    UnknownFields(Vec<String>),
    /// These fields of the request.
    Fields(Vec<String>),
    /// `strict` in a function.
    StrictTools,
    /// `max_tokens`
    MaxTokensUnsupported,
    /// `max_completion_tokens`
    MaxCompletionTokensUnsupported,
    /// An output limit above this.
    MaxTokensLimit(u64),
    /// More tokens than this, four bytes each, with the output limit.
    Window(u64),
    /// The same with 2.7 bytes a token: code and logs in many words.
    DenseWindow(u64),
    /// A `temperature` other than 1.
    Temperature,
    /// A `tool_choice` that forces a call.
    ToolChoiceRequired,
    /// `parallel_tool_calls`
    ParallelToolCalls,
    /// `response_format` of type `json_schema`.
    JsonSchema,
    /// `stream_options`
    StreamOptions,
    /// A schema of a tool that is not Moonshot's subset of JSON schema.
    BadSchemaKimi,
    /// A schema of a tool that is not Gemini's subset of OpenAPI.
    BadSchemaGemini,
    /// A schema of a tool whose root is no object, or has `anyOf`, `oneOf`, `allOf`, `enum` or `not`.
    BadSchemaRoot,
}

/// Which assistant messages need their reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningRequirement {
    /// Those with calls; an empty string is none.
    Calls,
    /// All; an empty string is some.
    Always,
}

/// What broke a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RuleBreach {
    found: String,
    index: usize,
    tokens: BreachTokens,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct BreachTokens {
    limit: u64,
    prompt: u64,
    output: u64,
}

impl ScriptedRefusal {
    /// The refusal of a request that breaks the rule.
    pub fn answer(&self, request: &PlayerRequest) -> Option<ScriptedAnswer> {
        let breach = self.rule.breach(request)?;
        let json = self.json.clone().unwrap_or_else(|| {
            let message = self.message.as_deref().unwrap_or(self.rule.words());
            json!({"error": {
                "message": message, "type": "invalid_request_error", "param": null, "code": null,
            }})
        });
        Some(ScriptedAnswer {
            status: self.status.unwrap_or(400),
            json: Some(breach.fill(&json)),
            ..ScriptedAnswer::default()
        })
    }
}

impl RuleBreach {
    fn fill(&self, json: &Value) -> Value {
        match json {
            Value::String(text) => {
                let BreachTokens {
                    limit,
                    prompt,
                    output,
                } = self.tokens;
                let wanted = prompt.saturating_add(output);
                text.replace("{found}", &self.found)
                    .replace("{index}", &self.index.to_string())
                    .replace("{limit}", &limit.to_string())
                    .replace("{prompt}", &prompt.to_string())
                    .replace("{output}", &output.to_string())
                    .replace("{wanted}", &wanted.to_string())
                    .into()
            }
            Value::Array(list) => list.iter().map(|value| self.fill(value)).collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, value)| (key.clone(), self.fill(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => json.clone(),
        }
    }
}

impl RefusalRule {
    /// The message of a refusal.
    fn words(&self) -> &'static str {
        match self {
            Self::Developer => {
                "Failed to deserialize the JSON body into the target type: messages[{index}].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 80"
            }
            Self::SystemRole => {
                "invalid params, chat content has invalid message role: system (2013)"
            }
            Self::LateSystem => "System message must be at the beginning.",
            Self::UserAfterTool => "Unexpected role 'user' after role 'tool'",
            Self::UserAfterUser => {
                "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results."
            }
            Self::EmptyAssistant => "Invalid assistant message: content or tool_calls must be set",
            Self::EmptyContent => "Invalid request: text content is empty",
            Self::NullContent => "Invalid value for 'content': expected a string, got null.",
            Self::MissingContent => {
                "Failed to deserialize the JSON body into the target type: messages[{index}]: missing field `content` at line 1 column 80"
            }
            Self::UnmatchedResults => {
                "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            }
            Self::UnansweredCalls => {
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)"
            }
            Self::BadArguments => {
                "invalid params, invalid function arguments json string, tool_call_id: {found} (2013)"
            }
            Self::SameCallIds => "Duplicate value for 'tool_call_id' of '{found}'",
            Self::CallIdForm => {
                "Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9."
            }
            Self::CallIdLength(_) => {
                "Invalid 'messages[{index}].tool_calls[0].id': string too long. Expected a string with maximum length {limit}."
            }
            Self::MissingToolNames => "messages[{index}]: the name of a tool message is required",
            Self::MissingReasoningContent(ReasoningRequirement::Calls) => {
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
            }
            Self::MissingReasoningContent(ReasoningRequirement::Always) => {
                "The reasoning_content in the thinking mode must be passed back to the API."
            }
            Self::ReasoningContentUnknown => {
                "'messages.{index}' : for 'role:assistant' the following must be satisfied[('messages.{index}' : property 'reasoning_content' is unsupported)]"
            }
            Self::MissingThoughtSignature => {
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{found}` , position {index}."
            }
            Self::Images => {
                "Failed to deserialize the JSON body into the target type: messages[{index}]: unknown variant `image_url`, expected `text` at line 1 column 80"
            }
            Self::ImageUrls => "Invalid request: unsupported image url: {found}",
            Self::ToolImages => "Image URLs are only allowed for messages with role 'user'",
            Self::UnknownFields(_) => "Unrecognized request argument supplied: {found}",
            Self::Fields(_) => "Argument not supported on this model: {found}",
            Self::StrictTools => "Unknown parameter: 'tools[0].function.strict'.",
            Self::MaxTokensUnsupported => {
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            }
            Self::MaxCompletionTokensUnsupported => {
                "property 'max_completion_tokens' is unsupported"
            }
            Self::MaxTokensLimit(_) => {
                "Invalid max_tokens value, the valid range of max_tokens is [1, {limit}]"
            }
            Self::Window(_) | Self::DenseWindow(_) => {
                "This model's maximum context length is {limit} tokens. However, you requested {wanted} tokens ({prompt} in the messages, {output} in the completion). Please reduce the length of the messages or completion."
            }
            Self::Temperature => {
                "Unsupported value: 'temperature' does not support {found} with this model. Only the default (1) value is supported."
            }
            Self::ToolChoiceRequired => {
                "The tool_choice parameter does not support being set to required or object in thinking mode"
            }
            Self::ParallelToolCalls => {
                "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
            }
            Self::JsonSchema => "This response_format type is unavailable now",
            Self::StreamOptions => "Unknown parameter: 'stream_options'.",
            Self::BadSchemaKimi => {
                "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <{found}>"
            }
            Self::BadSchemaGemini => {
                "Invalid JSON payload received. {found} at 'tools[0].function_declarations[{index}].parameters': Cannot find field."
            }
            Self::BadSchemaRoot => {
                "Invalid schema for function '{found}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
            }
        }
    }
}

#[cfg(test)]
mod tests;
