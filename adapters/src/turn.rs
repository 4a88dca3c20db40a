//! What a client asks for, whatever it spoke. Everything borrows the request.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::compact::Purpose;
use crate::json;
use crate::notes::Notes;
use crate::text::Text;
use crate::tools::{ToolChoice, Toolbox};

/// One request of a client.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The model's name as the client wrote it.
    pub model: Cow<'a, str>,
    /// Whether the client wants events.
    pub stream: bool,
    /// Whether the client will refer to the answer's items by their ids.
    pub store: bool,
    /// Instructions that stand before all items.
    pub instructions: Option<Text<'a>>,
    /// The history and the new input.
    pub items: Vec<Item<'a>>,
    /// Items that a summary among the others replaces.
    pub replaced_items: Vec<Item<'a>>,
    /// The tools that the model may call.
    pub tools: Toolbox<'a>,
    /// Which of them it must or may call.
    pub tool_choice: ToolChoice,
    /// Whether several calls at once are wanted.
    pub parallel_tool_calls: Option<bool>,
    /// How the model shall answer.
    pub controls: Controls<'a>,
    /// Parameters that the response repeats as they came.
    pub echo: EchoedParams<'a>,
    /// What the request is for.
    pub purpose: Purpose,
    /// Whether the start of a history that does not fit may be dropped.
    pub may_truncate: bool,
    /// From how many tokens on the client wants the history compacted.
    pub compact_threshold: Option<u64>,
    /// What was skipped or changed while reading the request.
    pub notes: Notes,
}

/// How the model shall answer.
#[derive(Debug, Default)]
pub struct Controls<'a> {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// How many alternatives per token are reported.
    pub top_logprobs: Option<u64>,
    /// Whether log probabilities are wanted at all.
    pub logprobs: bool,
    /// The most tokens to generate, reasoning included.
    pub max_output_tokens: Option<u64>,
    /// The wanted form of the text.
    pub format: TextFormat<'a>,
    /// `low`, `medium`, `high`.
    pub verbosity: Option<Cow<'a, str>>,
    /// Reasoning effort.
    pub effort: Option<Cow<'a, str>>,
    /// Service tier.
    pub service_tier: Option<Cow<'a, str>>,
    /// The key under which the provider caches the prefix.
    pub prompt_cache_key: Option<Text<'a>>,
    /// Whether `reasoning.encrypted_content` was asked for.
    pub encrypted_reasoning: bool,
}

/// The wanted form of the text.
#[derive(Debug, Default)]
pub enum TextFormat<'a> {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema: the fields of `text.format` as they came.
    JsonSchema {
        /// The schema's name.
        name: Text<'a>,
        /// The schema.
        schema: &'a RawValue,
        /// Whether it is to be kept to strictly.
        strict: Option<bool>,
        /// What it is for.
        description: Option<Text<'a>>,
    },
}

/// Parameters that the response repeats, as raw JSON.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names of the Responses API")]
pub struct EchoedParams<'a> {
    pub instructions: Option<&'a RawValue>,
    pub metadata: Option<&'a RawValue>,
    pub prompt_cache_key: Option<&'a RawValue>,
    pub reasoning: Option<&'a RawValue>,
    pub safety_identifier: Option<&'a RawValue>,
    pub text: Option<&'a RawValue>,
    pub tool_choice: Option<&'a RawValue>,
    pub tools: Option<&'a RawValue>,
    pub truncation: Option<&'a RawValue>,
    pub max_tool_calls: Option<&'a RawValue>,
    pub user: Option<&'a RawValue>,
}

/// One item of the input. The fields are raw: whatever they hold, the item
/// reads; what a field must be is checked where it is used.
#[derive(Debug)]
pub struct Item<'a> {
    /// What it is.
    pub kind: ItemKind,
    fields: ItemFields<'a>,
    said: Option<Text<'a>>,
}

/// The kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the item types of the Responses API and of Codex"
)]
pub enum ItemKind {
    Message,
    Reasoning,
    FunctionCall,
    FunctionCallOutput,
    CustomToolCall,
    CustomToolCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
    LocalShellCall,
    LocalShellCallOutput,
    ShellCall,
    ShellCallOutput,
    ApplyPatchCall,
    ApplyPatchCallOutput,
    AdditionalTools,
    ConfigurationUpdate,
    WebSearchCall,
    AgentMessage,
    ItemReference,
    Compaction,
    CompactionTrigger,
    /// A call that only a hosted tool makes, or one of its companions.
    Hosted,
    /// A type that nobody here knows.
    Unknown,
}

/// The fields of every item type in one flat struct: tagged enums buffer the
/// whole item and cannot hold raw values.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ItemFields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    operation: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
}

impl Turn<'_> {
    /// The call ids of the history: a new call must not repeat one.
    pub fn call_ids(&self) -> HashSet<String> {
        let calls = self.items.iter().filter(|item| item.kind.is_call());
        calls
            .filter_map(Item::call_id)
            .map(Cow::into_owned)
            .collect()
    }

    /// Whether the request asks for nothing but a summary of its history.
    pub fn wants_compaction(&self) -> bool {
        let last = self.items.last();
        last.is_some_and(|item| item.kind == ItemKind::CompactionTrigger)
    }

    /// The ids of the items that are only referred to.
    pub fn referenced_ids(&self) -> Vec<String> {
        let references = self
            .items
            .iter()
            .filter(|item| item.kind == ItemKind::ItemReference);
        references
            .filter_map(Item::id)
            .map(Cow::into_owned)
            .collect()
    }
}

impl<'a> Item<'a> {
    pub(crate) fn new(fields: ItemFields<'a>) -> Self {
        let kind = match string(fields.kind).as_deref() {
            Some(name) => ItemKind::from_name(name),
            None if fields.role.is_some() => ItemKind::Message,
            None if fields.id.is_some() => ItemKind::ItemReference,
            None => ItemKind::Unknown,
        };
        Self {
            kind,
            fields,
            said: None,
        }
    }

    /// A user message of one text, as the string form of `input` means it.
    pub(crate) fn user(text: Text<'a>) -> Self {
        Self {
            kind: ItemKind::Message,
            fields: ItemFields::default(),
            said: Some(text),
        }
    }

    /// A compaction item with this `encrypted_content`.
    pub(crate) fn compaction(blob: &Arc<str>) -> Self {
        Self {
            kind: ItemKind::Compaction,
            fields: ItemFields::default(),
            said: Some(Text::Owned(Arc::clone(blob))),
        }
    }

    /// Whether it is a system or developer message.
    pub fn is_system(&self) -> bool {
        self.kind == ItemKind::Message && matches!(self.role().as_ref(), "system" | "developer")
    }

    /// The text of a message that came without parts, as the string form of
    /// `input`.
    pub fn plain_text(&self) -> Option<&Text<'a>> {
        self.said.as_ref()
    }

    /// The fields that may hold more than text.
    pub(crate) fn nested_values(&self) -> impl Iterator<Item = &'a RawValue> + use<'a> {
        let fields = &self.fields;
        [
            fields.content,
            fields.arguments,
            fields.output,
            fields.summary,
            fields.action,
            fields.operation,
            fields.tools,
            fields.text,
            fields.reasoning,
        ]
        .into_iter()
        .flatten()
        .filter(|raw| !raw.get().starts_with('"'))
    }

    /// Puts the item in the place of a reference to it.
    pub(crate) fn resolve_reference(&mut self, known: &'a HashMap<String, Arc<str>>) {
        if self.kind == ItemKind::ItemReference
            && let Some(json) = self.id().and_then(|id| known.get(id.as_ref()))
            && let Ok(fields) = serde_json::from_str(json)
        {
            *self = Self::new(fields);
        }
    }

    /// The `type` as the client wrote it.
    pub fn type_name(&self) -> Cow<'a, str> {
        string(self.fields.kind).unwrap_or_default()
    }

    /// A message's role; `user` when there is none.
    pub fn role(&self) -> Cow<'a, str> {
        string(self.fields.role).unwrap_or(Cow::Borrowed("user"))
    }

    /// The item's own id.
    pub fn id(&self) -> Option<Cow<'a, str>> {
        string(self.fields.id)
    }

    /// The id that pairs a call with its output. The first local shell items
    /// had only `id`.
    pub fn call_id(&self) -> Option<Cow<'a, str>> {
        self.explicit_call_id().or_else(|| self.id())
    }

    /// The call id without the item's own id in its place.
    pub(crate) fn explicit_call_id(&self) -> Option<Cow<'a, str>> {
        string(self.fields.call_id).filter(|id| !id.is_empty())
    }

    /// The called tool.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        string(self.fields.name)
    }

    /// The namespace of the called tool.
    pub fn namespace(&self) -> Option<Cow<'a, str>> {
        string(self.fields.namespace).filter(|name| !name.is_empty())
    }

    /// A message's or reasoning item's content: a string or a list of parts.
    pub fn content(&self) -> Option<&'a RawValue> {
        self.fields.content.or(self.fields.text)
    }

    /// A call's arguments: a string, for tool search an object.
    pub fn arguments(&self) -> Option<&'a RawValue> {
        self.fields.arguments
    }

    /// A custom call's input. What is no string stands as its JSON.
    pub fn input(&self) -> Option<Text<'a>> {
        let raw = self.fields.input?;
        Some(Text::from_raw(raw).unwrap_or_else(|| raw.get().into()))
    }

    /// A tool's output: a string or a list.
    pub fn output(&self) -> Option<&'a RawValue> {
        self.fields.output
    }

    /// All that a result tells: two that are equal here say the same.
    pub(crate) fn result_fields(&self) -> [Option<&'a str>; 3] {
        let fields = &self.fields;
        let status = fields.status.filter(|_| fields.output.is_none());
        [fields.output, fields.tools, status].map(|raw| raw.map(RawValue::get))
    }

    /// A reasoning item's summary parts.
    pub fn summary(&self) -> Option<&'a RawValue> {
        self.fields.summary
    }

    /// The blob of a reasoning or compaction item.
    pub fn encrypted_content(&self) -> Option<Cow<'a, str>> {
        let made = self
            .said
            .as_ref()
            .filter(|_| self.kind == ItemKind::Compaction);
        string(self.fields.encrypted_content)
            .or_else(|| made.map(|blob| Cow::Owned(blob.decoded().into_owned())))
    }

    /// What a shell or web search call does.
    pub fn action(&self) -> Option<&'a RawValue> {
        self.fields.action
    }

    /// What an apply_patch call does.
    pub fn operation(&self) -> Option<&'a RawValue> {
        self.fields.operation
    }

    /// The item's status.
    pub fn status(&self) -> Option<Cow<'a, str>> {
        string(self.fields.status)
    }

    /// Tools that arrive inside the input.
    pub fn tools(&self) -> Option<&'a RawValue> {
        self.fields.tools
    }

    /// The `reasoning` of a configuration update.
    pub fn reasoning(&self) -> Option<&'a RawValue> {
        self.fields.reasoning
    }

    /// The `text` of a configuration update.
    pub fn text(&self) -> Option<&'a RawValue> {
        self.fields.text
    }
}

impl ItemKind {
    /// Whether the model called a tool of the client.
    pub fn is_call(self) -> bool {
        matches!(
            self,
            Self::FunctionCall
                | Self::CustomToolCall
                | Self::ToolSearchCall
                | Self::LocalShellCall
                | Self::ShellCall
                | Self::ApplyPatchCall
        )
    }

    /// Whether it is what a tool of the client answered.
    pub fn is_output(self) -> bool {
        matches!(
            self,
            Self::FunctionCallOutput
                | Self::CustomToolCallOutput
                | Self::ToolSearchOutput
                | Self::LocalShellCallOutput
                | Self::ShellCallOutput
                | Self::ApplyPatchCallOutput
        )
    }

    fn from_name(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::FunctionCall,
            "function_call_output" => Self::FunctionCallOutput,
            "custom_tool_call" => Self::CustomToolCall,
            "custom_tool_call_output" => Self::CustomToolCallOutput,
            "tool_search_call" => Self::ToolSearchCall,
            "tool_search_output" => Self::ToolSearchOutput,
            "local_shell_call" => Self::LocalShellCall,
            "local_shell_call_output" => Self::LocalShellCallOutput,
            "shell_call" => Self::ShellCall,
            "shell_call_output" => Self::ShellCallOutput,
            "apply_patch_call" => Self::ApplyPatchCall,
            "apply_patch_call_output" => Self::ApplyPatchCallOutput,
            "additional_tools" => Self::AdditionalTools,
            "configuration_update" => Self::ConfigurationUpdate,
            "web_search_call" => Self::WebSearchCall,
            "agent_message" => Self::AgentMessage,
            "item_reference" => Self::ItemReference,
            "compaction" | "context_compaction" | "compaction_summary" => Self::Compaction,
            "compaction_trigger" => Self::CompactionTrigger,
            "mcp_list_tools"
            | "mcp_call"
            | "mcp_approval_request"
            | "mcp_approval_response"
            | "file_search_call"
            | "code_interpreter_call"
            | "image_generation_call"
            | "computer_call"
            | "computer_call_output"
            | "program"
            | "program_output" => Self::Hosted,
            _ => Self::Unknown,
        }
    }
}

/// The text of a raw JSON string; `None` for any other value.
pub(crate) fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    json::unquote(raw?.get()).map(json::unescape)
}
