//! What providers want back with a call, for clients that do not keep it: the
//! second source beside the reasoning items that come back. Bounded, in memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

/// The most bytes of blobs; the oldest go first.
const LIMIT: usize = 16 << 20;
/// What is larger for one call is not kept.
const BLOB_LIMIT: usize = 1 << 20;

/// Blobs by owner and session, and call id; several are separated by blanks.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Blobs>);

#[derive(Debug, Default)]
struct Blobs {
    by_call: HashMap<Key, String>,
    order: VecDeque<Key>,
    bytes: usize,
}

/// Owner and session, then call id: providers count their calls anew in every
/// conversation.
type Key = (String, String);

/// An item of an answer, as far as it matters here.
#[derive(Deserialize)]
struct Item {
    encrypted_content: Option<String>,
    call_id: Option<String>,
}

impl Kept {
    /// Keeps the baggage of every call of an answer: what stands before it, and
    /// with the last one what stands behind it.
    pub(super) fn keep<'i>(
        &self,
        owner: &str,
        session: &str,
        items: impl Iterator<Item = (&'i str, &'i [u8])>,
    ) {
        let mut waiting: Vec<String> = Vec::new();
        let mut calls: Vec<(String, Vec<String>)> = Vec::new();
        for (_, json) in items {
            let Ok(item) = serde_json::from_slice::<Item>(json) else {
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
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (call, blobs) in calls {
            let blobs = blobs.join(" ");
            if !blobs.is_empty() && blobs.len() <= BLOB_LIMIT {
                kept.add((scope(owner, session), call), blobs);
            }
        }
    }

    /// Keeps blobs by call id, as [`Kept::find`] gives them.
    pub(super) fn put<'b>(
        &self,
        owner: &str,
        session: &str,
        blobs: impl Iterator<Item = (&'b String, &'b String)>,
    ) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (call, blobs) in blobs {
            kept.add((scope(owner, session), call.clone()), blobs.clone());
        }
    }

    /// The blobs of a session's calls.
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

impl Blobs {
    fn add(&mut self, key: Key, blob: String) {
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

    fn find(kept: &Kept, session: &str, call: &str) -> Option<String> {
        let calls = || HashSet::from([call.to_owned()]);
        kept.find("me", session, calls).remove(call)
    }

    #[test]
    fn the_call_behind_a_reasoning_item_gets_its_blob_back() {
        let kept = Kept::default();
        let items = [
            r#"{"id":"rs_1","type":"reasoning","encrypted_content":"one"}"#,
            r#"{"id":"fc_1","type":"function_call","call_id":"a"}"#,
            r#"{"id":"fc_2","type":"function_call","call_id":"b"}"#,
        ];
        kept.keep("me", "s", items.iter().map(|item| ("", item.as_bytes())));
        assert_eq!(find(&kept, "s", "a").as_deref(), Some("one"));
        assert_eq!(find(&kept, "s", "b"), None);
        assert_eq!(find(&kept, "another", "a"), None);
    }

    #[test]
    fn no_blob_of_an_answer_with_calls_is_lost() {
        let kept = Kept::default();
        let items = [
            r#"{"type":"reasoning","encrypted_content":"one"}"#,
            r#"{"type":"message"}"#,
            r#"{"type":"reasoning","encrypted_content":"two"}"#,
            r#"{"type":"function_call","call_id":"a"}"#,
            r#"{"type":"reasoning","encrypted_content":"three"}"#,
            r#"{"type":"function_call","call_id":"b"}"#,
            r#"{"type":"reasoning","encrypted_content":"four"}"#,
        ];
        kept.keep("me", "s", items.iter().map(|item| ("", item.as_bytes())));
        assert_eq!(find(&kept, "s", "a").as_deref(), Some("one two"));
        assert_eq!(find(&kept, "s", "b").as_deref(), Some("three four"));
    }

    #[test]
    fn the_oldest_blobs_go_first() {
        let kept = Kept::default();
        let blob = "x".repeat(BLOB_LIMIT);
        let reasoning = format!(r#"{{"encrypted_content":"{blob}"}}"#);
        for n in 0..=LIMIT / BLOB_LIMIT {
            let call = format!(r#"{{"call_id":"c{n}"}}"#);
            let items = [("", reasoning.as_bytes()), ("", call.as_bytes())];
            kept.keep("me", "s", items.into_iter());
        }
        assert_eq!(find(&kept, "s", "c0"), None);
        assert!(find(&kept, "s", "c1").is_some());
    }
}
