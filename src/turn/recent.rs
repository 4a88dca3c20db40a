//! The items of recent answers, for clients that refer to them by id instead of
//! sending them back. Bounded, in memory, gone with the process: an item that is
//! not here any more gets an error that says so.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of items that are kept; the oldest go first.
const LIMIT: usize = 64 << 20;
/// A larger item is not kept.
const ITEM_LIMIT: usize = 4 << 20;

/// Recent items of all owners.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Items>);

#[derive(Debug, Default)]
struct Items {
    by_id: HashMap<Key, Arc<str>>,
    order: VecDeque<Key>,
    bytes: usize,
}

/// Owner and item id.
type Key = (Arc<str>, Arc<str>);

impl Recent {
    /// Keeps the items of an answer.
    pub(super) fn keep<'i>(
        &self,
        owner: &Arc<str>,
        items: impl Iterator<Item = (&'i str, &'i [u8])>,
    ) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, json) in items {
            let Ok(json) = std::str::from_utf8(json) else {
                continue;
            };
            if json.len() <= ITEM_LIMIT {
                kept.add((Arc::clone(owner), id.into()), json.into());
            }
        }
    }

    /// The items of an owner with these ids, as far as they are here.
    pub(super) fn find(&self, owner: &Arc<str>, ids: Vec<String>) -> HashMap<String, Arc<str>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |id: String| {
            let json = kept.by_id.get(&(Arc::clone(owner), id.as_str().into()))?;
            Some((id, Arc::clone(json)))
        };
        ids.into_iter().filter_map(found).collect()
    }
}

impl Items {
    fn add(&mut self, key: Key, json: Arc<str>) {
        self.bytes += json.len();
        if let Some(old) = self.by_id.insert(key.clone(), json) {
            self.bytes -= old.len();
            return;
        }
        self.order.push_back(key);
        while self.bytes > LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(gone) = self.by_id.remove(&oldest) {
                self.bytes -= gone.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_items_go_first_and_owners_are_apart() {
        let recent = Recent::default();
        let (mine, theirs): (Arc<str>, Arc<str>) = ("me".into(), "them".into());
        let large = vec![b'x'; ITEM_LIMIT];
        let ids: Vec<String> = (0..=LIMIT / ITEM_LIMIT)
            .map(|n| format!("msg_{n}"))
            .collect();
        for id in &ids {
            recent.keep(&mine, [(id.as_str(), large.as_slice())].into_iter());
        }
        let found = recent.find(&mine, ids.clone());
        assert_eq!(found.len(), ids.len() - 1);
        assert!(!found.contains_key("msg_0"));
        assert!(recent.find(&theirs, ids).is_empty());
    }

    #[test]
    fn an_item_that_is_too_large_is_not_kept() {
        let recent = Recent::default();
        let owner: Arc<str> = "me".into();
        let large = vec![b'x'; ITEM_LIMIT + 1];
        recent.keep(&owner, [("msg_1", large.as_slice())].into_iter());
        assert!(recent.find(&owner, vec!["msg_1".into()]).is_empty());
    }
}
