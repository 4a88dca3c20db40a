//! What the providers counted of the last request of each session, beside what was
//! estimated: the session's own tokens a byte. Only the form of a request for
//! a summary is chosen by it; what is sent of a history never is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The most sessions that are remembered; the oldest go first.
const LIMIT: usize = 4096;

/// Sessions by owner and id.
#[derive(Debug, Default)]
pub(super) struct Weighings(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    of: HashMap<Key, Weighed>,
    order: VecDeque<Key>,
}

type Key = (String, String);

/// A request that was counted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Weighed {
    /// Where it went: provider and model, named in full.
    pub route: String,
    /// Its tokens by its bytes.
    pub estimated: u64,
    /// Its tokens as the provider counted them.
    pub counted: u64,
}

impl Weighed {
    /// What a request of the session has where its bytes make this estimate; the
    /// estimate itself for another route.
    pub(super) fn tokens(&self, route: &str, estimate: u64) -> u64 {
        if self.route != route || self.estimated == 0 || self.counted == 0 {
            return estimate;
        }
        // Nothing is as light as less than half of it: such a count is wrong.
        let counted = self.counted.max(self.estimated / 2);
        let tokens = u128::from(estimate) * u128::from(counted) / u128::from(self.estimated);
        // Two in a hundred for what is new in it.
        u64::try_from(tokens + tokens / 50).unwrap_or(u64::MAX)
    }
}

impl Weighings {
    /// A request of the session was counted.
    pub(super) fn put(&self, owner: &str, session: &str, weighed: Weighed) {
        let key = (owner.to_owned(), session.to_owned());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.of.insert(key.clone(), weighed).is_none() {
            last.order.push_back(key);
        }
        if last.order.len() > LIMIT
            && let Some(oldest) = last.order.pop_front()
        {
            last.of.remove(&oldest);
        }
    }

    /// The last request of a session.
    pub(super) fn find(&self, owner: &str, session: &str) -> Option<Weighed> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.of
            .get(&(owner.to_owned(), session.to_owned()))
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(counted: u64) -> Weighed {
        Weighed {
            route: "a/m".into(),
            estimated: 1_000,
            counted,
        }
    }

    #[test]
    fn a_session_weighs_by_its_own_last_request() {
        let weighings = Weighings::default();
        weighings.put("me", "s", weighed(900));
        weighings.put("me", "s", weighed(500));
        assert_eq!(weighings.find("you", "s"), None);
        let last = weighings.find("me", "s").unwrap();
        assert_eq!(last.tokens("a/m", 10_000), 5_100);
        assert_eq!(last.tokens("b/m", 10_000), 10_000, "another model");
        assert_eq!(weighed(0).tokens("a/m", 10_000), 10_000, "nobody counted");
        assert_eq!(weighed(7).tokens("a/m", 10_000), 5_100, "no such text");
    }

    #[test]
    fn the_oldest_session_is_forgotten() {
        let weighings = Weighings::default();
        for n in 0..=LIMIT {
            weighings.put("me", &n.to_string(), weighed(500));
        }
        assert_eq!(weighings.find("me", "0"), None);
        assert!(weighings.find("me", "1").is_some());
    }
}
