//! Decides what will be sent of each item, and in which order. Encode carries
//! it out; logs, replay and tests read the same value.
//!
//! Providers refuse a history in which a call and its result do not stand
//! together, and a session that holds one such place would be refused for ever.
//! [`pairing`] finds the result of each call, [`ids`] gives each pair an id of
//! its own; what no pair can be made of is said in words, so that nothing that
//! the model knew is lost. [`bound`] decides how much of each output is sent.
//!
//! Every decision rests on the items before it, as long as the items after it
//! are no results for it: a history that grows keeps the bytes of its beginning.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::turn::{Item, Turn};

mod bound;
mod bounds;
pub(crate) mod cut;
mod empty;
mod ids;
mod memo;
pub mod output;
mod pairing;
mod role;
mod shown;
mod summary;
mod tell;
pub(crate) mod words;

pub use bounds::{Bounds, Keeping, Outputs};
pub use memo::{Forgetful, Found, Memo};
pub use shown::{Artifact, Form, Shown};

use ids::Ids;
use pairing::{Block, Fate, Pairing};
use role::Role;

/// What is sent instead of a name that a call lacks.
pub const UNKNOWN_TOOL: &str = "unknown_tool";

const EMPTY: &str = "it is empty";
const LONELY: &str = "no answer follows it";
const SAME_RESULT: &str = "its call has this result already";

/// A decision for every item, and the order of what is sent.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In the order of the turn's items.
    pub steps: Vec<Step>,
    /// In the order of sending.
    pub sequence: Vec<Placed>,
    /// What is sent instead of an item's own text, by its index.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shown: BTreeMap<usize, Shown>,
    /// What is sent instead of the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
    /// How often old outputs were reduced to notices so far.
    #[serde(skip_serializing_if = "is_none")]
    pub epochs: u32,
}

/// What happens to an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It is sent as it is.
    Keep,
    /// It is sent with these changes.
    Repair(Vec<Repair>),
    /// It is not sent, for this reason.
    Drop(&'static str),
}

/// One change of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A call or a result goes under this call id: its own is missing, longer
    /// than 64 characters, or another call's.
    Id(String),
    /// A call has no name and goes as [`UNKNOWN_TOOL`].
    Nameless,
    /// A call has no result and gets one that says so.
    Interrupted,
    /// A result goes where its call wants it.
    Moved,
    /// A result has no call and goes as a message.
    Orphan,
    /// A call's second result goes as a message.
    Repeated,
}

/// One place in what is sent, by the indices of its items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placed {
    /// A message that the model did not write.
    Message(usize),
    /// An answer of the model. The results of its calls follow at once, one a
    /// call and in their order.
    Answer(Answer),
    /// The result of a call.
    Result(usize),
    /// What stands for the result of this call.
    Interrupted(usize),
    /// A result that has no call or is not its first, as a message.
    Stray(usize),
    /// A user message that tells what was left out here.
    Omitted(Arc<str>),
}

/// What the model said at once. It has text or calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Its thoughts.
    pub reasoning: Vec<usize>,
    /// Its words.
    pub text: Vec<usize>,
    /// Its calls.
    pub calls: Vec<usize>,
}

/// Decides for every item of the turn. Pure: the same turn and bounds have the same
/// plan.
pub fn plan(turn: &Turn<'_>, bounds: &Bounds) -> Plan {
    plan_with(turn, bounds, &Forgetful)
}

/// The same plan, sooner where the memo knows the outputs.
pub fn plan_with(turn: &Turn<'_>, bounds: &Bounds, memo: &dyn Memo) -> Plan {
    let mut steps = Vec::with_capacity(turn.items.len());
    let mut pairing = Pairing::new(turn.items.len());
    for (index, item) in turn.items.iter().enumerate() {
        let step = match role::of(item) {
            Role::Drop(reason) => Step::Drop(reason),
            Role::Text if empty::message(item) => Step::Drop(EMPTY),
            role => {
                pairing.read(index, item, &role);
                Step::Keep
            }
        };
        steps.push(step);
    }
    pairing.settle();
    let mut plan = Plan {
        steps,
        sequence: Vec::with_capacity(pairing.blocks.len()),
        shown: BTreeMap::new(),
        instructions: None,
        epochs: 0,
    };
    plan.name_calls(turn, &pairing);
    plan.place(turn, pairing);
    summary::show(turn, &mut plan.shown);
    cut::bound_wishes(turn, bounds, &mut plan);
    plan.bound(turn, bounds, memo);
    cut::cut(turn, bounds, &mut plan);
    plan
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "asked for by serde")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Plan {
    /// The id that a call or result goes under.
    pub fn call_id<'p>(&'p self, turn: &'p Turn<'_>, index: usize) -> Cow<'p, str> {
        let repairs = match self.steps.get(index) {
            Some(Step::Repair(repairs)) => repairs.as_slice(),
            Some(Step::Keep | Step::Drop(_)) | None => &[],
        };
        let new = repairs.iter().find_map(|repair| match repair {
            Repair::Id(id) => Some(id.as_str()),
            Repair::Nameless
            | Repair::Interrupted
            | Repair::Moved
            | Repair::Orphan
            | Repair::Repeated => None,
        });
        match new {
            Some(id) => id.into(),
            None => turn
                .items
                .get(index)
                .and_then(Item::call_id)
                .unwrap_or_default(),
        }
    }

    /// The text that is sent instead of an item's own.
    pub fn shown(&self, index: usize) -> Option<&str> {
        self.shown.get(&index).map(|shown| shown.text.as_ref())
    }

    fn repair(&mut self, index: usize, repair: Repair) {
        if let Some(step) = self.steps.get_mut(index) {
            match step {
                Step::Repair(repairs) => repairs.push(repair),
                Step::Keep | Step::Drop(_) => *step = Step::Repair(vec![repair]),
            }
        }
    }

    fn drop(&mut self, index: usize, reason: &'static str) {
        if let Some(step) = self.steps.get_mut(index) {
            *step = Step::Drop(reason);
        }
    }

    /// Gives every call an id and a name, and its result the same id.
    fn name_calls(&mut self, turn: &Turn<'_>, pairing: &Pairing<'_>) {
        let mut ids = Ids::default();
        for call in &pairing.calls {
            let Some(item) = turn.items.get(call.item) else {
                continue;
            };
            let minted = ids.mint(item);
            let id = minted
                .clone()
                .or_else(|| Some(item.call_id()?.into_owned()));
            if let Some(id) = minted {
                self.repair(call.item, Repair::Id(id));
            }
            if role::has_name(item.kind) && item.name().is_none_or(|name| name.is_empty()) {
                self.repair(call.item, Repair::Nameless);
            }
            let result = call
                .result
                .and_then(|index| Some((index, turn.items.get(index)?)));
            if let (Some((index, result)), Some(id)) = (result, id)
                && result.call_id().is_none_or(|own| own != id)
            {
                self.repair(index, Repair::Id(id));
            }
        }
    }

    /// Orders what is sent.
    fn place(&mut self, turn: &Turn<'_>, pairing: Pairing<'_>) {
        let results: Vec<(usize, Option<usize>, bool)> = pairing
            .calls
            .iter()
            .map(|call| (call.item, call.result, call.moved))
            .collect();
        let mut results = results.into_iter();
        for block in pairing.blocks {
            match block {
                Block::Message(index) => self.sequence.push(Placed::Message(index)),
                Block::Result(index) => {
                    self.place_stray(turn, index, &pairing.fates, &pairing.calls);
                }
                Block::Answer(answer) if answer.text.is_empty() && answer.calls.is_empty() => {
                    for index in answer.reasoning {
                        self.drop(index, LONELY);
                    }
                }
                Block::Answer(answer) => {
                    let calls = answer.calls.len();
                    self.sequence.push(Placed::Answer(answer));
                    let mut last = None;
                    // The calls were counted in the order of the answers.
                    for (call, result, moved) in results.by_ref().take(calls) {
                        let Some(result) = result else {
                            self.repair(call, Repair::Interrupted);
                            self.sequence.push(Placed::Interrupted(call));
                            continue;
                        };
                        if moved || last.is_some_and(|last| last > result) {
                            self.repair(result, Repair::Moved);
                        }
                        last = last.max(Some(result));
                        self.sequence.push(Placed::Result(result));
                    }
                }
            }
        }
    }

    /// A result that is no call's first one.
    fn place_stray(
        &mut self,
        turn: &Turn<'_>,
        index: usize,
        fates: &[Fate],
        calls: &[pairing::Call],
    ) {
        let output = |index: usize| turn.items.get(index).map(Item::result_fields);
        match fates.get(index) {
            Some(Fate::First) => return,
            Some(Fate::Again(call)) => {
                let first = calls.get(*call).and_then(|call| call.result);
                if first.and_then(output) == output(index) {
                    return self.drop(index, SAME_RESULT);
                }
                self.repair(index, Repair::Repeated);
            }
            Some(Fate::Orphan) | None => self.repair(index, Repair::Orphan),
        }
        self.sequence.push(Placed::Stray(index));
    }
}

#[cfg(test)]
mod tests;
