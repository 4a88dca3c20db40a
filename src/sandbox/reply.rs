//! A reply of the offline model in the Chat Completions wire, as server-sent events. Our reader
//! takes these for a request without `stream`, too.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::request::ChatRequest;

/// The `created` of every reply: the same request always gives the same bytes.
const CREATED: u64 = 1_700_000_000;

/// A reply as the offline model makes it.
#[derive(Debug)]
pub(super) enum SandboxReply {
    /// An answer.
    Steps(Vec<ReplyStep>),
    /// An error status with this body.
    Error(StatusCode, Value),
}

#[derive(Debug)]
pub(super) enum ReplyStep {
    /// A piece of the text.
    Text(String),
    /// A piece of the reasoning.
    Reasoning(String),
    Call(SandboxCall),
    /// An error in the middle of the answer, which ends it.
    Error(Value),
}

/// A tool call of the offline model.
#[derive(Debug)]
pub(super) struct SandboxCall {
    pub(super) id: String,
    pub(super) name: String,
    /// A JSON object, as text.
    pub(super) arguments: String,
}

/// The events of each step, then those of the end; each string is written as one chunk.
pub(super) fn events(steps: &[ReplyStep], request: &ChatRequest) -> Vec<String> {
    let mut first = true;
    let mut delta = |delta: Value| {
        let mut message = Map::new();
        if std::mem::take(&mut first) {
            message.insert("role".to_owned(), "assistant".into());
        }
        if let Value::Object(delta) = delta {
            message.extend(delta);
        }
        chunk(
            request,
            &json!([{"index": 0, "delta": message, "finish_reason": null}]),
            None,
        )
    };
    let mut calls = 0_u64;
    let mut chunks = Vec::new();
    for step in steps {
        match step {
            ReplyStep::Text(text) => chunks.push(delta(json!({"content": text}))),
            ReplyStep::Reasoning(text) => chunks.push(delta(json!({"reasoning_content": text}))),
            ReplyStep::Call(call) => {
                let fragments = fragments(call, calls).into_iter();
                chunks.push(
                    fragments
                        .map(|fragment| delta(json!({"tool_calls": [fragment]})))
                        .collect(),
                );
                calls += 1;
            }
            ReplyStep::Error(error) => {
                chunks.push(event(&json!({"error": error}).to_string()));
                return chunks;
            }
        }
    }
    let finish = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(steps)}]);
    let mut end = chunk(request, &finish, None);
    end.push_str(&chunk(request, &json!([]), Some(usage(steps, request))));
    end.push_str(&event("[DONE]"));
    chunks.push(end);
    chunks
}

fn chunk(request: &ChatRequest, choices: &Value, usage: Option<Value>) -> String {
    let mut chunk = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED,
        "model": model(request), "choices": choices,
    });
    if let (Some(usage), Value::Object(chunk)) = (usage, &mut chunk) {
        chunk.insert("usage".to_owned(), usage);
    }
    event(&chunk.to_string())
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The fragments of a call: first its id and name with empty arguments, then the arguments in
/// three pieces.
fn fragments(call: &SandboxCall, index: u64) -> Vec<Value> {
    let letters: Vec<char> = call.arguments.chars().collect();
    let pieces = letters.chunks(letters.len().div_ceil(3).max(1));
    let pieces = pieces.map(|piece| {
        let arguments: String = piece.iter().collect();
        json!({"index": index, "function": {"arguments": arguments}})
    });
    let head = json!({
        "index": index, "id": call.id, "type": "function",
        "function": {"name": call.name, "arguments": ""},
    });
    [head].into_iter().chain(pieces).collect()
}

fn model(request: &ChatRequest) -> Value {
    let model = request.json.get("model").cloned();
    model.unwrap_or_else(|| "scripted".into())
}

fn finish_reason(steps: &[ReplyStep]) -> &'static str {
    let calls = |step: &ReplyStep| matches!(step, ReplyStep::Call(_));
    if steps.iter().any(calls) {
        "tool_calls"
    } else {
        "stop"
    }
}

/// Token counts; a token is reckoned as four bytes.
fn usage(steps: &[ReplyStep], request: &ChatRequest) -> Value {
    let length = |step: &ReplyStep| match step {
        ReplyStep::Text(text) | ReplyStep::Reasoning(text) => text.len(),
        ReplyStep::Call(call) => call.arguments.len(),
        ReplyStep::Error(_) => 0,
    };
    let output: usize = steps.iter().map(length).sum();
    let (prompt, output) = ((request.length / 4).max(1), (output / 4).max(1));
    json!({
        "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
    })
}
