//! Renders steps as an upstream that speaks the Responses API sends them: each item with all its
//! events, and reasoning with encrypted content.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing a JSON value by a name gives null if it is absent"
)]

use super::dialect::{ChatDialect, StreamErrorForm, UsagePlacement};
use super::http::PlayerRequest;
use super::script::{ScriptStep, ScriptedCall};
use serde_json::{Map, Value, json};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The `encrypted_content` of scripted reasoning begins with this; the strict upstream takes back
/// nothing else.
pub(super) const ENCRYPTED: &str = "gAAAA-scripted-";

/// Renders steps as events of the Responses API.
#[derive(Debug)]
pub(super) struct ResponsesRenderer<'r> {
    error: StreamErrorForm,
    without_usage: bool,
    request: &'r PlayerRequest,
    /// Makes ids that differ from those of other replies.
    token: u64,
    /// Makes encrypted contents, which are the same for the same request.
    of_body: u64,
    sequence: u64,
    output: Vec<Value>,
    open: Option<ScriptedItem>,
    usage: Option<Value>,
    generated: usize,
    started: bool,
    finished: bool,
}

#[derive(Debug)]
enum ScriptedItem {
    Message(Value, &'static str, String),
    Reasoning(Value, String),
    Call(Value, String),
}

impl<'r> ResponsesRenderer<'r> {
    pub(super) fn new(dialect: &ChatDialect, request: &'r PlayerRequest) -> Self {
        let mut hasher = DefaultHasher::new();
        request.body.hash(&mut hasher);
        let of_body = hasher.finish();
        request.number.hash(&mut hasher);
        Self {
            error: dialect.error,
            without_usage: dialect.usage == UsagePlacement::Nowhere,
            request,
            token: hasher.finish(),
            of_body,
            sequence: 0,
            output: Vec::new(),
            open: None,
            usage: None,
            generated: 0,
            started: false,
            finished: false,
        }
    }

    /// The events before the first one of a step. As on the other wire nothing is sent until a
    /// step sends something, so that an answer can end before it begins.
    fn begin(&mut self) -> String {
        if std::mem::replace(&mut self.started, true) {
            return String::new();
        }
        let response = self.response("in_progress");
        let created = self.event("response.created", json!({"response": response}));
        created + &self.event("response.in_progress", json!({"response": response}))
    }

    /// The bytes of a step.
    pub(super) fn render(&mut self, step: &ScriptStep) -> String {
        match step {
            ScriptStep::Text(text) => self.begin() + &self.text("output_text", text),
            ScriptStep::Refusal(text) => self.begin() + &self.text("refusal", text),
            ScriptStep::Reasoning(text) => self.begin() + &self.reasoning(text),
            ScriptStep::Call(call) => self.begin() + &self.call(call),
            ScriptStep::Args(args) => self.begin() + &self.arguments(&args.text),
            ScriptStep::Usage(counts) => {
                self.usage = Some(usage(counts));
                String::new()
            }
            ScriptStep::Finish(reason) => self.begin() + &self.finish(reason),
            ScriptStep::Error(error) => self.fail(error),
            ScriptStep::Done(_) => "data: [DONE]\n\n".to_owned(),
            ScriptStep::Raw(bytes) => bytes.clone(),
            ScriptStep::Chunk(chunk) => format!("data: {chunk}\n\n"),
            ScriptStep::Nothing(_) if !self.started => self.begin(),
            ScriptStep::Nothing(_) => {
                let response = self.response("in_progress");
                self.event("response.in_progress", json!({"response": response}))
            }
            ScriptStep::Gate(_)
            | ScriptStep::DelayMs(_)
            | ScriptStep::Stall(_)
            | ScriptStep::Cut(_)
            | ScriptStep::Repeat(_) => String::new(),
        }
    }

    /// The end of a script that does not say how the answer ends.
    pub(super) fn end(&mut self, counts: Option<&Map<String, Value>>) -> String {
        let usage = counts.map(usage).or(self.usage.take());
        self.usage = (!self.without_usage).then(|| usage.unwrap_or_else(|| self.estimate()));
        self.begin() + &self.finish("stop")
    }

    /// The final response object, for a reply that is not streamed.
    pub(super) fn into_response(mut self) -> Value {
        if !self.finished {
            self.end(None);
        }
        self.response("completed")
    }

    fn text(&mut self, kind: &'static str, text: &str) -> String {
        let mut bytes = String::new();
        let fits = matches!(&self.open, Some(ScriptedItem::Message(_, open, _)) if *open == kind);
        if !fits {
            bytes += &self.close("completed");
            let item = json!({"id": self.id("msg"), "type": "message", "status": "in_progress",
                "role": "assistant", "content": []});
            bytes += &self.added(&item);
            let part = part(kind, "");
            bytes += &self.inner(
                "response.content_part.added",
                &item,
                0,
                json!({"part": part}),
            );
            self.open = Some(ScriptedItem::Message(item, kind, String::new()));
        }
        self.generated += text.len();
        let Some(ScriptedItem::Message(item, _, whole)) = &mut self.open else {
            return bytes;
        };
        whole.push_str(text);
        let item = item.clone();
        let (name, fields) = if kind == "refusal" {
            ("response.refusal.delta", json!({"delta": text}))
        } else {
            let fields = json!({"delta": text, "logprobs": [], "obfuscation": "x7"});
            ("response.output_text.delta", fields)
        };
        bytes + &self.inner(name, &item, 0, fields)
    }

    fn reasoning(&mut self, text: &str) -> String {
        let mut bytes = String::new();
        if !matches!(self.open, Some(ScriptedItem::Reasoning(..))) {
            bytes += &self.close("completed");
            let item = json!({"id": self.id("rs"), "type": "reasoning", "summary": []});
            bytes += &self.added(&item);
            let part = json!({"type": "summary_text", "text": ""});
            let name = "response.reasoning_summary_part.added";
            bytes += &self.summary(name, &item, json!({"part": part}));
            self.open = Some(ScriptedItem::Reasoning(item, String::new()));
        }
        self.generated += text.len();
        let Some(ScriptedItem::Reasoning(item, whole)) = &mut self.open else {
            return bytes;
        };
        whole.push_str(text);
        let item = item.clone();
        let name = "response.reasoning_summary_text.delta";
        bytes + &self.summary(name, &item, json!({"delta": text}))
    }

    /// A call in the form in which the request offers the tool.
    fn call(&mut self, call: &ScriptedCall) -> String {
        let mut bytes = self.close("completed");
        let tools = self.request.json["tools"].as_array();
        let tools = tools.map_or(&[][..], Vec::as_slice);
        let offers = |kind: &str, name: &str| {
            tools
                .iter()
                .any(|tool| tool["type"] == kind && tool["name"] == name)
        };
        let call_id = call.id.clone().unwrap_or_default();
        let item = if offers("custom", &call.name) {
            json!({"id": self.id("ctc"), "type": "custom_tool_call", "status": "in_progress",
                "call_id": call_id, "name": call.name, "input": ""})
        } else {
            let mut item = json!({"id": self.id("fc"), "type": "function_call",
                "status": "in_progress", "arguments": "", "call_id": call_id, "name": call.name});
            if let Some((namespace, name)) = call.name.rsplit_once("__")
                && offers("namespace", namespace)
            {
                item["name"] = json!(name);
                item["namespace"] = json!(namespace);
            }
            item
        };
        bytes += &self.added(&item);
        let is_custom = item["type"] == "custom_tool_call";
        let body = if is_custom {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let input = arguments["input"].as_str().map(str::to_owned);
            input.unwrap_or_else(|| call.arguments.clone())
        } else {
            call.arguments.clone()
        };
        self.open = Some(ScriptedItem::Call(item, String::new()));
        let size = body.chars().count().div_ceil(call.pieces.max(1)).max(1);
        let characters: Vec<char> = body.chars().collect();
        for piece in characters.chunks(size) {
            bytes += &self.arguments(&piece.iter().collect::<String>());
        }
        bytes
    }

    fn arguments(&mut self, text: &str) -> String {
        self.generated += text.len();
        let Some(ScriptedItem::Call(item, whole)) = &mut self.open else {
            return String::new();
        };
        whole.push_str(text);
        let name = if item["type"] == "custom_tool_call" {
            "response.custom_tool_call_input.delta"
        } else {
            "response.function_call_arguments.delta"
        };
        let fields =
            json!({"item_id": item["id"], "output_index": self.output.len(), "delta": text});
        self.event(name, fields)
    }

    /// Closes the open item.
    fn close(&mut self, status: &str) -> String {
        let Some(open) = self.open.take() else {
            return String::new();
        };
        let mut bytes = String::new();
        let item = match open {
            ScriptedItem::Message(mut item, kind, text) => {
                let (name, field) = if kind == "refusal" {
                    ("response.refusal.done", "refusal")
                } else {
                    ("response.output_text.done", "text")
                };
                let mut fields = json!({field: text});
                if kind == "output_text" {
                    fields["logprobs"] = json!([]);
                }
                bytes += &self.inner(name, &item, 0, fields);
                let part = part(kind, &text);
                let fields = json!({"part": part});
                bytes += &self.inner("response.content_part.done", &item, 0, fields);
                item["status"] = json!(status);
                item["content"] = json!([part]);
                item
            }
            ScriptedItem::Reasoning(mut item, text) => {
                let fields = json!({"text": text});
                bytes += &self.summary("response.reasoning_summary_text.done", &item, fields);
                let part = json!({"type": "summary_text", "text": text});
                let fields = json!({"part": part});
                bytes += &self.summary("response.reasoning_summary_part.done", &item, fields);
                item["summary"] = json!([part]);
                let at = self.output.len();
                item["encrypted_content"] = json!(format!("{ENCRYPTED}{:016x}{at}", self.of_body));
                if status != "completed" {
                    item["status"] = json!(status);
                }
                item
            }
            ScriptedItem::Call(mut item, body) => {
                let (name, field) = if item["type"] == "custom_tool_call" {
                    ("response.custom_tool_call_input.done", "input")
                } else {
                    ("response.function_call_arguments.done", "arguments")
                };
                let at = self.output.len();
                let fields = json!({"item_id": item["id"], "output_index": at, field: body});
                bytes += &self.event(name, fields);
                item["status"] = json!(status);
                item[field] = json!(body);
                item
            }
        };
        let fields = json!({"output_index": self.output.len(), "item": item});
        bytes += &self.event("response.output_item.done", fields);
        self.output.push(item);
        bytes
    }

    fn finish(&mut self, reason: &str) -> String {
        self.finished = true;
        let (status, incomplete) = match reason {
            "length" => ("incomplete", Some("max_output_tokens")),
            "content_filter" => ("incomplete", Some("content_filter")),
            _ => ("completed", None),
        };
        let bytes = self.close(status);
        let mut response = self.response(status);
        if let Some(reason) = incomplete {
            response["incomplete_details"] = json!({"reason": reason});
        }
        let name = format!("response.{status}");
        bytes + &self.event(&name, json!({"response": response}))
    }

    fn fail(&mut self, error: &Value) -> String {
        self.finished = true;
        if self.error == StreamErrorForm::Event {
            return self.event("error", json!({"error": error}));
        }
        let mut response = self.response("failed");
        response["error"] = error.clone();
        self.event("response.failed", json!({"response": response}))
    }

    fn response(&self, status: &str) -> Value {
        let is_over = status != "in_progress";
        json!({"id": format!("resp_{:016x}", self.token), "object": "response",
            "created_at": 1_700_000_000, "status": status, "error": null,
            "incomplete_details": null, "model": self.request.json["model"],
            "output": self.output, "usage": if is_over { json!(self.usage) } else { Value::Null }})
    }

    /// Token counts for an answer whose script has none.
    fn estimate(&self) -> Value {
        let prompt = (self.request.body.len() / 4).max(1);
        let output = (self.generated / 4).max(1);
        json!({"input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + output})
    }

    fn added(&mut self, item: &Value) -> String {
        let fields = json!({"output_index": self.output.len(), "item": item});
        self.event("response.output_item.added", fields)
    }

    fn inner(&mut self, name: &str, item: &Value, index: usize, mut fields: Value) -> String {
        fields["item_id"] = item["id"].clone();
        fields["output_index"] = json!(self.output.len());
        fields["content_index"] = json!(index);
        self.event(name, fields)
    }

    fn summary(&mut self, name: &str, item: &Value, mut fields: Value) -> String {
        fields["item_id"] = item["id"].clone();
        fields["output_index"] = json!(self.output.len());
        fields["summary_index"] = json!(0);
        self.event(name, fields)
    }

    fn event(&mut self, name: &str, mut fields: Value) -> String {
        fields["type"] = json!(name);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        format!("event: {name}\ndata: {fields}\n\n")
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:016x}{}", self.token, self.output.len())
    }
}

fn part(kind: &str, text: &str) -> Value {
    if kind == "refusal" {
        json!({"type": "refusal", "refusal": text})
    } else {
        json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    }
}

/// The counts of a script, which have the names of Chat Completions.
fn usage(counts: &Map<String, Value>) -> Value {
    let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or(0);
    let inner = |name: &str, key: &str| {
        let details = counts.get(name).and_then(|details| details.get(key));
        details.and_then(Value::as_u64).unwrap_or(0)
    };
    let (input, output) = (count("prompt_tokens"), count("completion_tokens"));
    json!({"input_tokens": input,
        "input_tokens_details": {"cached_tokens": inner("prompt_tokens_details", "cached_tokens")},
        "output_tokens": output,
        "output_tokens_details": {
            "reasoning_tokens": inner("completion_tokens_details", "reasoning_tokens")},
        "total_tokens": input + output})
}
