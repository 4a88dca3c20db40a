//! `sse`: a body in the framing of server-sent events.

use adapters::sse::{SseDecoder, TooLarge};

/// Small, so that short inputs exceed it.
const LIMIT: usize = 256;

/// An event as (name, data).
type Events = Vec<(Option<String>, String)>;

pub(super) fn run(input: &[u8]) {
    let whole = decode([input]);
    for size in [1, 2, 3, 7, 64] {
        assert_eq!(
            decode(input.chunks(size)),
            whole,
            "in reads of {size} bytes"
        );
    }
    for (_, data) in &whole.0 {
        // Each byte that is not UTF-8 becomes a character of three bytes.
        assert!(data.len() <= 3 * LIMIT, "{} bytes", data.len());
    }
}

/// The events of a body, and whether it exceeded the limit.
fn decode<'c>(reads: impl IntoIterator<Item = &'c [u8]>) -> (Events, Result<(), TooLarge>) {
    let mut events = Vec::new();
    let mut decoder = SseDecoder::new(LIMIT);
    for read in reads {
        let mut keep = |event: adapters::sse::SseEvent<'_>| {
            events.push((event.name.map(Into::into), event.data.into_owned()));
        };
        if let Err(error) = decoder.feed(read, &mut keep) {
            return (events, Err(error));
        }
    }
    let end = decoder.finish(&mut |event| {
        events.push((event.name.map(Into::into), event.data.into_owned()));
    });
    (events, end)
}
