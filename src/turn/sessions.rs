//! Which provider a session went over to. A session stays there while that
//! provider is healthy: its prompt cache is there now.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// The most sessions that are remembered; the oldest go first.
const LIMIT: usize = 4096;

/// The sessions that left their first choice, by owner and session.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Moved>);

#[derive(Debug, Default)]
struct Moved {
    to: HashMap<Key, String>,
    order: VecDeque<Key>,
}

type Key = (String, String);

impl Sessions {
    /// The route, named in full, that a session went over to.
    pub(super) fn moved_to(&self, owner: &str, session: &str) -> Option<String> {
        let moved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if moved.to.is_empty() {
            return None;
        }
        moved
            .to
            .get(&(owner.to_owned(), session.to_owned()))
            .cloned()
    }

    /// A session goes over to a route.
    pub(super) fn moves(&self, owner: &str, session: &str, route: String) {
        let key = (owner.to_owned(), session.to_owned());
        let mut moved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if moved.to.insert(key.clone(), route).is_none() {
            moved.order.push_back(key);
        }
        if moved.order.len() > LIMIT
            && let Some(oldest) = moved.order.pop_front()
        {
            moved.to.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_move_counts_and_the_oldest_session_is_forgotten() {
        let sessions = Sessions::default();
        sessions.moves("me", "s", "a/m".into());
        sessions.moves("me", "s", "b/m".into());
        assert_eq!(sessions.moved_to("me", "s").as_deref(), Some("b/m"));
        assert_eq!(sessions.moved_to("you", "s"), None);
        for n in 0..LIMIT {
            sessions.moves("me", &n.to_string(), "a/m".into());
        }
        assert_eq!(sessions.moved_to("me", "s"), None);
        assert!(sessions.moved_to("me", "0").is_some());
    }
}
