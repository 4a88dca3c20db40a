//! The changes that are tried after refusals, and what becomes of them.
//!
//! A refused request is sent again with the first change that makes it another one. If the same
//! refusal comes back, the change is undone and the next one tried; another refusal is progress.
//! The changes that are in force when the request is answered have helped.

use registry::WireQuirks;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::fault::{Fault, FaultDetail, Kind};
use crate::refusal::change::{Change, ContentChange, LeftOut};
use crate::refusal::{Clue, ClueStrength, RefusalText, RefusedRequest, Suggestions};
use crate::wire;

#[cfg(test)]
mod tests;

/// The most changes that are in force at once.
const MAX_TRIALS: usize = 8;
/// The most changes that are tried to encode a request with after one refusal.
const MAX_TRIED: usize = 16;
/// The most clues of a refusal that are followed.
const MAX_CLUES: usize = 32;
/// The most bytes of a refusal that are kept with a change.
const MAX_TEXT: usize = 1_000;
/// The most changes that are remembered as useless.
const MAX_FAILED: usize = 32;

/// The changes that are tried for one session: those in force, and those that did not help. Made
/// at the first refusal; ends when a request is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Experiments {
    trials: Vec<Trial>,
    failed: Vec<(u64, Change)>,
}

/// A change that is in force until it is known whether it helps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The change.
    pub change: Change,
    /// Stands for the refusal that it may answer.
    refusal: u64,
    /// The text of the refusal.
    text: String,
    /// Stands for the numbers in it, such as the places of images.
    places: u64,
}

impl Trial {
    /// The refusal that the change has answered.
    pub fn evidence(&self) -> &str {
        &self.text
    }
}

/// A refusal, and the request that was refused.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// What the provider said.
    pub fault: &'a Fault,
    /// The body of the request.
    pub body: &'a [u8],
    /// The quirks with which it was encoded.
    pub quirks: &'a WireQuirks,
}

impl Refusal<'_> {
    /// Whether a change of the request may answer it: it says nothing of policy, keys, money, rates
    /// or models, and came before any content.
    pub fn may_be_answered(&self) -> bool {
        match self.fault.kind {
            Kind::Refused => true,
            // Some servers check requests late, or answer 404 for what a model cannot do.
            Kind::Unavailable | Kind::Overloaded => self.fault.upstream_status.is_some(),
            Kind::ModelNotFound => self.fault.upstream_status == Some(404),
            _ => false,
        }
    }

    /// The least surely that something must be named.
    fn weakest_clue(&self) -> ClueStrength {
        const POLICY: [&str; 4] = ["safety", "policy", "policies", "sensitive"];
        let text = RefusalText::new(self.text());
        match self.fault.kind {
            // It may be about what somebody has written.
            Kind::Refused if POLICY.iter().any(|word| text.has_word(word)) => ClueStrength::Path,
            Kind::Refused => ClueStrength::Word,
            // Models may have any name.
            Kind::ModelNotFound => ClueStrength::Path,
            // A server that fails speaks of its parts.
            _ => ClueStrength::Quoted,
        }
    }

    fn text(&self) -> &str {
        match self.fault.detail.as_deref() {
            Some(FaultDetail::Refusal(text)) => text,
            Some(FaultDetail::Statement(_)) | None => &self.fault.message,
        }
    }

    /// The changes that its text suggests, the best first.
    fn suggested(&self) -> Vec<Change> {
        let history = wire::history_member(self.quirks);
        let Some(sent) = RefusedRequest::read(self.body, history) else {
            return Vec::new();
        };
        let text = RefusalText::new(self.text());
        let weakest = self.weakest_clue();
        let clues = text.clues(&sent, history).into_iter();
        let clues = clues.filter(|clue| clue.strength <= weakest);
        let mut by_strength: Vec<(ClueStrength, Vec<Vec<Change>>)> = Vec::new();
        let followed = clues.map(|clue| (clue.strength, self.changes_for(&clue, &text, &sent)));
        let followed = followed.filter(|(_, changes)| !changes.is_empty());
        for (strength, changes) in followed.take(MAX_CLUES) {
            match by_strength.last_mut() {
                Some((last, lists)) if *last == strength => lists.push(changes),
                _ => by_strength.push((strength, vec![changes])),
            }
        }
        let mut all: Vec<Change> = Vec::new();
        for (_, lists) in by_strength {
            // Of clues that are as sure, each has its first change tried before the second of any.
            let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
            let turns =
                (0..longest).flat_map(|turn| lists.iter().filter_map(move |it| it.get(turn)));
            for change in turns {
                if !all.contains(change) {
                    all.push(change.clone());
                }
            }
        }
        all
    }

    /// The changes for the innermost name of a clue that has any.
    fn changes_for(
        &self,
        clue: &Clue,
        text: &RefusalText<'_>,
        sent: &RefusedRequest<'_>,
    ) -> Vec<Change> {
        let asked = Suggestions { text, sent, clue };
        let names = clue.names.iter().rev();
        let mut lists = names.map(|name| wire::suggested_changes(name, asked, self.quirks));
        lists
            .find(|changes| !changes.is_empty())
            .unwrap_or_default()
    }
}

impl Experiments {
    /// Whether nothing is tried or known to be useless.
    pub fn is_empty(&self) -> bool {
        self.trials.is_empty() && self.failed.is_empty()
    }

    /// The changes in force.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.trials.iter().map(|trial| &trial.change)
    }

    /// The texts in it: refusals, names and keys of contents.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let trials = self.trials.iter_mut().flat_map(|trial| {
            let name = trial.change.text_mut();
            name.into_iter().chain([&mut trial.text])
        });
        let failed = self.failed.iter_mut();
        trials.chain(failed.filter_map(|(_, change)| change.text_mut()))
    }

    /// The contents that the session leaves out, with those that are left out on trial.
    pub fn left_out(&self, known: &LeftOut) -> LeftOut {
        let mut left_out = known.clone();
        for change in self.changes() {
            if let Change::Content(change) = change {
                left_out.add(change);
            }
        }
        left_out
    }

    /// The changes that have helped, because a request with them was answered.
    pub fn succeed(&mut self) -> Vec<Trial> {
        self.failed.clear();
        std::mem::take(&mut self.trials)
    }

    /// Undoes the last change if the refusal that it should answer has come back. Returns it.
    pub fn undo_useless(&mut self, refusal: &Refusal<'_>) -> Option<Change> {
        let text = refusal.text();
        if !self.is_same(key_of(text), places_of(text)) {
            return None;
        }
        let last = self.trials.pop()?;
        let change = last.change.clone();
        if self.failed.len() >= MAX_FAILED {
            self.failed.remove(0);
        }
        self.failed.push((last.refusal, last.change));
        Some(change)
    }

    /// Takes the next change that may answer a refusal. `differs` says whether the request comes
    /// out as one that was not refused before with the changes in force. None is left if this
    /// returns `None`.
    pub fn next(
        &mut self,
        refusal: &Refusal<'_>,
        mut differs: impl FnMut(&Self, &Change) -> bool,
    ) -> Option<Change> {
        if !refusal.may_be_answered() && refusal.fault.patch.is_none() {
            return None;
        }
        let text = refusal.text();
        let key = key_of(text);
        let suggested = if refusal.may_be_answered() {
            refusal.suggested()
        } else {
            Vec::new()
        };
        let sure = refusal.fault.patch.map(Change::Quirk);
        let mut tried = 0;
        for change in sure.into_iter().chain(suggested) {
            if self.is_useless(key, &change) {
                continue;
            }
            let before = self.trials.clone();
            self.trials.retain(|trial| !change.replaces(&trial.change));
            self.trials.push(Trial {
                change: change.clone(),
                refusal: key,
                text: cut(text).to_owned(),
                places: places_of(text),
            });
            if self.trials.len() <= MAX_TRIALS && differs(self, &change) {
                return Some(change);
            }
            self.trials = before;
            tried += 1;
            if tried >= MAX_TRIED {
                break;
            }
        }
        None
    }

    /// Whether a refusal has come before, so that the last change did not help. One that names
    /// another place is another one if that change has left out what the last one named.
    fn is_same(&self, key: u64, places: u64) -> bool {
        let Some(last) = self.trials.last() else {
            return false;
        };
        let is_one_of_many = matches!(
            last.change,
            Change::Content(
                ContentChange::WithoutImage(_)
                    | ContentChange::PlainSchema(_)
                    | ContentChange::WithoutTool(_)
            )
        );
        if last.refusal == key {
            return !is_one_of_many || last.places == places;
        }
        self.trials.iter().any(|trial| trial.refusal == key)
    }

    fn is_useless(&self, key: u64, change: &Change) -> bool {
        self.changes().any(|in_force| in_force == change)
            || self
                .failed
                .iter()
                .any(|(refusal, failed)| *refusal == key && failed == change)
    }
}

/// The part of a refusal that is kept.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.get(..end).unwrap_or_default()
}

/// Stands for a refusal, whatever numbers are in it: `messages[3] is too long` and
/// `messages[7] is too long` have the same key.
fn key_of(text: &str) -> u64 {
    xxh3_64(RefusalText::new(text).letters().as_bytes())
}

/// Stands for the numbers in a refusal.
fn places_of(text: &str) -> u64 {
    let numbers: Vec<String> = RefusalText::new(text)
        .numbers()
        .map(|it| it.to_string())
        .collect();
    xxh3_64(numbers.join(",").as_bytes())
}
