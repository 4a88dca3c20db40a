//! Parses the body of `POST /v1/responses` into a [`Turn`] that borrows from it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parameters::{
    check_metadata, read_bool, read_cache_comparison, read_context_management, read_include,
    read_integer, read_number, read_reasoning, read_text, read_truncation,
};
use super::request_body::{MAX_ITEMS, RequestBody, RequestInput, read_items};
use super::tool_choice::read_tool_choice;
use crate::compact;
use crate::fault::{Fault, Kind};
use crate::hidden_rounds::{self, HiddenRounds};
use crate::json::{self, string_value};
use crate::members::Members;
use crate::notes::Notes;
use crate::purpose::Purpose;
use crate::stop_flag::StopFlag;
use crate::stored_history::limits;
use crate::text::Text;
use crate::tools::{ProxyTool, ToolChoice, Toolbox};
use crate::turn::{Continuation, Controls, EchoedParams, Item, ItemKind, Turn};

/// The deepest nesting of arrays and objects in a request: twice what most JSON parsers
/// allow.
pub(crate) const MAX_DEPTH: usize = 256;

/// The most elements of a list in an item, such as the parts of a message. OpenAI takes 1,500
/// images.
const MAX_ELEMENTS: usize = 10_000;

/// The longest name of a model: names are remembered, and are labels of metrics.
const MAX_MODEL_BYTES: usize = 256;

/// The documents that a [`Turn`] borrows from: the request body, and stored items that
/// the body refers to.
///
/// Made once for each client request. Further rounds of the same request share the body
/// and differ in the items or the purpose.
#[derive(Clone, Debug)]
pub struct TurnSource {
    body: Arc<String>,
    /// The JSON of the items that the body refers to, by item id.
    items: HashMap<String, Arc<str>>,
    /// The stored items that the request continues, as a JSON list.
    history: Option<Arc<String>>,
    /// The most characters of a user message.
    max_message_chars: Option<usize>,
    purpose: Purpose,
    /// The tools that run in the proxy.
    tools: Arc<[ProxyTool]>,
    /// What the client did not see of earlier answers.
    hidden_rounds: Vec<Arc<HiddenRounds>>,
    /// The items of the rounds of this turn, as JSON.
    rounds: Vec<Arc<str>>,
    /// Whether a `prompt` is refused, because there are no templates.
    refuses_prompts: bool,
    /// Ends the work on the request early.
    stop: StopFlag,
}

/// The items of a request as they were written.
pub(crate) struct RawItems<'a> {
    /// The JSON of each item.
    pub(crate) items: Vec<&'a str>,
    /// The JSON of the input behind them, if it is a text.
    pub(crate) text: Option<&'a str>,
}

/// The part of a request body that has its items.
#[derive(Deserialize)]
struct BodyInput<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

impl TurnSource {
    /// The source of a turn that answers this request body.
    pub fn new(body: String) -> Self {
        Self::from_shared(Arc::new(body))
    }

    /// As [`Self::new`], for a body that is also used elsewhere.
    pub fn from_shared(body: Arc<String>) -> Self {
        Self {
            body,
            items: HashMap::new(),
            history: None,
            max_message_chars: None,
            purpose: Purpose::Answer,
            tools: Arc::default(),
            hidden_rounds: Vec::new(),
            rounds: Vec::new(),
            refuses_prompts: false,
            stop: StopFlag::default(),
        }
    }

    /// The same request, with a flag that ends the work on it early.
    #[must_use]
    pub fn with_stop_flag(self, stop: StopFlag) -> Self {
        Self { stop, ..self }
    }

    /// The same request to a server without prompt templates. Elsewhere a template has been filled
    /// in, and `prompt` says which.
    #[must_use]
    pub fn without_templates(self) -> Self {
        Self {
            refuses_prompts: true,
            ..self
        }
    }

    /// The size in bytes of the request body and of the stored history that it continues.
    pub fn size(&self) -> usize {
        let history = self.history.as_ref().map_or(0, |history| history.len());
        self.body.len().saturating_add(history)
    }

    /// The same request, with the items that its `item_reference` items refer to: their
    /// JSON by item id.
    #[must_use]
    pub fn with_items(&self, items: HashMap<String, Arc<str>>) -> Self {
        Self {
            items,
            ..self.clone()
        }
    }

    /// The same request, with the stored items that it continues: a JSON list.
    #[must_use]
    pub fn with_history(&self, history: Arc<String>) -> Self {
        Self {
            history: Some(history),
            ..self.clone()
        }
    }

    /// The same request, with a limit for the characters of a user message.
    #[must_use]
    pub fn with_max_message_chars(self, max_message_chars: Option<usize>) -> Self {
        Self {
            max_message_chars,
            ..self
        }
    }

    /// The stored items that the request continues, as a JSON list.
    pub fn history(&self) -> Option<&Arc<String>> {
        self.history.as_ref()
    }

    /// The same request, with tools that run in the proxy.
    #[must_use]
    pub fn with_proxy_tools(&self, tools: Vec<ProxyTool>) -> Self {
        Self {
            tools: tools.into(),
            ..self.clone()
        }
    }

    /// The same request, with what the client did not see of earlier answers.
    #[must_use]
    pub fn with_hidden_rounds(&self, hidden_rounds: Vec<Arc<HiddenRounds>>) -> Self {
        Self {
            hidden_rounds,
            ..self.clone()
        }
    }

    /// The same request after a further round: `items` are the model's output and the results of
    /// its calls, as JSON.
    #[must_use]
    pub fn with_round(mut self, items: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.rounds.extend(items);
        self
    }

    /// The tools that run in the proxy.
    pub fn proxy_tools(&self) -> &[ProxyTool] {
        &self.tools
    }

    /// The same request for another purpose.
    #[must_use]
    pub fn with_purpose(&self, purpose: Purpose) -> Self {
        Self {
            purpose,
            ..self.clone()
        }
    }

    /// The items of the request as they were written: those of the history that it continues, then
    /// those of its body, references resolved. `None` if they cannot be read.
    pub(crate) fn raw_items(&self) -> Option<RawItems<'_>> {
        let mut items = match &self.history {
            Some(history) => serde_json::from_str(history).ok()?,
            None => Vec::new(),
        };
        let body: BodyInput<'_> = serde_json::from_str(&self.body).ok()?;
        let mut text = None;
        match body.input.map(RawValue::get) {
            Some(json) if json.starts_with('"') => text = Some(json),
            Some(json) => {
                let own: Vec<&RawValue> = serde_json::from_str(json).ok()?;
                items.extend(own);
            }
            None => {}
        }
        let items = items.into_iter().map(|raw| self.resolved(raw.get()));
        Some(RawItems {
            items: items.collect(),
            text,
        })
    }

    /// The item that this one refers to, or itself.
    fn resolved<'a>(&'a self, raw: &'a str) -> &'a str {
        if self.items.is_empty() {
            return raw;
        }
        let reference = Members::read(raw);
        let reference = reference.filter(|it| it.text("type").as_deref() == Some("item_reference"));
        let id = reference.and_then(|reference| reference.text("id"));
        let known = id.and_then(|id| self.items.get(&*id));
        known.map_or(raw, |item| &**item)
    }

    /// Parses the request. An error is an invalid request of the client and names the
    /// parameter, or says why the work was stopped.
    pub fn turn(&self) -> Result<Turn<'_>, Fault> {
        let tools = match &self.purpose {
            Purpose::Summary { tools, .. } => tools.as_deref(),
            Purpose::Answer | Purpose::Compacted { .. } => None,
        };
        let mut turn = self.parse(tools)?;
        self.add_history(&mut turn)?;
        compact::replace_covered_history(&mut turn);
        self.stop.check()?;
        hidden_rounds::restore(&self.hidden_rounds, &mut turn);
        let rounds = self.rounds.iter();
        turn.items
            .extend(rounds.filter_map(|json| Item::hidden(json)));
        if !self.rounds.is_empty() {
            turn.tool_choice = std::mem::take(&mut turn.tool_choice).relaxed();
        }
        if turn.tool_choice != ToolChoice::None {
            let tools = self.tools.iter();
            let added = tools.filter(|tool| turn.tools.add_proxy_tool(tool));
            turn.withheld_tools = added.map(|tool| tool.name.clone()).collect();
        }
        compact::apply_purpose(&mut turn, &self.purpose);
        Ok(turn)
    }

    /// Puts the stored history before the items of the request.
    fn add_history<'a>(&'a self, turn: &mut Turn<'a>) -> Result<(), Fault> {
        if matches!(turn.continues, Some(Continuation::Conversation(_))) {
            let dropped = limits::limit_forged_history(&mut turn.items);
            if dropped > 0 {
                turn.notes
                    .add("history_dropped", format!("{dropped} assistant messages"));
            }
        }
        let mut own_from = 0;
        if let Some(history) = &self.history {
            let mut items = read_items(history).map_err(|error| {
                let message = format!("The stored history cannot be read: {error}.");
                Fault::new(Kind::Internal, message)
            })?;
            own_from = items.len();
            items.append(&mut turn.items);
            turn.items = items;
        }
        if let Some(max_chars) = self.max_message_chars {
            limits::shorten_messages(turn, own_from, max_chars);
        }
        self.stop.check()
    }

    /// The items of the request body, references resolved.
    pub(crate) fn items_of_body(&self) -> Result<Vec<Item<'_>>, Fault> {
        Ok(self.parse(None)?.items)
    }

    /// Parses the request body; `tools` is a JSON list that replaces its tools.
    fn parse<'a>(&'a self, tools: Option<&'a str>) -> Result<Turn<'a>, Fault> {
        parse(
            &self.body,
            &self.items,
            tools,
            &self.stop,
            self.refuses_prompts,
        )
    }
}

/// Parses a request body. `known` holds items by id, to replace references; `tools` is a
/// JSON list that replaces the tools of the request. With `refuses_prompts` it may have no `prompt`.
fn parse<'a>(
    json: &'a str,
    known: &'a HashMap<String, Arc<str>>,
    tools: Option<&'a str>,
    stop: &StopFlag,
    refuses_prompts: bool,
) -> Result<Turn<'a>, Fault> {
    stop.check()?;
    if json::has_lone_surrogate(json) {
        return Err(Fault::invalid("input", "A string holds half of a UTF-16 surrogate pair (a \\ud800-\\udfff escape without its partner). Send the whole character or U+FFFD.")
            .with_code("invalid_json"));
    }
    let body = RequestBody::parse(json, stop);
    stop.check()?;
    let mut body = body.map_err(|error| unreadable_body(json, &error))?;
    if body.has_too_many_items {
        let message = format!(
            "The parameter 'input' has more than {MAX_ITEMS} items: compact the history, or leave out its beginning."
        );
        return Err(Fault::invalid("input", message).with_code("too_many_items"));
    }
    let mut notes = Notes::default();
    for name in &body.unknown {
        notes.add("parameter_unknown", name);
    }

    if refuses_prompts {
        refuse_prompt(&body)?;
    }
    let model = match body.model.map(RawValue::get) {
        None => {
            return Err(Fault::invalid("model", "The parameter 'model' is missing.")
                .with_code("missing_required_parameter"));
        }
        Some(_) => string_value(body.model)
            .filter(|model| !model.trim().is_empty())
            .ok_or_else(|| {
                Fault::invalid("model", "The parameter 'model' must be a non-empty string.")
            })?,
    };
    if model.len() > MAX_MODEL_BYTES {
        let message = format!("The parameter 'model' is longer than {MAX_MODEL_BYTES} bytes.");
        return Err(Fault::invalid("model", message));
    }
    let continues = read_continuation(&body)?;
    let background = read_background(&body)?;
    check_metadata(body.metadata)?;
    let mut items = match body.input.take() {
        Some(RequestInput::Items(items)) => items,
        Some(RequestInput::Text(text)) => vec![Item::user(text)],
        None => Vec::new(),
    };
    let is_too_deep = |raw: &RawValue| json::is_deeper_than(raw.get(), MAX_DEPTH);
    if body.parameters().any(is_too_deep) {
        return Err(too_deep());
    }
    for (index, item) in items.iter().enumerate() {
        stop.check()?;
        for value in item.nested_values() {
            if is_too_deep(value) {
                return Err(too_deep());
            }
            if json::has_more_elements_than(value.get(), MAX_ELEMENTS) {
                let message = format!(
                    "A list of input[{index}] has more than {MAX_ELEMENTS} elements: join texts, or send several items."
                );
                return Err(Fault::invalid(format!("input[{index}]"), message)
                    .with_code("too_many_elements"));
            }
        }
    }
    if !known.is_empty() {
        for item in &mut items {
            item.resolve_reference(known);
        }
    }
    refuse_early_trigger(&items)?;
    if items.is_empty() && body.instructions.is_none() && continues.is_none() {
        return Err(Fault::invalid(
            "input",
            "The parameter 'input' is missing: send a string or a list of items.",
        )
        .with_code("missing_required_parameter"));
    }
    let instructions = match body.instructions {
        None => None,
        Some(raw) => Some(Text::from_raw(raw).ok_or_else(|| {
            Fault::invalid(
                "instructions",
                "The parameter 'instructions' must be a string.",
            )
        })?),
    };

    let mut controls = Controls {
        temperature: read_number(body.temperature, "temperature", 0.0..=2.0)?,
        top_p: read_number(body.top_p, "top_p", 0.0..=1.0)?,
        presence_penalty: read_number(body.presence_penalty, "presence_penalty", -2.0..=2.0)?,
        frequency_penalty: read_number(body.frequency_penalty, "frequency_penalty", -2.0..=2.0)?,
        top_logprobs: read_integer(body.top_logprobs, "top_logprobs", 0..=20)?,
        max_output_tokens: read_integer(body.max_output_tokens, "max_output_tokens", 1..=u64::MAX)?,
        service_tier: string_value(body.service_tier),
        prompt_cache_key: body.prompt_cache_key.and_then(Text::from_raw),
        ..Controls::default()
    };
    read_text(body.text, &mut controls)?;
    read_reasoning(body.reasoning, &mut controls);
    read_include(body.include, &mut controls, &mut notes);
    for update in items
        .iter()
        .filter(|item| item.kind == ItemKind::ConfigurationUpdate)
    {
        read_text(update.text(), &mut controls)?;
        read_reasoning(update.reasoning(), &mut controls);
    }
    let cache_comparison = read_cache_comparison(body.prompt_cache_options, &mut notes);
    if body.moderation.is_some() {
        notes.add("parameter_ignored", "moderation");
    }

    let mut toolbox = Toolbox::default();
    let mut dropped = Vec::new();
    let tool_items = items.iter().filter(|item| {
        matches!(
            item.kind,
            ItemKind::AdditionalTools | ItemKind::ToolSearchOutput
        )
    });
    let offered: Option<&'a RawValue> = match tools {
        Some(tools) => serde_json::from_str(tools).ok(),
        None => body.tools,
    };
    if let Some(list) = offered {
        toolbox.add_definitions(list, false, &mut dropped)?;
    }
    for item in tool_items {
        if let Some(list) = item.tools() {
            let found = item.kind == ItemKind::ToolSearchOutput;
            toolbox.add_definitions(list, found, &mut dropped)?;
        }
    }
    for kind in &dropped {
        notes.add("tool_dropped", kind.clone());
    }
    let tool_choice = read_tool_choice(body.tool_choice, &toolbox, &dropped)?;

    Ok(Turn {
        model,
        stream: read_bool(body.stream, "stream")?.unwrap_or(false),
        store: read_bool(body.store, "store")?.unwrap_or(true),
        continues,
        background,
        instructions,
        items,
        replaced_items: Vec::new(),
        tools: toolbox,
        withheld_tools: HashSet::new(),
        tool_choice,
        parallel_tool_calls: read_bool(body.parallel_tool_calls, "parallel_tool_calls")?,
        controls,
        cache_comparison,
        echo: EchoedParams {
            instructions: body.instructions,
            metadata: body.metadata,
            prompt: body.prompt,
            prompt_cache_key: body.prompt_cache_key,
            reasoning: body.reasoning,
            safety_identifier: body.safety_identifier,
            text: body.text,
            tool_choice: body.tool_choice,
            tools: body.tools,
            truncation: body.truncation,
            max_tool_calls: body.max_tool_calls,
            user: body.user,
        },
        purpose: Purpose::Answer,
        may_truncate: read_truncation(body.truncation)?,
        compact_threshold: read_context_management(body.context_management)?,
        notes,
        stop: stop.clone(),
    })
}

fn too_deep() -> Fault {
    let message =
        format!("The request body nests arrays and objects more than {MAX_DEPTH} levels deep.");
    Fault::invalid("body", message).with_code("invalid_json")
}

/// A `compaction_trigger` as the last item asks for a summary; anywhere else it has no
/// meaning and is an error.
fn refuse_early_trigger(items: &[Item<'_>]) -> Result<(), Fault> {
    let earlier = items.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let found = earlier
        .iter()
        .position(|item| item.kind == ItemKind::CompactionTrigger);
    match found {
        Some(index) => Err(Fault::invalid(
            format!("input[{index}]"),
            "A 'compaction_trigger' must be the last item of the input.",
        )),
        None => Ok(()),
    }
}

/// The error for a body that does not parse. The message of serde contains line and
/// column.
fn unreadable_body(json: &str, error: &serde_json::Error) -> Fault {
    let what = match error.classify() {
        serde_json::error::Category::Data => "does not fit the Responses API",
        _ => "is not valid JSON",
    };
    let hint = if json.trim_start().starts_with('{') {
        ""
    } else {
        " It must be one JSON object."
    };
    Fault::invalid("body", format!("The request body {what}: {error}.{hint}"))
        .with_code("invalid_json")
}

/// The stored response or conversation that the request continues. An id that none can have is
/// refused here.
fn read_continuation(body: &RequestBody<'_>) -> Result<Option<Continuation>, Fault> {
    let conversation = match body.conversation {
        None => None,
        Some(raw) => Some(conversation_id(raw)?),
    };
    let Some(raw) = body.previous_response_id else {
        return Ok(conversation.map(Continuation::Conversation));
    };
    let Some(id) = string_value(Some(raw)) else {
        let message = "The parameter 'previous_response_id' must be a string.";
        return Err(Fault::invalid("previous_response_id", message));
    };
    if conversation.is_some() {
        let message = "Send either 'previous_response_id' or 'conversation': a response that belongs to a conversation is continued with the conversation.";
        return Err(Fault::invalid("previous_response_id", message)
            .with_code("mutually_exclusive_parameters"));
    }
    if !is_resource_id(&id, "resp_") {
        return Err(response_not_found(&id));
    }
    Ok(Some(Continuation::Response(id.into_owned())))
}

fn conversation_id(raw: &RawValue) -> Result<String, Fault> {
    #[derive(serde::Deserialize)]
    struct ConversationObject<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    let object: Option<ConversationObject<'_>> = serde_json::from_str(raw.get()).ok();
    let id = string_value(Some(raw)).or_else(|| string_value(object?.id));
    let Some(id) = id else {
        let message = "The parameter 'conversation' must be the id of a conversation, or an object with its id.";
        return Err(Fault::invalid("conversation", message));
    };
    if !is_resource_id(&id, "conv_") {
        return Err(conversation_not_found(&id));
    }
    Ok(id.into_owned())
}

/// Whether a text can be the id of a stored resource: a prefix, and 1 to 64 letters and digits.
pub fn is_resource_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|token| {
        (1..=64).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The fault of a request that continues a response which is not stored.
pub fn response_not_found(id: &str) -> Fault {
    let id = shown_id(id);
    let message = format!(
        "Previous response with id '{id}' not found: it is not stored here (any more). Send the whole input instead."
    );
    Fault::invalid("previous_response_id", message).with_code("previous_response_not_found")
}

/// The fault of a request that continues a response and has a result of a call that neither has.
pub fn call_not_found(index: usize, call_id: &str) -> Fault {
    let call_id = shown_id(call_id);
    let message = format!(
        "No call found for the output with the call_id '{call_id}': the response that is continued has none with this id, and neither has the input."
    );
    Fault::invalid(format!("input[{index}].call_id"), message).with_code("call_not_found")
}

/// The fault of a request that continues a conversation which is not stored.
pub fn conversation_not_found(id: &str) -> Fault {
    let id = shown_id(id);
    let message =
        format!("Conversation with id '{id}' not found: it is not stored here (any more).");
    Fault::invalid("conversation", message).with_code("conversation_not_found")
}

/// The beginning of an id that somebody sent.
fn shown_id(id: &str) -> String {
    id.chars().take(80).collect()
}

fn read_background(body: &RequestBody<'_>) -> Result<bool, Fault> {
    let background = read_bool(body.background, "background")?.unwrap_or(false);
    if background && !read_bool(body.store, "store")?.unwrap_or(true) {
        let message = "A background response is stored: send 'background' without 'store: false'.";
        return Err(Fault::invalid("background", message).with_code("unsupported_parameter"));
    }
    Ok(background)
}

/// Refuses a prompt.
fn refuse_prompt(body: &RequestBody<'_>) -> Result<(), Fault> {
    if body.prompt.is_some() {
        return Err(Fault::invalid(
            "prompt",
            "This server has no prompt templates: name their folder in [prompts] of its configuration, or send 'instructions' and 'input'.",
        )
        .with_code("unsupported_parameter"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop_flag::StopReason;

    #[test]
    fn an_invalid_request_names_the_parameter() {
        for (body, param, code) in [
            ("", "body", Some("invalid_json")),
            ("[]", "body", Some("invalid_json")),
            (
                r#"{"model":"m","input":"a","input":"b"}"#,
                "body",
                Some("invalid_json"),
            ),
            (r#"{"model":"m","input":{}}"#, "body", Some("invalid_json")),
            (
                r#"{"model":"m","input":"\ud800"}"#,
                "input",
                Some("invalid_json"),
            ),
            (
                r#"{"input":"a"}"#,
                "model",
                Some("missing_required_parameter"),
            ),
            (r#"{"model":7,"input":"a"}"#, "model", None),
            (r#"{"model":" ","input":"a"}"#, "model", None),
            (
                r#"{"model":"m"}"#,
                "input",
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","input":[]}"#,
                "input",
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","input":"a","instructions":7}"#,
                "instructions",
                None,
            ),
            (
                r#"{"model":"m","input":"a","temperature":3}"#,
                "temperature",
                None,
            ),
            (r#"{"model":"m","input":"a","top_p":"1"}"#, "top_p", None),
            (
                r#"{"model":"m","input":"a","top_logprobs":21}"#,
                "top_logprobs",
                None,
            ),
            (
                r#"{"model":"m","input":"a","max_output_tokens":0}"#,
                "max_output_tokens",
                None,
            ),
            (
                r#"{"model":"m","input":"a","stream":"yes"}"#,
                "stream",
                None,
            ),
            (
                r#"{"model":"m","input":"a","metadata":{"k":1}}"#,
                "metadata",
                None,
            ),
            (
                r#"{"model":"m","input":"a","previous_response_id":"resp_%"}"#,
                "previous_response_id",
                Some("previous_response_not_found"),
            ),
            (
                r#"{"model":"m","input":"a","conversation":"conv_"}"#,
                "conversation",
                Some("conversation_not_found"),
            ),
            (
                r#"{"model":"m","input":"a","background":true,"store":false}"#,
                "background",
                Some("unsupported_parameter"),
            ),
            (
                r#"{"model":"m","input":"a","prompt":{"id":"p"}}"#,
                "prompt",
                Some("unsupported_parameter"),
            ),
            (
                r#"{"model":"m","input":"a","text":{"format":{"type":"xml"}}}"#,
                "text.format.type",
                None,
            ),
            (
                r#"{"model":"m","input":"a","text":{"format":{"type":"json_schema","name":"n"}}}"#,
                "text.format.schema",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tools":[{"type":"function"}]}"#,
                "tools",
                None,
            ),
            (r#"{"model":"m","input":"a","tools":{}}"#, "tools", None),
            (
                r#"{"model":"m","input":"a","tool_choice":"maybe"}"#,
                "tool_choice",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tool_choice":"required"}"#,
                "tool_choice",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}"#,
                "tool_choice",
                None,
            ),
            (
                r#"{"model":"m","input":"a","tool_choice":{"type":"function","name":"f"}}"#,
                "tool_choice",
                None,
            ),
        ] {
            let fault = TurnSource::new(body.into())
                .without_templates()
                .turn()
                .unwrap_err();
            assert_eq!(fault.kind, crate::fault::Kind::InvalidRequest, "{body}");
            assert_eq!(fault.param.as_deref(), Some(param), "{body}");
            assert_eq!(fault.code(), code, "{body}");
        }
    }

    #[test]
    fn r31_a_long_name_of_a_model_is_refused() {
        let with = |bytes: usize| {
            let body = format!(r#"{{"model":"{}","input":"a"}}"#, "m".repeat(bytes));
            TurnSource::new(body)
                .turn()
                .err()
                .and_then(|fault| fault.param)
        };
        assert_eq!(with(MAX_MODEL_BYTES), None);
        assert_eq!(with(MAX_MODEL_BYTES + 1).as_deref(), Some("model"));
    }

    #[test]
    fn work_that_was_stopped_has_no_turn() {
        let stop = StopFlag::new();
        let body = r#"{"model":"m","input":"a"}"#;
        let source = TurnSource::new(body.into()).with_stop_flag(stop.clone());
        assert!(source.turn().is_ok());
        stop.raise(StopReason::TurnTimeout);
        let fault = source.turn().unwrap_err();
        assert_eq!(fault.kind, crate::fault::Kind::TurnTimeout);
    }

    #[test]
    fn unknown_parameters_items_and_tools_are_accepted() {
        for body in [
            r#"{"model":"m","input":"a","client_metadata":{"a":"b"},"access_programs":[]}"#,
            r#"{"model":"m","input":[{"type":"new_item","x":[1]}]}"#,
            r#"{"model":"m","input":"a","tools":[{"type":"new_tool","format":{"type":"text"}}]}"#,
            r#"{"model":"m","input":"a","temperature":null,"tools":null,"tool_choice":null,"metadata":null}"#,
            r#"{"model":"m","instructions":"only"}"#,
        ] {
            assert!(TurnSource::new(body.into()).turn().is_ok(), "{body}");
        }
    }
}
