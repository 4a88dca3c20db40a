//! What sessions do otherwise on a route because its provider has refused it: the contents that
//! they leave out, and the changes that are still tried.

use std::fmt;
use std::sync::{Arc, OnceLock};

use adapters::experiments::Experiments;
use adapters::refusal::change::LeftOut;
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::net::fairness::insert_newest;
use crate::store::{LearnedRow, Store, StoreError};

/// The most sessions that are remembered, each on one route. Beyond it the owner who has most loses
/// the oldest one.
const MAX_SESSIONS: usize = 1024;

/// The prefix of the route of a session in the store. The id of the session follows on a line of
/// its own.
const SUBJECT: &str = "session/";

/// What all sessions do otherwise. Lives as long as the process; what the sessions of earlier ones
/// leave out is read from the store.
#[derive(Default)]
pub(super) struct SessionChanges {
    /// The one that was not changed for the longest time first.
    by_key: Mutex<LinkedHashMap<RouteOfSession, ChangedSession>>,
    store: OnceLock<Arc<Store>>,
}

/// The owner, the full name of a route, and the id of a session.
type RouteOfSession = (Arc<str>, String, String);

/// What one session does otherwise on a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChangedSession {
    /// The contents that it leaves out because they were refused.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
    /// The changes that are tried after refusals of a prompt.
    #[serde(skip_serializing_if = "Experiments::is_empty")]
    pub experiments: Experiments,
    /// That prompt, see [`Caller::prompt`](super::caller::Caller::prompt). What was tried for
    /// another one proves nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub prompt: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(prompt: &u64) -> bool {
    *prompt == 0
}

impl SessionChanges {
    /// Reads what earlier processes left out from the store, and keeps there what is left out from
    /// now on.
    pub(super) async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        let rows = store.learned().await?;
        let mut by_key = self.by_key.lock();
        for row in rows {
            let names = row.subject.strip_prefix(SUBJECT);
            let Some((route, session)) = names.and_then(|names| names.split_once('\n')) else {
                continue;
            };
            if let Ok(left_out) = serde_json::from_str(&row.changes) {
                let changed = ChangedSession {
                    left_out,
                    ..ChangedSession::default()
                };
                let owner = row.owner.as_str().into();
                let key = (owner, route.to_owned(), session.to_owned());
                insert(&mut by_key, key, changed);
            }
        }
        drop(by_key);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// What a session does otherwise on a route.
    pub(super) fn get(&self, owner: &Arc<str>, session: &str, route: &str) -> ChangedSession {
        let by_key = self.by_key.lock();
        if by_key.is_empty() {
            return ChangedSession::default();
        }
        let known = by_key.get(&key(owner, session, route));
        known.cloned().unwrap_or_default()
    }

    /// Remembers what a session does otherwise on a route. Contents that it leaves out beyond those
    /// that are known are added and stored with the time `now`, in seconds since 1970.
    pub(super) fn put(
        &self,
        owner: &Arc<str>,
        session: &str,
        route: &str,
        changed: &ChangedSession,
        now: u64,
    ) {
        let key = key(owner, session, route);
        let mut by_key = self.by_key.lock();
        let before = by_key.remove(&key).unwrap_or_default();
        // Another turn of the session may have added some meanwhile.
        let mut changed = changed.clone();
        changed.left_out.merge(&before.left_out);
        let left_out = changed.left_out.clone();
        if !changed.is_empty() {
            insert(&mut by_key, key, changed);
        }
        drop(by_key);
        if before.left_out != left_out
            && let Some(store) = self.store.get()
        {
            store.put_learned(LearnedRow {
                owner: owner.to_string(),
                subject: format!("{SUBJECT}{route}\n{session}"),
                changes: serde_json::to_string(&left_out).unwrap_or_default(),
                learned: now,
            });
        }
    }
}

fn insert(
    by_key: &mut LinkedHashMap<RouteOfSession, ChangedSession>,
    key: RouteOfSession,
    changed: ChangedSession,
) {
    insert_newest(by_key, (key, changed), MAX_SESSIONS, |(owner, ..)| owner);
}

fn key(owner: &Arc<str>, session: &str, route: &str) -> RouteOfSession {
    (Arc::clone(owner), route.to_owned(), session.to_owned())
}

impl ChangedSession {
    /// Whether nothing is done otherwise.
    pub(super) fn is_empty(&self) -> bool {
        self.left_out.is_empty() && self.experiments.is_empty()
    }
}

impl fmt::Debug for SessionChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionChanges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: An owner with many sessions does not take away what the session of another one has
    /// learned, and the newest session of each is kept.
    #[test]
    fn beyond_the_limit_the_owner_who_has_most_loses_the_oldest_session() {
        let changes = SessionChanges::default();
        let changed = ChangedSession {
            left_out: LeftOut {
                tools: vec!["bad".to_owned()],
                ..LeftOut::default()
            },
            ..ChangedSession::default()
        };
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let put = |owner, session: &str| changes.put(owner, session, "up/m", &changed, 1);
        let has = |owner, session: &str| !changes.get(owner, session, "up/m").is_empty();
        put(&other, "only");
        for number in 0..2 * MAX_SESSIONS {
            put(&one, &number.to_string());
        }
        assert!(has(&other, "only"));
        assert!(has(&one, &(2 * MAX_SESSIONS - 1).to_string()));
        put(&other, "second");
        assert!(has(&other, "only") && has(&other, "second"));
        assert!(!has(&one, "0") && !has(&one, &(MAX_SESSIONS + 1).to_string()));

        let changes = SessionChanges::default();
        for number in 0..=MAX_SESSIONS {
            let owner: Arc<str> = number.to_string().into();
            changes.put(&owner, "only", "up/m", &changed, 1);
        }
        let has = |number: usize| {
            let owner: Arc<str> = number.to_string().into();
            !changes.get(&owner, "only", "up/m").is_empty()
        };
        assert!(!has(0) && has(1) && has(MAX_SESSIONS));
    }
}
