//! Caches the reasoning state that providers want back with calls.
//!
//! The first source of this state is the `encrypted_content` of reasoning items. This cache is the
//! second one, for clients that do not send these items back. It is bounded and lives in memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

/// The most bytes of blobs; beyond that the oldest are dropped.
const LIMIT: usize = 16 << 20;
/// The most bytes of blobs for one call; larger ones are not cached.
const BLOB_LIMIT: usize = 1 << 20;

/// Sealed reasoning state by owner, session and call id. The blobs of one call are joined with
/// spaces.
#[derive(Debug, Default)]
pub(super) struct ReasoningCache(Mutex<ReasoningBlobs>);

#[derive(Debug, Default)]
struct ReasoningBlobs {
    by_call: HashMap<ReasoningKey, String>,
    order: VecDeque<ReasoningKey>,
    bytes: usize,
}

/// Owner and session as one string, then the call id. Providers number their calls from the start
/// in every conversation, so a call id alone is not unique.
type ReasoningKey = (String, String);

/// The fields of an answer's item that matter here.
#[derive(Deserialize)]
struct AnswerItem {
    encrypted_content: Option<String>,
    call_id: Option<String>,
}

impl ReasoningCache {
    /// Caches the blobs of an answer. Each call gets those between the call before it and itself,
    /// the last call also those after it.
    pub(super) fn keep<'i>(
        &self,
        owner: &str,
        session: &str,
        items: impl Iterator<Item = (&'i str, &'i [u8])>,
    ) {
        let mut waiting: Vec<String> = Vec::new();
        let mut calls: Vec<(String, Vec<String>)> = Vec::new();
        for (_, json) in items {
            let Ok(item) = serde_json::from_slice::<AnswerItem>(json) else {
                continue;
            };
            match (item.encrypted_content, item.call_id) {
                (Some(blob), None) => waiting.push(blob),
                (_, Some(call)) => calls.push((call, std::mem::take(&mut waiting))),
                (None, None) => {}
            }
        }
        if let Some((_, last)) = calls.last_mut() {
            last.append(&mut waiting);
        }
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (call, blobs) in calls {
            let blobs = blobs.join(" ");
            if !blobs.is_empty() && blobs.len() <= BLOB_LIMIT {
                cache.add((scope(owner, session), call), blobs);
            }
        }
    }

    /// Inserts blobs by call id, in the form that [`ReasoningCache::find`] returns.
    pub(super) fn put<'b>(
        &self,
        owner: &str,
        session: &str,
        blobs: impl Iterator<Item = (&'b String, &'b String)>,
    ) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (call, blobs) in blobs {
            cache.add((scope(owner, session), call.clone()), blobs.clone());
        }
    }

    /// Finds the blobs of these calls of a session. `calls` is only evaluated if anything is
    /// cached.
    pub(super) fn find(
        &self,
        owner: &str,
        session: &str,
        calls: impl FnOnce() -> HashSet<String>,
    ) -> HashMap<String, String> {
        let blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if blobs.by_call.is_empty() {
            return HashMap::new();
        }
        let scope = scope(owner, session);
        let mut key = (scope, String::new());
        calls()
            .into_iter()
            .filter_map(|call| {
                key.1 = call;
                let blob = blobs.by_call.get(&key)?.clone();
                Some((std::mem::take(&mut key.1), blob))
            })
            .collect()
    }
}

fn scope(owner: &str, session: &str) -> String {
    format!("{owner}\n{session}")
}

impl ReasoningBlobs {
    fn add(&mut self, key: ReasoningKey, blob: String) {
        self.bytes += blob.len();
        match self.by_call.insert(key.clone(), blob) {
            Some(old) => self.bytes -= old.len(),
            None => self.order.push_back(key),
        }
        while self.bytes > LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(gone) = self.by_call.remove(&oldest) {
                self.bytes -= gone.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(cache: &ReasoningCache, session: &str, call: &str) -> Option<String> {
        let calls = || HashSet::from([call.to_owned()]);
        cache.find("me", session, calls).remove(call)
    }

    #[test]
    fn a_call_after_a_reasoning_item_gets_its_blob_back() {
        let cache = ReasoningCache::default();
        let items = [
            r#"{"id":"rs_1","type":"reasoning","encrypted_content":"one"}"#,
            r#"{"id":"fc_1","type":"function_call","call_id":"a"}"#,
            r#"{"id":"fc_2","type":"function_call","call_id":"b"}"#,
        ];
        cache.keep("me", "s", items.iter().map(|item| ("", item.as_bytes())));
        assert_eq!(find(&cache, "s", "a").as_deref(), Some("one"));
        assert_eq!(find(&cache, "s", "b"), None);
        assert_eq!(find(&cache, "another", "a"), None);
    }

    #[test]
    fn no_blob_of_an_answer_with_calls_is_lost() {
        let cache = ReasoningCache::default();
        let items = [
            r#"{"type":"reasoning","encrypted_content":"one"}"#,
            r#"{"type":"message"}"#,
            r#"{"type":"reasoning","encrypted_content":"two"}"#,
            r#"{"type":"function_call","call_id":"a"}"#,
            r#"{"type":"reasoning","encrypted_content":"three"}"#,
            r#"{"type":"function_call","call_id":"b"}"#,
            r#"{"type":"reasoning","encrypted_content":"four"}"#,
        ];
        cache.keep("me", "s", items.iter().map(|item| ("", item.as_bytes())));
        assert_eq!(find(&cache, "s", "a").as_deref(), Some("one two"));
        assert_eq!(find(&cache, "s", "b").as_deref(), Some("three four"));
    }

    #[test]
    fn the_oldest_blobs_are_dropped_first() {
        let cache = ReasoningCache::default();
        let blob = "x".repeat(BLOB_LIMIT);
        let reasoning = format!(r#"{{"encrypted_content":"{blob}"}}"#);
        for n in 0..=LIMIT / BLOB_LIMIT {
            let call = format!(r#"{{"call_id":"c{n}"}}"#);
            let items = [("", reasoning.as_bytes()), ("", call.as_bytes())];
            cache.keep("me", "s", items.into_iter());
        }
        assert_eq!(find(&cache, "s", "c0"), None);
        assert!(find(&cache, "s", "c1").is_some());
    }
}
