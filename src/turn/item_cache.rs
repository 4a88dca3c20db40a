//! Caches the items of recent answers, for clients that refer to items by id instead of sending
//! them back. Bounded and in memory: a reference to an item that is not cached gets an error that
//! says so.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of items; beyond that the oldest are dropped.
const LIMIT: usize = 64 << 20;
/// The most bytes of one item; larger ones are not cached.
const ITEM_LIMIT: usize = 4 << 20;

/// The JSON of recent items by owner and item id.
#[derive(Debug, Default)]
pub(super) struct ItemCache(Mutex<CachedItems>);

#[derive(Debug, Default)]
struct CachedItems {
    by_id: HashMap<ItemKey, Arc<str>>,
    order: VecDeque<ItemKey>,
    bytes: usize,
}

/// Owner and item id.
type ItemKey = (Arc<str>, Arc<str>);

impl ItemCache {
    /// Caches the items of an answer, given by id and JSON.
    pub(super) fn keep<'i>(
        &self,
        owner: &Arc<str>,
        items: impl Iterator<Item = (&'i str, &'i [u8])>,
    ) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, json) in items {
            let Ok(json) = std::str::from_utf8(json) else {
                continue;
            };
            if json.len() <= ITEM_LIMIT {
                cached.add((Arc::clone(owner), id.into()), json.into());
            }
        }
    }

    /// Finds the cached ones of these items.
    pub(super) fn find(&self, owner: &Arc<str>, ids: Vec<String>) -> HashMap<String, Arc<str>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |id: String| {
            let json = cached.by_id.get(&(Arc::clone(owner), id.as_str().into()))?;
            Some((id, Arc::clone(json)))
        };
        ids.into_iter().filter_map(found).collect()
    }
}

impl CachedItems {
    fn add(&mut self, key: ItemKey, json: Arc<str>) {
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
    fn the_oldest_items_are_dropped_first_and_owners_are_separate() {
        let cache = ItemCache::default();
        let (owner, other): (Arc<str>, Arc<str>) = ("me".into(), "them".into());
        let large = vec![b'x'; ITEM_LIMIT];
        let ids: Vec<String> = (0..=LIMIT / ITEM_LIMIT)
            .map(|n| format!("msg_{n}"))
            .collect();
        for id in &ids {
            cache.keep(&owner, [(id.as_str(), large.as_slice())].into_iter());
        }
        let found = cache.find(&owner, ids.clone());
        assert_eq!(found.len(), ids.len() - 1);
        assert!(!found.contains_key("msg_0"));
        assert!(cache.find(&other, ids).is_empty());
    }

    #[test]
    fn an_item_that_is_too_large_is_not_cached() {
        let cache = ItemCache::default();
        let owner: Arc<str> = "me".into();
        let large = vec![b'x'; ITEM_LIMIT + 1];
        cache.keep(&owner, [("msg_1", large.as_slice())].into_iter());
        assert!(cache.find(&owner, vec!["msg_1".into()]).is_empty());
    }
}
