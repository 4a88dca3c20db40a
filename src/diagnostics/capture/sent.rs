//! What a turn sent, as hashes: the requests to providers and the events for the client. A replay
//! makes their bytes again, and the hashes tell whether they are the same. The hashes stay in
//! memory: a hash of a text that is not redacted would tell who guesses a secret that it is right.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use xxhash_rust::xxh3::xxh3_64;

use crate::diagnostics::bundle::BodyChunk;

/// What ends a server-sent event.
const EVENT_END: &[u8] = b"\n\n";

/// Finds the ends of events. Made once, because that takes longer than to search a small event.
static EVENT_ENDS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(EVENT_END));

/// What a turn sent.
#[derive(Clone, Default)]
pub(super) struct Sent {
    /// The request of each attempt.
    pub(super) requests: Vec<SentRequest>,
    pub(super) answer: SentAnswer,
}

/// A body that was sent whole: the request of an attempt.
#[derive(Clone, Default)]
pub(super) struct SentRequest {
    hash: u64,
    length: usize,
    /// Empty if the recorder keeps hashes.
    pub(super) bytes: Bytes,
}

impl SentRequest {
    pub(super) fn new(body: &Bytes, keeps_bytes: bool) -> Self {
        let kept = keeps_bytes.then(|| body.clone());
        Self {
            hash: xxh3_64(body),
            length: body.len(),
            bytes: kept.unwrap_or_default(),
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.length as u64
    }

    pub(super) fn is_same(&self, body: &[u8]) -> bool {
        self.length == body.len() && self.hash == xxh3_64(body)
    }
}

/// The response to the client: server-sent events, or a JSON document, which counts as one event.
#[derive(Clone, Default)]
pub(super) struct SentAnswer {
    /// The hash of each event, in the order in which they were sent.
    hashes: Vec<u64>,
    chunks: Vec<BodyChunk>,
    total_bytes: u64,
    /// Empty if the recorder keeps hashes.
    pub(super) bytes: Vec<u8>,
    /// Whether only the bytes are counted.
    is_cut: bool,
}

impl SentAnswer {
    /// Adds a chunk of whole events; returns by how much memory the answer grew.
    pub(super) fn push(&mut self, chunk: &[u8], at_us: u64, keeps_bytes: bool) -> usize {
        self.total_bytes += chunk.len() as u64;
        if self.is_cut {
            return 0;
        }
        let size = self.hashes_size();
        self.hashes.extend(events(chunk).map(xxh3_64));
        self.chunks.push(BodyChunk {
            at_us,
            length: chunk.len(),
        });
        if keeps_bytes {
            self.bytes.extend_from_slice(chunk);
        }
        self.hashes_size() - size
    }

    /// Forgets the chunks and only counts the bytes of later ones: the turn cannot be replayed,
    /// because the response of a provider is not whole.
    pub(super) fn cut(&mut self) {
        let total_bytes = self.total_bytes;
        *self = Self {
            total_bytes,
            is_cut: true,
            ..Self::default()
        };
    }

    fn hashes_size(&self) -> usize {
        self.hashes.len() * size_of::<u64>() + self.chunks.len() * size_of::<BodyChunk>()
    }

    pub(super) fn chunks(&self) -> &[BodyChunk] {
        &self.chunks
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The indices of the events that are others in `body`, or in one of the two only. None if
    /// the hashes are not complete.
    pub(super) fn differing_events(&self, body: &[u8]) -> Vec<usize> {
        if self.is_cut {
            return Vec::new();
        }
        let made: Vec<u64> = events(body).map(xxh3_64).collect();
        let count = self.hashes.len().max(made.len());
        (0..count)
            .filter(|index| self.hashes.get(*index) != made.get(*index))
            .collect()
    }
}

/// Each event of a body with the blank line behind it.
fn events(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let length = EVENT_ENDS
            .find(rest)
            .map_or(rest.len(), |at| at + EVENT_END.len());
        let (event, behind) = rest.split_at_checked(length)?;
        rest = behind;
        (!event.is_empty()).then_some(event)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [&str; 3] = [
        "event: a\ndata: 1\n\n",
        "event: b\ndata: 2\n\n",
        "data: [DONE]\n\n",
    ];

    fn sent() -> SentAnswer {
        let mut sent = SentAnswer::default();
        sent.push(EVENTS[0].as_bytes(), 1, false);
        sent.push(EVENTS[1..].concat().as_bytes(), 2, false);
        sent
    }

    #[test]
    fn events_are_compared_by_their_place() {
        for (body, differing) in [
            (EVENTS.concat(), vec![]),
            (EVENTS.concat().replace('2', "3"), vec![1]),
            (EVENTS[..2].concat(), vec![2]),
            (EVENTS.concat() + "more", vec![3]),
            ([EVENTS[1], EVENTS[0], EVENTS[2]].concat(), vec![0, 1]),
            (String::new(), vec![0, 1, 2]),
        ] {
            assert_eq!(
                sent().differing_events(body.as_bytes()),
                differing,
                "{body}"
            );
        }
        let mut document = SentAnswer::default();
        document.push(b"{\"a\":1}", 0, false);
        assert!(document.differing_events(b"{\"a\":1}").is_empty());
        assert_eq!(document.differing_events(b"{\"a\":2}"), [0]);
    }

    #[test]
    fn no_bytes_are_kept() {
        assert_eq!(sent().bytes, b"");
        assert_eq!(sent().chunks().len(), 2);
        assert_eq!(sent().total_bytes(), EVENTS.concat().len() as u64);
    }
}
