//! The records of one session: values by key, in the order in which they were made.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use adapters::hidden_rounds::HiddenRounds;
use serde::Deserialize;

/// The bytes that a record takes besides its key and value: its places in map, order and index.
const RECORD_BASE: usize = 256;

/// The records of one session.
#[derive(Debug, Default)]
pub(super) struct SessionRecords {
    /// The JSON of the items of answers, by item id.
    items: HashMap<Arc<str>, Arc<str>>,
    /// The reasoning state of calls, by call id.
    reasoning: HashMap<Arc<str>, Arc<str>>,
    /// What the client did not see of the answers that made its calls, by call id.
    hidden_rounds: HashMap<Arc<str>, Arc<HiddenRounds>>,
    /// All keys; the oldest is first.
    order: VecDeque<RecordKey>,
    bytes: usize,
}

/// What a record is about.
#[derive(Clone, Debug)]
pub(super) enum RecordKey {
    Item(Arc<str>),
    Reasoning(Arc<str>),
    HiddenRounds(Arc<str>),
}

impl SessionRecords {
    pub(super) fn put_item(&mut self, id: &Arc<str>, json: Arc<str>) {
        let size = size(id, json.len());
        let old = self.items.insert(Arc::clone(id), json);
        let old = old.map(|old| old.len());
        self.count(RecordKey::Item(Arc::clone(id)), id, size, old);
    }

    pub(super) fn put_reasoning(&mut self, call: &Arc<str>, blobs: Arc<str>) {
        let size = size(call, blobs.len());
        let old = self.reasoning.insert(Arc::clone(call), blobs);
        let old = old.map(|old| old.len());
        self.count(RecordKey::Reasoning(Arc::clone(call)), call, size, old);
    }

    pub(super) fn put_hidden_rounds(&mut self, call: &Arc<str>, rounds: Arc<HiddenRounds>) {
        let size = size(call, rounds.bytes());
        let old = self.hidden_rounds.insert(Arc::clone(call), rounds);
        let old = old.map(|old| old.bytes());
        self.count(RecordKey::HiddenRounds(Arc::clone(call)), call, size, old);
    }

    fn count(&mut self, record: RecordKey, key: &str, size: usize, replaced: Option<usize>) {
        self.bytes += size;
        match replaced {
            Some(value) => self.bytes -= self::size(key, value),
            None => self.order.push_back(record),
        }
    }

    /// Forgets the oldest record and returns its key.
    pub(super) fn forget_oldest(&mut self) -> Option<RecordKey> {
        let key = self.order.pop_front()?;
        let freed = match &key {
            RecordKey::Item(id) => self.items.remove(id).map(|json| size(id, json.len())),
            RecordKey::Reasoning(call) => {
                let blobs = self.reasoning.remove(call);
                blobs.map(|blobs| size(call, blobs.len()))
            }
            RecordKey::HiddenRounds(call) => {
                let rounds = self.hidden_rounds.remove(call);
                rounds.map(|rounds| size(call, rounds.bytes()))
            }
        };
        self.bytes -= freed.unwrap_or_default();
        Some(key)
    }

    pub(super) fn into_keys(self) -> impl Iterator<Item = RecordKey> {
        self.order.into_iter()
    }

    pub(super) fn item(&self, id: &str) -> Option<&Arc<str>> {
        self.items.get(id)
    }

    pub(super) fn reasoning(&self) -> &HashMap<Arc<str>, Arc<str>> {
        &self.reasoning
    }

    pub(super) fn hidden_rounds(&self) -> &HashMap<Arc<str>, Arc<HiddenRounds>> {
        &self.hidden_rounds
    }

    /// The bytes of all keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn size(key: &str, value: usize) -> usize {
    RECORD_BASE + key.len() + value
}

/// The reasoning state in the items of an answer by call id. Each call gets the blobs between the
/// call before it and itself, the last call also those after it; blobs are joined with spaces.
pub(super) fn reasoning_by_call<'i>(
    items: impl Iterator<Item = &'i [u8]>,
) -> Vec<(String, String)> {
    /// The fields of an answer's item that matter here.
    #[derive(Deserialize)]
    struct AnswerItem {
        encrypted_content: Option<String>,
        call_id: Option<String>,
    }
    let mut waiting: Vec<String> = Vec::new();
    let mut calls: Vec<(String, Vec<String>)> = Vec::new();
    for json in items {
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
    let calls = calls.into_iter();
    let calls = calls.map(|(call, blobs)| (call, blobs.join(" ")));
    calls.filter(|(_, blobs)| !blobs.is_empty()).collect()
}
