//! Counts the events of a stream, independently of how its bytes are split into pieces.

use clap::ValueEnum;
use memchr::{memchr, memmem::find};

use crate::marker;

/// The API that the loader uses with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientApi {
    /// Chat Completions: upstream and pass-through.
    Chat,
    /// Responses: the proxy.
    Responses,
}

/// The reader of one stream, which joins pieces to whole lines before it searches them.
#[derive(Debug)]
pub(crate) struct Scanner {
    wire: ClientApi,
    partial: Vec<u8>,
    /// The counts so far.
    pub(crate) counts: StreamCounts,
}

/// The counts of one stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamCounts {
    /// Markers in text deltas. Markers are counted instead of deltas, because a proxy may join
    /// several upstream events into one delta.
    pub(crate) events: u64,
    /// Markers that were not the next one of their stream, because events were lost, repeated or
    /// swapped.
    pub(crate) misplaced: u64,
    /// `finish_reason` (Chat) or `response.completed` (Responses). There must be exactly one.
    pub(crate) completed: u64,
    /// Other terminal events.
    pub(crate) failed: u64,
    /// `[DONE]`, or the end of a stream that has none. There must be exactly one.
    pub(crate) done: u64,
    /// The times of the events from the upstream to the loader, ns.
    pub(crate) latency_ns: Vec<u64>,
    /// The same of the last event of each delta.
    pub(crate) newest_latency_ns: Vec<u64>,
}

impl StreamCounts {
    /// Whether the stream had every event once and in order, and completed.
    pub(crate) fn is_exact(&self, expected: u64) -> bool {
        self.events == expected
            && self.misplaced == 0
            && self.failed == 0
            && (self.completed, self.done) == (1, 1)
    }
}

impl Scanner {
    pub(crate) fn new(wire: ClientApi) -> Self {
        Self {
            wire,
            partial: Vec::new(),
            counts: StreamCounts::default(),
        }
    }

    /// Reads `piece`, which arrived at `now_ns`.
    pub(crate) fn feed(&mut self, mut piece: &[u8], now_ns: u64) {
        while let Some((line, rest)) = split_line(piece) {
            piece = rest;
            if self.partial.is_empty() {
                self.line(line, now_ns);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole, now_ns);
                whole.clear();
                self.partial = whole;
            }
        }
        self.partial.extend_from_slice(piece);
    }

    /// Reads a message of a WebSocket, which is an event. None of them is `[DONE]`: the terminal
    /// event is the last one.
    pub(crate) fn message(&mut self, event: &[u8], now_ns: u64) {
        self.data(event, now_ns);
        self.counts.done = self.counts.completed + self.counts.failed;
    }

    fn line(&mut self, line: &[u8], now_ns: u64) {
        let Some(data) = line.strip_prefix(b"data:") else {
            return;
        };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.counts.done += 1;
            return;
        }
        self.data(data, now_ns);
    }

    fn data(&mut self, data: &[u8], now_ns: u64) {
        match self.wire {
            ClientApi::Chat => {
                self.counts.completed += u64::from(has(data, br#""finish_reason":"stop""#));
                self.counts.failed += u64::from(has(data, br#""error":"#));
                self.text(data, now_ns);
            }
            // The events that end a part, an item and the response repeat the text, so only the
            // deltas count.
            ClientApi::Responses if has(data, br#""type":"response.output_text.delta""#) => {
                self.text(data, now_ns);
            }
            ClientApi::Responses => {
                self.counts.completed += u64::from(has(data, br#""type":"response.completed""#));
                self.counts.failed += u64::from(
                    has(data, br#""type":"response.failed""#)
                        || has(data, br#""type":"response.incomplete""#)
                        || has(data, br#""type":"error""#),
                );
            }
        }
    }

    fn text(&mut self, data: &[u8], now_ns: u64) {
        let seen = &mut self.counts;
        let mut newest = None;
        marker::for_each(data, |marker| {
            seen.misplaced += u64::from(marker.index != seen.events);
            seen.events += 1;
            let latency = now_ns.saturating_sub(marker.sent_ns);
            seen.latency_ns.push(latency);
            newest = Some(latency);
        });
        seen.newest_latency_ns.extend(newest);
    }
}

fn split_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, rest) = text.split_at_checked(memchr(b'\n', text)?)?;
    Some((line, rest.strip_prefix(b"\n")?))
}

fn has(text: &[u8], needle: &[u8]) -> bool {
    find(text, needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dechunk::Dechunker;

    const CHAT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"@00000000.0000000000000000040;\"},\"finish_reason\":null}]}\n\n\
        : a comment\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"@00000001.0000000000000000060;\"},\"finish_reason\":null}]}\r\n\r\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

    const RESPONSES: &str = "event: response.output_text.delta\n\
        data: {\"type\":\"response.output_text.delta\",\"delta\":\"@00000000.0000000000000000040;@00000001.0000000000000000060;\",\"sequence_number\":4}\n\n\
        event: response.output_text.done\n\
        data: {\"type\":\"response.output_text.done\",\"text\":\"@00000000.0000000000000000040;@00000001.0000000000000000060;\"}\n\n\
        event: response.completed\n\
        data: {\"type\":\"response.completed\",\"response\":{\"output\":\"@00000000.0000000000000000040;@00000001.0000000000000000060;\"}}\n\n\
        data: [DONE]\n\n";

    /// `text` in chunks of `size` bytes.
    fn chunked(text: &str, size: usize) -> Vec<u8> {
        let chunks = text.as_bytes().chunks(size);
        let mut body: Vec<u8> = chunks
            .flat_map(|chunk| {
                [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
            })
            .collect();
        body.extend_from_slice(b"0\r\n\r\n");
        body
    }

    fn scan(wire: ClientApi, pieces: [&[u8]; 2]) -> StreamCounts {
        let mut scanner = Scanner::new(wire);
        let mut dechunker = Dechunker::new();
        for piece in pieces {
            dechunker
                .feed(piece, &mut |data| scanner.feed(data, 100))
                .unwrap();
        }
        assert!(dechunker.is_done());
        scanner.counts
    }

    #[test]
    fn every_event_is_counted_once_however_the_bytes_are_split() {
        for (wire, text, newest) in [
            (ClientApi::Chat, CHAT, vec![60, 40]),
            (ClientApi::Responses, RESPONSES, vec![40]),
        ] {
            let exact = StreamCounts {
                events: 2,
                completed: 1,
                done: 1,
                latency_ns: vec![60, 40],
                newest_latency_ns: newest,
                ..StreamCounts::default()
            };
            assert!(exact.is_exact(2));
            for size in [1, 7, 64, text.len()] {
                let body = chunked(text, size);
                for at in 0..=body.len() {
                    let seen = scan(wire, [&body[..at], &body[at..]]);
                    assert_eq!(seen, exact, "{wire:?}, chunks of {size}, split at {at}");
                }
            }
        }
    }

    #[test]
    fn the_messages_of_a_websocket_are_counted_like_events() {
        let mut scanner = Scanner::new(ClientApi::Responses);
        let events = RESPONSES
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        for event in events.filter(|event| *event != "[DONE]") {
            assert_eq!(scanner.counts.done, 0, "{event}");
            scanner.message(event.as_bytes(), 100);
        }
        assert!(scanner.counts.is_exact(2), "{:?}", scanner.counts);
    }

    #[test]
    fn lost_repeated_and_swapped_events_are_detected() {
        let event =
            |place: u64| format!("data: {{\"content\":\"@{place:08}.0000000000000000040;\"}}\n\n");
        for (places, expected) in [(vec![0, 2], 3), (vec![0, 0, 1], 2), (vec![1, 0], 2)] {
            let text: String = places.iter().map(|place| event(*place)).collect();
            let mut scanner = Scanner::new(ClientApi::Chat);
            scanner.feed(text.as_bytes(), 100);
            assert!(scanner.counts.misplaced > 0, "{places:?}");
            assert!(!scanner.counts.is_exact(expected), "{places:?}");
        }
    }

    #[test]
    fn a_failed_stream_is_not_exact() {
        let text = RESPONSES.replace("response.completed", "response.failed");
        let mut scanner = Scanner::new(ClientApi::Responses);
        scanner.feed(text.as_bytes(), 100);
        assert_eq!((scanner.counts.completed, scanner.counts.failed), (0, 1));
        assert!(!scanner.counts.is_exact(2));
    }
}
