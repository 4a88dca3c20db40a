//! The end of a stored response whose answer did not run to its end: it was cancelled before it
//! began, or the process ended. It is made of the response as it was stored.

use serde_json::json;

use super::response_object::ResponseStatus;
use crate::json::one_line;
use crate::members::EditedObject;

/// A stored response with another status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedResponse {
    /// Its JSON before the items of the output.
    pub head: String,
    /// Its terminal event.
    pub event: String,
}

/// Ends a response. `head` is its JSON up to the bracket that begins the output, `rest` what
/// follows the items, and `items` are those that were finished. `sequence` is the number of the
/// terminal event. Without an `error` it counts as cancelled.
pub fn end_stored(
    head: &str,
    rest: &str,
    items: &[&str],
    sequence: u64,
    error: Option<(&str, &str)>,
) -> EndedResponse {
    let status = match error {
        Some(_) => ResponseStatus::Failed,
        None => ResponseStatus::Cancelled,
    };
    let head = with_status(head, status, error).unwrap_or_else(|| head.to_owned());
    let name = status.event_name();
    let items = items.join(",");
    let event = format!(
        "{{\"type\":\"{name}\",\"sequence_number\":{sequence},\"response\":{head}{items}{rest}}}"
    );
    EndedResponse {
        head,
        event: one_line(&event),
    }
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
pub fn finished_item(event: &str) -> Option<String> {
    if !event.starts_with("{\"type\":\"response.output_item.done\"") {
        return None;
    }
    EditedObject::read(event)?.get("item").map(str::to_owned)
}

/// The id of an item; empty if it has none.
pub fn item_id_of(item: &str) -> String {
    let object = EditedObject::read(item);
    let id = object.as_ref().and_then(|object| object.get("id"));
    id.and_then(crate::json::unquote)
        .unwrap_or_default()
        .to_owned()
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
        let item = finished_item(done).unwrap();
        assert_eq!(item_id_of(&item), "msg_1");
        let ended = end_stored(head, r#"],"usage":null}"#, &[&item], 6, Some(("c", "m")));
        let event: Value = serde_json::from_str(&ended.event).unwrap();
        assert_eq!(event["type"], "response.failed");
        assert_eq!(event["sequence_number"], 6);
        assert_eq!(event["response"]["status"], "failed");
        assert_eq!(event["response"]["output"][0]["id"], "msg_1");
        assert_eq!(event["response"]["error"]["message"], "m");
        let cancelled = end_stored(head, "]}", &[], 2, None);
        assert!(cancelled.head.contains(r#""status":"cancelled""#));
        assert!(cancelled.head.ends_with('['));
        assert_eq!(finished_item(head), None);
    }
}
