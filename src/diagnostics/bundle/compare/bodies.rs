//! Compares two bodies: JSON documents or streams of server-sent events.

use std::hash::{DefaultHasher, Hash, Hasher};

use adapters::sse::{SseDecoder, SseEvent};
use serde_json::Value;

use super::values::{ValueMatcher, at};
use super::{Difference, Differences, Scope, excerpt};

/// Compares two bodies, each a stream of events or a JSON document. `location` names the body;
/// `events` is the prefix for the names of events. If the contents are equal but the bytes differ,
/// that is a difference as well, because providers cache prefixes of bytes.
pub(super) fn compare(
    matcher: &mut ValueMatcher,
    location: &str,
    events: &str,
    (left, right): (&[u8], &[u8]),
) -> Differences {
    if left == right {
        return Differences::default();
    }
    if !is_stream(left) && !is_stream(right) {
        let found = document(matcher, location, (left, right));
        if found.is_empty() && parse(left) == parse(right) {
            return respelled(&format!("{location}: same content"), left, right).into();
        }
        return found;
    }
    let scope = matcher.scope;
    let read = |body| is_stream(body).then(|| read(scope, body)).flatten();
    let Some((left_events, right_events)) = read(left).zip(read(right)) else {
        return unread(location, left, right).into();
    };
    let found = streams(matcher, events, &left_events, &right_events);
    if found.is_empty() && left_events == right_events {
        return respelled(&format!("{location}: same events"), left, right).into();
    }
    found
}

/// Compares two JSON documents by value; their formatting does not count.
pub(super) fn document(
    matcher: &mut ValueMatcher,
    location: &str,
    (left, right): (&[u8], &[u8]),
) -> Differences {
    let mut found = Differences::default();
    match parse(left).zip(parse(right)) {
        Some((left, right)) => {
            matcher.differences(&format!("{location}: "), &left, &right, &mut found);
        }
        None if left == right => {}
        None => found.add(|| unread(location, left, right)),
    }
    found
}

#[derive(PartialEq)]
struct StreamEvent {
    /// Its index in the stream, from 0 as in `sequence_number`.
    number: usize,
    name: String,
    data: String,
    value: Option<Value>,
}

impl StreamEvent {
    fn title(&self, before: &str) -> String {
        let text = format!("{before}event {} {}", self.number, self.name);
        text.trim_end().to_owned()
    }

    /// The same for all events that correspond.
    fn key(&self, matcher: &ValueMatcher) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        match &self.value {
            Some(value) => matcher.alignment_key(value).hash(&mut hasher),
            None => self.data.hash(&mut hasher),
        }
        hasher.finish()
    }

    /// The event with the sequence number that it would have at another place of the stream.
    fn moved_to(&self, number: usize) -> Option<Value> {
        let mut value = self.value.clone()?;
        if let Some(sequence) = value.get_mut("sequence_number")
            && sequence.as_u64() == Some(self.number as u64)
        {
            *sequence = number.into();
        }
        Some(value)
    }
}

fn streams(
    matcher: &mut ValueMatcher,
    before: &str,
    left: &[StreamEvent],
    right: &[StreamEvent],
) -> Differences {
    let mut found = Differences::default();
    let keys = |events: &[StreamEvent]| -> Vec<u64> {
        events.iter().map(|event| event.key(matcher)).collect()
    };
    let (left_keys, right_keys) = (keys(left), keys(right));
    for (l, r) in matcher.align(&left_keys, &right_keys) {
        match (at(left, l), at(right, r)) {
            (Some(left), Some(right)) => {
                found.append(matched_events(matcher, before, left, right));
            }
            (Some(event), None) => {
                found.add(|| Difference::left(event.title(before), excerpt::text(&event.data)));
            }
            (None, Some(event)) => {
                found.add(|| Difference::right(event.title(before), excerpt::text(&event.data)));
            }
            (None, None) => {}
        }
    }
    if left.len() != right.len() {
        let counts = (left.len().to_string(), right.len().to_string());
        found.add(|| Difference::new(format!("{before}number of events"), counts));
    }
    found
}

fn matched_events(
    matcher: &mut ValueMatcher,
    before: &str,
    left: &StreamEvent,
    right: &StreamEvent,
) -> Differences {
    let title = left.title(before);
    if left.name != right.name {
        let event = |event: &StreamEvent| format!("{} {}", event.name, excerpt::text(&event.data));
        return Difference::new(title, (event(left), event(right))).into();
    }
    // An event after an inserted one has a higher number; that is no difference.
    let Some((left_value, right_value)) = left.value.as_ref().zip(right.moved_to(left.number))
    else {
        let mut found = Differences::default();
        if left.data != right.data {
            let texts = excerpt::texts(&left.data, &right.data);
            found.add(|| Difference::new(format!("{title}: data"), texts));
        }
        return found;
    };
    let mut found = Differences::default();
    matcher.differences(&format!("{title}: "), left_value, &right_value, &mut found);
    if found.is_empty() && left.value == right.value && left.data != right.data {
        let bytes = (left.data.as_bytes(), right.data.as_bytes());
        found.add(|| respelled(&format!("{title}: same content"), bytes.0, bytes.1));
    }
    found
}

/// The events of a body; `None` if one exceeds the size limit of the decoder.
fn read(scope: Scope, body: &[u8]) -> Option<Vec<StreamEvent>> {
    let mut events = Vec::new();
    let mut take = |event: SseEvent<'_>| {
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
    Some(match scope {
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
    let location = format!("{location}: byte {}", excerpt::offset(left, right));
    Difference::new(location, excerpt::bytes(left, right))
}

fn respelled(location: &str, left: &[u8], right: &[u8]) -> Difference {
    let offset = excerpt::offset(left, right);
    Difference::new(
        format!("{location}, other bytes at offset {offset}"),
        excerpt::bytes(left, right),
    )
}
