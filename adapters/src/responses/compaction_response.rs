//! The answer of `POST /v1/responses/compact`: a window to go on with in place of
//! the history, `{id, object: "response.compaction", created_at, output, usage}`.
//! `output` is "all user messages, followed by a single compaction item" (OpenAI's
//! API reference).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::push_usage;
use crate::event::Usage;
use crate::json;

/// What is answered besides the user messages.
#[derive(Clone, Copy, Debug)]
pub struct CompactionResponse<'a> {
    /// `resp_` and a token; the item's id is made of it.
    pub id: &'a str,
    /// Unix seconds.
    pub created_at: u64,
    /// The item's `encrypted_content`.
    pub blob: &'a str,
    /// What was sent to be summarized, and what came back.
    pub usage: Usage,
    /// The most bytes of user messages; the oldest go first.
    pub max_message_bytes: usize,
}

/// A request body, as far as it is repeated.
#[derive(Deserialize)]
struct CompactRequestBody<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// An item, as far as it must be known.
#[derive(Deserialize)]
struct CompactRequestItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

impl CompactionResponse<'_> {
    /// Writes the answer to this request body. The second value is the number of user
    /// messages that there was no room for.
    pub fn to_json(&self, body: &str) -> (Vec<u8>, usize) {
        let (messages, dropped) = self.user_messages(body);
        let token = self.id.split_once('_').map_or(self.id, |(_, token)| token);
        let mut out = vec![b'{'];
        json::field(&mut out, "id", self.id);
        json::field(&mut out, "object", "response.compaction");
        json::field(&mut out, "created_at", &self.created_at);
        json::key(&mut out, "output");
        out.push(b'[');
        for message in &messages {
            out.extend_from_slice(message.as_bytes());
            out.push(b',');
        }
        out.push(b'{');
        json::field(&mut out, "id", &format!("cmp_{token}_{}", messages.len()));
        json::field(&mut out, "type", "compaction");
        json::field(&mut out, "encrypted_content", self.blob);
        out.extend_from_slice(b"}]");
        json::key(&mut out, "usage");
        push_usage(&mut out, self.usage);
        out.push(b'}');
        (out, dropped)
    }

    /// The user messages that there is room for, and how many more there were.
    fn user_messages(&self, body: &str) -> (Vec<String>, usize) {
        let body: Option<CompactRequestBody<'_>> = serde_json::from_str(body).ok();
        let Some(input) = body.and_then(|body| body.input) else {
            return (Vec::new(), 0);
        };
        if input.get().starts_with('"') {
            return (vec![message(input.get())], 0);
        }
        let items: Vec<&RawValue> = serde_json::from_str(input.get()).unwrap_or_default();
        let all: Vec<String> = items.into_iter().filter_map(user_message).collect();
        let mut room = self.max_message_bytes;
        let kept = all.iter().rev().take_while(|message| {
            let fits = message.len() <= room;
            room = room.saturating_sub(message.len());
            fits
        });
        let dropped = all.len() - kept.count();
        (all.into_iter().skip(dropped).collect(), dropped)
    }
}

/// The item as it came if it is a user message; its short forms are written out.
fn user_message(raw: &RawValue) -> Option<String> {
    let item: CompactRequestItem<'_> = serde_json::from_str(raw.get()).ok()?;
    let is = |value: Option<&RawValue>, name: &str| {
        value.and_then(|value| json::unquote(value.get())) == Some(name)
    };
    if !is(item.role, "user") || !(item.kind.is_none() || is(item.kind, "message")) {
        return None;
    }
    let content = item.content?.get();
    if content.starts_with('"') {
        return Some(message(content));
    }
    if item.kind.is_some() {
        return Some(raw.get().to_owned());
    }
    Some(format!(
        r#"{{"type":"message","role":"user","content":{content}}}"#
    ))
}

/// A user message of a text that is JSON already.
fn message(text: &str) -> String {
    format!(
        r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(body: &Value, most: usize) -> (Value, usize) {
        let compacted = CompactionResponse {
            id: "resp_7",
            created_at: 9,
            blob: "b",
            usage: Usage {
                input: 5,
                output: 2,
                ..Usage::default()
            },
            max_message_bytes: most,
        };
        let (json, dropped) = compacted.to_json(&body.to_string());
        (serde_json::from_slice(&json).unwrap(), dropped)
    }

    #[test]
    fn all_user_messages_come_back_and_one_compaction_item_follows_them() {
        let said = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}], "id": "x"});
        let (answer, dropped) = answer(
            &json!({"input": [
                {"type": "message", "role": "developer", "content": "rules"},
                said,
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
                    said,
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b\"c"}]},
                    {"id": "cmp_7_2", "type": "compaction", "encrypted_content": "b"},
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
    fn an_input_of_one_text_is_a_user_message() {
        let (answer, _) = answer(&json!({"input": "hi"}), 1 << 20);
        assert_eq!(answer["output"][0]["content"][0]["text"], "hi");
        assert_eq!(answer["output"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_oldest_user_messages_go_where_there_is_no_room() {
        let say = |text: &str| json!({"role": "user", "content": text.repeat(100)});
        let body = json!({"input": [say("a"), say("b"), say("c")]});
        let (answer, dropped) = answer(&body, 400);
        assert_eq!(dropped, 1);
        let first = &answer["output"][0]["content"][0]["text"];
        assert!(first.as_str().unwrap().starts_with('b'));
    }
}
