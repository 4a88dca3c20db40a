//! Steps in the Chat Completions dialect: as stream chunks, or gathered into one completion.

use super::http::Request;
use super::script::{Call, Step};
use serde_json::{Map, Value, json};

/// Seconds since 1970 that every reply says it was made: the same script gives the same bytes.
const CREATED: u64 = 1_700_000_000;

/// The state of one reply.
#[derive(Debug)]
pub(super) struct Voice {
    model: Value,
    prompt_bytes: usize,
    output_bytes: usize,
    wants_usage: bool,
    started: bool,
    calls: u64,
}

impl Voice {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            model: request
                .json
                .get("model")
                .cloned()
                .unwrap_or_else(|| "scripted".into()),
            prompt_bytes: request.body.len(),
            output_bytes: 0,
            wants_usage: request.wants_usage(),
            started: false,
            calls: 0,
        }
    }

    /// The bytes of a step; none for a step that only waits or cuts.
    pub(super) fn say(&mut self, step: &Step) -> String {
        match step {
            Step::Text(text) => self.delta(text, &json!({"content": text})),
            Step::Reasoning(text) => self.delta(text, &json!({"reasoning_content": text})),
            Step::Refusal(text) => self.delta(text, &json!({"refusal": text})),
            Step::Call(call) => self.call(call),
            Step::Args(args) => self.arguments(args.index, &args.text),
            Step::Usage(usage) if self.wants_usage => self.chunk(&json!([]), Some(usage)),
            Step::Usage(_) | Step::DelayMs(_) | Step::Stall(_) | Step::Cut(_) | Step::Repeat(_) => {
                String::new()
            }
            Step::Finish(reason) => self.chunk(
                &json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
                None,
            ),
            Step::Error(error) => data(&json!({"error": error})),
            Step::Done(_) => "data: [DONE]\n\n".to_owned(),
            Step::Raw(bytes) => bytes.clone(),
            Step::Chunk(chunk) => data(chunk),
        }
    }

    /// Finish, usage and `[DONE]`, for a script that does not say how it ends.
    pub(super) fn end(&mut self, usage: Option<&Map<String, Value>>) -> String {
        let mut bytes = self.say(&Step::Finish(self.reason().to_owned()));
        let usage = usage.cloned().unwrap_or_else(|| self.usage());
        bytes.push_str(&self.say(&Step::Usage(usage)));
        bytes + &self.say(&Step::Done(true))
    }

    fn reason(&self) -> &'static str {
        if self.calls > 0 { "tool_calls" } else { "stop" }
    }

    /// About four bytes make a token.
    fn usage(&self) -> Map<String, Value> {
        let (prompt, output) = (
            (self.prompt_bytes / 4).max(1),
            (self.output_bytes / 4).max(1),
        );
        Map::from_iter([
            ("prompt_tokens".to_owned(), prompt.into()),
            ("completion_tokens".to_owned(), output.into()),
            ("total_tokens".to_owned(), (prompt + output).into()),
        ])
    }

    fn call(&mut self, call: &Call) -> String {
        let index = call.index.unwrap_or(self.calls);
        self.calls = self.calls.max(index.saturating_add(1));
        let mut head = Map::new();
        head.insert("index".to_owned(), index.into());
        if let Some(id) = &call.id {
            head.insert("id".to_owned(), id.as_str().into());
        }
        head.insert("type".to_owned(), "function".into());
        let function = json!({"name": call.name, "arguments": ""});
        head.insert("function".to_owned(), function);
        let mut bytes = self.delta(&call.name, &json!({"tool_calls": [head]}));
        for piece in pieces(&call.arguments, call.pieces) {
            bytes.push_str(&self.arguments(index, &piece));
        }
        bytes
    }

    fn arguments(&mut self, index: u64, text: &str) -> String {
        self.delta(
            text,
            &json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}),
        )
    }

    fn delta(&mut self, text: &str, delta: &Value) -> String {
        self.output_bytes = self.output_bytes.saturating_add(text.len());
        let mut whole = Map::new();
        if !std::mem::replace(&mut self.started, true) {
            whole.insert("role".to_owned(), "assistant".into());
        }
        whole.extend(delta.as_object().cloned().unwrap_or_default());
        self.chunk(
            &json!([{"index": 0, "delta": whole, "finish_reason": null}]),
            None,
        )
    }

    fn chunk(&self, choices: &Value, usage: Option<&Map<String, Value>>) -> String {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED,
            "model": self.model, "choices": choices,
        });
        let usage = usage.map(|usage| ("usage".to_owned(), Value::Object(usage.clone())));
        let chunk = chunk.as_object().cloned().unwrap_or_default();
        data(&chunk.into_iter().chain(usage).collect())
    }
}

/// The same steps as one completion, for a request without `stream`.
#[derive(Debug)]
pub(super) struct Completion {
    voice: Voice,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<(u64, Call)>,
    finish: Option<String>,
    usage: Option<Map<String, Value>>,
    error: Option<Value>,
}

impl Completion {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            voice: Voice::new(request),
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            finish: None,
            usage: None,
            error: None,
        }
    }

    /// Takes a step in. Chunks and raw bytes have no meaning here and are passed over.
    pub(super) fn add(&mut self, step: &Step) {
        match step {
            Step::Text(text) => self.text.push_str(text),
            Step::Reasoning(text) => self.reasoning.push_str(text),
            Step::Refusal(text) => self.refusal.push_str(text),
            Step::Call(call) => {
                let index = call.index.unwrap_or(self.voice.calls);
                self.voice.calls = self.voice.calls.max(index.saturating_add(1));
                self.calls.push((index, call.clone()));
            }
            Step::Args(args) => {
                let call = self
                    .calls
                    .iter_mut()
                    .find(|(index, _)| *index == args.index);
                if let Some((_, call)) = call {
                    call.arguments.push_str(&args.text);
                }
            }
            Step::Usage(usage) => self.usage = Some(usage.clone()),
            Step::Finish(reason) => self.finish = Some(reason.clone()),
            Step::Error(error) => self.error = Some(error.clone()),
            Step::Done(_)
            | Step::Raw(_)
            | Step::Chunk(_)
            | Step::DelayMs(_)
            | Step::Stall(_)
            | Step::Cut(_)
            | Step::Repeat(_) => {}
        }
    }

    /// The completion, or the error of an error step.
    pub(super) fn body(mut self) -> Result<Value, Value> {
        if let Some(error) = self.error {
            return Err(json!({"error": error}));
        }
        let said = |text: &str| {
            if text.is_empty() {
                Value::Null
            } else {
                text.into()
            }
        };
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), said(&self.text));
        if !self.reasoning.is_empty() {
            message.insert("reasoning_content".to_owned(), said(&self.reasoning));
        }
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), said(&self.refusal));
        }
        let mut bytes = self.text.len() + self.reasoning.len() + self.refusal.len();
        self.calls.sort_by_key(|(index, _)| *index);
        let calls: Vec<Value> = self
            .calls
            .into_iter()
            .map(|(_, call)| {
                bytes += call.arguments.len();
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            })
            .collect();
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        self.voice.output_bytes = bytes;
        let usage = self.usage.unwrap_or_else(|| self.voice.usage());
        let finish = self
            .finish
            .unwrap_or_else(|| self.voice.reason().to_owned());
        Ok(json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": self.voice.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage,
        }))
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Cuts a text into about `count` pieces of equal length, none of them empty.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let size = letters.len().div_ceil(count.max(1)).max(1);
    letters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}
