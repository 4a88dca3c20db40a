//! The changes of quirks that only Chat Completions has.

use std::fmt;

use registry::{
    CallArguments, CallContent, CallIds, ContentForm, MaxTokensField, ReasoningRequired,
    ResponseFormat,
};
use serde::{Deserialize, Serialize};

/// A change of a quirk that only Chat Completions has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatPatch {
    /// The name of the parameter for the output limit.
    MaxTokensField(MaxTokensField),
    /// Which assistant messages must carry their `reasoning_content`.
    RequireReasoning(ReasoningRequired),
    /// Calls must carry the signature that came with them.
    RequireSignatures,
    /// The signatures that came with calls are not accepted: they belong to another
    /// key, or are damaged.
    NoSignatures,
    /// Thinking cannot be switched on or off.
    NoThinkingSwitch,
    /// The highest `temperature`, in hundredths.
    MaxTemperature(u16),
    /// The most capable `response_format` that is accepted.
    ResponseFormat(ResponseFormat),
    /// Only the first message may be a system message.
    SystemFirst,
    /// An assistant message must come between a tool result and a user message.
    AnswerAfterTool,
    /// Consecutive user messages are not accepted.
    MergeUser,
    /// A message with an image must contain text as well.
    ImageNeedsText,
    /// The `content` of an assistant message that has only calls.
    CallContent(CallContent),
    /// The form of the arguments of calls.
    CallArguments(CallArguments),
    /// The form of the content of messages.
    ContentForm(ContentForm),
    /// The most characters of a system or user message, in hundreds.
    MessageLimit(u16),
    /// The form of call ids.
    CallIds(CallIds),
    /// Tool messages must name their tool.
    ToolNames,
    /// Requests with tools must not be streamed.
    NoCallStreaming,
    /// Answers begin inside thinking: they have a closing tag and no opening one.
    ThinkingUnopened,
}

impl fmt::Display for ChatPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxTemperature(hundredths) => {
                let maximum = f64::from(*hundredths) / 100.0;
                return write!(f, "temperature is at most {maximum}");
            }
            Self::MessageLimit(hundreds) => {
                let most = u32::from(*hundreds) * 100;
                return write!(f, "messages have at most {most} characters");
            }
            Self::CallArguments(_) => "the arguments of calls have another form",
            Self::ContentForm(ContentForm::String) => "messages are sent as text alone",
            Self::ContentForm(_) => "a text is sent in one piece",
            Self::MaxTokensField(MaxTokensField::MaxTokens) => "the output limit is max_tokens",
            Self::MaxTokensField(MaxTokensField::MaxCompletionTokens) => {
                "the output limit is max_completion_tokens"
            }
            Self::MaxTokensField(MaxTokensField::None) => "the output limit is left out",
            Self::RequireReasoning(_) => "earlier reasoning goes back",
            Self::RequireSignatures => "calls carry their signature",
            Self::NoSignatures => "the signatures of calls stay here",
            Self::NoThinkingSwitch => "thinking is not switched",
            Self::ResponseFormat(ResponseFormat::JsonSchema) => "response_format is json_schema",
            Self::ResponseFormat(ResponseFormat::JsonObject) => {
                "response_format is json_object at most"
            }
            Self::ResponseFormat(ResponseFormat::None) => "response_format is left out",
            Self::SystemFirst => "the system message comes first",
            Self::AnswerAfterTool => "an assistant message follows tool results",
            Self::MergeUser => "neighbouring user messages become one",
            Self::ImageNeedsText => "images come with text",
            Self::CallContent(_) => "a message with calls alone has another content",
            Self::CallIds(_) => "call ids have another form",
            Self::ToolNames => "tool messages name their tool",
            Self::NoCallStreaming => "calls are not streamed",
            Self::ThinkingUnopened => "answers begin inside thinking",
        })
    }
}
