//! Caches the tools of sessions. A client that compacts by itself asks for its summary without
//! tools; but the history in the provider's prompt cache begins with them, so they are sent again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

/// The most bytes of lists; beyond that the oldest sessions are dropped.
const LIMIT: usize = 16 << 20;
/// The most bytes of one list; longer ones are not cached.
const LIST_LIMIT: usize = 1 << 20;

/// The latest `tools` list of each owner and session, as JSON. Bounded and in memory.
#[derive(Debug, Default)]
pub(super) struct ToolCache(Mutex<ToolLists>);

#[derive(Debug, Default)]
struct ToolLists {
    by_session: HashMap<ToolListKey, Arc<str>>,
    order: VecDeque<ToolListKey>,
    bytes: usize,
}

type ToolListKey = (String, String);

impl ToolCache {
    /// Caches the `tools` of a request, if it is a list and not too long.
    pub(super) fn keep(&self, owner: &str, session: &str, tools: Option<&RawValue>) {
        let Some(tools) = tools.map(RawValue::get) else {
            return;
        };
        if tools.len() <= LIST_LIMIT && tools.starts_with('[') {
            self.put(owner, session, tools);
        }
    }

    /// Inserts a list of any length.
    pub(super) fn put(&self, owner: &str, session: &str, tools: &str) {
        let key = (owner.to_owned(), session.to_owned());
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lists
            .by_session
            .get(&key)
            .is_some_and(|old| **old == *tools)
        {
            return;
        }
        lists.bytes += tools.len();
        match lists.by_session.insert(key.clone(), tools.into()) {
            Some(old) => lists.bytes -= old.len(),
            None => lists.order.push_back(key),
        }
        while lists.bytes > LIMIT
            && let Some(oldest) = lists.order.pop_front()
        {
            if let Some(gone) = lists.by_session.remove(&oldest) {
                lists.bytes -= gone.len();
            }
        }
    }

    /// Finds the latest tools of a session.
    pub(super) fn find(&self, owner: &str, session: &str) -> Option<Arc<str>> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (owner.to_owned(), session.to_owned());
        lists.by_session.get(&key).map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_list_counts_and_owners_are_separate() {
        let cache = ToolCache::default();
        cache.put("me", "s", "[1]");
        cache.put("me", "s", "[2]");
        assert_eq!(cache.find("me", "s").as_deref(), Some("[2]"));
        assert_eq!(cache.find("you", "s"), None);
        assert_eq!(cache.find("me", "t"), None);
    }

    #[test]
    fn the_oldest_sessions_are_dropped_first() {
        let cache = ToolCache::default();
        let list = "x".repeat(LIST_LIMIT);
        for n in 0..=LIMIT / LIST_LIMIT {
            cache.put("me", &n.to_string(), &list);
        }
        assert_eq!(cache.find("me", "0"), None);
        assert!(cache.find("me", "1").is_some());
    }
}
