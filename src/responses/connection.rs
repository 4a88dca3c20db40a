//! The responses of one WebSocket that are stored nowhere. They can be continued on it as long as
//! it lasts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use adapters::fault::Fault;
use adapters::responses::request::TurnSource;
use adapters::responses::response_object::{ResponseObject, ResponseStatus};
use adapters::shared_text::SharedText;
use parking_lot::Mutex;

use super::{LoadedHistory, memory_fault};
use crate::net::blocking::block_in_place_if_large;
use crate::net::memory::{CountedValue, MemoryKind, MemoryShare, ProcessMemory, SharedMemory};

/// How many responses a connection keeps: the last one of each lane, and some to fork from.
const MAX_RESPONSES: usize = 64;

/// The responses of a connection, the newest last. Lives as long as the connection.
#[derive(Debug)]
pub struct ConnectionResponses {
    /// The most bytes of items that are kept.
    max_bytes: usize,
    memory: ProcessMemory,
    kept: Mutex<KeptResponses>,
}

#[derive(Debug)]
struct KeptResponses {
    responses: VecDeque<(String, Arc<HistorySegment>)>,
    /// The bytes of all segments that exist.
    bytes: Arc<AtomicUsize>,
    share: MemoryShare,
}

/// The items that a response adds to the history that it continues. Responses that continue the
/// same one share that.
#[derive(Debug)]
pub struct HistorySegment {
    before: Option<Arc<HistorySegment>>,
    /// The items as JSON, separated by commas.
    items: String,
    /// The session of the turn.
    session: String,
    /// The bytes of the whole history.
    length: usize,
    /// The bytes of all segments of the connection.
    counted: Arc<AtomicUsize>,
    /// The text of the whole history, while a turn continues it.
    loaded: Mutex<Weak<CountedValue<String>>>,
}

/// A turn on a connection. Made when it is prepared; [`Self::ended`] takes its response.
pub struct ConnectionTurn {
    /// The responses of the connection.
    pub responses: Arc<ConnectionResponses>,
    /// The history that it continues.
    pub before: Option<HistoryBefore>,
    /// The session of the turn.
    pub session: String,
    /// The request, with its own items.
    pub source: TurnSource,
}

/// The history that a turn continues.
#[derive(Clone, Debug)]
pub enum HistoryBefore {
    /// It is kept by the connection.
    Kept(Arc<HistorySegment>),
    /// It was loaded from the store, as a JSON list.
    Loaded(SharedText),
}

impl ConnectionResponses {
    /// Keeps at most `max_bytes` bytes of items, which count in the budget of the process.
    pub fn new(max_bytes: usize, memory: ProcessMemory) -> Self {
        Self {
            max_bytes,
            kept: Mutex::new(KeptResponses {
                responses: VecDeque::new(),
                bytes: Arc::default(),
                share: memory.share(MemoryKind::Memories),
            }),
            memory,
        }
    }

    /// The history up to the end of a response.
    pub fn get(&self, id: &str) -> Option<Arc<HistorySegment>> {
        let kept = self.kept.lock();
        let mut responses = kept.responses.iter();
        let found = responses.find(|(kept, _)| kept == id);
        found.map(|(_, segment)| Arc::clone(segment))
    }

    /// Forgets a response: the turn that continued it has failed.
    pub fn evict(&self, id: &str) {
        let mut kept = self.kept.lock();
        kept.responses.retain(|(kept, _)| kept != id);
        kept.count();
    }

    fn keep(&self, id: String, segment: Arc<HistorySegment>) {
        let mut kept = self.kept.lock();
        kept.responses.push_back((id, segment));
        kept.count();
        while !kept.responses.is_empty()
            && (kept.responses.len() > MAX_RESPONSES
                || kept.bytes.load(Ordering::Relaxed) > self.max_bytes
                || self.memory.used() > self.memory.limit())
        {
            kept.responses.pop_front();
            kept.count();
        }
    }
}

impl KeptResponses {
    fn count(&mut self) {
        self.share.set(self.bytes.load(Ordering::Relaxed));
    }
}

impl HistorySegment {
    fn new(
        before: Option<Arc<Self>>,
        items: String,
        session: String,
        counted: &Arc<AtomicUsize>,
    ) -> Arc<Self> {
        counted.fetch_add(items.len(), Ordering::Relaxed);
        let length = before.as_ref().map_or(0, |before| before.length);
        Arc::new(Self {
            length: length + items.len() + 1,
            before,
            items,
            session,
            counted: Arc::clone(counted),
            loaded: Mutex::default(),
        })
    }

    /// The history as a turn continues it, with memory for a copy of it. Turns that continue it at
    /// the same time share its text.
    pub async fn load(
        &self,
        memory: &ProcessMemory,
    ) -> Result<(LoadedHistory, Option<MemoryShare>), Fault> {
        let known = self.loaded.lock().upgrade();
        let mut share = memory.share(MemoryKind::Requests);
        let length = self.length + 2;
        let needed = if known.is_some() { length } else { 2 * length };
        let granted = share.request(needed).await;
        granted.map_err(|full| memory_fault(&full))?;
        let copy = share.split(length);
        let items = known.unwrap_or_else(|| {
            let text = CountedValue::new(self.text(), SharedMemory::new(share));
            let text = Arc::new(text);
            *self.loaded.lock() = Arc::downgrade(&text);
            text
        });
        let history = LoadedHistory {
            items: SharedText::new(items),
            session: self.session.clone(),
            max_message_chars: None,
        };
        Ok((history, Some(copy)))
    }

    /// The items of the history as a JSON list.
    fn text(&self) -> String {
        let mut parts = vec![self.items.as_str()];
        let mut before = self.before.as_ref();
        while let Some(segment) = before {
            parts.push(&segment.items);
            before = segment.before.as_ref();
        }
        let mut items = String::with_capacity(self.length + 2);
        items.push('[');
        for part in parts.iter().rev().filter(|part| !part.is_empty()) {
            if items.len() > 1 {
                items.push(',');
            }
            items.push_str(part);
        }
        items.push(']');
        items
    }
}

impl Drop for HistorySegment {
    fn drop(&mut self) {
        self.counted.fetch_sub(self.items.len(), Ordering::Relaxed);
        // A long history would be dropped by as many calls within one another.
        let mut before = self.before.take();
        while let Some(mut segment) = before.and_then(Arc::into_inner) {
            before = segment.before.take();
        }
    }
}

impl ConnectionTurn {
    /// The turn has ended with this response, which is stored nowhere else. One that failed cannot
    /// be continued.
    pub fn ended(self, response: &ResponseObject) {
        let is_kept = matches!(
            response.status,
            Some(ResponseStatus::Completed | ResponseStatus::Incomplete)
        );
        if !is_kept {
            return;
        }
        let counted = Arc::clone(&self.responses.kept.lock().bytes);
        let before = self.before.map(|before| match before {
            HistoryBefore::Kept(segment) => segment,
            HistoryBefore::Loaded(list) => {
                let items = list.trim().strip_prefix('[');
                let items = items.and_then(|items| items.strip_suffix(']'));
                let items = items.unwrap_or_default().to_owned();
                HistorySegment::new(None, items, self.session.clone(), &counted)
            }
        });
        // A request that ran could be read.
        let bytes = self.source.size();
        let own = block_in_place_if_large(bytes, || self.source.own_items(&response.id))
            .unwrap_or_default()
            .into_iter()
            .map(|item| item.json);
        let output = response
            .output
            .iter()
            .map(|(_, json)| String::from_utf8_lossy(json).into_owned());
        let items: Vec<String> = own.chain(output).collect();
        let segment = HistorySegment::new(before, items.join(","), self.session, &counted);
        self.responses.keep(response.id.clone(), segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn responses(max_bytes: usize, budget: usize) -> ConnectionResponses {
        ConnectionResponses::new(max_bytes, ProcessMemory::new(budget))
    }

    fn keep(kept: &ConnectionResponses, id: &str, after: Option<&str>, items: String) {
        let bytes = Arc::clone(&kept.kept.lock().bytes);
        let before = after.and_then(|id| kept.get(id));
        let segment = HistorySegment::new(before, items, "s".to_owned(), &bytes);
        kept.keep(id.to_owned(), segment);
    }

    fn items(kept: &ConnectionResponses, id: &str) -> Option<String> {
        Some(kept.get(id)?.text())
    }

    #[test]
    fn a_response_goes_on_from_the_one_before_and_forks_share_it() {
        let kept = responses(MIB, usize::MAX);
        keep(&kept, "a", None, "1,2".to_owned());
        keep(&kept, "b", Some("a"), String::new());
        keep(&kept, "c", Some("b"), "3".to_owned());
        keep(&kept, "fork", Some("a"), "4".to_owned());
        assert_eq!(items(&kept, "b").as_deref(), Some("[1,2]"));
        assert_eq!(items(&kept, "c").as_deref(), Some("[1,2,3]"));
        assert_eq!(items(&kept, "fork").as_deref(), Some("[1,2,4]"));
        assert_eq!(kept.kept.lock().bytes.load(Ordering::Relaxed), 5);
        kept.evict("a");
        assert_eq!(items(&kept, "a"), None);
        assert_eq!(items(&kept, "c").as_deref(), Some("[1,2,3]"));
    }

    #[test]
    fn kept_responses_are_limited_by_number_bytes_and_the_budget() {
        let kept = responses(MIB, usize::MAX);
        for number in 0..=MAX_RESPONSES {
            keep(&kept, &number.to_string(), None, "1".to_owned());
        }
        assert!(kept.get("0").is_none() && kept.get("1").is_some());
        keep(&kept, "large", None, "1".repeat(MIB));
        assert!(kept.get("1").is_none() && kept.get("large").is_some());
        keep(&kept, "larger", None, "1".repeat(MIB + 1));
        assert!(kept.get("large").is_none() && kept.get("larger").is_none());
        assert_eq!(kept.memory.used(), 0);
        let short = responses(MIB, MIB / 2);
        keep(&short, "large", None, "1".repeat(MIB));
        assert!(short.get("large").is_none());
        keep(&short, "small", None, "1".repeat(MIB / 4));
        assert!(short.get("small").is_some());
        assert_eq!(short.memory.used_for(MemoryKind::Memories), MIB / 4);
        drop(short.kept.lock().responses.pop_front());
        short.evict("none");
        assert_eq!(short.memory.used(), 0);
    }

    #[test]
    fn a_history_of_many_turns_is_dropped_without_recursion() {
        let kept = responses(usize::MAX, usize::MAX);
        keep(&kept, "0", None, "0".to_owned());
        for turn in 1..200_000 {
            let before = (turn - 1).to_string();
            keep(&kept, &turn.to_string(), Some(&before), turn.to_string());
        }
        drop(kept);
    }
}
