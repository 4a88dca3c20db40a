//! Compares two bodies: JSON documents or streams of server-sent events.

use adapters::sse::SseDecoder;
use serde_json::Value;

use super::align::{AlignStep, align};
use super::excerpt;
use super::json::Eye;
use super::{Difference, Scope};

/// Compares two JSON bodies. If the values are equal but the bytes differ, that is a
/// difference as well, because providers cache prefixes of bytes.
pub(super) fn json(eye: &Eye, location: &str, left: &[u8], right: &[u8]) -> Vec<Difference> {
    if left == right {
        return Vec::new();
    }
    let Some((left_value, right_value)) = parse(left).zip(parse(right)) else {
        return vec![unread(location, left, right)];
    };
    let (found, lenient) = eye.differences(&format!("{location}: "), &left_value, &right_value);
    if found.is_empty() && !lenient {
        return vec![respelled(&format!("{location}: same content"), left, right)];
    }
    found
}

/// Compares two JSON documents by value; their formatting does not count.
pub(super) fn document(eye: &Eye, location: &str, left: &[u8], right: &[u8]) -> Vec<Difference> {
    match parse(left).zip(parse(right)) {
        Some((left, right)) => eye.differences(&format!("{location}: "), &left, &right).0,
        None if left == right => Vec::new(),
        None => vec![unread(location, left, right)],
    }
}

/// Compares two bodies, each a stream of events or a JSON document. `location` names the
/// body; `events` is the prefix for the names of events.
pub(super) fn answer(
    eye: &Eye,
    location: &str,
    events: &str,
    left: &[u8],
    right: &[u8],
) -> Vec<Difference> {
    if left == right {
        return Vec::new();
    }
    match (is_stream(left), is_stream(right)) {
        (true, true) => {}
        (false, false) => return json(eye, location, left, right),
        (true, false) | (false, true) => return vec![unread(location, left, right)],
    }
    let (Some(left_events), Some(right_events)) = (read(eye, left), read(eye, right)) else {
        return vec![unread(location, left, right)];
    };
    let (found, lenient) = streams(eye, events, &left_events, &right_events);
    if found.is_empty() && !lenient {
        return vec![respelled(&format!("{location}: same events"), left, right)];
    }
    found
}

struct StreamEvent {
    /// Its index in the stream, from 0 as in `sequence_number`.
    number: usize,
    name: String,
    data: String,
    value: Option<Value>,
}

impl StreamEvent {
    fn title(&self, before: &str) -> String {
        let Self { number, name, .. } = self;
        let text = format!("{before}event {number} {name}");
        text.trim_end().to_owned()
    }

    /// The event's own `sequence_number`.
    fn sequence(&self) -> Option<i64> {
        self.value.as_ref()?.get("sequence_number")?.as_i64()
    }
}

fn streams(
    eye: &Eye,
    before: &str,
    left: &[StreamEvent],
    right: &[StreamEvent],
) -> (Vec<Difference>, bool) {
    let mut found = Vec::new();
    let mut lenient = false;
    let same = |l: usize, r: usize| match (left.get(l), right.get(r)) {
        (Some(left), Some(right)) => same_event(eye, left, right),
        (None, _) | (_, None) => false,
    };
    for step in align(left.len(), right.len(), &same) {
        match step {
            AlignStep::Same(l, r) | AlignStep::Changed(l, r) => {
                if let (Some(left), Some(right)) = (left.get(l), right.get(r)) {
                    lenient |= event(eye, before, left, right, &mut found);
                }
            }
            AlignStep::Left(range, _) => found.extend(
                left.iter()
                    .skip(range.start)
                    .take(range.len())
                    .map(|event| Difference::left(event.title(before), excerpt::text(&event.data))),
            ),
            AlignStep::Right(_, range) => {
                found.extend(
                    right
                        .iter()
                        .skip(range.start)
                        .take(range.len())
                        .map(|event| {
                            Difference::right(event.title(before), excerpt::text(&event.data))
                        }),
                );
            }
        }
    }
    if left.len() != right.len() {
        let counts = (left.len().to_string(), right.len().to_string());
        found.push(Difference::new(format!("{before}number of events"), counts));
    }
    (found, lenient)
}

fn same_event(eye: &Eye, left: &StreamEvent, right: &StreamEvent) -> bool {
    left.name == right.name
        && match (&left.value, &right.value) {
            (Some(l), Some(r)) => l == r || eye.same(l, r, shift(left, right)),
            (None, None) => left.data == right.data,
            (None, Some(_)) | (Some(_), None) => false,
        }
}

/// How much later the event comes in the right stream.
fn shift(left: &StreamEvent, right: &StreamEvent) -> i64 {
    let number = |event: &StreamEvent| i64::try_from(event.number).unwrap_or(i64::MAX);
    number(right) - number(left)
}

/// Compares two matched events; returns whether a difference was tolerated.
fn event(
    eye: &Eye,
    before: &str,
    left: &StreamEvent,
    right: &StreamEvent,
    found: &mut Vec<Difference>,
) -> bool {
    let equal = left.name == right.name && left.data == right.data;
    if equal && eye.scope() == Scope::Replay {
        return false;
    }
    let title = left.title(before);
    if left.name != right.name {
        let event = |event: &StreamEvent| format!("{} {}", event.name, excerpt::text(&event.data));
        found.push(Difference::new(title, (event(left), event(right))));
        return false;
    }
    let (Some(left_value), Some(right_value)) = (&left.value, &right.value) else {
        if !equal {
            let texts = excerpt::texts(&left.data, &right.data);
            found.push(Difference::new(format!("{title}: data"), texts));
        }
        return false;
    };
    // An event after an inserted one has a higher number; that is no difference.
    let (sequence, shift) = (left.sequence(), shift(left, right));
    let moved = shift != 0 && sequence.map(|number| number + shift) == right.sequence();
    let mut right_value = right_value.clone();
    if moved && let Some(number) = right_value.get_mut("sequence_number") {
        *number = sequence.into();
    }
    let (fields, lenient) = eye.differences(&format!("{title}: "), left_value, &right_value);
    let lenient = lenient || moved;
    if fields.is_empty() && !lenient && !equal {
        let title = format!("{title}: same content");
        found.push(respelled(
            &title,
            left.data.as_bytes(),
            right.data.as_bytes(),
        ));
    }
    found.extend(fields);
    lenient
}

/// The events of a body; `None` if one exceeds the size limit of the decoder.
fn read(eye: &Eye, body: &[u8]) -> Option<Vec<StreamEvent>> {
    let mut events = Vec::new();
    let mut take = |event: adapters::sse::SseEvent<'_>| {
        let value = parse(event.data.as_bytes());
        events.push(StreamEvent {
            number: events.len(),
            name: event.name.unwrap_or_default().into_owned(),
            data: event.data.into_owned(),
            value,
        });
    };
    let mut decoder = SseDecoder::default();
    decoder.feed(body, &mut take).ok()?;
    decoder.finish(&mut take).ok()?;
    Some(match eye.scope() {
        Scope::Replay => events,
        Scope::Diff => joined(events),
    })
}

/// Joins neighbouring events that carry fragments of one text, and removes sequence
/// numbers: where a provider cuts a text is arbitrary.
fn joined(events: Vec<StreamEvent>) -> Vec<StreamEvent> {
    let mut whole: Vec<StreamEvent> = Vec::new();
    for mut event in events {
        if let Some(Value::Object(fields)) = &mut event.value {
            fields.shift_remove("sequence_number");
        }
        let before = whole.last_mut().filter(|last| last.name == event.name);
        if !before.is_some_and(|before| join(before, &event)) {
            whole.push(event);
        }
    }
    for event in &mut whole {
        if let Some(value) = &event.value {
            event.data = value.to_string();
        }
    }
    whole
}

/// Appends the text fragment of an event to the event before it, if both belong to the
/// same text.
fn join(before: &mut StreamEvent, event: &StreamEvent) -> bool {
    let (Some(Value::Object(fields)), Some(Value::Object(more))) =
        (&mut before.value, &event.value)
    else {
        return false;
    };
    let go_on = fields.len() == more.len()
        && fields
            .iter()
            .all(|(key, value)| key == "delta" || more.get(key) == Some(value));
    match (go_on, fields.get_mut("delta"), more.get("delta")) {
        (true, Some(Value::String(text)), Some(Value::String(piece))) => {
            text.push_str(piece);
            true
        }
        _ => false,
    }
}

fn is_stream(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    [b"event:".as_slice(), b"data:", b":", b"id:", b"retry:"]
        .iter()
        .any(|start| body.starts_with(start))
}

fn parse(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok()
}

/// The difference of two bodies that cannot be parsed.
fn unread(location: &str, left: &[u8], right: &[u8]) -> Difference {
    if left.is_empty() {
        return Difference::right(location, excerpt::text(&String::from_utf8_lossy(right)));
    }
    if right.is_empty() {
        return Difference::left(location, excerpt::text(&String::from_utf8_lossy(left)));
    }
    let offset = excerpt::offset(left, right).unwrap_or_default();
    Difference::new(
        format!("{location}: byte {offset}"),
        excerpt::bytes(left, right),
    )
}

fn respelled(location: &str, left: &[u8], right: &[u8]) -> Difference {
    let offset = excerpt::offset(left, right).unwrap_or_default();
    Difference::new(
        format!("{location}, other bytes at offset {offset}"),
        excerpt::bytes(left, right),
    )
}
