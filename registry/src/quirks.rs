//! How a provider departs from the plain chat wire. Closed: a new quirk is a
//! field here and its one use, and the TOML that sets it names the source that
//! needs it.

use serde::{Deserialize, Serialize};

use crate::enum_set::{EnumSet, EnumSetValue};

/// The switches. The default is what every Chat Completions server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a wire"
)]
pub struct Quirks {
    /// The name of the output limit.
    pub max_tokens_field: MaxTokensField,
    /// The output limit to ask for where the client asks for none: the
    /// provider's own default cuts answers short.
    pub default_max_tokens: Option<u64>,

    /// The role of system and developer messages.
    pub system_role: SystemRole,
    /// Where system messages may stand.
    pub system_place: SystemPlace,
    /// Neighbouring user messages become one.
    pub merge_user: bool,
    /// A user message never follows a tool result: a short assistant message
    /// stands between.
    pub answer_after_tool: bool,
    /// What `content` is in an assistant message that only calls.
    pub call_content: CallContent,
    /// Tool messages carry the `name` of their tool.
    pub tool_names: bool,
    /// The form of call ids.
    pub call_ids: CallIds,
    /// The most characters of one system or user message; a longer one is cut
    /// into several.
    pub message_limit: Option<u32>,

    /// User messages may hold `file` parts.
    pub files: bool,
    /// Images may be given by an http or https URL; else by data URL only.
    pub image_urls: bool,
    /// A message with an image must hold text as well.
    pub image_needs_text: bool,

    /// The values of `tool_choice` that are accepted.
    pub tool_choice: EnumSet<ToolChoiceMode>,
    /// Send `parallel_tool_calls`.
    pub parallel_tool_calls: bool,
    /// Send `strict` in function definitions.
    pub strict_tools: bool,
    /// What the schema of a tool must keep to.
    pub schema: EnumSet<SchemaRule>,
    /// Calls are streamed; else a request with tools asks for a whole answer.
    pub stream_tools: bool,

    /// The strongest `response_format`; a stronger wish is described in words.
    pub response_format: ResponseFormat,

    /// The highest `temperature`.
    pub max_temperature: Option<f64>,
    /// Send `presence_penalty` and `frequency_penalty`.
    pub penalties: bool,
    /// Send `logprobs` and `top_logprobs`.
    pub logprobs: bool,
    /// Send `verbosity` to models with effort levels.
    pub verbosity: bool,
    /// Send `service_tier`.
    pub service_tier: bool,
    /// Ask for usage in the stream with `stream_options.include_usage`.
    pub stream_usage: bool,

    /// Send `prompt_cache_key`.
    pub prompt_cache_key: bool,
    /// Mark the end of the system text and of the history with
    /// `cache_control: {"type": "ephemeral"}`.
    pub cache_control: bool,

    /// How the depth of thinking is asked for.
    pub reasoning_control: ReasoningControl,
    /// How earlier reasoning goes back.
    pub reasoning_replay: ReasoningReplay,
    /// Which assistant messages are refused without their reasoning.
    pub reasoning_required: ReasoningRequired,
    /// Whether `extra_content` of a call goes back with it.
    pub call_extra: ExtraContentReplay,

    /// Thinking comes inside the text, between tags.
    pub think_tags: ThinkTags,
    /// Calls may come inside the text, as `<tool_call>{…}</tool_call>` or with
    /// tags in the place of JSON.
    pub tool_call_tags: bool,
    /// `completion_tokens` leaves the reasoning tokens out, and `prompt_tokens`
    /// may leave the cached ones out.
    pub usage_apart: bool,
}

impl Quirks {
    /// Whether something of an answer goes back that its items do not say.
    pub fn wants_baggage(&self) -> bool {
        self.reasoning_replay != ReasoningReplay::None
            || self.call_extra != ExtraContentReplay::None
    }
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            max_tokens_field: MaxTokensField::default(),
            default_max_tokens: None,
            system_role: SystemRole::default(),
            system_place: SystemPlace::default(),
            merge_user: false,
            answer_after_tool: false,
            call_content: CallContent::default(),
            tool_names: false,
            call_ids: CallIds::default(),
            message_limit: None,
            files: false,
            image_urls: true,
            image_needs_text: false,
            tool_choice: EnumSet::all(),
            parallel_tool_calls: true,
            strict_tools: false,
            schema: EnumSet::empty(),
            stream_tools: true,
            response_format: ResponseFormat::default(),
            max_temperature: None,
            penalties: true,
            logprobs: true,
            verbosity: false,
            service_tier: false,
            stream_usage: true,
            prompt_cache_key: false,
            cache_control: false,
            reasoning_control: ReasoningControl::default(),
            reasoning_replay: ReasoningReplay::default(),
            reasoning_required: ReasoningRequired::default(),
            call_extra: ExtraContentReplay::default(),
            think_tags: ThinkTags::default(),
            tool_call_tags: false,
            usage_apart: false,
        }
    }
}

/// The field that limits the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`
    #[default]
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
    /// Neither is accepted.
    None,
}

/// The role of system and developer messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`
    #[default]
    System,
    /// `developer`
    Developer,
    /// `user`, for models without a system role; the text says what it is.
    User,
}

/// Where system messages may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPlace {
    /// One, at the start: the leading ones are joined, a later one becomes a
    /// user message that says what it is. Many chat templates refuse the rest.
    #[default]
    First,
    /// Anywhere, any number.
    Anywhere,
}

/// What `content` is in an assistant message that only calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallContent {
    /// `null`
    #[default]
    Null,
    /// The key is left out.
    Omitted,
    /// `""`
    Empty,
}

/// The form of call ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any.
    #[default]
    Any,
    /// Nine letters and digits.
    NineAlphanumeric,
    /// Letters, digits, `_` and `-`, 64 at most.
    Word,
}

/// A value of `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceMode {
    /// `"none"`
    None,
    /// `"required"`
    Required,
    /// `{"type": "function", …}`
    Named,
}

/// A rule for the JSON schema of a tool's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaRule {
    /// `$ref` is replaced by what it refers to.
    InlineRefs,
    /// A node with `$ref` has no other key.
    LoneRefs,
    /// Every property has a `type`.
    TypedProperties,
    /// `type` moves from beside `anyOf` into its branches.
    TypeInBranches,
    /// `type` is one word: a list becomes `anyOf`, or `nullable`.
    SingleType,
    /// `oneOf` becomes `anyOf`.
    AnyOfOnly,
    /// Values of `enum` are strings, none is empty, and `type` says so; other
    /// enums lose it.
    StringEnums,
    /// `const` becomes an `enum` of one.
    NoConst,
    /// `items` is one schema, and an array has it.
    OneItemSchema,
    /// No `additionalProperties`.
    NoAdditionalProperties,
    /// No `$schema`, `$id`, `$comment` and other keys about the schema.
    NoMetaKeys,
    /// `required` names existing properties only.
    KnownRequired,
    /// No `pattern`, which a grammar compiler may not know.
    NoPatterns,
    /// No bounds of lengths, counts and numbers.
    NoBounds,
}

/// The strongest `response_format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// `json_schema`, and all below.
    #[default]
    JsonSchema,
    /// `json_object`, for which the word JSON must stand in the prompt.
    JsonObject,
    /// None at all.
    None,
}

/// How the depth of thinking is asked for. Levels are the model's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningControl {
    /// It cannot be.
    #[default]
    None,
    /// `reasoning_effort: "<level>"`
    Effort,
    /// `thinking: {"type": "enabled" | "disabled"}`
    Thinking,
    /// Both: `thinking` alone for `none`, else with `reasoning_effort`.
    ThinkingAndEffort,
    /// `enable_thinking: true | false`
    EnableThinking,
    /// `reasoning: {"effort": "<level>"}`, `{"enabled": false}` for `none`.
    Reasoning,
    /// `chat_template_kwargs: {"enable_thinking": true | false}`
    TemplateSwitch,
}

/// How the reasoning of earlier assistant messages goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningReplay {
    /// Not at all.
    #[default]
    None,
    /// As `reasoning_content` of the assistant message.
    ReasoningContent,
    /// As `reasoning` of the assistant message.
    Reasoning,
    /// As the `reasoning_details` it came with, else as `reasoning`.
    ReasoningDetails,
    /// In front of the text, as `<think>…</think>`.
    ThinkTags,
    /// As `{"type": "thinking", …}` in a list of content parts.
    ThinkingParts,
}

/// Which assistant messages are refused without their reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningRequired {
    /// None.
    #[default]
    Never,
    /// Those with calls: a blank stands in for what was lost.
    Calls,
    /// All: a blank stands in for what was lost.
    Always,
}

/// What happens to the `extra_content` of a call: Gemini's thought signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraContentReplay {
    /// It is dropped.
    #[default]
    None,
    /// It goes back with its call.
    Kept,
    /// The same, and the first call of a message is refused without it: the
    /// documented placeholder stands in for what was lost, among the
    /// `reasoning_details` where these go back.
    Required,
    /// What came is refused: the placeholder stands in for all of it.
    Placeholder,
}

/// Thinking inside the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTags {
    /// Tags are text.
    #[default]
    Off,
    /// `<think>…</think>` at the start of the text is reasoning.
    On,
    /// The same, and the opening tag may be missing: everything before
    /// `</think>` is reasoning.
    Unopened,
}

impl EnumSetValue for ToolChoiceMode {
    const ALL: &'static [Self] = &[Self::None, Self::Required, Self::Named];

    fn index(self) -> u8 {
        self as u8
    }
}

impl EnumSetValue for SchemaRule {
    const ALL: &'static [Self] = &[
        Self::InlineRefs,
        Self::LoneRefs,
        Self::TypedProperties,
        Self::TypeInBranches,
        Self::SingleType,
        Self::AnyOfOnly,
        Self::StringEnums,
        Self::NoConst,
        Self::OneItemSchema,
        Self::NoAdditionalProperties,
        Self::NoMetaKeys,
        Self::KnownRequired,
        Self::NoPatterns,
        Self::NoBounds,
    ];

    fn index(self) -> u8 {
        self as u8
    }
}
