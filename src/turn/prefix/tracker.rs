//! Remembers the last requests of each session.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::fingerprint::RequestFingerprint;
use super::report::{PrefixReason, PrefixReport};

/// The most requests of one session. A session can have several, because agents that share a
/// session take turns, each with a history of its own.
const MAX_REQUESTS: usize = 4;
/// The most hashes of all sessions, of 16 bytes each; beyond that the sessions that sent no request
/// for the longest time are dropped.
const MAX_PARTS: usize = 512 << 10;
/// The memory that a request takes besides its hashes, in hashes.
const BASE: usize = 16;

/// The fingerprints of the last requests by owner and session. Bounded and in memory.
#[derive(Debug, Default)]
pub(in crate::turn) struct PrefixTracker(Mutex<TrackedSessions>);

#[derive(Debug, Default)]
struct TrackedSessions {
    last: HashMap<TrackedSessionKey, SessionFingerprints>,
    /// The sessions by [`SessionFingerprints::last_used`].
    order: BTreeMap<u64, TrackedSessionKey>,
    clock: u64,
    parts: usize,
}

type TrackedSessionKey = (Arc<str>, String);

#[derive(Debug, Default)]
struct SessionFingerprints {
    last_used: u64,
    /// The latest request is the last.
    requests: VecDeque<Arc<RequestFingerprint>>,
}

impl PrefixTracker {
    /// Compares a request with the one of its session that shares the longest prefix with it.
    pub(in crate::turn) fn report(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &RequestFingerprint,
    ) -> PrefixReport {
        let earlier = {
            let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (Arc::clone(owner), session.to_owned());
            let session = sessions.last.get(&key);
            session.map_or_else(VecDeque::new, |session| session.requests.clone())
        };
        let last = earlier.back();
        let same_route = earlier
            .iter()
            .filter(|other| other.route() == request.route());
        if let Some(best) = same_route.max_by_key(|other| request.shared_bytes(other)) {
            let summarized =
                best.asks_for_summary() || last.is_some_and(|last| last.asks_for_summary());
            return request.compare(best, summarized);
        }
        PrefixReport {
            request_bytes: request.encoded_size(),
            previous_bytes: last.map_or(0, |last| last.encoded_size()),
            shared_bytes: 0,
            reason: last.map_or(PrefixReason::First, |_| PrefixReason::ModelChanged),
            differs_at: None,
        }
    }

    /// Remembers a request that is being answered, and drops those that it begins with.
    pub(in crate::turn) fn put(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &Arc<RequestFingerprint>,
    ) {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = &mut *guard;
        let key = (Arc::clone(owner), session.to_owned());
        sessions.clock += 1;
        let clock = sessions.clock;
        let session = sessions.last.entry(key.clone()).or_default();
        sessions.order.remove(&session.last_used);
        sessions.order.insert(clock, key);
        session.last_used = clock;
        let before = session.size();
        session.requests.retain(|other| {
            other.route() != request.route() || request.shared_bytes(other) < other.encoded_size()
        });
        session.requests.push_back(Arc::clone(request));
        if session.requests.len() > MAX_REQUESTS {
            session.requests.pop_front();
        }
        sessions.parts += session.size();
        sessions.parts -= before;
        while sessions.parts > MAX_PARTS
            && let Some((_, oldest)) = sessions.order.pop_first()
        {
            if let Some(dropped) = sessions.last.remove(&oldest) {
                sessions.parts -= dropped.size();
            }
        }
    }

    /// The number of sessions and of hashes.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let sessions = self.0.lock().unwrap();
        assert_eq!(sessions.last.len(), sessions.order.len());
        (sessions.last.len(), sessions.parts)
    }
}

impl SessionFingerprints {
    /// Memory use in hashes.
    fn size(&self) -> usize {
        self.requests
            .iter()
            .map(|request| request.parts() + BASE)
            .sum()
    }
}
