//! One request of a client, independent of the provider that will answer it.
//!
//! [`crate::responses::request::TurnSource`] owns the request body and parses it into
//! a [`Turn`] that borrows from it. Strings stay escaped as long as possible
//! ([`Text`]), so that large tool outputs are copied to the upstream request without
//! being unescaped.

mod approvals;
mod images;
mod item_fields;
mod made_output;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use registry::Model;
use serde_json::value::RawValue;
use strum::EnumString;

pub use self::approvals::{APPROVAL_NOT_FOUND, ApprovalCall};
pub(crate) use self::item_fields::ItemFields;
use crate::cited_source::CitedSource;
use crate::content::MessageContent;
use crate::fault::Fault;
use crate::image_texts::ImageTexts;
use crate::json::{self, string_value};
use crate::members::Members;
use crate::notes::Notes;
use crate::origin;
use crate::purpose::Purpose;
use crate::shared_text::SharedText;
use crate::stop_flag::StopFlag;
use crate::text::Text;
use crate::tools::{ToolChoice, Toolbox};

/// One request of a client, parsed and checked.
///
/// Made by [`crate::responses::request::TurnSource::turn`] for every encoding of the
/// request (attempts, other routes, compaction), and dropped after it.
#[expect(clippy::struct_excessive_bools, reason = "parameters of the API")]
#[derive(Debug, Default)]
pub struct Turn<'a> {
    /// The model's name as the client wrote it, before aliases are resolved.
    pub model: Cow<'a, str>,
    /// Whether the client wants server-sent events instead of one JSON object.
    pub stream: bool,
    /// The parameter `store` (default true): a later request may refer to the items of
    /// this answer by their ids.
    pub store: bool,
    /// What is stored and continued by this request.
    pub continues: Option<Continuation>,
    /// The parameter `background`: the client does not wait for the answer.
    pub background: bool,
    /// The system prompt, which comes before all items.
    pub instructions: Option<Text<'a>>,
    /// The conversation so far and the new input, oldest first.
    pub items: Vec<Item<'a>>,
    /// Items that are not sent because a compaction item in `items` replaces them. They
    /// still identify the session.
    pub replaced_items: Vec<Item<'a>>,
    /// The tools that the client offers.
    pub tools: Toolbox<'a>,
    /// The types of the offered tools that cannot run here, as often as they are offered.
    pub dropped_tools: Vec<String>,
    /// The names of the tools that run in the proxy. The client does not see their calls.
    pub withheld_tools: HashSet<String>,
    /// Descriptions of the images, for a model that takes none.
    pub image_texts: Option<&'a ImageTexts>,
    /// What the model is told of MCP servers that cannot be used.
    pub mcp_notice: Option<&'a str>,
    /// Whether the history names an artifact, so that the model may want to read it. Known only if
    /// there are tools that do.
    pub names_artifacts: bool,
    /// The pages that tools of the proxy have found or read in this conversation, the oldest first.
    pub known_sources: Vec<&'a CitedSource>,
    /// Which of the tools the model may or must call.
    pub tool_choice: ToolChoice,
    /// Whether the model may call several tools in one answer; `None` if the client
    /// did not say.
    pub parallel_tool_calls: Option<bool>,
    /// Sampling, output format, limits and reasoning.
    pub controls: Controls<'a>,
    /// The id of the response whose prompt the client wants this one to be compared with.
    pub cache_comparison: Option<String>,
    /// Parameters that the response object repeats unchanged.
    pub echo: EchoedParams<'a>,
    /// The purpose of the upstream request: an answer or a summary.
    pub purpose: Purpose,
    /// `truncation: "auto"`: the oldest items may be dropped if the history does not
    /// fit into the window.
    pub may_truncate: bool,
    /// The `compact_threshold` of `context_management` in tokens; `u64::MAX` if
    /// compaction is wanted without a threshold, `None` if it is not wanted.
    pub compact_threshold: Option<u64>,
    /// The parameters and items that the parser ignored or changed.
    pub notes: Notes,
    /// Ends the work on the turn early.
    pub stop: StopFlag,
}

/// What a request continues, of what the server stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// The response with this id (`previous_response_id`).
    Response(String),
    /// The conversation with this id.
    Conversation(String),
}

/// Parameters of the generation. `None` leaves the choice to the provider.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "parameters of the API")]
pub struct Controls<'a> {
    /// Sampling temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1.
    pub top_p: Option<f64>,
    /// Presence penalty, -2 to 2.
    pub presence_penalty: Option<f64>,
    /// Frequency penalty, -2 to 2.
    pub frequency_penalty: Option<f64>,
    /// How many alternative tokens to report at each position, 0 to 20.
    pub top_logprobs: Option<u64>,
    /// Whether `include` asks for `message.output_text.logprobs`.
    pub logprobs: bool,
    /// Upper bound of generated tokens, reasoning included.
    pub max_output_tokens: Option<u64>,
    /// The required format of the text output (`text.format`).
    pub format: TextFormat<'a>,
    /// `text.verbosity`: `low`, `medium` or `high`.
    pub verbosity: Option<Cow<'a, str>>,
    /// `reasoning.effort`, as the client wrote it.
    pub effort: Option<Cow<'a, str>>,
    /// The model reasons as little as it can, whatever `effort` says.
    pub least_effort: bool,
    /// `service_tier`, as the client wrote it.
    pub service_tier: Option<Cow<'a, str>>,
    /// `prompt_cache_key`: the provider caches requests with the same key together.
    pub prompt_cache_key: Option<Text<'a>>,
    /// Whether `include` asks for `reasoning.encrypted_content`.
    pub encrypted_reasoning: bool,
    /// Whether `include` asks for `web_search_call.action.sources`.
    pub search_sources: bool,
    /// Whether `include` asks for `web_search_call.results`.
    pub search_results: bool,
}

impl Controls<'_> {
    /// The effort that is wanted of a model.
    pub(crate) fn wanted_effort<'s>(
        &'s self,
        model: &'s Model,
        notes: &mut Notes,
    ) -> Option<&'s str> {
        let asked = self.effort.as_deref();
        let least = model.reasoning.first().filter(|_| self.least_effort);
        let Some(least) = least.filter(|least| asked != Some(least)) else {
            return asked;
        };
        let asked = asked.unwrap_or("the default");
        notes.add(
            "effort_mapped",
            format!("{asked} to {least} for a few words"),
        );
        Some(least)
    }

    /// Whether the client asks for log probabilities.
    pub(crate) fn wants_logprobs(&self) -> bool {
        self.logprobs || self.top_logprobs.is_some_and(|count| count > 0)
    }
}

/// The required format of the text output: `text.format` of the Responses API.
#[derive(Debug, Default)]
pub enum TextFormat<'a> {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object (`json_object`).
    JsonObject,
    /// JSON that follows a schema (`json_schema`).
    JsonSchema {
        /// The name of the schema.
        name: Text<'a>,
        /// The JSON Schema, unchanged.
        schema: &'a RawValue,
        /// Whether the output must follow the schema exactly.
        strict: Option<bool>,
        /// An explanation of the schema for the model.
        description: Option<Text<'a>>,
    },
}

/// Parameters that the response object repeats, as raw JSON. `None` if the client did
/// not send the parameter.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names of the Responses API")]
pub struct EchoedParams<'a> {
    pub instructions: Option<&'a RawValue>,
    pub metadata: Option<&'a RawValue>,
    pub prompt: Option<&'a RawValue>,
    pub prompt_cache_key: Option<&'a RawValue>,
    pub reasoning: Option<&'a RawValue>,
    pub safety_identifier: Option<&'a RawValue>,
    pub text: Option<&'a RawValue>,
    pub tool_choice: Option<Cow<'a, str>>,
    pub tools: Option<&'a RawValue>,
    pub truncation: Option<&'a RawValue>,
    pub max_tool_calls: Option<&'a RawValue>,
    pub user: Option<&'a RawValue>,
}

/// One item of the input.
///
/// The fields are kept as raw JSON, so that any JSON type in any field is accepted
/// here. Each accessor returns `None` for a value of the wrong type.
#[derive(Debug)]
pub struct Item<'a> {
    /// The item type.
    pub kind: ItemKind,
    fields: ItemFields<'a>,
    /// The document that contains the item's JSON, if it has one.
    document: Option<&'a str>,
    /// The text of an item that was not parsed from an item object: the message of a
    /// string `input`, or the blob of a compaction item that the proxy inserted.
    plain_text: Option<Text<'a>>,
    /// Whether the client's request does not have it: the proxy put it into the history.
    hidden: bool,
    /// Whether other items of the history tell what it shows.
    pub(crate) is_told_elsewhere: bool,
    /// How many of [`Turn::known_sources`] were known when it was made.
    pub(crate) known_sources: usize,
    /// What is read as its output in place of its own.
    made_output: Option<Box<RawValue>>,
}

/// The types of input items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "snake_case")]
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
    /// A `tool_search_call` or `tool_search_output` whose search the server ran.
    #[strum(disabled)]
    ServerToolSearch,
    LocalShellCall,
    LocalShellCallOutput,
    ShellCall,
    ShellCallOutput,
    ApplyPatchCall,
    ApplyPatchCallOutput,
    AdditionalTools,
    ConfigurationUpdate,
    WebSearchCall,
    /// What an agent of Codex says to another one, or what Codex tells the model under a name: a
    /// result in a namespace that belongs to no call.
    AgentMessage,
    ItemReference,
    #[strum(serialize = "compaction", serialize = "context_compaction")]
    #[strum(serialize = "compaction_summary")]
    Compaction,
    CompactionTrigger,
    /// A call of an MCP tool that ran on a server, with its result.
    McpCall,
    /// The result of a call of an MCP tool that a person has approved: an `mcp_call` that names its
    /// `mcp_approval_request`.
    #[strum(disabled)]
    ApprovedMcpCall,
    /// A call of an MCP tool that waits for the approval of a person before it runs in the proxy:
    /// an `mcp_approval_request`.
    #[strum(disabled)]
    McpApprovalRequest,
    /// An `mcp_approval_response` that lets such a call run. Its result is another item.
    #[strum(disabled)]
    McpApproval,
    /// An `mcp_approval_response` that refuses such a call. It is sent as the result of the call.
    #[strum(disabled)]
    McpDenial,
    /// What an MCP server offers.
    McpListTools,
    /// Items of other tools that run on OpenAI's servers: file search, code interpreter, image
    /// generation, computer use, and the approval of calls that run there.
    #[strum(
        serialize = "mcp_approval_request",
        serialize = "mcp_approval_response"
    )]
    #[strum(serialize = "file_search_call", serialize = "code_interpreter_call")]
    #[strum(serialize = "image_generation_call")]
    #[strum(serialize = "computer_call", serialize = "computer_call_output")]
    #[strum(serialize = "program", serialize = "program_output")]
    Hosted,
    /// Any other type.
    Unknown,
}

impl Turn<'_> {
    /// Whether it has something that a model has said.
    pub fn has_history(&self) -> bool {
        let is_of_model = |item: &Item<'_>| item.kind.is_call() || item.role() == "assistant";
        self.items.iter().any(is_of_model)
    }

    /// The call ids of the history, those of items of an unknown type included. A new call must
    /// not reuse one of them.
    pub fn call_ids(&self) -> HashSet<String> {
        let items = self.items.iter().filter(|item| !item.kind.is_output());
        let own_id = |item: &Item<'_>| {
            if item.kind.is_call() {
                item.call_id().map(Cow::into_owned)
            } else {
                item.explicit_call_id().map(Cow::into_owned)
            }
        };
        items.filter_map(own_id).collect()
    }

    /// The results of calls that name their call: index and call id.
    pub fn results(&self) -> Vec<(usize, String)> {
        let items = self.items.iter().enumerate();
        let outputs = items.filter(|(_, item)| item.kind.is_output());
        outputs
            .filter_map(|(index, item)| Some((index, item.explicit_call_id()?.into_owned())))
            .collect()
    }

    /// Whether the last item is a `compaction_trigger`: the client asks for a summary
    /// of the history instead of an answer.
    pub fn wants_compaction(&self) -> bool {
        let last = self.items.last();
        last.is_some_and(|item| item.kind == ItemKind::CompactionTrigger)
    }

    /// Refuses items that could be sent to no provider: references to what is not stored, and
    /// contents that cannot be read. An encoder refuses them too; this is for requests that are
    /// encoded later.
    pub fn check_items(&self) -> Result<(), Fault> {
        for (index, item) in self.items.iter().enumerate() {
            if item.kind == ItemKind::ItemReference {
                return Err(item.unresolved_reference(index));
            }
            if item.kind == ItemKind::Message {
                MessageContent::read(item.content(), index)?;
            } else if let Some(output) = item.output().filter(|_| item.kind.is_output()) {
                MessageContent::read_output(output, index)?;
            }
        }
        Ok(())
    }

    /// Whether the history has the tools of the MCP server with this label.
    pub fn shows_mcp_server(&self, label: &str) -> bool {
        let lists = self
            .items
            .iter()
            .filter(|item| item.kind == ItemKind::McpListTools);
        let mut lists = lists.filter_map(|item| Members::read(item.raw()?));
        lists.any(|list| {
            list.present("error").is_none()
                && list
                    .text("server_label")
                    .is_some_and(|shown| shown == label)
        })
    }

    /// The ids of the `item_reference` items.
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
    /// An item whose fields were read from `document`, which contains its JSON.
    pub(crate) fn new(fields: ItemFields<'a>, document: &'a str) -> Self {
        let kind = match string_value(fields.kind).as_deref() {
            Some(name) => name.parse().unwrap_or(ItemKind::Unknown),
            None if fields.role.is_some() => ItemKind::Message,
            None if fields.id.is_some() => ItemKind::ItemReference,
            None => ItemKind::Unknown,
        };
        let is_search = matches!(kind, ItemKind::ToolSearchCall | ItemKind::ToolSearchOutput);
        let runs_at = is_search.then(|| string_value(fields.execution)).flatten();
        let kind = match runs_at.as_deref() {
            Some("server") => ItemKind::ServerToolSearch,
            _ => kind,
        };
        let mut item = Self {
            kind,
            fields,
            document: Some(document),
            plain_text: None,
            hidden: false,
            is_told_elsewhere: false,
            known_sources: 0,
            made_output: None,
        };
        if let Some(kind) = item.approval_kind() {
            item.kind = kind;
        }
        if item.kind == ItemKind::FunctionCallOutput
            && item.namespace().is_some()
            && item.explicit_call_id().is_none()
        {
            item.kind = ItemKind::AgentMessage;
        }
        item.made_output = made_output::of(&item);
        item
    }

    /// An item that the proxy puts into the history; `None` for JSON that is no item.
    pub(crate) fn hidden(json: &'a str) -> Option<Self> {
        let fields = serde_json::from_str(json).ok()?;
        Some(Self {
            hidden: true,
            ..Self::new(fields, json)
        })
    }

    /// The kind of an item about the approval of a call that runs in the proxy, if it is one.
    fn approval_kind(&self) -> Option<ItemKind> {
        let is_own = |id: Option<Cow<'_, str>>| id.is_some_and(|id| !origin::is_tagged(&id));
        let request = || string_value(self.fields.approval_request_id);
        let kind = match (self.kind, self.type_name().as_ref()) {
            (ItemKind::McpCall, _) if is_own(self.id()) => ItemKind::ApprovedMcpCall,
            (ItemKind::Hosted, "mcp_approval_request") => {
                return is_own(self.id()).then_some(ItemKind::McpApprovalRequest);
            }
            (ItemKind::Hosted, "mcp_approval_response") if json::is_true(self.fields.approve) => {
                ItemKind::McpApproval
            }
            (ItemKind::Hosted, "mcp_approval_response") => ItemKind::McpDenial,
            _ => return None,
        };
        is_own(request().filter(|id| !id.is_empty())).then_some(kind)
    }

    /// Whether an upstream of the Responses API made it.
    pub(crate) fn is_of_upstream(&self) -> bool {
        self.id().is_some_and(|id| origin::is_tagged(&id))
    }

    /// Whether the proxy put it into the history.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// A user message with one text: the meaning of a string `input`.
    pub(crate) fn user(text: Text<'a>) -> Self {
        Self {
            kind: ItemKind::Message,
            fields: ItemFields::default(),
            document: None,
            plain_text: Some(text),
            hidden: false,
            is_told_elsewhere: false,
            known_sources: 0,
            made_output: None,
        }
    }

    /// A compaction item with `blob` as its `encrypted_content`.
    pub(crate) fn compaction(blob: &Arc<str>) -> Self {
        Self {
            kind: ItemKind::Compaction,
            fields: ItemFields::default(),
            document: None,
            plain_text: Some(Text::Owned(Arc::clone(blob))),
            hidden: false,
            is_told_elsewhere: false,
            known_sources: 0,
            made_output: None,
        }
    }

    /// The whole item as JSON, with its unknown fields: as the client wrote it or, for an item that
    /// replaced an `item_reference`, as it was stored. `None` for an item that did not come from an
    /// object: the message of a string `input`, or a compaction item that the proxy inserted. It
    /// may contain line ends between its tokens.
    pub fn raw(&self) -> Option<&'a str> {
        self.fields.locate(self.document?)
    }

    /// Whether it is a system or developer message.
    pub fn is_system(&self) -> bool {
        self.kind == ItemKind::Message && matches!(self.role().as_ref(), "system" | "developer")
    }

    /// The text of an item that has no `content`: the message of a string `input`, or
    /// the blob of a compaction item that the proxy inserted.
    pub fn plain_text(&self) -> Option<&Text<'a>> {
        self.plain_text.as_ref()
    }

    /// The fields that hold an array, an object or a scalar, for the check of the
    /// nesting depth.
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

    /// Replaces an `item_reference` by the item with its id, if `known` has it.
    pub(crate) fn resolve_reference(&mut self, known: &'a HashMap<String, SharedText>) {
        if self.kind == ItemKind::ItemReference
            && let Some(json) = self.id().and_then(|id| known.get(id.as_ref()))
            && let Ok(fields) = serde_json::from_str(json)
        {
            *self = Self::new(fields, json);
        }
    }

    /// The fault of an `item_reference` that nothing replaced.
    pub(crate) fn unresolved_reference(&self, index: usize) -> Fault {
        Fault::invalid(
            format!("input[{index}]"),
            format!(
                "Item '{}' is not stored here (any more): send the item itself instead of a reference.",
                self.id().unwrap_or_default()
            ),
        )
        .with_code("item_not_found")
    }

    /// The `type` as the client wrote it; empty if there is none.
    pub fn type_name(&self) -> Cow<'a, str> {
        string_value(self.fields.kind).unwrap_or_default()
    }

    /// The role of a message; `user` if there is none.
    pub fn role(&self) -> Cow<'a, str> {
        string_value(self.fields.role).unwrap_or(Cow::Borrowed("user"))
    }

    /// The id of the item itself.
    pub fn id(&self) -> Option<Cow<'a, str>> {
        string_value(self.fields.id)
    }

    /// The id that pairs a call with its output: `call_id`, else `id`, because the
    /// first local shell items had only `id`.
    pub fn call_id(&self) -> Option<Cow<'a, str>> {
        self.explicit_call_id().or_else(|| self.id())
    }

    /// `call_id` alone, if it is not empty; of what is said of a call that needs an approval, the
    /// id of the item that asked for it.
    pub(crate) fn explicit_call_id(&self) -> Option<Cow<'a, str>> {
        let id = match self.kind {
            ItemKind::ApprovedMcpCall | ItemKind::McpApproval | ItemKind::McpDenial => {
                self.fields.approval_request_id
            }
            _ => self.fields.call_id,
        };
        string_value(id).filter(|id| !id.is_empty())
    }

    /// The name of the called tool, as the client offers it.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        string_value(self.fields.name)
    }

    /// The namespace of the called tool, if it is not empty.
    pub fn namespace(&self) -> Option<Cow<'a, str>> {
        string_value(self.fields.namespace).filter(|name| !name.is_empty())
    }

    /// The `content` (a string or a list of parts) of a message or a reasoning item;
    /// without one, the field `text`, or the `output` that is told as a message.
    pub fn content(&self) -> Option<&'a RawValue> {
        let told = self.fields.output;
        let told = told.filter(|_| self.kind == ItemKind::AgentMessage);
        self.fields.content.or(self.fields.text).or(told)
    }

    /// The arguments of a call: a JSON string; an object for tool search.
    pub fn arguments(&self) -> Option<&'a RawValue> {
        self.fields.arguments
    }

    /// The input of a custom tool call. A value that is not a string is returned as
    /// its JSON text.
    pub fn input(&self) -> Option<Text<'a>> {
        let raw = self.fields.input?;
        Some(Text::from_raw(raw).unwrap_or_else(|| raw.get().into()))
    }

    /// The output of a tool: a string or a list of content parts. What a hosted tool did and
    /// found is its output as well.
    pub fn output(&self) -> Option<&RawValue> {
        self.made_output.as_deref().or(self.fields.output)
    }

    /// The raw JSON of `output`, `tools` and (only without `output`) `status`: two
    /// results with equal values have the same content.
    pub(crate) fn result_fields(&self) -> [Option<&'a str>; 3] {
        let fields = &self.fields;
        let status = fields.status.filter(|_| fields.output.is_none());
        [fields.output, fields.tools, status].map(|raw| raw.map(RawValue::get))
    }

    /// The summary parts of a reasoning item.
    pub fn summary(&self) -> Option<&'a RawValue> {
        self.fields.summary
    }

    /// The opaque string that a reasoning or compaction item carries.
    pub fn encrypted_content(&self) -> Option<Cow<'a, str>> {
        let made = self
            .plain_text
            .as_ref()
            .filter(|_| self.kind == ItemKind::Compaction);
        string_value(self.fields.encrypted_content)
            .or_else(|| made.map(|blob| Cow::Owned(blob.decoded().into_owned())))
    }

    /// The `action` of a shell or web search call.
    pub fn action(&self) -> Option<&'a RawValue> {
        self.fields.action
    }

    /// The `operation` of an `apply_patch_call`.
    pub fn operation(&self) -> Option<&'a RawValue> {
        self.fields.operation
    }

    /// The `status` of the item.
    pub fn status(&self) -> Option<Cow<'a, str>> {
        string_value(self.fields.status)
    }

    /// The tools of an `additional_tools` or `tool_search_output` item, whether the client or the
    /// server ran the search.
    pub fn tools(&self) -> Option<&'a RawValue> {
        self.fields.tools
    }

    /// The `reasoning` of a `configuration_update`.
    pub fn reasoning(&self) -> Option<&'a RawValue> {
        self.fields.reasoning
    }

    /// The `text` of a `configuration_update`.
    pub fn text(&self) -> Option<&'a RawValue> {
        self.fields.text
    }
}

impl ItemKind {
    /// Whether the item is a call that is sent as one: of a tool that the client runs, or of an
    /// MCP tool that ran on a server, or may run there.
    pub fn is_call(self) -> bool {
        matches!(
            self,
            Self::McpCall
                | Self::McpApprovalRequest
                | Self::FunctionCall
                | Self::CustomToolCall
                | Self::ToolSearchCall
                | Self::LocalShellCall
                | Self::ShellCall
                | Self::ApplyPatchCall
        )
    }

    /// Whether it tells what a tool did on a server, which is sent as text.
    pub(crate) fn is_hosted(self) -> bool {
        matches!(self, Self::WebSearchCall | Self::Hosted)
    }

    /// Whether the item is the result of a tool that the client ran, or of a call that needed an
    /// approval.
    pub fn is_output(self) -> bool {
        matches!(
            self,
            Self::FunctionCallOutput
                | Self::CustomToolCallOutput
                | Self::ToolSearchOutput
                | Self::LocalShellCallOutput
                | Self::ShellCallOutput
                | Self::ApplyPatchCallOutput
                | Self::ApprovedMcpCall
                | Self::McpDenial
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::responses::request::TurnSource;

    #[test]
    fn all_that_names_a_call_has_its_call_id() {
        let body = r#"{"model":"m","input":[
            {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
            {"type":"function_call","id":"b","name":"f","arguments":"{}"},
            {"type":"function_call_output","call_id":"stray","output":""},
            {"type":"computer_call","id":"x","call_id":"c"},
            {"type":"call_of_a_later_api","id":"y","call_id":"d"},
            {"type":"message","id":"z","role":"user","content":"hi"}]}"#;
        let source = TurnSource::new(body.to_owned());
        let mut ids: Vec<_> = source.turn().unwrap().call_ids().into_iter().collect();
        ids.sort();
        assert_eq!(ids, ["a", "b", "c", "d"]);
    }

    #[test]
    fn an_item_keeps_its_json_with_the_fields_that_nobody_knows() {
        let unknown = r#"{ "type":"hologram", "id":"h_1","beam":{"on":true,"x":[1, 2]} }"#;
        let short = r#"{"role":"user","content":"hi"}"#;
        let body = format!(
            r#"{{"model":"m","input":[{short}, {unknown},{{"type":"item_reference","id":"msg_1"}}]}}"#
        );
        let stored = r#"{"type":"message","id":"msg_1","role":"assistant","content":[],"x":1}"#;
        let known = HashMap::from([("msg_1".to_owned(), stored.to_owned().into())]);
        let source = TurnSource::new(body).with_items(known);
        let turn = source.turn().unwrap();
        let raw: Vec<_> = turn.items.iter().map(Item::raw).collect();
        assert_eq!(raw, [Some(short), Some(unknown), Some(stored)]);
        assert_eq!(turn.items[1].kind, ItemKind::Unknown);
    }

    #[test]
    fn a_text_as_input_has_no_json_of_an_item() {
        let source = TurnSource::new(r#"{"model":"m","input":"hi"}"#.to_owned());
        assert_eq!(source.turn().unwrap().items[0].raw(), None);
    }
}
