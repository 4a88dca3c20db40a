//! Patches of quirks that every wire has, under names of its own.

use std::fmt;

use registry::{EnumSet, SchemaRule, SystemRole, ToolChoiceMode};
use serde::{Deserialize, Serialize};

/// A change of a quirk that every wire has. Each wire applies it to its own quirks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedPatch {
    /// Reasoning of earlier answers is not accepted.
    NoReasoning,
    /// The effort level is not accepted.
    NoEffort,
    /// An optional parameter is not accepted.
    OmitParameter(Parameter),
    /// Values of `tool_choice` that are not accepted.
    WithoutToolChoice(EnumSet<ToolChoiceMode>),
    /// The role of system messages.
    SystemRole(SystemRole),
    /// Images are accepted as data URLs only.
    NoImageUrls,
    /// Files are not accepted.
    NoFiles,
    /// The last message must not be an answer.
    EndWithUser,
    /// The most tools of a request.
    MaxTools(u16),
    /// Messages of Codex's agents are accepted as text only.
    NoAgentMessages,
    /// Rules for tool schemas, in addition to those already in force.
    Schema(EnumSet<SchemaRule>),
}

/// An optional parameter of a request. A wire that never sends it has nothing to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// `presence_penalty` and `frequency_penalty`
    Penalties,
    /// `logprobs` and `top_logprobs`
    Logprobs,
    /// `parallel_tool_calls`
    ParallelToolCalls,
    /// `strict` of a function
    Strict,
    /// `stream`: the answer is asked for in one piece.
    Stream,
    /// `stream_options`
    StreamOptions,
    /// `temperature`
    Temperature,
    /// `top_p`
    TopP,
    /// `include`
    Include,
    /// `max_output_tokens`
    MaxOutputTokens,
    /// `phase` of a message
    Phase,
    /// `prompt_cache_key`
    PromptCacheKey,
    /// `cache_control`
    CacheControl,
    /// `service_tier`
    ServiceTier,
    /// `verbosity`
    Verbosity,
    /// `reasoning.summary`
    ReasoningSummary,
}

impl Parameter {
    /// The name of the JSON field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Penalties => "presence_penalty and frequency_penalty",
            Self::Logprobs => "logprobs",
            Self::ParallelToolCalls => "parallel_tool_calls",
            Self::Strict => "strict",
            Self::Stream => "stream",
            Self::StreamOptions => "stream_options",
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::Include => "include",
            Self::MaxOutputTokens => "max_output_tokens",
            Self::Phase => "phase",
            Self::PromptCacheKey => "prompt_cache_key",
            Self::CacheControl => "cache_control",
            Self::ServiceTier => "service_tier",
            Self::Verbosity => "verbosity",
            Self::ReasoningSummary => "reasoning.summary",
        }
    }
}

impl fmt::Display for SharedPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxTools(most) => return write!(f, "a request has at most {most} tools"),
            Self::EndWithUser => "the last message is the user's",
            Self::OmitParameter(parameter) => return write!(f, "{} is left out", parameter.name()),
            Self::NoReasoning => "earlier reasoning stays here",
            Self::NoEffort => "the effort level is left out",
            Self::WithoutToolChoice(_) => "tool_choice is weaker",
            Self::SystemRole(SystemRole::System) => "instructions have the role system",
            Self::SystemRole(SystemRole::Developer) => "instructions have the role developer",
            Self::SystemRole(SystemRole::User) => "instructions have the role user",
            Self::NoImageUrls => "images are not given by URL",
            Self::NoFiles => "files are not sent",
            Self::NoAgentMessages => "messages of agents are sent as text",
            Self::Schema(_) => "the schemas of tools are rewritten",
        })
    }
}
