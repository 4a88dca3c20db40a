//! The last requests of one session.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fingerprint::RequestFingerprint;
use super::report::{PrefixReason, PrefixReport};

/// The most requests of one session. A session can have several, because agents that share a
/// session take turns, each with a history of its own.
const MAX_REQUESTS: usize = 4;
/// The bytes of one hash of a fingerprint.
const PART_BYTES: usize = 16;
/// The bytes that a request takes besides its hashes and its route.
const REQUEST_BASE: usize = 256;

/// The fingerprints of the last requests of one session. Part of what is remembered of it.
#[derive(Clone, Debug, Default)]
pub(in crate::turn) struct RecentRequests {
    /// The latest request is the last.
    requests: VecDeque<Arc<RequestFingerprint>>,
}

impl RecentRequests {
    /// Compares a request with the one that shares the longest prefix with it.
    pub(in crate::turn) fn report(&self, request: &RequestFingerprint) -> PrefixReport {
        let earlier = &self.requests;
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
    pub(in crate::turn) fn put(&mut self, request: &Arc<RequestFingerprint>) {
        self.requests.retain(|other| {
            other.route() != request.route() || request.shared_bytes(other) < other.encoded_size()
        });
        self.requests.push_back(Arc::clone(request));
        if self.requests.len() > MAX_REQUESTS {
            self.requests.pop_front();
        }
    }

    /// Memory use.
    pub(in crate::turn) fn bytes(&self) -> usize {
        let requests = self.requests.iter();
        requests
            .map(|request| REQUEST_BASE + request.route().len() + request.parts() * PART_BYTES)
            .sum()
    }
}
