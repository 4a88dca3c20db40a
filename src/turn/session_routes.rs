//! Remembers the route that a session switched to. It stays there while that provider is healthy,
//! because its prompt cache is there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// The most sessions; beyond that the oldest are dropped.
const LIMIT: usize = 4096;

/// The routes of the sessions that left their first choice, by owner and session. Bounded and in
/// memory.
#[derive(Debug, Default)]
pub(super) struct SessionRoutes(Mutex<MovedSessions>);

#[derive(Debug, Default)]
struct MovedSessions {
    to: HashMap<SessionRouteKey, String>,
    order: VecDeque<SessionRouteKey>,
}

type SessionRouteKey = (String, String);

impl SessionRoutes {
    /// The full name of the route that a session switched to.
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

    /// Remembers the full name of the route that a session switches to.
    pub(super) fn set_route(&self, owner: &str, session: &str, route: String) {
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
    fn the_latest_route_counts_and_the_oldest_session_is_dropped() {
        let sessions = SessionRoutes::default();
        sessions.set_route("me", "s", "a/m".into());
        sessions.set_route("me", "s", "b/m".into());
        assert_eq!(sessions.moved_to("me", "s").as_deref(), Some("b/m"));
        assert_eq!(sessions.moved_to("you", "s"), None);
        for n in 0..LIMIT {
            sessions.set_route("me", &n.to_string(), "a/m".into());
        }
        assert_eq!(sessions.moved_to("me", "s"), None);
        assert!(sessions.moved_to("me", "0").is_some());
    }
}
