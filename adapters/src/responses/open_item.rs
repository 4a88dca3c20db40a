//! Closes the item in which the log of a stored answer ends, because the process ended there.

use serde_json::{Value, json};

/// The events that close the item that is still open after these events, as incomplete and with
/// what was written of it; none if no item is open. `next` is the number of the first of them.
pub fn close_open_item(events: &[String], next: u64) -> Vec<String> {
    let mut open = None;
    for event in events {
        let Ok(event) = serde_json::from_str::<Value>(event) else {
            continue;
        };
        let kind = string(&event, "type");
        match (kind, &mut open) {
            ("response.output_item.added", _) => open = Some(OpenStoredItem::new(&event)),
            ("response.output_item.done", _) => open = None,
            (kind, Some(item)) => item.take(kind, &event),
            (_, None) => {}
        }
    }
    let closing = open.map(OpenStoredItem::close).unwrap_or_default();
    let numbered = closing.into_iter().zip(next..);
    let numbered = numbered.map(|((kind, fields), number)| {
        let fields = fields.to_string();
        let fields = fields.strip_prefix('{').unwrap_or_default();
        format!("{{\"type\":\"{kind}\",\"sequence_number\":{number},{fields}")
    });
    numbered.collect()
}

/// An item of which the last event is missing.
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

/// A part of such an item, under the name of its index.
struct OpenStoredPart {
    index_name: &'static str,
    index: Value,
    part: Value,
}

/// The events that end a text and its part, and the key of the text.
struct ClosingEvents {
    text: &'static str,
    part: &'static str,
    key: &'static str,
}

impl ClosingEvents {
    fn of(part: &Value) -> Self {
        let content = "response.content_part.done";
        let (text, part, key) = match string(part, "type") {
            "refusal" => ("response.refusal.done", content, "refusal"),
            "reasoning_text" => ("response.reasoning_text.done", content, "text"),
            "summary_text" => (
                "response.reasoning_summary_text.done",
                "response.reasoning_summary_part.done",
                "text",
            ),
            _ => ("response.output_text.done", content, "text"),
        };
        Self { text, part, key }
    }
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
                let index_name = if kind == "response.content_part.added" {
                    "content_index"
                } else {
                    "summary_index"
                };
                self.part = Some(OpenStoredPart {
                    index_name,
                    index: field(event, index_name),
                    part: field(event, "part"),
                });
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

    /// The types and fields of the events that close it.
    fn close(mut self) -> Vec<(&'static str, Value)> {
        let mut events = Vec::new();
        let text = std::mem::take(&mut self.text);
        if let Some(mut open) = self.part.take() {
            let closing = ClosingEvents::of(&open.part);
            set(&mut open.part, closing.key, json!(text));
            let mut place = self.place();
            set(&mut place, open.index_name, open.index);
            if !self.has_text {
                let mut fields = place.clone();
                set(&mut fields, closing.key, json!(text));
                if closing.text == "response.output_text.done" {
                    set(&mut fields, "logprobs", json!([]));
                }
                events.push((closing.text, fields));
            }
            set(&mut place, "part", open.part.clone());
            events.push((closing.part, place));
            self.parts.push(open.part);
        } else if let Some((done, key)) = match string(&self.item, "type") {
            "function_call" => Some(("response.function_call_arguments.done", "arguments")),
            "custom_tool_call" => Some(("response.custom_tool_call_input.done", "input")),
            _ => None,
        } {
            set(&mut self.item, key, json!(text));
            if !self.has_text {
                let mut fields = self.place();
                set(&mut fields, key, json!(text));
                events.push((done, fields));
            }
        }
        match string(&self.item, "type") {
            "message" => {
                set(&mut self.item, "content", self.parts.into());
                set(&mut self.item, "phase", json!("final_answer"));
            }
            "reasoning" => set(&mut self.item, "summary", self.parts.into()),
            _ => {}
        }
        if self.item.get("status").is_some() {
            set(&mut self.item, "status", json!("incomplete"));
        }
        let fields = json!({"output_index": self.output_index, "item": self.item});
        events.push(("response.output_item.done", fields));
        events
    }

    /// The fields that say which item an event is about.
    fn place(&self) -> Value {
        json!({"item_id": field(&self.item, "id"), "output_index": self.output_index})
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
        let closing = close_open_item(&events, 7);
        let closing = closing.iter().map(|json| serde_json::from_str(json));
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
