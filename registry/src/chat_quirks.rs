//! Quirks of the `chat` wire: how a provider differs from plain Chat Completions.
//!
//! The set is closed. A new quirk is one field here and one use in the wire, and the TOML that
//! sets it cites its source: documentation, an issue or a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::enum_set::EnumSet;
use crate::shared_quirks::{ResponseFormat, SchemaRule, SystemRole, ToolChoiceMode};

/// The quirks of a provider or a model family. The default is what every Chat Completions
/// server accepts. The fields are the keys of `[quirks]` in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a wire"
)]
pub struct ChatQuirks {
    /// The request field for the limit of output tokens.
    pub max_tokens_field: MaxTokensField,
    /// The limit of output tokens to send if the client sends none, for a provider whose own
    /// default is too small.
    pub default_max_tokens: Option<u64>,

    /// The role of system and developer messages.
    pub system_role: SystemRole,
    /// Where system messages are allowed.
    pub system_place: SystemPlace,
    /// Join consecutive user messages.
    pub merge_user: bool,
    /// A user message must not follow a tool result: insert a short assistant message
    /// between them.
    pub answer_after_tool: bool,
    /// The last message must not be an answer: a short message of the user is added.
    pub ends_with_user: bool,
    /// The most tools of a request; the last ones are left out.
    pub max_tools: Option<u16>,
    /// The `content` of an assistant message that has only calls.
    pub call_content: CallContent,
    /// The form of the arguments of a call in the history.
    pub call_arguments: CallArguments,
    /// Send the `name` of the tool in tool messages.
    pub tool_names: bool,
    /// The call ids that are accepted.
    pub call_ids: CallIds,
    /// Upper bound of the characters of one system or user message; a longer message is
    /// split.
    pub message_limit: Option<u32>,

    /// The form of the content of messages.
    pub content_form: ContentForm,
    /// User messages may contain `file` parts.
    pub files: bool,
    /// Images may be http or https URLs; else they must be data URLs.
    #[default = true]
    pub image_urls: bool,
    /// A message with an image must contain text as well.
    pub image_needs_text: bool,

    /// The values of `tool_choice` that are accepted.
    #[default(EnumSet::all())]
    pub tool_choice: EnumSet<ToolChoiceMode>,
    /// Send `parallel_tool_calls`.
    #[default = true]
    pub parallel_tool_calls: bool,
    /// Send `strict` in function definitions.
    pub strict_tools: bool,
    /// The rules that the schema of a tool's parameters must follow.
    #[default(EnumSet::empty())]
    pub schema: EnumSet<SchemaRule>,
    /// Requests may be streamed; else they ask for a whole answer.
    #[default = true]
    pub stream: bool,
    /// Requests with tools may be streamed; else they ask for a whole answer.
    #[default = true]
    pub stream_tools: bool,

    /// The provider's own search of the web.
    pub web_search: ProviderSearch,

    /// The strictest `response_format` that is accepted; a stricter one is described in the
    /// prompt.
    pub response_format: ResponseFormat,

    /// The highest `temperature`.
    pub max_temperature: Option<f64>,
    /// Send `temperature`.
    #[default = true]
    pub temperature: bool,
    /// Send `top_p`.
    #[default = true]
    pub top_p: bool,
    /// Send `presence_penalty` and `frequency_penalty`.
    #[default = true]
    pub penalties: bool,
    /// Send `logprobs` and `top_logprobs`.
    #[default = true]
    pub logprobs: bool,
    /// Send `verbosity` to models that have effort levels.
    pub verbosity: bool,
    /// Send `service_tier`.
    pub service_tier: bool,
    /// Ask for usage in the stream with `stream_options.include_usage`.
    #[default = true]
    pub stream_usage: bool,

    /// Send `prompt_cache_key`.
    pub prompt_cache_key: bool,
    /// Put `cache_control: {"type": "ephemeral"}` at the end of the system text and of the
    /// history.
    pub cache_control: bool,

    /// How the reasoning effort is requested.
    pub reasoning_control: ReasoningControl,
    /// How the reasoning of earlier answers is sent back.
    pub reasoning_replay: ReasoningReplay,
    /// Which assistant messages are refused without their reasoning.
    pub reasoning_required: ReasoningRequired,
    /// Whether the `extra_content` of a call is sent back with it.
    pub call_extra: ExtraContentReplay,

    /// Whether reasoning arrives inside the text, between tags.
    pub think_tags: ThinkTags,
    /// Calls may arrive inside the text, as `<tool_call>{…}</tool_call>` or with tags
    /// instead of JSON.
    pub tool_call_tags: bool,
    /// `completion_tokens` excludes the reasoning tokens, and `prompt_tokens` may exclude the
    /// cached tokens.
    pub usage_apart: bool,
}

impl ChatQuirks {
    /// See [`crate::WireQuirks::wants_baggage`]: reasoning or thought signatures go back.
    pub fn wants_baggage(&self) -> bool {
        self.reasoning_replay != ReasoningReplay::None
            || self.call_extra != ExtraContentReplay::None
    }

    /// See [`crate::WireQuirks::requires_reasoning`].
    pub fn requires_reasoning(&self) -> bool {
        self.reasoning_required != ReasoningRequired::Never
    }

    /// See [`crate::WireQuirks::replays_reasoning`].
    pub fn replays_reasoning(&self) -> bool {
        self.reasoning_replay != ReasoningReplay::None
    }
}

/// The request field for the limit of output tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`
    #[default]
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
    /// Neither field is accepted.
    None,
}

/// Where system messages are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPlace {
    /// One message at the start: the leading system messages are joined, and a later one
    /// becomes a labelled user message. Many chat templates accept nothing else.
    #[default]
    First,
    /// Any number, anywhere.
    Anywhere,
}

/// The `content` of an assistant message that has only calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallContent {
    /// `null`
    #[default]
    Null,
    /// The key is left out.
    Omitted,
    /// `""`
    Empty,
    /// A full stop, for providers that want a text in every message.
    Text,
}

/// The form of the content of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentForm {
    /// A string, or a list of parts if it has several.
    #[default]
    Parts,
    /// A string, or a list of parts if it is not text alone.
    JoinedText,
    /// A string. What is no text is left out.
    String,
}

/// The form of the arguments of a call in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallArguments {
    /// A string with JSON in it.
    #[default]
    Text,
    /// An object.
    Object,
}

/// The call ids that a provider accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any string.
    #[default]
    Any,
    /// Exactly nine letters and digits.
    NineAlphanumeric,
    /// At most 64 letters, digits, `_` and `-`.
    Word,
}

/// A provider's own search of the web: the form in which a request asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderSearch {
    /// There is none.
    #[default]
    None,
    /// The tool `$web_search` of the type `builtin_function`. The model calls it, the arguments of
    /// the call are sent back as its result, and the provider then searches. It tells no addresses
    /// and works without thinking only.
    EchoedCall,
    /// A tool of the type `web_search`. The provider may search before the model answers, in every
    /// request, and lists the pages in `web_search` of the answer.
    RequestTool,
    /// A tool of the type `openrouter:web_search`, which the model calls as often as it wants to.
    /// Pages are `annotations` of the answer.
    ServerTool,
}

impl ProviderSearch {
    /// Whether it gives what a search of the proxy gives: the model searches when it has to, beside
    /// functions and with thinking, and the client gets the addresses.
    pub fn is_equal_to_proxy(self) -> bool {
        match self {
            Self::None | Self::EchoedCall | Self::RequestTool => false,
            Self::ServerTool => true,
        }
    }

    /// Whether it searches only pages of certain domains if it has to.
    pub fn has_domain_filters(self) -> bool {
        match self {
            Self::None | Self::EchoedCall | Self::RequestTool => false,
            Self::ServerTool => true,
        }
    }

    /// Whether it works only where the model does not think.
    pub fn excludes_thinking(self) -> bool {
        match self {
            Self::None | Self::RequestTool | Self::ServerTool => false,
            Self::EchoedCall => true,
        }
    }
}

/// How the reasoning effort is requested. The levels are those of [`crate::Model::reasoning`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningControl {
    /// It cannot be requested.
    #[default]
    None,
    /// `reasoning_effort: "<level>"`
    Effort,
    /// `thinking: {"type": "enabled" | "disabled"}`
    Thinking,
    /// `thinking` as above, with `reasoning_effort` unless the level is `none`.
    ThinkingAndEffort,
    /// `enable_thinking: true | false`
    EnableThinking,
    /// `reasoning: {"effort": "<level>"}`; `{"enabled": false}` for the level `none`.
    Reasoning,
    /// `chat_template_kwargs: {"enable_thinking": true | false}`
    TemplateSwitch,
}

/// How the reasoning of earlier assistant messages is sent back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningReplay {
    /// Not at all.
    #[default]
    None,
    /// As `reasoning_content` of the assistant message.
    ReasoningContent,
    /// As `reasoning` of the assistant message.
    Reasoning,
    /// As the `reasoning_details` that were received with it, else as `reasoning`.
    ReasoningDetails,
    /// Before the text, as `<think>…</think>`.
    ThinkTags,
    /// As `{"type": "thinking", …}` in a list of content parts.
    ThinkingParts,
}

/// Which assistant messages a provider refuses without their reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningRequired {
    /// None.
    #[default]
    Never,
    /// Those with calls; a space replaces lost reasoning.
    Calls,
    /// All; a space replaces lost reasoning.
    Always,
}

/// The part that is sent back of the `extra_content` of a call, which contains Gemini's thought
/// signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraContentReplay {
    /// Nothing.
    #[default]
    None,
    /// The received `extra_content`.
    Kept,
    /// The received `extra_content`. The first call of a message is refused without it, so
    /// that the placeholder that Google documents replaces a lost one; where
    /// `reasoning_details` are sent back, the placeholder is one of them.
    Required,
    /// Always the placeholder, because the received `extra_content` was refused.
    Placeholder,
}

/// Whether reasoning arrives inside the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTags {
    /// No; tags are part of the text.
    #[default]
    Off,
    /// `<think>…</think>` at the start of the text is reasoning.
    On,
    /// As `On`, and the opening tag may be missing: everything before `</think>` is
    /// reasoning.
    Unopened,
}
