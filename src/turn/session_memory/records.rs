//! The records of one session: values by key, in the order in which they were made.

use std::sync::Arc;

use adapters::baggage::Baggage;
use adapters::hidden_rounds::HiddenRounds;
use hashlink::LinkedHashMap;
use serde::Deserialize;

/// The bytes that a record takes besides its key and value: its places in map, order and index, and
/// the blocks of memory that these are in.
const RECORD_BASE: usize = 384;

/// The records of one session, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SessionRecords {
    values: LinkedHashMap<RecordKey, RecordValue>,
    bytes: usize,
}

/// What a record is about, and the id of the item or call.
pub(super) type RecordKey = (RecordKind, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RecordKind {
    /// The JSON of an item of an answer, by item id.
    Item,
    /// The reasoning state of a call, by call id.
    Reasoning,
    /// What the client did not see of an answer, by each of its anchors.
    HiddenRounds,
}

#[derive(Debug)]
pub(super) enum RecordValue {
    Text(Arc<str>),
    /// With the bytes that each of its anchors counts.
    Rounds(Arc<HiddenRounds>, usize),
}

impl RecordValue {
    pub(super) fn text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Rounds(..) => None,
        }
    }

    pub(super) fn rounds(&self) -> Option<&Arc<HiddenRounds>> {
        match self {
            Self::Rounds(rounds, _) => Some(rounds),
            Self::Text(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            // The allocator rounds a block up to its next size, by about an eighth.
            Self::Text(text) => text.len() + text.len() / 8,
            Self::Rounds(_, share) => *share,
        }
    }
}

impl SessionRecords {
    /// Adds a record. One that replaces another keeps its place in the order.
    pub(super) fn put(&mut self, key: RecordKey, value: RecordValue) {
        let base = RECORD_BASE + key.1.len();
        self.bytes += base + value.bytes();
        if let Some(replaced) = self.values.replace(key, value) {
            self.bytes -= base + replaced.bytes();
        }
    }

    pub(super) fn get(&self, key: &RecordKey) -> Option<&RecordValue> {
        self.values.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Forgets the oldest record and returns its key.
    pub(super) fn forget_oldest(&mut self) -> Option<RecordKey> {
        let (key, value) = self.values.pop_front()?;
        self.bytes -= RECORD_BASE + key.1.len() + value.bytes();
        Some(key)
    }

    pub(super) fn into_keys(self) -> impl Iterator<Item = RecordKey> {
        self.values.into_iter().map(|(key, _)| key)
    }

    /// The bytes of all keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The reasoning in the items of an answer by call id, as sealed baggage: the items' own, and that
/// of `origin` where an item has none. Each call gets the blobs between the call before it and
/// itself, the last call also those after it; blobs are joined with spaces.
pub(super) fn reasoning_by_call<'i>(
    origin: &str,
    items: impl Iterator<Item = &'i [u8]>,
) -> Vec<(String, String)> {
    /// The fields of an answer's item that matter here.
    #[derive(Deserialize)]
    struct AnswerItem {
        encrypted_content: Option<String>,
        call_id: Option<String>,
        #[serde(default)]
        summary: Vec<SummaryPart>,
    }
    #[derive(Deserialize)]
    struct SummaryPart {
        text: String,
    }
    let mut waiting: Vec<String> = Vec::new();
    let mut calls: Vec<(String, Vec<String>)> = Vec::new();
    for json in items {
        let Ok(item) = serde_json::from_slice::<AnswerItem>(json) else {
            continue;
        };
        let text: String = item.summary.into_iter().map(|part| part.text).collect();
        let sealed = |reasoning: String| {
            let origin = origin.to_owned();
            let baggage = Baggage {
                reasoning,
                origin,
                ..Baggage::default()
            };
            baggage.seal()
        };
        let of_text = || (!text.is_empty()).then(|| sealed(text));
        let blob = item.encrypted_content.or_else(of_text);
        match (blob, item.call_id) {
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
