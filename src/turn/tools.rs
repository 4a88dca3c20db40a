//! The tools of sessions: a client that compacts by itself asks for its summary
//! without them, while the provider's cache holds the history behind them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

/// The most bytes of lists; the oldest sessions go first.
const LIMIT: usize = 16 << 20;
/// A longer list is not kept.
const LIST_LIMIT: usize = 1 << 20;

/// The last `tools` of each owner and session, as JSON. Bounded, in memory.
#[derive(Debug, Default)]
pub(super) struct Tools(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    by_session: HashMap<Key, Arc<str>>,
    order: VecDeque<Key>,
    bytes: usize,
}

type Key = (String, String);

impl Tools {
    /// A request of the session came with these tools.
    pub(super) fn keep(&self, owner: &str, session: &str, tools: Option<&RawValue>) {
        let Some(tools) = tools.map(RawValue::get) else {
            return;
        };
        if tools.len() <= LIST_LIMIT && tools.starts_with('[') {
            self.put(owner, session, tools);
        }
    }

    /// Keeps a list.
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

    /// The last tools of a session.
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
    fn the_last_list_counts_and_owners_are_apart() {
        let tools = Tools::default();
        tools.put("me", "s", "[1]");
        tools.put("me", "s", "[2]");
        assert_eq!(tools.find("me", "s").as_deref(), Some("[2]"));
        assert_eq!(tools.find("you", "s"), None);
        assert_eq!(tools.find("me", "t"), None);
    }

    #[test]
    fn the_oldest_sessions_go_first() {
        let tools = Tools::default();
        let list = "x".repeat(LIST_LIMIT);
        for n in 0..=LIMIT / LIST_LIMIT {
            tools.put("me", &n.to_string(), &list);
        }
        assert_eq!(tools.find("me", "0"), None);
        assert!(tools.find("me", "1").is_some());
    }
}
