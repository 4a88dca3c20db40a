//! Parses the body of `POST /v1/responses` into a [`Turn`] that borrows from it.

mod continuation;
mod limits;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use self::parse::{parse, read_tools, read_updates};
use super::request_body::read_items;
use crate::cited_source::CitedSource;
use crate::compact;
use crate::fault::{Fault, Kind};
use crate::hidden_rounds::{self, HiddenRounds};
use crate::image_texts::ImageTexts;
use crate::json::{self, only_from_object};
use crate::members::Members;
use crate::plan::output;
use crate::purpose::Purpose;
use crate::shared_text::SharedText;
use crate::stop_flag::StopFlag;
use crate::tools::{McpListing, ProxyTool, ToolChoice, withdraw_unfound};
use crate::turn::{Continuation, Item, ItemKind, Turn};

pub use self::continuation::{
    call_not_found, conversation_not_found, is_resource_id, response_not_found,
};

/// The documents that a [`Turn`] borrows from: the request body, and stored items that
/// the body refers to.
///
/// Made once for each client request. Further rounds of the same request share the body
/// and differ in the items or the purpose.
#[derive(Clone, Debug)]
pub struct TurnSource {
    body: Arc<String>,
    /// Whether some of the body was no text, and is U+FFFD now.
    has_replaced_text: bool,
    /// The JSON of the items that the body refers to, by item id.
    items: HashMap<String, SharedText>,
    /// The stored items that the request continues, as a JSON list.
    history: Option<SharedText>,
    /// The most characters of a user message.
    max_message_chars: Option<usize>,
    purpose: Purpose,
    /// The tools that run in the proxy.
    tools: Arc<[ProxyTool]>,
    /// What the MCP servers of the request offer, if the proxy connects to them.
    mcp: Option<Arc<McpListing>>,
    /// Descriptions of the images, for a model that takes none.
    image_texts: Option<Arc<ImageTexts>>,
    /// What the client did not see of earlier answers.
    hidden_rounds: Vec<Arc<HiddenRounds>>,
    /// The items of the rounds of this turn, as JSON.
    rounds: Vec<Arc<str>>,
    /// The pages that the calls of these rounds have found, each with the number of items so far.
    round_sources: Vec<(usize, CitedSource)>,
    /// See [`Controls::least_effort`](crate::turn::Controls::least_effort).
    least_effort: bool,
    /// The items that the summary of the history repeats, if the client does not send them.
    tail: OnceLock<Vec<String>>,
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

/// After so many searches for tools in an answer, `tool_choice` forces no call any more: there may
/// be no tool that fits.
const SEARCHES_FOR_CHOICE: usize = 3;
/// A request of fewer bytes is sent as it is, if it has messages alone.
const SHORT_REQUEST: usize = 4_000;

/// The part of a request body that has its items.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct BodyInput<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}
only_from_object!(BodyInput, "an object");

impl TurnSource {
    /// The source of a turn that answers this request body.
    pub fn new(body: String) -> Self {
        Self::from_shared(Arc::new(body))
    }

    /// As [`Self::new`], for a body that is also used elsewhere.
    pub fn from_shared(body: Arc<String>) -> Self {
        // A client that cuts its texts by UTF-16 units has half a pair in its history for ever.
        let sound = match json::sound(&body) {
            Cow::Owned(sound) => Some(Arc::new(sound)),
            Cow::Borrowed(_) => None,
        };
        Self {
            has_replaced_text: sound.is_some(),
            body: sound.unwrap_or(body),
            items: HashMap::new(),
            history: None,
            max_message_chars: None,
            purpose: Purpose::Answer,
            tools: Arc::default(),
            mcp: None,
            image_texts: None,
            hidden_rounds: Vec::new(),
            rounds: Vec::new(),
            round_sources: Vec::new(),
            least_effort: false,
            tail: OnceLock::new(),
            refuses_prompts: false,
            stop: StopFlag::default(),
        }
    }

    /// The same request, with a flag that ends the work on it early.
    #[must_use]
    pub fn with_stop_flag(self, stop: StopFlag) -> Self {
        Self { stop, ..self }
    }

    /// The same request, for which the least reasoning of the model is enough or not.
    #[must_use]
    pub fn with_least_effort(self, least_effort: bool) -> Self {
        Self {
            least_effort,
            ..self
        }
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
    pub fn with_items(&self, items: HashMap<String, SharedText>) -> Self {
        Self {
            items,
            ..self.clone()
        }
    }

    /// The same request, with the stored items that it continues: a JSON list.
    #[must_use]
    pub fn with_history(&self, history: SharedText) -> Self {
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
    pub fn history(&self) -> Option<&SharedText> {
        self.history.as_ref()
    }

    /// The same request, with further tools that run in the proxy.
    #[must_use]
    pub fn with_proxy_tools(&self, tools: impl Into<Arc<[ProxyTool]>>) -> Self {
        let mut tools = tools.into();
        if !self.tools.is_empty() {
            tools = self.tools.iter().chain(&*tools).cloned().collect();
        }
        Self {
            tools,
            ..self.clone()
        }
    }

    /// The same request, to whose MCP servers the proxy connects: this is what they offer.
    #[must_use]
    pub fn with_mcp_listing(self, listing: Arc<McpListing>) -> Self {
        Self {
            mcp: Some(listing),
            ..self
        }
    }

    /// Takes away the tools that read artifacts.
    pub fn remove_artifact_tools(&mut self) {
        if self.tools.iter().any(|tool| tool.reads_artifacts) {
            let others = self.tools.iter().filter(|tool| !tool.reads_artifacts);
            self.tools = others.cloned().collect();
        }
    }

    /// The same request, with descriptions of its images.
    #[must_use]
    pub fn with_image_texts(self, texts: Arc<ImageTexts>) -> Self {
        Self {
            image_texts: Some(texts),
            ..self
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
    /// its calls, as JSON, and `sources` the pages that these have found.
    #[must_use]
    pub fn with_round(
        mut self,
        items: impl IntoIterator<Item = Arc<str>>,
        sources: &[CitedSource],
    ) -> Self {
        self.rounds.extend(items);
        let so_far = self.rounds.len();
        let sources = sources.iter().cloned();
        self.round_sources
            .extend(sources.map(|source| (so_far, source)));
        self
    }

    /// The body of the request.
    pub fn body(&self) -> &str {
        &self.body
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
        self.complete(self.read()?)
    }

    /// Parses the body alone, for what it refers to. [`Self::complete`] makes the turn of it.
    pub fn read(&self) -> Result<Turn<'_>, Fault> {
        parse(self)
    }

    /// Completes a body that was read: with the items and the history that it refers to, its tools,
    /// and what else this source has. The body may have been read without all of these.
    pub fn complete<'a>(&'a self, read: Turn<'a>) -> Result<Turn<'a>, Fault> {
        let tools = match &self.purpose {
            Purpose::Summary { tools, .. } => tools.as_deref(),
            Purpose::Answer | Purpose::Compacted { .. } => None,
        };
        let mut turn = read;
        self.resolve_references(&mut turn);
        read_updates(&mut turn)?;
        turn.controls.least_effort = self.least_effort;
        turn.image_texts = self.image_texts.as_deref();
        self.add_history(&mut turn)?;
        if let Some(mcp) = &self.mcp {
            turn.tools.set_runs_mcp();
            for left_out in &mcp.left_out {
                turn.notes.add("mcp_tool_left_out", left_out);
            }
            turn.mcp_notice = mcp.notice.as_deref();
        }
        read_tools(&mut turn, tools, &self.tools)?;
        compact::replace_covered_history(&mut turn, &self.tail);
        self.stop.check()?;
        hidden_rounds::restore(&self.hidden_rounds, &mut turn);
        let restored = turn.known_sources.len();
        let first = turn.items.len();
        for (at, json) in self.rounds.iter().enumerate() {
            let sources = &self.round_sources;
            let known = sources.partition_point(|(so_far, _)| *so_far <= at);
            turn.items.extend(Item::hidden(json).map(|mut item| {
                item.known_sources = restored + known;
                item
            }));
        }
        let sources = self.round_sources.iter().map(|(_, source)| source);
        turn.known_sources.extend(sources);
        let mut of_rounds = turn.items.iter().skip(first);
        let is_search = |item: &&Item<'_>| {
            item.kind.is_call() && turn.tools.search_function() == item.name().as_deref()
        };
        let searches = of_rounds.clone().filter(is_search).count();
        let has_chosen = of_rounds.any(|item| self.is_chosen_call(&turn, item));
        if has_chosen || searches >= SEARCHES_FOR_CHOICE {
            turn.tool_choice = std::mem::take(&mut turn.tool_choice).relaxed();
        }
        if turn.tool_choice != ToolChoice::None {
            self.offer_proxy_tools(&mut turn);
        }
        withdraw_unfound(&mut turn);
        compact::apply_purpose(&mut turn, &self.purpose);
        Ok(turn)
    }

    /// Whether an item is a call that `tool_choice` may have asked for. One that reads an artifact
    /// is not: the client knows nothing of these tools, and its choice holds until the model has
    /// made it. A search for tools is one only if the choice names it.
    fn is_chosen_call(&self, turn: &Turn<'_>, item: &Item<'_>) -> bool {
        let name = item.name();
        let is_it = |other: Option<&str>| other.is_some() && other == name.as_deref();
        let reads = |tool: &ProxyTool| tool.reads_artifacts && is_it(Some(&tool.name));
        let named = match &turn.tool_choice {
            ToolChoice::Named(name) => Some(name.as_str()),
            _ => None,
        };
        let is_search = is_it(turn.tools.search_function()) && !is_it(named);
        item.kind.is_call() && !is_search && !self.tools.iter().any(reads)
    }

    /// Adds the tools of the proxy that stand for no hosted tool, except the search for tools.
    /// Those that read artifacts are left out if the client has such tools, or if the request is
    /// too short for an artifact and names none.
    fn offer_proxy_tools<'a>(&'a self, turn: &mut Turn<'a>) {
        let readers = || self.tools.iter().filter(|tool| tool.reads_artifacts);
        let mut written = turn.items.iter().filter_map(Item::raw);
        let names_artifacts = readers().next().is_some() && written.any(output::names_artifact);
        // Nothing of a few short messages is shortened, so no artifact will be named either.
        let is_message = |item: &Item<'_>| item.kind == ItemKind::Message;
        let is_short = self.size() < SHORT_REQUEST && turn.items.iter().all(is_message);
        let needs_none = is_short && !names_artifacts;
        let leaves_out = needs_none || readers().any(|tool| turn.tools.has_client_tool(&tool.name));
        let own = self.tools.iter();
        let own = own.filter(|tool| tool.in_place_of.is_none() && !tool.finds_tools);
        for tool in own.filter(|tool| !(tool.reads_artifacts && leaves_out)) {
            let added = turn.tools.add_proxy_tool(tool);
            turn.withheld_tools.extend(added);
        }
        turn.names_artifacts = names_artifacts && turn.tools.can_read_artifacts();
    }

    fn resolve_references<'a>(&'a self, turn: &mut Turn<'a>) {
        if !self.items.is_empty() {
            for item in &mut turn.items {
                item.resolve_reference(&self.items);
            }
        }
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
        let mut turn = self.read()?;
        self.resolve_references(&mut turn);
        Ok(turn.items)
    }
}
