//! Tests of the decoder by tables, by every split, by random splits, and against
//! another implementation.

use std::convert::Infallible;

use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};
use proptest::prelude::*;

use super::*;

type Events = Vec<(Option<String>, String)>;

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Events, u64) {
    let mut decoder = SseDecoder::default();
    let mut seen = Events::new();
    let mut on = |event: SseEvent<'_>| {
        seen.push((event.name.map(Cow::into_owned), event.data.into_owned()));
    };
    for chunk in chunks {
        decoder.feed(chunk, &mut on).unwrap();
    }
    let comments = decoder.comments();
    decoder.finish(&mut on).unwrap();
    (seen, comments)
}

fn data(bytes: &[u8]) -> Vec<String> {
    decode([bytes])
        .0
        .into_iter()
        .map(|(_, data)| data)
        .collect()
}

#[test]
fn dialects() {
    let table: &[(&str, &[u8], &[&str])] = &[
        ("LF", b"data: a\n\ndata: b\n\n", &["a", "b"]),
        ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("CR", b"data: a\r\rdata: b\r\r", &["a", "b"]),
        (
            "mixed",
            b"data: a\r\n\ndata: b\n\rdata: c\r\r\n",
            &["a", "b", "c"],
        ),
        ("byte order mark", b"\xEF\xBB\xBFdata: a\n\n", &["a"]),
        ("mark in the middle", b"\n\xEF\xBB\xBFdata: a\n\n", &[]),
        ("half a mark", b"\xEF\xBBdata: a\n\ndata: b\n\n", &["b"]),
        ("no space", b"data:a\n\n", &["a"]),
        ("two spaces", b"data:  a\n\n", &[" a"]),
        ("many lines", b"data: a\ndata:\ndata: b\n\n", &["a\n\nb"]),
        ("empty data", b"data:\n\n", &[""]),
        ("bare field", b"data\n\n", &[""]),
        ("comment", b": ping\n\n:\ndata: a\n: x\n\n", &["a"]),
        (
            "unknown fields",
            b"id: 1\nretry: 5\nfoo: x\ndata: a\nDATA: b\ndata : c\n\n",
            &["a"],
        ),
        ("colon in data", b"data: a: b\n\n", &["a: b"]),
        ("no data", b"event: x\n\n", &[]),
        ("no blank line", b"data: a\n", &["a"]),
        ("no line end", b"data: a\n\ndata: [DONE]", &["a", "[DONE]"]),
        (
            "invalid UTF-8",
            b"data: a\xFFb\n\ndata: \xE2\x82\n\n",
            &["a\u{FFFD}b", "\u{FFFD}"],
        ),
        ("NUL", b"data: a\0b\n\n", &["a\0b"]),
        ("nothing", b"", &[]),
    ];
    for (case, bytes, expected) in table {
        assert_eq!(&data(bytes), expected, "{case}");
    }
}

#[test]
fn names_belong_to_their_event() {
    let (seen, comments) = decode([
        &b"event: a\ndata: 1\n\ndata: 2\n\nevent: lost\n\ndata: 3\nevent: x\nevent: b\n\n:\nevent:\ndata: 4\n\n"[..],
    ]);
    let seen: Vec<_> = seen
        .iter()
        .map(|(n, d)| (n.as_deref(), d.as_str()))
        .collect();
    assert_eq!(
        seen,
        [(Some("a"), "1"), (None, "2"), (Some("b"), "3"), (None, "4")]
    );
    assert_eq!(comments, 1);
}

#[test]
fn an_event_inside_a_chunk_is_not_copied() {
    let chunk = b"event: a\ndata: one\n\ndata: two\ndata: three\n\ndata: four\n\n";
    let mut decoder = SseDecoder::default();
    let mut inside = Vec::new();
    decoder
        .feed(chunk, &mut |event: SseEvent<'_>| {
            let borrowed = matches!(event.data, Cow::Borrowed(_));
            inside.push(borrowed && chunk.as_ptr_range().contains(&event.data.as_ptr()));
        })
        .unwrap();
    assert_eq!(inside, [true, false, true]);
}

/// Every line end, a byte order mark, comments, long and short characters, and an
/// unterminated end.
const SAMPLE: &str = "\u{FEFF}: ping\n\nevent: message\ndata: {\"a\":\"ü€😀\"}\n\n\
data:{\"b\":1}\r\n\r\ndata: x\rdata: y\r\revent: none\n\n: c\r\nid: 7\r\ndata: first\r\ndata:\r\ndata:  third\r\n\r\n\
data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n\rdata\n\nretry: 10\nfoo\nevent: a\nevent: b\ndata: z\n\r\n\
data: [DONE]";

/// Feeds the pieces and compares without collecting, because it runs 10^5 times.
fn decodes_to(expected: &Events, pieces: [&[u8]; 3]) -> bool {
    let mut decoder = SseDecoder::default();
    let mut equal = true;
    let mut at = 0;
    let mut on = |event: SseEvent<'_>| {
        let got = (event.name.as_deref(), &*event.data);
        equal &= expected
            .get(at)
            .is_some_and(|(name, data)| got == (name.as_deref(), data));
        at += 1;
    };
    for piece in pieces {
        decoder.feed(piece, &mut on).unwrap();
    }
    decoder.finish(&mut on).unwrap();
    equal && at == expected.len()
}

/// Promise: The client receives the same events however the upstream's bytes are split into reads.
#[test]
fn every_cut_and_every_pair_of_cuts_gives_the_same_events() {
    let bytes = SAMPLE.as_bytes();
    let (expected, _) = decode([bytes]);
    assert_eq!(expected.len(), 8);
    for a in 0..=bytes.len() {
        for b in a..=bytes.len() {
            assert!(
                decodes_to(&expected, [&bytes[..a], &bytes[a..b], &bytes[b..]]),
                "{a} {b}"
            );
        }
    }
}

#[test]
fn byte_by_byte_gives_the_same_events() {
    assert_eq!(
        decode(SAMPLE.as_bytes().chunks(1)),
        decode([SAMPLE.as_bytes()])
    );
}

#[test]
fn an_endless_line_is_refused_within_bounds() {
    let mut decoder = SseDecoder::default();
    let chunk = vec![b'x'; 64 * 1024];
    let mut events = 0;
    let mut on = |_: SseEvent<'_>| events += 1;
    decoder.feed(b"data: ok\n\ndata: ", &mut on).unwrap();
    let mut fed = 0;
    let refused = loop {
        match decoder.feed(&chunk, &mut on) {
            Ok(()) => fed += chunk.len(),
            Err(refused) => break refused,
        }
        assert!(fed <= SseDecoder::DEFAULT_LIMIT, "never refused");
        assert!(decoder.line.capacity() <= 2 * SseDecoder::DEFAULT_LIMIT);
    };
    assert_eq!(refused.limit, SseDecoder::DEFAULT_LIMIT);
    assert!(fed > SseDecoder::DEFAULT_LIMIT - 2 * chunk.len());
    assert_eq!(decoder.line.capacity() + decoder.data.capacity(), 0);
    assert_eq!(decoder.feed(b"\n\n", &mut on), Err(refused));
    assert_eq!(decoder.finish(&mut on), Err(refused));
    assert_eq!(events, 1);
}

#[test]
fn a_long_line_is_reserved_once_and_counts_as_it_arrives() {
    let mut decoder = SseDecoder::default();
    let piece = vec![b'x'; 64 * 1024];
    for pieces in 1..=40 {
        decoder.feed(&piece, &mut |_| {}).unwrap();
        let length = pieces * piece.len();
        assert!(decoder.held_bytes() >= length);
        assert!(decoder.held_bytes() <= length.max(LONG_LINE));
    }
    assert_eq!(decoder.line.capacity(), SseDecoder::DEFAULT_LIMIT);
}

#[test]
fn the_limit_does_not_depend_on_the_splits() {
    let table: &[(&[u8], usize, bool)] = &[
        (b"data: 1234\n\ndata: 5\n\n", 1, true),
        (b"data: 12345\n\ndata: 5\n\n", 0, false),
        (b"data: 12\ndata: 3456789\n\n", 0, false),
        (b"data: 12\ndata: 34\ndata: 56\ndata: 78\n\n", 0, false),
        (b"data: 12\ndata: 34\ndata: 56\ndata\n\n", 1, true),
        (b"data: 1\n\n: a comment too long\n\n", 1, false),
        (b"event:1234\ndata:12345\ndata:\n\n", 1, true),
        (b"event:1234\ndata:12345\ndata:6\n\n", 0, false),
        (b"data:12345\nevent:1234\nevent:123456\n\n", 0, false),
        (b":.........\n:.........\n:.........\ndata: 1\n\n", 1, true),
        (b"data: 1\n\ndata: 12345", 1, false),
    ];
    for (bytes, events, fits) in table {
        for size in 1..=bytes.len() {
            let mut decoder = SseDecoder::new(10);
            let mut seen = 0;
            let mut on = |event: SseEvent<'_>| {
                seen += usize::from(event.data != "5");
            };
            let fed = bytes
                .chunks(size)
                .try_for_each(|chunk| decoder.feed(chunk, &mut on));
            let ended = decoder.finish(&mut on);
            assert_eq!(
                fed.and(ended).is_ok(),
                *fits,
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
            assert_eq!(seen, *events);
        }
    }
}

/// The same stream decoded by `sse-stream`. Its blocks without data are not events
/// here.
fn decode_with_sse_stream(chunks: &[&[u8]]) -> Events {
    let chunks = stream::iter(chunks.iter().map(|chunk| Ok::<_, Infallible>(*chunk)));
    sse_stream::SseByteStream::new(chunks)
        .map(Result::unwrap)
        .filter_map(|event| {
            std::future::ready(
                event
                    .data
                    .map(|data| (event.event.filter(|e| !e.is_empty()), data)),
            )
        })
        .collect::<Vec<_>>()
        .now_or_never()
        .expect("never pending")
}

/// The same stream decoded by `eventsource-stream`, where an event without a name is a
/// `message`.
fn decode_with_eventsource_stream(chunks: &[&[u8]]) -> Events {
    let chunks = stream::iter(chunks.iter().map(|chunk| Ok::<_, Infallible>(*chunk)));
    chunks
        .eventsource()
        .map(Result::unwrap)
        .map(|event| {
            (
                (event.event != "message").then_some(event.event),
                event.data,
            )
        })
        .collect::<Vec<_>>()
        .now_or_never()
        .expect("never pending")
}

fn split(bytes: &[u8], at: &[usize]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = at.iter().map(|at| at % (bytes.len() + 1)).collect();
    at.sort_unstable();
    at.push(bytes.len());
    let mut start = 0;
    at.into_iter()
        .map(|end| bytes[std::mem::replace(&mut start, end)..end].to_vec())
        .collect()
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "",
        "",
        "data: a",
        "data:b",
        "data",
        "data: ",
        "data:  x: y",
        "event: e",
        "event",
        "id: 1",
        ": c",
        ":",
        "other: 1",
        "data: ü😀",
        "\u{FEFF}data: z",
    ]);
    let end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    (known, end).prop_map(|(line, end)| [line, end].concat().into_bytes())
}

proptest! {
    #[test]
    fn any_bytes_in_any_chunks_give_the_same_events(
        bytes in prop::collection::vec(prop_oneof![
            prop::sample::select(b"\n\r: d\xEF\xBB\xBF".to_vec()).prop_map(|b| vec![b]),
            line(),
            any::<u8>().prop_map(|b| vec![b]),
        ], 0..60).prop_map(|parts| parts.concat()),
        at in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let pieces = split(&bytes, &at);
        prop_assert_eq!(decode(pieces.iter().map(Vec::as_slice)), decode([bytes.as_slice()]));
    }

    #[test]
    fn agrees_with_sse_stream(
        lines in prop::collection::vec(line(), 0..40),
        at in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        // `sse-stream` drops an end that no blank line terminates.
        let bytes = [lines.concat(), b"\n\n".to_vec()].concat();
        let pieces = split(&bytes, &at);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(decode(pieces.iter().copied()).0, decode_with_sse_stream(&pieces));
    }

    #[test]
    fn agrees_with_eventsource_stream(
        lines in prop::collection::vec(line(), 0..40),
        at in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        // `eventsource-stream` panics on a byte order mark at the beginning.
        let bytes = [b"\n".to_vec(), lines.concat(), b"\n\n".to_vec()].concat();
        let pieces = split(&bytes, &at);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let others = decode_with_eventsource_stream(&pieces);
        prop_assert_eq!(decode(pieces.iter().copied()).0, others);
    }
}
