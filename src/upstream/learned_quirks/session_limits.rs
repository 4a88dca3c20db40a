//! The limits of sessions: windows, output limits and numbers of tools that providers have stated.
//!
//! The prompt of a session depends on its limits, so it keeps those with which it began and those
//! for which its own requests were refused, also after a restart. A limit for which another session
//! is refused meanwhile changes nothing for it.

use std::sync::Arc;

use adapters::quirk_patch::QuirkPatch;
use hashlink::LinkedHashMap;
use registry::Route;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    LearnedPatch, LearnedQuirks, PatchesOf, TRIED_AGAIN_AFTER, find, is_limit, settings_of,
};
use crate::net::fairness::insert_newest;
use crate::store::LearnedRow;

/// The most sessions whose limits are known, each with one model. Beyond it the owner who has most
/// loses the one whose limits were not changed for the longest time.
pub(super) const MAX_SESSIONS: usize = 1024;

/// The prefix of the subject of a row in the store. The provider, the model and, on a line of its
/// own, the id of the session follow.
const SUBJECT: &str = "limits/";

/// The limits of all sessions that have any.
pub(super) type SessionLimits = LinkedHashMap<SessionAndModel, Vec<SessionLimit>>;

/// A session with a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionAndModel {
    owner: Arc<str>,
    provider: String,
    model: String,
    session: String,
}

/// A limit of a session. It has at most one of each kind.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct SessionLimit {
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
            expires: learned.expires.filter(|_| *learned.refused != *owner),
        }
    }

    fn holds(&self, settings: u64, now: u64) -> bool {
        let is_new = self.learned.saturating_add(TRIED_AGAIN_AFTER.as_secs()) >= now;
        let is_valid = self.expires.is_none_or(|expires| Instant::now() < expires);
        self.settings == settings && is_new && is_valid
    }
}

impl LearnedQuirks {
    /// The limits of a turn: those of its session; those of its model for one that begins a
    /// session, or where none is named.
    pub(super) fn limits(&self, route: &Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        let limits = self.limits_of_session(route, of);
        let has_those_of_model = of.session.is_none() || of.begins;
        if limits.is_empty() && has_those_of_model {
            return self.patches_where(route, of, |learned| is_limit(learned.patch));
        }
        limits
    }

    fn limits_of_session(&self, route: &Route, of: PatchesOf<'_>) -> Vec<QuirkPatch> {
        let sessions = self.sessions.lock();
        // Usually there are none; then no key is built.
        if sessions.is_empty() {
            return Vec::new();
        }
        let key = SessionAndModel::new(route, of);
        let Some(limits) = key.and_then(|key| sessions.get(&key)) else {
            return Vec::new();
        };
        let settings = settings_of(route);
        let answer = self.largest_answer(&route.provider.id, &route.upstream_model);
        let held = limits
            .iter()
            .filter(|limit| limit.holds(settings, of.now) && !answer.refutes(limit.patch));
        held.map(|limit| limit.patch).collect()
    }

    /// A turn was answered. If it began its session, the session has the limits that are known of
    /// its model from now on.
    pub fn begin_session(&self, route: &Route, of: PatchesOf<'_>) {
        let known = self.patches.read();
        let Some(known) = find(&known, &route.provider.id, &route.upstream_model) else {
            return;
        };
        if !of.begins || !self.limits_of_session(route, of).is_empty() {
            return;
        }
        let settings = settings_of(route);
        let limits = known
            .iter()
            .filter(|it| is_limit(it.patch) && it.holds(settings, of))
            .map(|learned| SessionLimit::new(learned, of.owner));
        self.add_limits(route, of, limits);
    }

    /// A request of a session was refused for its model's limit.
    pub(super) fn learn_limit(&self, route: &Route, of: PatchesOf<'_>, learned: &LearnedPatch) {
        let limit = SessionLimit::new(learned, of.owner);
        self.add_limits(route, of, [limit].into_iter());
    }

    /// Adds limits to a session. One of the same kind that it had is replaced.
    fn add_limits(
        &self,
        route: &Route,
        of: PatchesOf<'_>,
        limits: impl Iterator<Item = SessionLimit>,
    ) {
        let mut limits = limits.peekable();
        let Some(key) = SessionAndModel::new(route, of).filter(|_| limits.peek().is_some()) else {
            return;
        };
        let mut sessions = self.sessions.lock();
        let mut known = sessions.remove(&key).unwrap_or_default();
        let before = known.clone();
        for limit in limits {
            known.retain(|old| !old.patch.is_same_kind(&limit.patch));
            known.push(limit);
        }
        if known != before {
            self.store_limits(&key, &known);
        }
        insert_newest(
            &mut sessions,
            (key, known),
            MAX_SESSIONS,
            SessionAndModel::owner,
        );
    }

    /// Stores the limits of a session in the background. Those that end soon are not stored.
    fn store_limits(&self, key: &SessionAndModel, limits: &[SessionLimit]) {
        let Some(store) = self.store.get() else {
            return;
        };
        let kept = limits.iter().filter(|limit| limit.expires.is_none());
        let kept: Vec<&SessionLimit> = kept.collect();
        store.put_learned(LearnedRow {
            owner: key.owner.to_string(),
            subject: format!("{SUBJECT}{}/{}\n{}", key.provider, key.model, key.session),
            changes: serde_json::to_string(&kept).unwrap_or_default(),
            learned: kept.iter().map(|it| it.learned).max().unwrap_or_default(),
        });
    }

    /// Adds the limits of a session that a row of the store names, if it does.
    pub(super) fn read_limits(&self, row: &LearnedRow) {
        if let Some(key) = SessionAndModel::of_row(row) {
            let limits = serde_json::from_str(&row.changes).unwrap_or_default();
            let mut sessions = self.sessions.lock();
            insert_newest(
                &mut sessions,
                (key, limits),
                MAX_SESSIONS,
                SessionAndModel::owner,
            );
        }
    }

    /// Forgets the limits of a provider's models.
    pub(super) fn forget_limits(&self, provider: &str) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|key, _| key.provider != provider);
    }
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
