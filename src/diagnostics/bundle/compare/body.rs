//! Bodies: JSON documents and streams of events.

use adapters::sse::SseDecoder;
use serde_json::Value;

use super::align::{Step, align};
use super::excerpt;
use super::json::Eye;
use super::{Difference, Scope};

/// Two JSON bodies. Where they are equal as values, their bytes count: a provider
/// caches bytes.
pub(super) fn json(eye: &Eye, place: &str, left: &[u8], right: &[u8]) -> Vec<Difference> {
    if left == right {
        return Vec::new();
    }
    let Some((left_value, right_value)) = parse(left).zip(parse(right)) else {
        return vec![unread(place, left, right)];
    };
    let (found, lenient) = eye.differences(&format!("{place}: "), &left_value, &right_value);
    if found.is_empty() && !lenient {
        return vec![respelled(&format!("{place}: same content"), left, right)];
    }
    found
}

/// Two JSON documents whose spelling is nobody's concern.
pub(super) fn document(eye: &Eye, place: &str, left: &[u8], right: &[u8]) -> Vec<Difference> {
    match parse(left).zip(parse(right)) {
        Some((left, right)) => eye.differences(&format!("{place}: "), &left, &right).0,
        None if left == right => Vec::new(),
        None => vec![unread(place, left, right)],
    }
}

/// Two bodies, each a stream of events or a JSON document. `place` names the
/// body, `events` what stands before the name of an event.
pub(super) fn answer(
    eye: &Eye,
    place: &str,
    events: &str,
    left: &[u8],
    right: &[u8],
) -> Vec<Difference> {
    if left == right {
        return Vec::new();
    }
    match (is_stream(left), is_stream(right)) {
        (true, true) => {}
        (false, false) => return json(eye, place, left, right),
        (true, false) | (false, true) => return vec![unread(place, left, right)],
    }
    let (Some(left_events), Some(right_events)) = (read(eye, left), read(eye, right)) else {
        return vec![unread(place, left, right)];
    };
    let (found, lenient) = streams(eye, events, &left_events, &right_events);
    if found.is_empty() && !lenient {
        return vec![respelled(&format!("{place}: same events"), left, right)];
    }
    found
}

/// One server-sent event.
struct Event {
    /// Its place in the stream, from 0 as `sequence_number` counts.
    place: usize,
    name: String,
    data: String,
    value: Option<Value>,
}

impl Event {
    fn title(&self, before: &str) -> String {
        let Self { place, name, .. } = self;
        let text = format!("{before}event {place} {name}");
        text.trim_end().to_owned()
    }

    /// The number that the event says it has.
    fn sequence(&self) -> Option<i64> {
        self.value.as_ref()?.get("sequence_number")?.as_i64()
    }
}

fn streams(eye: &Eye, before: &str, left: &[Event], right: &[Event]) -> (Vec<Difference>, bool) {
    let mut found = Vec::new();
    let mut lenient = false;
    let same = |l: usize, r: usize| match (left.get(l), right.get(r)) {
        (Some(left), Some(right)) => same_event(eye, left, right),
        (None, _) | (_, None) => false,
    };
    for step in align(left.len(), right.len(), &same) {
        match step {
            Step::Same(l, r) | Step::Changed(l, r) => {
                if let (Some(left), Some(right)) = (left.get(l), right.get(r)) {
                    lenient |= event(eye, before, left, right, &mut found);
                }
            }
            Step::Left(range, _) => found.extend(
                left.iter()
                    .skip(range.start)
                    .take(range.len())
                    .map(|event| Difference::left(event.title(before), excerpt::text(&event.data))),
            ),
            Step::Right(_, range) => {
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

fn same_event(eye: &Eye, left: &Event, right: &Event) -> bool {
    left.name == right.name
        && match (&left.value, &right.value) {
            (Some(l), Some(r)) => l == r || eye.same(l, r, shift(left, right)),
            (None, None) => left.data == right.data,
            (None, Some(_)) | (Some(_), None) => false,
        }
}

/// How much later an event comes.
fn shift(left: &Event, right: &Event) -> i64 {
    let number = |event: &Event| i64::try_from(event.place).unwrap_or(i64::MAX);
    number(right) - number(left)
}

/// Compares two events that belong together; whether something was let pass.
fn event(
    eye: &Eye,
    before: &str,
    left: &Event,
    right: &Event,
    found: &mut Vec<Difference>,
) -> bool {
    let equal = left.name == right.name && left.data == right.data;
    if equal && eye.scope() == Scope::Replay {
        return false;
    }
    let title = left.title(before);
    if left.name != right.name {
        let event = |event: &Event| format!("{} {}", event.name, excerpt::text(&event.data));
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
    // An event that comes later for one that came before it has a later number.
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

/// The events of a body; `None` if one is larger than any that we send or take.
fn read(eye: &Eye, body: &[u8]) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    let mut take = |event: adapters::sse::SseEvent<'_>| {
        let value = parse(event.data.as_bytes());
        events.push(Event {
            place: events.len(),
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

/// Makes one event of neighbours that carry pieces of one text: where a provider
/// cuts it differs by nature. So do the numbers of what follows.
fn joined(events: Vec<Event>) -> Vec<Event> {
    let mut whole: Vec<Event> = Vec::new();
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

/// Adds the piece of text that an event carries, if it goes on with the one
/// before it.
fn join(before: &mut Event, event: &Event) -> bool {
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

/// Bodies that cannot be looked into.
fn unread(place: &str, left: &[u8], right: &[u8]) -> Difference {
    if left.is_empty() {
        return Difference::right(place, excerpt::text(&String::from_utf8_lossy(right)));
    }
    if right.is_empty() {
        return Difference::left(place, excerpt::text(&String::from_utf8_lossy(left)));
    }
    let offset = excerpt::offset(left, right).unwrap_or_default();
    Difference::new(
        format!("{place}: byte {offset}"),
        excerpt::bytes(left, right),
    )
}

fn respelled(place: &str, left: &[u8], right: &[u8]) -> Difference {
    let offset = excerpt::offset(left, right).unwrap_or_default();
    Difference::new(
        format!("{place}, other bytes at offset {offset}"),
        excerpt::bytes(left, right),
    )
}
