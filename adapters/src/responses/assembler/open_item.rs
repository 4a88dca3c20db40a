//! Closes the item in which the log of a stored answer ends, because the process ended there.

use serde_json::{Value, json};

use super::super::event_buffer::EventBuffer;
use super::mcp_call_error::McpCallError;
use super::native::item_types::ItemType;
use super::text_part::{TextNames, kind_of_part, names};
use crate::event::NativeText;
use crate::json;

/// The item that is open where the log of a stored answer ends, if there is one. Takes all events
/// of the log in their order.
#[derive(Default)]
pub struct OpenLogItem(Option<OpenStoredItem>);

impl OpenLogItem {
    /// Takes the next event of the log.
    pub fn take(&mut self, event: &str) {
        let Ok(event) = serde_json::from_str::<Value>(event) else {
            return;
        };
        let kind = string(&event, "type");
        match (kind, &mut self.0) {
            ("response.output_item.added", _) => self.0 = Some(OpenStoredItem::new(&event)),
            ("response.output_item.done", _) => self.0 = None,
            (kind, Some(item)) => item.take(kind, &event),
            (_, None) => {}
        }
    }

    /// Writes the events that close the item: as incomplete, and with what was written of it.
    /// Writes none if no item is open. `next` is the number of the first of them; returns that of
    /// the event after them.
    pub fn close(self, next: u64, out: &mut EventBuffer) -> u64 {
        let mut closing = ClosingEvents { out, next };
        if let Some(open) = self.0 {
            open.close(&mut closing);
        }
        closing.next
    }
}

/// Writes events with consecutive numbers.
struct ClosingEvents<'o> {
    out: &'o mut EventBuffer,
    next: u64,
}

impl ClosingEvents<'_> {
    fn write(&mut self, name: &'static str, members: &[(&str, &Value)]) {
        let out = self.out.begin_event(name, self.next);
        for (name, value) in members {
            json::field(out, name, value);
        }
        self.out.end_event();
        self.next += 1;
    }
}

/// An item without its last event.
struct OpenStoredItem {
    item: Value,
    output_index: Value,
    /// The finished parts of its content or its summary.
    parts: Vec<Value>,
    part: Option<OpenStoredPart>,
    /// The text that was written of the part or the call.
    text: String,
    /// The text has ended.
    has_text: bool,
}

/// A part of such an item.
struct OpenStoredPart {
    names: TextNames,
    index: Value,
    part: Value,
}

impl OpenStoredItem {
    fn new(event: &Value) -> Self {
        Self {
            item: field(event, "item"),
            output_index: field(event, "output_index"),
            parts: Vec::new(),
            part: None,
            text: String::new(),
            has_text: false,
        }
    }

    fn take(&mut self, kind: &str, event: &Value) {
        match kind {
            "response.content_part.added" | "response.reasoning_summary_part.added" => {
                let part = field(event, "part");
                let kind = kind_of_part(string(&part, "type")).unwrap_or(NativeText::Output);
                let names = names(kind);
                let index = field(event, names.index);
                self.part = Some(OpenStoredPart { names, index, part });
                self.text.clear();
                self.has_text = false;
            }
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                self.parts.push(field(event, "part"));
                self.part = None;
            }
            "response.output_text.annotation.added" => {
                let list = self.part.as_mut().map(|open| &mut open.part);
                if let Some(list) = list.and_then(|part| part.get_mut("annotations"))
                    && let Some(list) = list.as_array_mut()
                {
                    list.push(field(event, "annotation"));
                }
            }
            _ => match kind.rsplit_once('.') {
                Some((_, "delta")) => self.text += string(event, "delta"),
                Some((_, "done")) => self.has_text = true,
                _ => {}
            },
        }
    }

    /// Writes the events that close it.
    fn close(mut self, events: &mut ClosingEvents<'_>) {
        let id = field(&self.item, "id");
        let item = [("item_id", &id), ("output_index", &self.output_index)];
        let text = Value::String(std::mem::take(&mut self.text));
        if let Some(mut open) = self.part.take() {
            let OpenStoredPart { names, index, .. } = open;
            let place = [item[0], item[1], (names.index, &index)];
            if !self.has_text {
                let (text, logprobs) = ((names.field, &text), json!([]));
                let logprobs = [("logprobs", &logprobs)];
                let has_logprobs = names.part == "output_text";
                let logprobs = logprobs.into_iter().filter(|_| has_logprobs);
                let members = place.into_iter().chain([text]).chain(logprobs);
                events.write(names.done, &members.collect::<Vec<_>>());
            }
            set(&mut open.part, names.field, text);
            let [id, output_index, index] = place;
            events.write(
                names.closed,
                &[id, output_index, index, ("part", &open.part)],
            );
            self.parts.push(open.part);
        } else if let ItemType::Body(body) = ItemType::of(string(&self.item, "type")) {
            if !self.has_text {
                let [id, output_index] = item;
                events.write(body.done, &[id, output_index, (body.field, &text)]);
            }
            set(&mut self.item, body.field, text);
        }
        match string(&self.item, "type") {
            "message" => {
                set(&mut self.item, "content", self.parts.into());
                set(&mut self.item, "phase", json!("final_answer"));
            }
            "reasoning" => set(&mut self.item, "summary", self.parts.into()),
            "mcp_call" => {
                let error = McpCallError::of_interruption();
                set(&mut self.item, "error", error.to_json());
            }
            _ => {}
        }
        if self.item.get("status").is_some() {
            set(&mut self.item, "status", json!("incomplete"));
        }
        events.write(
            "response.output_item.done",
            &[("output_index", &self.output_index), ("item", &self.item)],
        );
    }
}

fn field(value: &Value, name: &str) -> Value {
    value.get(name).cloned().unwrap_or_default()
}

fn string<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(events: &[Value]) -> Vec<Value> {
        let events: Vec<String> = events.iter().map(Value::to_string).collect();
        let mut closing = EventBuffer::default();
        let mut open = OpenLogItem::default();
        for event in &events {
            open.take(event);
        }
        open.close(7, &mut closing);
        let closing = closing.documents();
        let closing = closing.map(|event| serde_json::from_slice(&event.json()));
        closing.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_text_is_closed_with_what_was_written_of_it() {
        let message = json!({"id": "msg_1", "type": "message", "status": "in_progress"});
        let part = json!({"type": "output_text", "text": "", "annotations": []});
        let closing = closed(&[
            json!({"type": "response.output_item.added", "output_index": 2, "item": message}),
            json!({"type": "response.content_part.added", "content_index": 0, "part": part}),
            json!({"type": "response.output_text.delta", "delta": "half"}),
            json!({"type": "response.output_text.delta", "delta": " a"}),
        ]);
        let kinds: Vec<_> = closing.iter().map(|event| string(event, "type")).collect();
        assert_eq!(
            kinds,
            [
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done"
            ]
        );
        assert_eq!(closing[0]["text"], "half a");
        assert_eq!(closing[0]["sequence_number"], 7);
        let item = &closing[2]["item"];
        assert_eq!(item["status"], "incomplete");
        assert_eq!(item["content"][0]["text"], "half a");
    }

    #[test]
    fn a_call_of_an_mcp_server_says_that_it_was_cut_off() {
        let call =
            json!({"id": "mcp_1", "type": "mcp_call", "status": "in_progress", "error": null});
        let closing = closed(&[
            json!({"type": "response.output_item.added", "output_index": 0, "item": call}),
            json!({"type": "response.mcp_call_arguments.delta", "delta": "{}"}),
            json!({"type": "response.mcp_call_arguments.done", "arguments": "{}"}),
        ]);
        let item = &closing[0]["item"];
        assert_eq!(
            (&item["arguments"], &item["status"]),
            (&json!("{}"), &json!("incomplete"))
        );
        let message = item["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("not known whether it took effect"),
            "{item}"
        );
    }

    #[test]
    fn a_call_is_closed_and_what_is_closed_stays() {
        let call = json!({"id": "fc_1", "type": "function_call", "status": "in_progress"});
        let added = json!({"type": "response.output_item.added", "output_index": 0, "item": call});
        let delta = json!({"type": "response.function_call_arguments.delta", "delta": "{\"a"});
        let closing = closed(&[added.clone(), delta]);
        assert_eq!(closing[0]["arguments"], "{\"a");
        assert_eq!(closing[1]["item"]["arguments"], "{\"a");
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": call});
        assert_eq!(closed(&[added, done]), Vec::<Value>::new());
    }
}
