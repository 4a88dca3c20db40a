//! How a provider departs from the plain chat wire. Closed: a new quirk is a
//! field here and its one use in the encoder, and the TOML that sets it names
//! the source that needs it.

use serde::Deserialize;

/// The switches. The default is what every Chat Completions server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a wire"
)]
pub struct Quirks {
    /// The name of the output limit.
    pub max_tokens_field: MaxTokensField,
    /// Developer messages keep their role; else they become system messages.
    pub developer_role: bool,
    /// How earlier reasoning goes back.
    pub reasoning_replay: ReasoningReplay,
    /// Send `reasoning_effort` to models with effort levels.
    pub reasoning_effort: bool,
    /// Send `verbosity` to models with effort levels.
    pub verbosity: bool,
    /// Send `prompt_cache_key`.
    pub prompt_cache_key: bool,
    /// Send `service_tier`.
    pub service_tier: bool,
    /// Send `parallel_tool_calls`.
    pub parallel_tool_calls: bool,
    /// Send `strict` in function definitions.
    pub strict_tools: bool,
    /// Ask for usage in the stream with `stream_options.include_usage`.
    pub stream_usage: bool,
    /// `response_format` may be a `json_schema`; else the schema is described.
    pub json_schema: bool,
    /// User messages may hold `file` parts.
    pub files: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            max_tokens_field: MaxTokensField::default(),
            developer_role: false,
            reasoning_replay: ReasoningReplay::default(),
            reasoning_effort: false,
            verbosity: false,
            prompt_cache_key: false,
            service_tier: false,
            parallel_tool_calls: true,
            strict_tools: false,
            stream_usage: true,
            json_schema: true,
            files: false,
        }
    }
}

/// The field that limits the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`
    #[default]
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
}

/// How the reasoning of earlier assistant messages goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningReplay {
    /// Not at all.
    #[default]
    None,
    /// As `reasoning_content` of the assistant message.
    ReasoningContent,
}
