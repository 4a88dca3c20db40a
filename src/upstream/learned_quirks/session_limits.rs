//! The limits of sessions: windows, output limits and numbers of tools that providers have stated.
//!
//! The prompt of a session depends on its limits, so it keeps those with which it began and those
//! for which its own requests were refused, even after a restart. A limit for which another session
//! is refused meanwhile changes nothing for it.

use std::sync::Arc;

use adapters::quirk_patch::QuirkPatch;
use hashlink::LinkedHashMap;
use registry::Route;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    LargestAnswer, LearnedPatch, LearnedQuirks, ModelKey, PatchesOf, find, is_limit, settings_of,
};
use crate::net::fairness::insert_newest;
use crate::store::LearnedRow;

/// The most sessions whose limits are known, each with one model. Beyond it the owner who has most
/// loses the one that was not used for the longest time.
pub(super) const MAX_SESSIONS: usize = 1024;

/// The prefix of the subject of a row in the store. The provider, the model and, on a line of its
/// own, the id of the session follow.
const SUBJECT: &str = "limits/";

/// The limits of all sessions that have any.
pub(super) type SessionLimits = LinkedHashMap<SessionAndModel, LimitsOfSession>;

/// A session with a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionAndModel {
    owner: Arc<str>,
    provider: String,
    model: String,
    session: String,
}

/// The limits of one session with a model.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitsOfSession {
    /// At most one of each kind.
    limits: Vec<SessionLimit>,
    /// Whether the store has a row of them.
    is_stored: bool,
}

/// A limit of a session.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct SessionLimit {
    patch: QuirkPatch,
    /// When it was learned, in seconds since 1970.
    learned: u64,
    /// Stands for the settings with which it was learned.
    settings: u64,
    /// When it ends, if a request of another owner was refused for it.
    #[serde(skip)]
    expires: Option<Instant>,
}

impl SessionLimit {
    /// The limit of a session of this owner.
    fn new(learned: &LearnedPatch, owner: &str) -> Self {
        Self {
            patch: learned.patch,
            learned: learned.learned,
            settings: learned.settings,
            expires: learned.expires.filter(|_| *learned.refused_owner != *owner),
        }
    }

    fn holds(&self, settings: u64) -> bool {
        let is_valid = self.expires.is_none_or(|expires| Instant::now() < expires);
        self.settings == settings && is_valid
    }
}

impl LearnedQuirks {
    /// The limits of a turn: those of its session and, where it begins or none is named, those of
    /// the model that are of another kind.
    pub(super) fn limits(&self, route: &Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        let mut limits = self.limits_of_session(route, of);
        if of.session.is_none() || of.begins {
            let mut of_model = self.patches_where(route, of, |learned| is_limit(learned.patch));
            of_model.retain(|patch| !has_kind(&limits, *patch));
            limits.append(&mut of_model);
        }
        limits
    }

    fn limits_of_session(&self, route: &Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        // Usually there are none; then nothing is built.
        if self.sessions.lock().is_empty() {
            return Vec::new();
        }
        let Some(key) = SessionAndModel::new(route, of) else {
            return Vec::new();
        };
        let settings = settings_of(route);
        let mut sessions = self.sessions.lock();
        let Some(known) = sessions.to_back(&key) else {
            return Vec::new();
        };
        // Many sessions have one turn, and need no row.
        if !of.begins && !known.is_stored {
            self.store_limits(&key, known);
        }
        let held = known.limits.iter().filter(|limit| limit.holds(settings));
        held.map(|limit| limit.patch).collect()
    }

    /// A turn was answered with these limits. If it began its session, the session has them from
    /// now on.
    pub fn begin_session(&self, route: &Route, of: PatchesOf<'_>, limits: &[QuirkPatch]) {
        if !of.begins || limits.is_empty() {
            return;
        }
        let own = self.limits_of_session(route, of);
        let settings = settings_of(route);
        let known = self.patches.read();
        let known = find(&known, &route.provider.id, &route.upstream_model);
        let is_new = |learned: &&LearnedPatch| {
            limits.contains(&learned.patch)
                && learned.holds(settings, of)
                && !has_kind(&own, learned.patch)
        };
        let new = known.into_iter().flatten().filter(is_new);
        let new: Vec<SessionLimit> = new
            .map(|learned| SessionLimit::new(learned, of.owner))
            .collect();
        self.add_limits(route, of, new);
    }

    /// A request of a session was refused for a limit. Returns whether the session had another one
    /// or none.
    pub(super) fn learn_limit(
        &self,
        route: &Route,
        of: PatchesOf<'_>,
        learned: &LearnedPatch,
    ) -> bool {
        let limit = SessionLimit::new(learned, of.owner);
        let Some((key, is_changed)) = self.add_limits(route, of, vec![limit]) else {
            return false;
        };
        if let Some(known) = self.sessions.lock().get_mut(&key) {
            self.store_limits(&key, known);
        }
        is_changed
    }

    /// Adds limits to a session, in place of those of the same kind. Returns the session, and
    /// whether that changed its limits; `None` if there is no session or no limit.
    fn add_limits(
        &self,
        route: &Route,
        of: PatchesOf<'_>,
        limits: Vec<SessionLimit>,
    ) -> Option<(SessionAndModel, bool)> {
        let key = SessionAndModel::new(route, of).filter(|_| !limits.is_empty())?;
        let mut sessions = self.sessions.lock();
        let mut known = sessions.remove(&key).unwrap_or_default();
        let mut is_changed = false;
        for limit in limits {
            is_changed |= !known.limits.iter().any(|old| old.patch == limit.patch);
            known
                .limits
                .retain(|old| !old.patch.is_same_kind(&limit.patch));
            known.limits.push(limit);
        }
        let entry = (key.clone(), known);
        insert_newest(&mut sessions, entry, MAX_SESSIONS, SessionAndModel::owner);
        Some((key, is_changed))
    }

    /// Forgets the limits that an answer of their model has shown to be wrong.
    pub(super) fn forget_refuted_limits(&self, model: &ModelKey, answer: LargestAnswer) {
        let mut sessions = self.sessions.lock();
        for (key, known) in sessions.iter_mut() {
            if key.provider != model.0 || key.model != model.1 {
                continue;
            }
            let before = known.limits.len();
            known.limits.retain(|limit| !answer.refutes(limit.patch));
            if known.limits.len() != before && known.is_stored {
                self.store_limits(key, known);
            }
        }
    }

    /// Stores the limits of a session in the background, but for those that end within an hour.
    fn store_limits(&self, key: &SessionAndModel, known: &mut LimitsOfSession) {
        let kept = known.limits.iter().filter(|limit| limit.expires.is_none());
        let kept: Vec<&SessionLimit> = kept.collect();
        let Some(store) = self.store.get() else {
            return;
        };
        if kept.is_empty() && !known.is_stored {
            return;
        }
        known.is_stored = store.put_learned(LearnedRow {
            owner: key.owner.to_string(),
            subject: format!("{SUBJECT}{}/{}\n{}", key.provider, key.model, key.session),
            changes: serde_json::to_string(&kept).unwrap_or_default(),
            learned: kept.iter().map(|it| it.learned).max().unwrap_or_default(),
        });
    }

    /// Adds the limits of a session that a row of the store names, if it does.
    pub(super) fn read_limits(&self, row: &LearnedRow) {
        if let Some(key) = SessionAndModel::of_row(row) {
            let known = LimitsOfSession {
                limits: serde_json::from_str(&row.changes).unwrap_or_default(),
                is_stored: true,
            };
            let mut sessions = self.sessions.lock();
            let entry = (key, known);
            insert_newest(&mut sessions, entry, MAX_SESSIONS, SessionAndModel::owner);
        }
    }
}

/// Whether one of these limits is of the same kind as this one.
fn has_kind(limits: &[QuirkPatch], patch: QuirkPatch) -> bool {
    limits.iter().any(|limit| limit.is_same_kind(&patch))
}

impl SessionAndModel {
    fn new(route: &Route, of: PatchesOf<'_>) -> Option<Self> {
        Some(Self {
            owner: of.owner.into(),
            provider: route.provider.id.clone(),
            model: route.upstream_model.clone(),
            session: of.session?.to_owned(),
        })
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn of_row(row: &LearnedRow) -> Option<Self> {
        let (model, session) = row.subject.strip_prefix(SUBJECT)?.split_once('\n')?;
        let (provider, model) = model.split_once('/')?;
        Some(Self {
            owner: row.owner.as_str().into(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            session: session.to_owned(),
        })
    }
}
