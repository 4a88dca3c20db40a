//! Quirks of the `responses` wire: how an upstream that speaks the Responses API itself differs
//! from OpenAI's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use strum::{EnumString, VariantArray};

use crate::enum_set::EnumSet;
use crate::shared_quirks::{ResponseFormat, SchemaRule, ToolChoiceMode};

/// The quirks of a provider or a model family that speaks the Responses API. The default is
/// what OpenAI's own endpoint accepts. The fields are the keys of `[quirks]` in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a wire"
)]
pub struct RelayQuirks {
    /// The tools besides functions that are accepted as the client declares them. The others
    /// are sent as functions, and left out if they run at the provider.
    #[default(EnumSet::all())]
    pub tools: EnumSet<RelayToolKind>,
    /// The values of `tool_choice` that are accepted.
    #[default(EnumSet::all())]
    pub tool_choice: EnumSet<ToolChoiceMode>,
    /// Send `parallel_tool_calls`.
    #[default = true]
    pub parallel_tool_calls: bool,
    /// Send `strict` in function definitions.
    #[default = true]
    pub strict_tools: bool,
    /// The rules that the schema of a tool's parameters must follow.
    #[default(EnumSet::empty())]
    pub schema: EnumSet<SchemaRule>,

    /// The most tools of a request; the last ones are left out.
    pub max_tools: Option<u16>,

    /// The last message must not be an answer: a short message of the user is added.
    pub ends_with_user: bool,
    /// Messages may have the role `developer`; else it becomes `system`.
    #[default = true]
    pub developer_role: bool,
    /// Messages may have the role `system`; else it becomes `developer`, or `user` if that is not
    /// accepted either.
    #[default = true]
    pub system_messages: bool,
    /// Messages of the model may have a `phase`.
    #[default = true]
    pub phase: bool,
    /// Images may be http or https URLs; else they must be data URLs.
    #[default = true]
    pub image_urls: bool,
    /// Messages may contain `input_file` parts.
    #[default = true]
    pub files: bool,
    /// Messages of Codex's agents may be sent as they are, if namespaces are accepted, too; else
    /// they are text.
    #[default = true]
    pub agent_messages: bool,

    /// Ask for `reasoning.encrypted_content` and send it back.
    #[default = true]
    pub encrypted_reasoning: bool,
    /// Send the text of earlier reasoning back as `reasoning_text`, whichever provider made it.
    pub reasoning_text: bool,
    /// Send `reasoning.effort`.
    #[default = true]
    pub effort: bool,
    /// Send `reasoning.summary`.
    #[default = true]
    pub reasoning_summary: bool,

    /// The strictest `text.format` that is accepted; a stricter one is described in the
    /// instructions.
    pub response_format: ResponseFormat,
    /// Requests may be streamed; else they ask for a whole answer.
    #[default = true]
    pub stream: bool,
    /// Send `max_output_tokens`.
    #[default = true]
    pub max_output_tokens: bool,
    /// Send `include`.
    #[default = true]
    pub include: bool,
    /// Send `temperature`.
    #[default = true]
    pub temperature: bool,
    /// Send `top_p`.
    #[default = true]
    pub top_p: bool,
    /// Send `presence_penalty` and `frequency_penalty`.
    pub penalties: bool,
    /// Ask for log probabilities.
    #[default = true]
    pub logprobs: bool,
    /// Send `text.verbosity` to models that have effort levels.
    #[default = true]
    pub verbosity: bool,
    /// Send `service_tier`.
    #[default = true]
    pub service_tier: bool,
    /// Send `prompt_cache_key`.
    #[default = true]
    pub prompt_cache_key: bool,
}

impl RelayQuirks {
    /// See [`crate::WireQuirks::wants_baggage`]. The items of this wire carry everything.
    pub fn wants_baggage(&self) -> bool {
        false
    }

    /// See [`crate::WireQuirks::replays_reasoning`].
    pub fn replays_reasoning(&self) -> bool {
        self.encrypted_reasoning || self.reasoning_text
    }
}

/// A kind of tool of the Responses API other than `function`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize, EnumString, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RelayToolKind {
    /// `custom`, with or without a grammar.
    Custom,
    /// `namespace`, a group of functions.
    Namespace,
    /// `tool_search` that the client runs.
    ToolSearch,
    /// `local_shell`
    LocalShell,
    /// `shell`
    Shell,
    /// `apply_patch`
    ApplyPatch,
    /// `web_search` and `web_search_preview`, which run at the provider.
    WebSearch,
    /// `file_search`, which runs at the provider.
    FileSearch,
    /// `code_interpreter`, which runs at the provider.
    CodeInterpreter,
    /// `image_generation`, which runs at the provider.
    ImageGeneration,
    /// `mcp`, which the provider connects to.
    Mcp,
}

impl RelayToolKind {
    /// Whether tools of this kind run on a server: no client runs them.
    pub fn is_hosted(self) -> bool {
        match self {
            Self::WebSearch
            | Self::FileSearch
            | Self::CodeInterpreter
            | Self::ImageGeneration
            | Self::Mcp => true,
            Self::Custom
            | Self::Namespace
            | Self::ToolSearch
            | Self::LocalShell
            | Self::Shell
            | Self::ApplyPatch => false,
        }
    }

    /// The kind of a tool definition with this `type`.
    pub fn of_definition(kind: &str) -> Option<Self> {
        let versioned = |name: &str| kind == name || kind.starts_with(&format!("{name}_20"));
        if versioned("web_search") || versioned("web_search_preview") {
            return Some(Self::WebSearch);
        }
        kind.parse().ok()
    }
}
