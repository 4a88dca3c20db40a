//! What the proxy learns about models: quirk patches from refusals of their providers, and how
//! large requests and answers they had. Patches are kept in the store with their evidence, but for
//! limits, and tried again after a week.
//!
//! A patch that takes away something that clients have said is learned for the owner whose request
//! was refused alone, so that nobody can teach others to do without it.
//!
//! A refusal can be wrong, or quote a text from elsewhere. A patch that names a limit could make a
//! model useless for every session, so limits are believed within bounds only, see
//! [`LearnedQuirks::believes`], and hold for a time; only the session that was refused keeps them.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use adapters::event::Usage;
use adapters::quirk_patch::{ModelPatch, QuirkPatch, SharedPatch};
use adapters::refusal::change::{Change, ChangeScope};
use adapters::wire;
use hashlink::LinkedHashMap;
use parking_lot::{Mutex, RwLock};
use registry::{Route, Window, WindowSource};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::net::fairness::oldest_of_largest;
use crate::store::Store;
use session_limits::SessionLimits;

mod session_limits;
mod stored;
#[cfg(test)]
mod tests;

/// Maximum number of models with patches, and of models with answers; the oldest are evicted
/// first.
const MAX_MODELS: usize = 1000;
/// Maximum number of patches that one owner has of one model. The oldest patch of the kind that is
/// added is evicted first, else the oldest of any kind.
const MAX_PATCHES: usize = 16;
/// Maximum number of patches of all owners for one model. The oldest of the owner with most is
/// evicted first.
const MAX_PATCHES_OF_MODEL: usize = 512;
/// The most characters of a refusal that are kept as the evidence of a patch.
const MAX_EVIDENCE: usize = 300;
/// A patch that was learned longer ago is left out of a turn that begins a session, to see whether
/// it is still needed.
const TRIED_AGAIN_AFTER: Duration = Duration::from_hours(7 * 24);
/// How long sessions that begin are given a limit for which another one was refused. One that still
/// holds is learned again by the next refusal; one that was wrong, or was raised, goes away by
/// itself.
pub const LIMIT_LIFETIME: Duration = Duration::from_hours(1);
/// A limit below this part of the listed one is not believed. Providers do serve models with
/// less than they were listed with, but rarely with less than a quarter.
const MIN_PART_OF_LISTED: u64 = 4;

/// The quirk patches of each model of each provider, and its largest answers. Most models have
/// no patches; a turn then costs one lookup.
#[derive(Default)]
pub struct LearnedQuirks {
    patches: RwLock<LinkedHashMap<ModelKey, Vec<LearnedPatch>>>,
    answers: RwLock<LinkedHashMap<ModelKey, LargestAnswer>>,
    /// The session that was not used for the longest time comes first.
    sessions: Mutex<SessionLimits>,
    store: OnceLock<Arc<Store>>,
}

/// The provider's id and its name of the model.
type ModelKey = (String, String);

/// A patch with its evidence.
#[derive(Debug, Clone)]
pub struct LearnedPatch {
    /// The patch.
    pub patch: QuirkPatch,
    /// The owner for whom it holds; empty if it holds for all.
    pub owner: Arc<str>,
    /// The owner whose request was refused; empty if an earlier process learned it.
    refused_owner: Arc<str>,
    /// The refusal that it has answered, cut.
    pub evidence: Arc<str>,
    /// When it was learned, in seconds since 1970.
    pub learned: u64,
    /// Stands for the settings of the provider and the model with which it was learned.
    settings: u64,
    /// When it is forgotten, if it is a limit.
    expires: Option<Instant>,
}

/// Whose patches are asked for, and when.
#[derive(Clone, Copy, Debug)]
pub struct PatchesOf<'a> {
    /// The owner.
    pub owner: &'a str,
    /// The session whose limits are asked for; `None` for those of the model.
    pub session: Option<&'a str>,
    /// The session has no earlier request on the route, so it gets the limits of the model, too.
    pub begins: bool,
    /// The time, in seconds since 1970.
    pub now: u64,
    /// Patches that were learned more than a week ago are left out.
    pub tries_again: bool,
}

impl<'a> PatchesOf<'a> {
    /// All that holds for an owner, however old.
    pub fn owner(owner: &'a str) -> Self {
        Self {
            owner,
            session: None,
            begins: false,
            now: 0,
            tries_again: false,
        }
    }
}

/// The most tokens that a model has taken and given, as its provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LargestAnswer {
    /// The input tokens of the largest request that was answered.
    pub input: u64,
    /// The output tokens of the largest answer.
    pub output: u64,
}

impl LargestAnswer {
    /// Whether nothing is known.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The larger figures of both.
    fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
        }
    }

    /// Whether the figures show that a limit is wrong.
    fn refutes(&self, patch: QuirkPatch) -> bool {
        match patch {
            QuirkPatch::Model(ModelPatch::Window(tokens)) => u64::from(tokens) < self.input,
            QuirkPatch::Model(ModelPatch::MaxOutput(tokens)) => u64::from(tokens) < self.output,
            _ => false,
        }
    }
}

impl LearnedPatch {
    fn is_valid(&self) -> bool {
        self.expires.is_none_or(|expires| Instant::now() < expires)
    }

    /// Whether it holds for a turn with these settings.
    fn holds(&self, settings: u64, of: PatchesOf<'_>) -> bool {
        let is_meant = self.owner.is_empty() || *self.owner == *of.owner;
        is_meant && self.settings == settings && self.is_valid()
    }

    /// Whether it is left out to see whether it is still needed.
    fn is_tried_again(&self, of: PatchesOf<'_>) -> bool {
        of.tries_again
            && !is_limit(self.patch)
            && self.learned.saturating_add(TRIED_AGAIN_AFTER.as_secs()) < of.now
    }
}

/// Stands for what the patches of a model depend on: the address of its provider, and what is
/// configured and listed of the model.
fn settings_of(route: &Route) -> u64 {
    let (provider, model) = (&route.provider, &route.upstream_model);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{} {:?} {:?}",
        provider.base_url,
        provider.dialect_for(model),
        provider.model(model)
    );
    xxh3_64(text.as_bytes())
}

impl LearnedQuirks {
    /// Applies the patches of a route's model to the route. Returns them.
    pub fn apply(&self, route: &mut Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        let patches = self.patches(route, of);
        if !patches.is_empty() {
            let dialect = Arc::make_mut(&mut route.dialect);
            let model = Arc::make_mut(&mut route.model);
            for patch in &patches {
                wire::apply_patch(*patch, &mut dialect.quirks, model);
            }
        }
        patches
    }

    /// Whether a patch can be true of a route's model. A window or output limit cannot if the
    /// model has answered more than it allows, or if it is less than a quarter of the listed one.
    /// Any other patch can.
    pub fn believes(&self, route: &Route, patch: QuirkPatch) -> bool {
        let listed = route.provider.model(&route.upstream_model);
        let (tokens, listed) = match patch {
            QuirkPatch::Model(ModelPatch::Window(tokens)) => {
                (tokens, listed.and_then(|model| model.window))
            }
            QuirkPatch::Model(ModelPatch::MaxOutput(tokens)) => {
                (tokens, listed.and_then(|model| model.max_output))
            }
            _ => return true,
        };
        let answer = self.largest_answer(&route.provider.id, &route.upstream_model);
        !answer.refutes(patch)
            && listed.is_none_or(|listed| u64::from(tokens) >= listed / MIN_PART_OF_LISTED)
    }

    /// Adds a patch for the model of a route, for all or for the owner alone, by what it takes
    /// away. It is applied after the earlier ones, so it wins where they contradict it. Returns
    /// `false` if it is already the latest of its kind, and the session has it if it is a limit.
    pub fn learn(
        &self,
        route: &Route,
        of: PatchesOf<'_>,
        patch: QuirkPatch,
        evidence: &str,
    ) -> bool {
        self.learn_for(route, of, (patch, Change::Quirk(patch).scope()), evidence)
    }

    /// The same with a scope.
    pub fn learn_for(
        &self,
        route: &Route,
        of: PatchesOf<'_>,
        (patch, scope): (QuirkPatch, ChangeScope),
        evidence: &str,
    ) -> bool {
        let owner = match scope {
            ChangeScope::Model => "",
            ChangeScope::Owner | ChangeScope::Session => of.owner,
        };
        let new = LearnedPatch {
            patch,
            owner: owner.into(),
            refused_owner: of.owner.into(),
            evidence: evidence
                .chars()
                .take(MAX_EVIDENCE)
                .collect::<String>()
                .into(),
            learned: of.now,
            settings: settings_of(route),
            expires: is_limit(patch).then(|| Instant::now() + LIMIT_LIFETIME),
        };
        let mut known = self.patches.write();
        let key = key(&route.provider.id, &route.upstream_model);
        if known.len() >= MAX_MODELS && !known.contains_key(&key) {
            known.pop_front();
        }
        let patches = known.entry(key.clone()).or_insert_with(Vec::new);
        patches.retain(|old| old.is_valid() && (old.settings == new.settings));
        let is_same_kind =
            |old: &LearnedPatch| *old.owner == *owner && old.patch.is_same_kind(&patch);
        let latest = patches.iter_mut().rfind(|old| is_same_kind(old));
        let is_known = latest.is_some_and(|latest| {
            let is_known = latest.patch == patch;
            if is_known {
                *latest = new.clone();
            }
            is_known
        });
        if !is_known {
            patches.retain(|old| old.patch != patch || *old.owner != *owner);
            let own = patches.iter().filter(|old| *old.owner == *owner);
            if own.count() >= MAX_PATCHES {
                let is_own = |old: &LearnedPatch| *old.owner == *owner;
                let oldest = patches.iter().position(is_same_kind);
                let oldest = oldest.or_else(|| patches.iter().position(is_own));
                patches.remove(oldest.unwrap_or(0));
            }
            if patches.len() >= MAX_PATCHES_OF_MODEL {
                let oldest = oldest_of_largest(patches.iter().map(|old| &*old.owner));
                patches.remove(oldest.unwrap_or(0));
            }
            patches.push(new.clone());
        }
        self.store_patches(&key, owner, patches);
        drop(known);
        let is_new_to_session = is_limit(patch) && self.learn_limit(route, of, &new);
        !is_known || is_new_to_session
    }

    /// Removes a patch that did not help, because the same refusal came again, or that is no
    /// longer needed. Limits that the provider stated as a number are kept: they are still true.
    pub fn unlearn(&self, route: &Route, of: PatchesOf<'_>, patch: QuirkPatch) {
        if is_limit(patch) {
            return;
        }
        let mut known = self.patches.write();
        let key = key(&route.provider.id, &route.upstream_model);
        if let Some(patches) = known.get_mut(&key) {
            let is_meant = |old: &LearnedPatch| {
                old.patch == patch && (old.owner.is_empty() || *old.owner == *of.owner)
            };
            let owners: Vec<Arc<str>> = patches
                .iter()
                .filter(|old| is_meant(old))
                .map(|old| Arc::clone(&old.owner))
                .collect();
            patches.retain(|old| !is_meant(old));
            for owner in owners {
                self.store_patches(&key, &owner, patches);
            }
        }
    }

    /// Remembers what a model has answered, as its provider counted it. Forgets learned limits
    /// that the answer shows to be wrong.
    pub fn record_answer(&self, provider: &str, model: &str, usage: Usage) {
        let answer = LargestAnswer {
            input: usage.input,
            output: usage.output,
        };
        self.put_answer(&key(provider, model), answer);
    }

    /// Restores what a recorded turn knew of a model's answers.
    pub fn restore_answer(&self, route: &Route, answer: LargestAnswer) {
        self.put_answer(&key(&route.provider.id, &route.upstream_model), answer);
    }

    fn put_answer(&self, key: &ModelKey, answer: LargestAnswer) {
        let known = self.answers.read().get(key).copied();
        let largest = known.unwrap_or_default().max(answer);
        if known != Some(largest) {
            let mut answers = self.answers.write();
            if answers.len() >= MAX_MODELS && !answers.contains_key(key) {
                answers.pop_front();
            }
            let entry = answers.entry(key.clone());
            let entry = entry.or_insert_with(LargestAnswer::default);
            *entry = entry.max(answer);
            drop(answers);
            self.forget_refuted_limits(key, answer);
        }
        let is_refuted = |learned: &LearnedPatch| answer.refutes(learned.patch);
        let patches = self.patches.read();
        let is_wrong = patches
            .get(key)
            .is_some_and(|patches| patches.iter().any(is_refuted));
        drop(patches);
        if is_wrong && let Some(patches) = self.patches.write().get_mut(key) {
            patches.retain(|learned| !is_refuted(learned));
        }
    }

    /// The most that a model has answered so far.
    pub fn largest_answer(&self, provider: &str, model: &str) -> LargestAnswer {
        let answers = self.answers.read();
        find(&answers, provider, model).copied().unwrap_or_default()
    }

    /// The context window that the provider stated in an overflow error, if it did.
    pub fn window(&self, provider: &str, model: &str) -> Option<Window> {
        let known = self.patches.read();
        let patches = find(&known, provider, model).into_iter().flatten();
        let mut valid = patches.rev().filter(|learned| learned.is_valid());
        valid.find_map(|learned| {
            let QuirkPatch::Model(ModelPatch::Window(tokens)) = learned.patch else {
                return None;
            };
            Some(Window {
                tokens: u64::from(tokens),
                source: WindowSource::Learned,
            })
        })
    }

    /// The patches of a model, in the order in which they were learned, and then the limits.
    pub fn patches(&self, route: &Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        let mut patches = self.patches_where(route, of, |learned| {
            !is_limit(learned.patch) && !learned.is_tried_again(of)
        });
        patches.extend(self.limits(route, of));
        patches
    }

    /// The patches of a model that are left out to see whether they are still needed.
    pub fn tried_again(&self, route: &Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        self.patches_where(route, of, |learned| learned.is_tried_again(of))
    }

    fn patches_where(
        &self,
        route: &Route,
        of: PatchesOf<'_>,
        is_wanted: impl Fn(&LearnedPatch) -> bool,
    ) -> Vec<QuirkPatch> {
        let known = self.patches.read();
        let Some(patches) = find(&known, &route.provider.id, &route.upstream_model) else {
            return Vec::new();
        };
        let settings = settings_of(route);
        let patches = patches.iter();
        let held = patches.filter(|learned| learned.holds(settings, of) && is_wanted(learned));
        held.map(|learned| learned.patch).collect()
    }

    /// All that was learned, by provider and model.
    pub fn all(&self) -> Vec<(String, String, Vec<LearnedPatch>)> {
        let known = self.patches.read();
        let valid = |patches: &Vec<LearnedPatch>| -> Vec<LearnedPatch> {
            patches.iter().filter(|it| it.is_valid()).cloned().collect()
        };
        let all = known.iter();
        let all = all
            .map(|((provider, model), patches)| (provider.clone(), model.clone(), valid(patches)));
        all.filter(|(_, _, patches)| !patches.is_empty()).collect()
    }

    /// Removes all that is known of a provider's models. Its settings have changed, so it may be
    /// another provider under the same id.
    pub(super) fn forget_provider(&self, provider: &str) {
        self.patches.write().retain(|(id, _), _| id != provider);
        self.answers.write().retain(|(id, _), _| id != provider);
    }
}

/// Whether a patch is a limit that the provider stated as a number.
pub fn is_limit(patch: QuirkPatch) -> bool {
    matches!(
        patch,
        QuirkPatch::Model(ModelPatch::Window(_) | ModelPatch::MaxOutput(_))
            | QuirkPatch::Shared(SharedPatch::MaxTools(_))
    )
}

/// What is known of a model. Usually nothing is known of any model; then no key is built.
fn find<'m, V>(
    known: &'m LinkedHashMap<ModelKey, V>,
    provider: &str,
    model: &str,
) -> Option<&'m V> {
    if known.is_empty() {
        return None;
    }
    known.get(&key(provider, model))
}

fn key(provider: &str, model: &str) -> ModelKey {
    (provider.to_owned(), model.to_owned())
}
