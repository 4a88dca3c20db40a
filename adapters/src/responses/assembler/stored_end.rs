//! The end of a stored response whose answer did not run to its end: it was cancelled before it
//! began, or the process ended. It is made of the response as it was stored.

use serde_json::json;

use super::super::event_buffer::EventBuffer;
use super::super::response_object::{ResponseStatus, push_usage};
use crate::event::Usage;
use crate::json;
use crate::members::EditedObject;

/// A stored response with its final status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedResponse {
    /// The status.
    pub status: ResponseStatus,
    /// Its JSON before the items of the output.
    pub head: String,
    /// The pieces about it behind the items, with token counts.
    pub tail: String,
}

/// Ends a response. `head` is its JSON up to the bracket that begins the output, and `tail` begins
/// with the bracket that ends it. Without an `error`, a code and a message, the response counts as
/// cancelled. Its cost is unknown.
pub fn end_stored(head: &str, tail: &str, error: Option<(&str, &str)>) -> EndedResponse {
    let status = match error {
        Some(_) => ResponseStatus::Failed,
        None => ResponseStatus::Cancelled,
    };
    let mut usage = Vec::new();
    push_usage(&mut usage, Usage::default());
    let usage = String::from_utf8(usage).unwrap_or_default();
    EndedResponse {
        status,
        head: with_status(head, status, error).unwrap_or_else(|| head.to_owned()),
        tail: tail.replacen("\"usage\":null", &format!("\"usage\":{usage}"), 1),
    }
}

/// Writes the terminal event of a response with this status: of its head, the items of its output,
/// and the rest of it.
pub fn write_terminal_event(
    status: ResponseStatus,
    sequence: u64,
    head: &str,
    items: &[&str],
    rest: &str,
    events: &mut EventBuffer,
) {
    let out = events.begin_event(status.event_name(), sequence);
    let response = format!("{head}{}{rest}", items.join(","));
    json::raw_field(out, "response", &response);
    events.end_event();
}

fn with_status(head: &str, status: ResponseStatus, error: Option<(&str, &str)>) -> Option<String> {
    let whole = format!("{head}]}}");
    let mut object = EditedObject::read(&whole)?;
    object.set("status", json!(status.name()).to_string());
    if let Some((code, message)) = error {
        let error = json!({"code": code, "message": message});
        object.set("error", error.to_string());
    }
    let edited = object.to_json();
    Some(edited.strip_suffix("]}")?.to_owned())
}

/// The item that a `response.output_item.done` event has finished, as JSON; `None` for other
/// events.
pub fn finished_item(event: &[u8]) -> Option<String> {
    if !event.starts_with(b"{\"type\":\"response.output_item.done\"") {
        return None;
    }
    EditedObject::read(std::str::from_utf8(event).ok()?)?
        .get("item")
        .map(str::to_owned)
}

/// The id of an item; empty if it has none.
pub fn item_id_of(item: &str) -> String {
    let object = EditedObject::read(item);
    let id = object.as_ref().and_then(|object| object.get("id"));
    id.and_then(json::unquote).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_interrupted_response_keeps_its_finished_items() {
        let head = r#"{"id":"resp_1","status":"in_progress","error":null,"output":["#;
        let done =
            r#"{"type":"response.output_item.done","sequence_number":5,"item":{"id":"msg_1"}}"#;
        let item = finished_item(done.as_bytes()).unwrap();
        assert_eq!(item_id_of(&item), "msg_1");
        let ended = end_stored(head, r#"],"usage":null}"#, Some(("c", "m")));
        let mut events = EventBuffer::default();
        write_terminal_event(
            ended.status,
            6,
            &ended.head,
            &[&item],
            &ended.tail,
            &mut events,
        );
        let event = events.documents().next().unwrap();
        let event: Value = serde_json::from_slice(&event.json()).unwrap();
        assert_eq!(event["type"], "response.failed");
        assert_eq!(event["sequence_number"], 6);
        assert_eq!(event["response"]["status"], "failed");
        assert_eq!(event["response"]["output"][0]["id"], "msg_1");
        assert_eq!(event["response"]["error"]["message"], "m");
        let cancelled = end_stored(head, "]}", None);
        assert!(cancelled.head.contains(r#""status":"cancelled""#));
        assert!(cancelled.head.ends_with('['));
        assert_eq!(finished_item(head.as_bytes()), None);
    }
}
