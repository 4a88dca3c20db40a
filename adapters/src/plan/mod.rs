//! Decides what is sent of each item, and in which order. The encoder of a wire carries
//! the plan out; logs, replay and tests read the same value.
//!
//! [`plan`] takes these steps, in this order:
//!
//! 1. **Repair.** Providers refuse a history in which a call and its result are not
//!    adjacent, and a session with such a history would be refused on every turn.
//!    `item_role` and `empty` sort out what is not sent, `pairing` finds the result
//!    of each call, and `call_ids` gives each pair an id of its own. A result without a
//!    call is sent as a message, so that nothing the model knew is lost.
//! 2. **Summaries.** `summary` puts the text of a compaction item in its place.
//! 3. **Messages before a summary.** `fit_window::limit_user_requests` limits the user
//!    messages that a client sends besides the summary of them.
//! 4. **Outputs.** `bound_outputs` decides for each tool output whether it is sent
//!    whole, as an excerpt or as a one-line notice. This limit holds for every request of
//!    a session, whether or not the request would fit, and outputs are the only items
//!    that it touches.
//! 5. **Window.** `fit_window` cuts a request that is still too long for the window. It
//!    may shorten or drop any item, and runs only for a request for a summary that has to
//!    fit (`SummaryMode::FitWindow`) and for a client that asks for `truncation: auto`.
//!
//! Except in a cut request for a summary, a decision depends only on the items before it
//! and on results that belong to it: when a history grows, the bytes of its beginning stay
//! the same, and so does the part of it that the provider has cached.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::content::MessageContent;
use crate::fault::Fault;
use crate::media::AcceptedMedia;
use crate::notes::Notes;
use crate::result_text::output_has_parts;
use crate::text::Text;
use crate::tools::{ProxyToolUse, Tool};
use crate::turn::{Item, ItemKind, Turn};

mod bound_outputs;
mod bounds;
mod cache;
mod call_ids;
mod empty;
mod fit_window;
mod item_role;
mod notes;
pub mod output;
mod pairing;
mod replacement;
mod summary;
mod unshortened_from;

pub use bound_outputs::MAX_PROXY_TOOL_CHARS;
pub use bounds::{Bounds, OutputPolicy};
pub use cache::{CachedOutput, NoCache, PlanCache};
pub use excerpts::Retention;
pub use replacement::{Artifact, Replacement, ReplacementKind};
pub use unshortened_from::{OutputMark, UnshortenedFrom, hash_ends};

use call_ids::CallIdAllocator;
use item_role::ItemRole;
use pairing::{HistoryBlock, PairedCall, Pairing, ResultMatch};

const REASON_EMPTY: &str = "it is empty";
const REASON_NO_ANSWER: &str = "no answer follows it";
const REASON_SAME_RESULT: &str = "its call has this result already";

/// The decisions about all items of a turn, and the order in which they are sent. Made by
/// [`plan`] for one upstream request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The action for each item, in the order of the turn's items.
    pub actions: Vec<ItemAction>,
    /// The entries that are sent, in order.
    pub sequence: Vec<SequenceEntry>,
    /// Texts that are sent instead of an item's own, by the index of the item.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub replacements: BTreeMap<usize, Replacement>,
    /// The shortened instructions, if the turn's own are too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
    /// Whether the tools of the proxy that read artifacts are offered, because what is sent names
    /// an artifact.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub artifact_tools: bool,
    /// How many times in this session old outputs were reduced to notices, many at once.
    #[serde(skip_serializing_if = "is_zero")]
    pub epochs: u32,
    /// The marks of the outputs in the order of sending; none where outputs are not limited.
    #[serde(skip)]
    pub output_marks: Vec<OutputMark>,
}

/// The decision about an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemAction {
    /// It is sent without repairs.
    Keep,
    /// It is sent with these repairs.
    Repair(Vec<Repair>),
    /// It is not sent, for this reason.
    Drop(&'static str),
}

/// One repair of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// The call or result is sent under this call id: its own is missing, longer than
    /// 64 characters, or used by another call.
    Id(String),
    /// The call has no name and is sent as a call of [`UNKNOWN_TOOL`](crate::tools::UNKNOWN_TOOL).
    Nameless,
    /// The call has no result and gets one that says so.
    Interrupted,
    /// A result is sent directly after the answer that made its call, a message before the answer
    /// whose results followed it.
    Moved,
    /// The result has no call and is sent as a message.
    Orphan,
    /// The call has a result already, so that this one is sent as a message.
    Repeated,
}

/// One entry of what is sent. Items are named by their indices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceEntry {
    /// A message that the model did not write.
    Message(usize),
    /// An answer of the model. The results of its calls follow directly, one for each
    /// call and in the order of the calls.
    Answer(AnswerItems),
    /// The result of a call.
    Result(usize),
    /// A generated result for this call, which has none.
    Interrupted(usize),
    /// A result that has no call, or whose call has another result, or what a tool on a server
    /// did, sent as a message.
    Stray(usize),
    /// A user message with this text, about items that are left out here.
    Omitted(Arc<str>),
}

impl SequenceEntry {
    /// The index of the item whose output it sends.
    fn output(&self) -> Option<usize> {
        match self {
            Self::Result(index) | Self::Stray(index) => Some(*index),
            Self::Message(_) | Self::Answer(_) | Self::Interrupted(_) | Self::Omitted(_) => None,
        }
    }
}

/// The items that make up one answer of the model. An answer has text or calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerItems {
    /// Indices of reasoning items.
    pub reasoning: Vec<usize>,
    /// Indices of assistant messages.
    pub text: Vec<usize>,
    /// Indices of calls.
    pub calls: Vec<usize>,
}

/// Plans a turn. Pure: the same turn and bounds always give the same plan, unless the work on the
/// turn is stopped ([`Turn::stop`]); then the plan is incomplete and must not be used.
pub fn plan(turn: &Turn<'_>, bounds: &Bounds) -> Plan {
    plan_with_cache(turn, bounds, &NoCache)
}

/// Makes the same plan as [`plan`], faster where the cache holds what was found out about
/// the turn's outputs before.
pub fn plan_with_cache(turn: &Turn<'_>, bounds: &Bounds, cache: &dyn PlanCache) -> Plan {
    plan_with_unkept(turn, bounds, cache, &BTreeSet::new())
}

/// Makes a plan like [`plan_with_cache`] where some outputs cannot be kept whole: those of the
/// artifacts with these ids. If they are shortened, their texts say so and name no artifact. All
/// else is the same.
pub fn plan_with_unkept(
    turn: &Turn<'_>,
    bounds: &Bounds,
    cache: &dyn PlanCache,
    unkept: &BTreeSet<String>,
) -> Plan {
    let mut actions = Vec::with_capacity(turn.items.len());
    let mut pairing = Pairing::new(turn.items.len());
    for (index, item) in turn.items.iter().enumerate() {
        if turn.stop.is_raised() {
            break;
        }
        let action = match item_role::of(item) {
            ItemRole::Dropped(reason) => ItemAction::Drop(reason),
            ItemRole::Text if empty::is_empty_message(item) => ItemAction::Drop(REASON_EMPTY),
            role => {
                pairing.add_item(index, item, &role);
                ItemAction::Keep
            }
        };
        actions.push(action);
    }
    pairing.match_early_results();
    let mut plan = Plan {
        actions,
        sequence: Vec::with_capacity(pairing.blocks.len()),
        replacements: BTreeMap::new(),
        instructions: None,
        artifact_tools: false,
        epochs: 0,
        output_marks: Vec::new(),
    };
    plan.assign_call_ids(turn, &pairing);
    plan.order_items(turn, pairing);
    summary::insert_texts(turn, &mut plan.replacements);
    fit_window::limit_user_requests(turn, bounds, &mut plan);
    plan.bound_outputs(turn, bounds, cache, unkept);
    plan.artifact_tools = turn.tools.can_read_artifacts() && plan.names_artifact(turn);
    fit_window::fit(turn, bounds, &mut plan);
    plan
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Plan {
    /// Whether the request offers tools that run in the proxy.
    pub fn has_proxy_tools(&self, turn: &Turn<'_>) -> bool {
        turn.tools.has_proxy_tools(self.artifact_tools)
    }

    /// Whether a tool is offered, as far as the plan has a say in it.
    pub(crate) fn offers(&self, tool: &Tool<'_>) -> bool {
        self.artifact_tools || tool.proxy != Some(ProxyToolUse::WithArtifacts)
    }

    /// Whether the history or what is sent in its place names an artifact.
    fn names_artifact(&self, turn: &Turn<'_>) -> bool {
        let mut sent = self.replacements.values();
        turn.names_artifacts || sent.any(|sent| output::names_artifact(&sent.text))
    }

    /// The call id under which a call or result is sent.
    pub fn call_id<'p>(&'p self, turn: &'p Turn<'_>, index: usize) -> Cow<'p, str> {
        let repairs = match self.actions.get(index) {
            Some(ItemAction::Repair(repairs)) => repairs.as_slice(),
            Some(ItemAction::Keep | ItemAction::Drop(_)) | None => &[],
        };
        let minted = repairs.iter().find_map(|repair| match repair {
            Repair::Id(id) => Some(id.as_str()),
            Repair::Nameless
            | Repair::Interrupted
            | Repair::Moved
            | Repair::Orphan
            | Repair::Repeated => None,
        });
        match minted {
            Some(id) => id.into(),
            None => turn
                .items
                .get(index)
                .and_then(Item::call_id)
                .unwrap_or_default(),
        }
    }

    /// The instructions that are sent, if there are any.
    pub(crate) fn instructions<'a>(&self, turn: &Turn<'a>) -> Option<Text<'a>> {
        let shown = self.instructions.clone().map(Text::Owned);
        let text = shown.or_else(|| turn.instructions.clone());
        text.filter(|text| !text.is_empty())
    }

    /// The content of a message as it is sent: its own, or the text that replaces it.
    pub(crate) fn message_content<'a>(
        &self,
        turn: &Turn<'a>,
        index: usize,
        notes: &mut Notes,
    ) -> Result<MessageContent<'a>, Fault> {
        if let Some(text) = self.replacement_text(index) {
            return Ok(MessageContent::from_text(text.into()));
        }
        let item = turn.items.get(index);
        let mut content = match item.and_then(Item::plain_text) {
            Some(text) => MessageContent::from_text(text.clone()),
            None => MessageContent::read(item.and_then(Item::content), index)?,
        };
        // Earlier items cannot be changed any more.
        let is_said = |item: &Item<'_>| {
            item.kind == ItemKind::Message && !item.is_hidden() && item.role() != "assistant"
        };
        let is_new = index + 1 == turn.items.len() && item.is_some_and(is_said);
        if let Some(fault) = content.unknown_part(index).filter(|_| is_new) {
            return Err(fault);
        }
        let from_agent = item.filter(|item| item.kind == ItemKind::AgentMessage);
        if let Some(item) = from_agent.filter(|_| !content.is_empty()) {
            content = content.with_texts_joined(item.name().as_deref());
        }
        Ok(content.without_empty_texts(notes))
    }

    /// The images and files of a result as they are sent beside its text.
    pub(crate) fn result_media<'a>(
        &self,
        item: &'a Item<'_>,
        index: usize,
        accepted: AcceptedMedia<'_>,
    ) -> Result<MessageContent<'a>, Fault> {
        let may_have_media = output_has_parts(item.kind) && !self.is_shortened_to_fit(index);
        let output = item.output().filter(|_| may_have_media);
        let Some(parts) = output.filter(|output| output.get().starts_with('[')) else {
            return Ok(MessageContent::default());
        };
        // The notes about them are added with the text.
        let ignored = &mut Notes::default();
        let content = MessageContent::read_output(parts, index)?;
        Ok(content.replace_unsupported(accepted, ignored).only_media())
    }

    /// The line above a result that has no call with this id, or whose call has another one, and
    /// above what a tool on a server did.
    pub(crate) fn stray_caption(&self, item: &Item<'_>, index: usize, id: &str) -> String {
        if item.kind.is_hosted() {
            return "Earlier in this conversation, on a server:".to_owned();
        }
        let action = self.actions.get(index);
        if matches!(action, Some(ItemAction::Repair(repairs)) if repairs.contains(&Repair::Repeated))
        {
            format!("Another result of the earlier tool call {id}:")
        } else if id.is_empty() {
            "Result of an earlier tool call that is no longer in the history:".to_owned()
        } else {
            format!("Result of the earlier tool call {id}, which is no longer in the history:")
        }
    }

    /// The text that is sent instead of an item's own; `None` if its own is sent.
    pub fn replacement_text(&self, index: usize) -> Option<&str> {
        let replacement = self.replacements.get(&index);
        replacement.map(|replacement| replacement.text.as_ref())
    }

    /// The arguments that are sent instead of a call's own. A call that has its result in it is
    /// replaced in its result alone.
    pub(crate) fn replaced_arguments(&self, item: &Item<'_>, index: usize) -> Option<&str> {
        self.replacement_text(index)
            .filter(|_| item.kind != ItemKind::McpCall)
    }

    fn add_repair(&mut self, index: usize, repair: Repair) {
        if let Some(action) = self.actions.get_mut(index) {
            match action {
                ItemAction::Repair(repairs) => repairs.push(repair),
                ItemAction::Keep | ItemAction::Drop(_) => {
                    *action = ItemAction::Repair(vec![repair]);
                }
            }
        }
    }

    fn drop_item(&mut self, index: usize, reason: &'static str) {
        if let Some(action) = self.actions.get_mut(index) {
            *action = ItemAction::Drop(reason);
        }
    }

    /// Gives every call an id and a name, and its result the same id.
    fn assign_call_ids(&mut self, turn: &Turn<'_>, pairing: &Pairing<'_>) {
        let mut ids = CallIdAllocator::default();
        for call in &pairing.calls {
            let Some(item) = turn.items.get(call.item) else {
                continue;
            };
            let minted = ids.mint(item);
            let id = minted
                .clone()
                .or_else(|| Some(item.call_id()?.into_owned()));
            if let Some(id) = minted {
                self.add_repair(call.item, Repair::Id(id));
            }
            if item_role::names_its_tool(item.kind)
                && item.name().is_none_or(|name| name.is_empty())
            {
                self.add_repair(call.item, Repair::Nameless);
            }
            let result = call
                .result
                .and_then(|index| Some((index, turn.items.get(index)?)));
            if let (Some((index, result)), Some(id)) = (result, id)
                && index != call.item
                && result.call_id().is_none_or(|own| own != id)
            {
                self.add_repair(index, Repair::Id(id));
            }
        }
    }

    /// Fills the sequence: each answer is followed by the results of its calls. Items between an
    /// answer and these results go before the answer, unless the model answered them.
    fn order_items(&mut self, turn: &Turn<'_>, pairing: Pairing<'_>) {
        let behind = pairing.messages_before_results();
        let (matches, calls) = (&pairing.matches, &pairing.calls);
        // The calls are in the order of the answers.
        let mut results = calls.iter();
        // The answer that waits, and the block before which it is sent.
        let mut waiting: Option<(AnswerItems, usize)> = None;
        for (at, block) in pairing.blocks.into_iter().enumerate() {
            if let Some((answer, until)) = waiting.take_if(|(_, until)| *until <= at) {
                self.place_answer(answer, &mut results, until);
            }
            let is_moved = waiting.is_some();
            match block {
                HistoryBlock::Message(index) => {
                    if is_moved {
                        self.add_repair(index, Repair::Moved);
                    }
                    self.sequence.push(SequenceEntry::Message(index));
                }
                HistoryBlock::Told(index) => self.sequence.push(SequenceEntry::Stray(index)),
                HistoryBlock::Result(index) => {
                    self.place_unpaired_result(turn, index, matches, calls);
                }
                HistoryBlock::Answer(answer)
                    if answer.text.is_empty() && answer.calls.is_empty() =>
                {
                    for index in answer.reasoning {
                        self.drop_item(index, REASON_NO_ANSWER);
                    }
                }
                HistoryBlock::Answer(answer) => {
                    waiting = Some((answer, behind.get(&at).copied().unwrap_or_default()));
                    if let Some((answer, until)) = waiting.take_if(|(_, until)| *until <= at + 1) {
                        self.place_answer(answer, &mut results, until);
                    }
                }
            }
        }
        if let Some((answer, until)) = waiting {
            self.place_answer(answer, &mut results, until);
        }
    }

    /// Sends an answer and the results of its calls. A result that came before the block `until`
    /// counts as unmoved: only messages stood between, and these are sent before the answer.
    fn place_answer<'p>(
        &mut self,
        answer: AnswerItems,
        results: &mut impl Iterator<Item = &'p PairedCall>,
        until: usize,
    ) {
        let calls = answer.calls.len();
        self.sequence.push(SequenceEntry::Answer(answer));
        let mut last = None;
        for call in results.take(calls) {
            let Some(result) = call.result else {
                self.add_repair(call.item, Repair::Interrupted);
                self.sequence.push(SequenceEntry::Interrupted(call.item));
                continue;
            };
            let came_before_call = call.blocks_before_result == 0;
            let is_moved = call.moved && (came_before_call || call.blocks_before_result > until);
            if is_moved || last.is_some_and(|last| last > result) {
                self.add_repair(result, Repair::Moved);
            }
            last = last.max(Some(result));
            self.sequence.push(SequenceEntry::Result(result));
        }
    }

    /// Sends a result that is not the first one of a call as a message, or drops it if
    /// the first one says the same.
    fn place_unpaired_result(
        &mut self,
        turn: &Turn<'_>,
        index: usize,
        matches: &[ResultMatch],
        calls: &[PairedCall],
    ) {
        let output = |index: usize| turn.items.get(index).map(Item::result_fields);
        match matches.get(index) {
            Some(ResultMatch::First) => return,
            Some(ResultMatch::Repeated(call)) => {
                let first = calls.get(*call).and_then(|call| call.result);
                if first.and_then(output) == output(index) {
                    return self.drop_item(index, REASON_SAME_RESULT);
                }
                self.add_repair(index, Repair::Repeated);
            }
            Some(ResultMatch::Orphan) | None => self.add_repair(index, Repair::Orphan),
        }
        self.sequence.push(SequenceEntry::Stray(index));
    }
}

#[cfg(test)]
mod tests;
