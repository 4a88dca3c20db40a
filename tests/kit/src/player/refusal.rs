//! The strict presets: rules of providers that a script can name. Each rule is a check on the
//! request, with the status and the message of the refusal.
//!
//! The default message is that of the provider that is best known for the rule; a script for
//! another provider gives its own.

mod checks;
mod path;
mod schema;

pub use self::path::PathRule;
use self::path::PlaceStep;
use super::http::PlayerRequest;
use super::script::ScriptedAnswer;
use serde::Deserialize;
use serde_json::{Value, json};

/// A rule, and the reply to a request that breaks it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "RefusalJson")]
pub struct ScriptedRefusal {
    /// The rule.
    pub rule: RefusalRule,
    /// Status of the reply; 400 if absent.
    pub status: Option<u16>,
    /// The message in OpenAI's error body, instead of the default one. Placeholders: `{found}` is
    /// the value that breaks the rule and `{index}` the index of its message; `{limit}` is the
    /// number of the rule; `{wanted}`, `{prompt}` and `{output}` are tokens. Of a rule `at`,
    /// `{path}`, `{dots}`, `{slashes}` and `{loc}` are forms of the path, and `{name}` its last
    /// name.
    pub message: Option<String>,
    /// The whole body instead, with the same placeholders in its texts. A string that is
    /// `{index}`, `{limit}` or `{loc}` alone becomes a number or a list.
    pub json: Option<Value>,
    /// The whole body instead, as plain text or as events.
    pub text: Option<String>,
}

impl ScriptedRefusal {
    /// A refusal with the status and the message of the rule.
    pub fn new(rule: RefusalRule) -> Self {
        Self {
            rule,
            status: None,
            message: None,
            json: None,
            text: None,
        }
    }
}

/// In JSON a rule alone, or an object with the rule and its reply.
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
    text: Option<String>,
}

impl From<RefusalJson> for ScriptedRefusal {
    fn from(form: RefusalJson) -> Self {
        match form {
            RefusalJson::Rule(rule) => Self::new(rule),
            RefusalJson::Worded(worded) => Self {
                rule: worded.rule,
                status: worded.status,
                message: worded.message,
                json: worded.json,
                text: worded.text,
            },
        }
    }
}

/// A rule that a request must keep. Each variant names what is refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalRule {
    /// A message with the role `developer`.
    Developer,
    /// A message with the role `system`.
    SystemRole,
    /// A system message that is not the first message.
    LateSystem,
    /// A user message directly after a tool message.
    UserAfterTool,
    /// Two user messages in a row.
    UserAfterUser,
    /// An assistant message with neither content nor calls.
    EmptyAssistant,
    /// An empty text, as content or in a part.
    EmptyContent,
    /// Content that is null.
    NullContent,
    /// A message without the key `content`.
    MissingContent,
    /// A tool message that answers no call of the assistant message before it.
    UnmatchedResults,
    /// A call without a tool message for it directly after its assistant message.
    UnansweredCalls,
    /// Arguments of a call that are not a JSON object.
    BadArguments,
    /// Two calls of the conversation with the same id.
    SameCallIds,
    /// Call ids that are not nine letters and digits.
    CallIdForm,
    /// Call ids of more than this many characters.
    CallIdLength(usize),
    /// Call ids with other characters than letters, digits, `_` and `-`.
    CallIdCharacters,
    /// Tool messages without the name of their tool.
    MissingToolNames,
    /// Assistant messages without `reasoning_content`.
    MissingReasoningContent(ReasoningRequirement),
    /// `reasoning_content` in a message.
    ReasoningContentUnknown,
    /// An assistant message after the last user message whose first call has no
    /// `extra_content.google.thought_signature`.
    MissingThoughtSignature,
    /// Images.
    Images,
    /// Images that are given by an HTTP URL.
    ImageUrls,
    /// A message with an image and without text.
    ImageWithoutText,
    /// Images in tool messages.
    ToolImages,
    /// Fields of the request other than these.
    UnknownFields(Vec<String>),
    /// These fields of the request.
    Fields(Vec<String>),
    /// A `reasoning_effort` other than these.
    EffortOtherThan(Vec<String>),
    /// A system or user message of more characters than this.
    MessageLength(u64),
    /// `strict` in a function.
    StrictTools,
    /// `max_tokens`
    MaxTokensUnsupported,
    /// `max_completion_tokens`
    MaxCompletionTokensUnsupported,
    /// An output limit above this.
    MaxTokensLimit(u64),
    /// More tokens than this, prompt and output limit together; a token is reckoned as four bytes.
    Window(u64),
    /// The same with 2.7 bytes a token, as for code and logs.
    DenseWindow(u64),
    /// A `temperature` other than 1.
    Temperature,
    /// A `temperature` above this, in hundredths.
    TemperatureAbove(u64),
    /// A `tool_choice` that forces a call.
    ToolChoiceRequired,
    /// A `tool_choice` other than these; `specified` stands for a named function.
    ToolChoiceOtherThan(Vec<String>),
    /// `parallel_tool_calls`
    ParallelToolCalls,
    /// `response_format` of type `json_schema`.
    JsonSchema,
    /// `stream_options`
    StreamOptions,
    /// A schema of a tool outside of Moonshot's subset of JSON schema.
    BadSchemaKimi,
    /// A schema of a tool outside of Gemini's subset of OpenAPI.
    BadSchemaGemini,
    /// A schema of a tool whose root is not an object, or has `anyOf`, `oneOf`, `allOf`, `enum` or
    /// `not`.
    BadSchemaRoot,
    /// A Responses request that OpenAI refuses. Items that the player made must come back as it
    /// made them.
    InvalidResponsesRequest,
    /// A Responses request with anything that a server of functions alone does not have: other
    /// tools, their calls, and encrypted reasoning.
    BeyondFunctions,
    /// What is refused at a path.
    At(PathRule),
}

/// Which assistant messages need their reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningRequirement {
    /// Those with calls; an empty string does not count as reasoning.
    Calls,
    /// All; an empty string counts as reasoning.
    Always,
}

/// What in a request breaks a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RuleBreach {
    found: String,
    index: usize,
    /// The concrete path, if the rule has one.
    place: Vec<PlaceStep>,
    tokens: BreachTokens,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BreachTokens {
    limit: String,
    prompt: u64,
    output: u64,
}

impl ScriptedRefusal {
    /// The refusal if the request breaks the rule.
    pub fn answer(&self, request: &PlayerRequest) -> Option<ScriptedAnswer> {
        let breach = self.rule.breach(request)?;
        let refused = ScriptedAnswer {
            status: self.status.unwrap_or(400),
            ..ScriptedAnswer::default()
        };
        if let Some(text) = &self.text {
            let is_stream = text.starts_with("data:") || text.starts_with("event:");
            let kind = is_stream.then(|| ("content-type".to_owned(), "text/event-stream".into()));
            return Some(ScriptedAnswer {
                headers: kind.into_iter().collect(),
                body: Some(breach.fill_text(text)),
                ..refused
            });
        }
        let json = self.json.clone().unwrap_or_else(|| {
            let message = self
                .message
                .as_deref()
                .unwrap_or(self.rule.default_message());
            json!({"error": {
                "message": message, "type": "invalid_request_error", "param": null, "code": null,
            }})
        });
        Some(ScriptedAnswer {
            json: Some(breach.fill(&json)),
            ..refused
        })
    }
}

impl RuleBreach {
    fn fill(&self, json: &Value) -> Value {
        match json {
            Value::String(text) => {
                let filled = self.fill_text(text);
                let is_value = matches!(text.as_str(), "{index}" | "{limit}" | "{loc}");
                let value = is_value.then(|| serde_json::from_str(&filled).ok());
                value.flatten().unwrap_or_else(|| filled.into())
            }
            Value::Array(list) => list.iter().map(|value| self.fill(value)).collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, value)| (self.fill_text(key), self.fill(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => json.clone(),
        }
    }

    fn fill_text(&self, text: &str) -> String {
        let BreachTokens {
            limit,
            prompt,
            output,
        } = &self.tokens;
        let wanted = prompt.saturating_add(*output);
        let mut text = text.to_owned();
        if !self.place.is_empty() {
            for (name, form) in path::place_forms(&self.place) {
                text = text.replace(name, &form);
            }
        }
        text.replace("{index}", &self.index.to_string())
            .replace("{limit}", limit)
            .replace("{prompt}", &prompt.to_string())
            .replace("{output}", &output.to_string())
            .replace("{wanted}", &wanted.to_string())
            .replace("{found}", &self.found)
    }
}

impl RefusalRule {
    /// The default message of the refusal.
    fn default_message(&self) -> &'static str {
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
            Self::CallIdCharacters => {
                "messages.{index}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
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
            Self::ImageWithoutText => "Param Incorrect: text is not set",
            Self::ToolImages => "Image URLs are only allowed for messages with role 'user'",
            Self::UnknownFields(_) => "Unrecognized request argument supplied: {found}",
            Self::Fields(_) => "Argument not supported on this model: {found}",
            Self::EffortOtherThan(_) => {
                "Unsupported value: 'reasoning_effort' does not support '{found}' with this model."
            }
            Self::MessageLength(_) => "invalid params, message is longer than {limit} (2013)",
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
            Self::TemperatureAbove(_) => "temperature must be in [0, 1], got {found}",
            Self::ToolChoiceOtherThan(_) => "tool_choice '{found}' is not supported",
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
            Self::InvalidResponsesRequest | Self::BeyondFunctions => "{found}",
            Self::At(_) => "Invalid value at '{path}': {found}",
            Self::BadSchemaRoot => {
                "Invalid schema for function '{found}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
            }
        }
    }
}

#[cfg(test)]
mod tests;
