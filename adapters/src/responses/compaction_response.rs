//! The answer of `POST /v1/responses/compact`: items with which the client continues in
//! place of the history, as `{id, object: "response.compaction", created_at, output,
//! usage}`. `output` is "all user messages, followed by a single compaction item"
//! (OpenAI's API reference).

use super::request::TurnSource;
use super::response_object::{item_id, push_usage};
use crate::event::Usage;
use crate::json;
use crate::members::EditedObject;

/// The answer of `POST /v1/responses/compact`, except for the user messages, which
/// [`Self::to_json`] copies from the request and the stored history that it continues.
#[derive(Clone, Copy, Debug)]
pub struct CompactionResponse<'a> {
    /// The response id: `resp_` and a token, from which the id of the item is made.
    pub id: &'a str,
    /// Creation time in Unix seconds.
    pub created_at: u64,
    /// The `encrypted_content` of the compaction item: the sealed summary.
    pub blob: &'a str,
    /// The token counts of the request that made the summary.
    pub usage: Usage,
    /// Upper bound of the user messages together, in bytes; the oldest are left out.
    pub max_message_bytes: usize,
}

impl CompactionResponse<'_> {
    /// The JSON of the answer to this request, and the number of user messages that were left out
    /// because of [`Self::max_message_bytes`].
    pub fn to_json(&self, request: &TurnSource) -> (Vec<u8>, usize) {
        let (mut messages, dropped) = self.user_messages(request);
        // Open Responses requires an id and a status of every message.
        for (index, message) in messages.iter_mut().enumerate() {
            let id = item_id("msg", self.id, format_args!("{index:02x}"));
            message.set_default("id", &format!("\"{id}\""));
            message.set_default("status", "\"completed\"");
        }
        let mut out = vec![b'{'];
        json::field(&mut out, "id", self.id);
        json::field(&mut out, "object", "response.compaction");
        json::field(&mut out, "created_at", &self.created_at);
        json::key(&mut out, "output");
        out.push(b'[');
        for message in &messages {
            out.extend_from_slice(message.to_json().as_bytes());
            out.push(b',');
        }
        out.push(b'{');
        json::field(
            &mut out,
            "id",
            &item_id("cmp", self.id, format_args!("{:02x}", messages.len())),
        );
        json::field(&mut out, "type", "compaction");
        json::field(&mut out, "encrypted_content", self.blob);
        out.extend_from_slice(b"}]");
        json::key(&mut out, "usage");
        push_usage(&mut out, self.usage);
        out.push(b'}');
        (out, dropped)
    }

    /// The newest user messages that fit, and the number of older ones.
    fn user_messages<'b>(&self, request: &'b TurnSource) -> (Vec<EditedObject<'b>>, usize) {
        let Some(found) = request.raw_items() else {
            return (Vec::new(), 0);
        };
        let text = found.text.and_then(|text| {
            let message = EditedObject::read(r#"{"type":"message","role":"user"}"#)?;
            Some(with_text(message, text))
        });
        let messages = found.items.into_iter().filter_map(user_message);
        let all: Vec<EditedObject<'b>> = messages.chain(text).collect();
        let mut room = self.max_message_bytes;
        let kept = all.iter().rev().take_while(|message| {
            let bytes = message.to_json().len();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let dropped = all.len() - kept.count();
        (all.into_iter().skip(dropped).collect(), dropped)
    }
}

/// The item, with `type` and content parts added if it is a user message in a short form;
/// `None` if it is something else.
fn user_message(raw: &str) -> Option<EditedObject<'_>> {
    let mut item = EditedObject::read(raw)?;
    let is_message = item.get("type").is_none() || item.is("type", "message");
    if !is_message || !item.is("role", "user") {
        return None;
    }
    item.set_default("type", "\"message\"");
    let content = item.get("content")?;
    if content.starts_with('"') {
        let content = content.to_owned();
        return Some(with_text(item, &content));
    }
    Some(item)
}

/// The message with the JSON string `text` as its only content part.
fn with_text<'a>(mut message: EditedObject<'a>, text: &str) -> EditedObject<'a> {
    let parts = format!(r#"[{{"type":"input_text","text":{text}}}]"#);
    message.set("content", parts);
    message
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(body: &Value, max_message_bytes: usize) -> (Value, usize) {
        answer_with(None, body, max_message_bytes)
    }

    fn answer_with(
        history: Option<&Value>,
        body: &Value,
        max_message_bytes: usize,
    ) -> (Value, usize) {
        let compacted = CompactionResponse {
            id: "resp_7",
            created_at: 9,
            blob: "b",
            usage: Usage {
                input: 5,
                output: 2,
                ..Usage::default()
            },
            max_message_bytes,
        };
        let history = history.map(|history| history.to_string().into());
        let mut source = TurnSource::new(body.to_string());
        if let Some(history) = history {
            source = source.with_history(history);
        }
        let (json, dropped) = compacted.to_json(&source);
        (serde_json::from_slice(&json).unwrap(), dropped)
    }

    #[test]
    fn the_output_is_all_user_messages_and_one_compaction_item() {
        let message = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}], "id": "x", "status": "incomplete"});
        let (answer, dropped) = answer(
            &json!({"input": [
                {"type": "message", "role": "developer", "content": "rules"},
                message,
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"role": "user", "content": "b\"c"},
                {"type": "compaction", "encrypted_content": "old"},
            ]}),
            1 << 20,
        );
        assert_eq!(dropped, 0);
        assert_eq!(
            answer,
            json!({
                "id": "resp_7", "object": "response.compaction", "created_at": 9,
                "output": [
                    message,
                    {
                        "type": "message", "role": "user", "id": "msg_701", "status": "completed",
                        "content": [{"type": "input_text", "text": "b\"c"}],
                    },
                    {"id": "cmp_702", "type": "compaction", "encrypted_content": "b"},
                ],
                "usage": {
                    "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": 7,
                },
            })
        );
    }

    #[test]
    fn a_string_input_is_a_user_message() {
        let (answer, _) = answer(&json!({"input": "hi"}), 1 << 20);
        assert_eq!(answer["output"][0]["content"][0]["text"], "hi");
        assert_eq!(answer["output"][0]["id"], "msg_700");
        assert_eq!(answer["output"][0]["status"], "completed");
        assert_eq!(answer["output"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_messages_of_a_stored_history_come_first_and_share_the_room() {
        let say = |text: &str| json!({"role": "user", "content": text.repeat(100)});
        let all = json!([say("a"), {"type": "reasoning"}, say("b"), say("c")]);
        let (whole, _) = answer(&json!({"input": all}), 400);
        let history = json!([say("a"), {"type": "reasoning"}, say("b")]);
        for own in [json!([say("c")]), json!("c".repeat(100))] {
            let (answer, dropped) = answer_with(Some(&history), &json!({"input": own}), 400);
            assert_eq!(dropped, 1);
            assert_eq!(answer, whole);
        }
        let (answer, _) = answer_with(Some(&history), &json!({}), 1 << 20);
        assert_eq!(answer["output"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_null_is_no_id() {
        let message = json!({"role": "user", "id": null, "content": [], "status": null, "x": 1});
        let (answer, _) = answer(&json!({"input": [message]}), 1 << 20);
        assert_eq!(
            answer["output"][0],
            json!({
                "type": "message", "role": "user", "id": "msg_700", "status": "completed",
                "content": [], "x": 1,
            })
        );
    }

    #[test]
    fn the_oldest_user_messages_are_left_out_if_there_is_no_room() {
        let say = |text: &str| json!({"role": "user", "content": text.repeat(100)});
        let body = json!({"input": [say("a"), say("b"), say("c")]});
        let (answer, dropped) = answer(&body, 400);
        assert_eq!(dropped, 1);
        let first = &answer["output"][0]["content"][0]["text"];
        assert!(first.as_str().unwrap().starts_with('b'));
    }
}
