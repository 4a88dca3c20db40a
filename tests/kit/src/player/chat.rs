//! Steps in the Chat Completions wire, in any dialect: as stream events, or gathered into one
//! completion.

use super::dialect::{Dialect, ErrorForm, Finish, Framing, Reasoning, UsagePlace};
use super::http::Request;
use super::script::Step;
use super::tool_calls::{self, Calls};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Seconds since 1970 that every reply says it was made: the same script gives the same bytes.
const CREATED: u64 = 1_700_000_000;
/// What stands in the place of a finish reason that nobody knows.
const UNKNOWN_REASON: &str = "end_of_turn";

/// A stream on its way.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent marks of the way"
)]
pub(super) struct Voice<'d> {
    dialect: &'d Dialect,
    counts: Counts,
    wants_usage: bool,
    /// Token counts of the script that wait for the chunk that finishes.
    usage: Option<Map<String, Value>>,
    model: Value,
    started: bool,
    finished: bool,
    /// `<think>` is open.
    thinks: bool,
    calls: Calls,
}

/// What token counts are made of when the script has none.
#[derive(Debug)]
struct Counts {
    prompt: usize,
    output: usize,
}

impl Counts {
    /// About four bytes make a token.
    fn usage(&self) -> Map<String, Value> {
        let (prompt, output) = ((self.prompt / 4).max(1), (self.output / 4).max(1));
        Map::from_iter([
            ("prompt_tokens".to_owned(), prompt.into()),
            ("completion_tokens".to_owned(), output.into()),
            ("total_tokens".to_owned(), (prompt + output).into()),
        ])
    }
}

impl<'d> Voice<'d> {
    pub(super) fn new(dialect: &'d Dialect, request: &Request) -> Self {
        Self {
            dialect,
            counts: Counts {
                prompt: request.body.len(),
                output: 0,
            },
            // A stream that nobody asked for counts its tokens as a document does.
            wants_usage: request.wants_usage() || !request.streams(),
            usage: None,
            model: model(request),
            started: false,
            finished: false,
            thinks: false,
            calls: Calls::default(),
        }
    }

    /// What comes before the first step.
    pub(super) fn begin(&self) -> String {
        let mut bytes = String::new();
        if self.dialect.framing.bom {
            bytes.push('\u{feff}');
        }
        if self.dialect.chunk_without_choices {
            let verdict = json!([{"prompt_index": 0, "content_filter_results": {}}]);
            let extra = [("prompt_filter_results".to_owned(), verdict)];
            bytes.push_str(&self.chunk(&json!([]), extra));
        }
        bytes
    }

    /// The bytes of a step; calls that are sent in turns come with the step behind them.
    pub(super) fn say(&mut self, step: &Step) -> String {
        match step {
            Step::Call(call) => {
                let bytes = self.close_thinking("");
                if self.dialect.interleaved {
                    self.calls.keep(call, self.dialect);
                    return bytes;
                }
                let index = self.calls.next(call);
                bytes + &self.fragments(tool_calls::fragments(call, index, self.dialect))
            }
            Step::Args(args) => {
                let fragment = tool_calls::bare(args, self.dialect);
                self.flush() + &self.fragments(vec![fragment])
            }
            Step::Text(text) if self.thinks => self.close_thinking(text),
            Step::Text(text) => self.flush() + &self.content(text),
            Step::Reasoning(text) => self.flush() + &self.reasoning(text),
            Step::Refusal(text) => self.close() + &self.delta(text.len(), json!({"refusal": text})),
            Step::Usage(usage) => self.close() + &self.usage_step(usage),
            Step::Finish(reason) => {
                let usage = self.usage.take();
                self.close() + &self.finish(reason, usage.as_ref())
            }
            Step::Error(error) => self.flush() + &self.error(error),
            Step::Done(_) => self.close() + &self.event("[DONE]", None),
            Step::Raw(bytes) => self.close() + bytes,
            Step::Chunk(chunk) => self.close() + &self.event(&chunk.to_string(), None),
            Step::DelayMs(_) | Step::Stall(_) | Step::Cut(_) | Step::Repeat(_) => self.flush(),
        }
    }

    /// Finish, usage and `[DONE]`, for a script that does not say how it ends.
    pub(super) fn end(&mut self, usage: Option<&Map<String, Value>>) -> String {
        let mut bytes = self.close();
        let usage = usage.cloned().unwrap_or_else(|| self.counts.usage());
        bytes.push_str(&self.finish(self.calls.reason(), Some(&usage)));
        if self.dialect.usage == UsagePlace::Apart && self.wants_usage {
            bytes.push_str(&self.usage_chunk(&usage));
        }
        if !self.dialect.framing.no_done {
            bytes.push_str(&self.event("[DONE]", None));
        }
        bytes
    }

    /// Everything that waits.
    fn close(&mut self) -> String {
        self.close_thinking("") + &self.flush()
    }

    fn flush(&mut self) -> String {
        let woven = self.calls.woven();
        self.fragments(woven)
    }

    fn fragments(&mut self, fragments: Vec<Value>) -> String {
        let mut bytes = String::new();
        for fragment in fragments {
            let length = fragment.pointer("/function/arguments").map_or(0, |text| {
                text.as_str()
                    .map_or_else(|| text.to_string().len(), str::len)
            });
            bytes.push_str(&self.delta(length, json!({"tool_calls": [fragment]})));
        }
        bytes
    }

    fn content(&mut self, text: &str) -> String {
        self.delta(text.len(), json!({"content": text}))
    }

    fn close_thinking(&mut self, text: &str) -> String {
        if !std::mem::take(&mut self.thinks) {
            return String::new();
        }
        self.content("</thi") + &self.content(&format!("nk>{text}"))
    }

    fn reasoning(&mut self, text: &str) -> String {
        let tagged = match self.dialect.reasoning {
            Reasoning::ThinkTags => true,
            Reasoning::UnopenedThink => false,
            other => return self.delta(text.len(), reasoning(other, text)),
        };
        if std::mem::replace(&mut self.thinks, true) || !tagged {
            return self.content(text);
        }
        self.content("<th") + &self.content(&format!("ink>{text}"))
    }

    fn usage_step(&mut self, usage: &Map<String, Value>) -> String {
        match self.dialect.usage {
            UsagePlace::Nowhere => String::new(),
            UsagePlace::Apart if !self.wants_usage => String::new(),
            UsagePlace::Apart => self.usage_chunk(usage),
            _ if self.finished => self.usage_chunk(usage),
            _ => {
                self.usage = Some(usage.clone());
                String::new()
            }
        }
    }

    fn usage_chunk(&self, usage: &Map<String, Value>) -> String {
        let usage = Value::Object(usage.clone());
        self.chunk(&json!([]), [("usage".to_owned(), usage)])
    }

    fn finish(&mut self, reason: &str, usage: Option<&Map<String, Value>>) -> String {
        let Some(reason) = finish_reason(self.dialect.finish, reason) else {
            return String::new();
        };
        self.finished = true;
        let once = |choice: Map<String, Value>, extra: Option<(String, Value)>| {
            self.chunk(&json!([choice]), extra)
        };
        let delta = self.padded(Map::new());
        let mut choice = Map::from_iter([
            ("index".to_owned(), 0.into()),
            ("delta".to_owned(), delta.into()),
            ("finish_reason".to_owned(), reason.into()),
        ]);
        let mut bytes = String::new();
        if self.dialect.finish == Finish::Repeated {
            bytes.push_str(&once(choice.clone(), None));
        }
        let usage = usage.map(|usage| Value::Object(usage.clone()));
        let mut extra = None;
        if let Some(usage) = usage {
            match self.dialect.usage {
                UsagePlace::OnFinish | UsagePlace::EveryChunk => {
                    extra = Some(("usage".to_owned(), usage));
                }
                UsagePlace::InChoice => {
                    choice.insert("usage".to_owned(), usage);
                }
                UsagePlace::XGroq => {
                    extra = Some(("x_groq".to_owned(), json!({"id": "req_1", "usage": usage})));
                }
                UsagePlace::Apart | UsagePlace::Nowhere => {}
            }
        }
        bytes + &once(choice, extra)
    }

    fn error(&self, error: &Value) -> String {
        let mut bytes = match self.dialect.error {
            ErrorForm::Chunk | ErrorForm::Document | ErrorForm::Html => {
                self.event(&json!({"error": error}).to_string(), None)
            }
            ErrorForm::InChunk => {
                let choice =
                    json!({"index": 0, "delta": {"content": ""}, "finish_reason": "error"});
                self.chunk(&json!([choice]), [("error".to_owned(), error.clone())])
            }
            ErrorForm::Event => self.event(&json!({"error": error}).to_string(), Some("error")),
            ErrorForm::List => self.event(&json!([{"error": error}]).to_string(), None),
            ErrorForm::Bare => {
                let mut bare = Map::from_iter([("object".to_owned(), "error".into())]);
                bare.extend(error.as_object().cloned().unwrap_or_default());
                self.event(&Value::Object(bare).to_string(), None)
            }
        };
        if self.dialect.error_done {
            bytes.push_str(&self.event("[DONE]", None));
        }
        bytes
    }

    fn delta(&mut self, length: usize, delta: Value) -> String {
        self.counts.output = self.counts.output.saturating_add(length);
        let mut whole = Map::new();
        if !std::mem::replace(&mut self.started, true) || self.dialect.role_everywhere {
            whole.insert("role".to_owned(), "assistant".into());
        }
        if let Value::Object(delta) = delta {
            whole.extend(delta);
        }
        let mut choice = Map::from_iter([
            ("index".to_owned(), 0.into()),
            ("delta".to_owned(), self.padded(whole).into()),
        ]);
        match self.dialect.finish {
            Finish::AbsentBefore => {}
            Finish::EmptyBefore => {
                choice.insert("finish_reason".to_owned(), "".into());
            }
            Finish::NullBefore
            | Finish::Repeated
            | Finish::StopAlways
            | Finish::Unknown
            | Finish::Missing => {
                choice.insert("finish_reason".to_owned(), Value::Null);
            }
        }
        if self.dialect.nulls {
            choice.insert("logprobs".to_owned(), Value::Null);
        }
        let count = (self.dialect.usage == UsagePlace::EveryChunk)
            .then(|| ("usage".to_owned(), self.counts.usage().into()));
        self.chunk(&json!([choice]), count)
    }

    fn padded(&self, delta: Map<String, Value>) -> Map<String, Value> {
        if self.dialect.nulls {
            padded(delta)
        } else {
            delta
        }
    }

    fn chunk(&self, choices: &Value, extra: impl IntoIterator<Item = (String, Value)>) -> String {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED,
            "model": self.model, "choices": choices,
        });
        let mut chunk = chunk.as_object().cloned().unwrap_or_default();
        if self.dialect.nulls {
            for key in ["usage", "service_tier", "system_fingerprint"] {
                chunk.insert(key.to_owned(), Value::Null);
            }
        }
        chunk.extend(extra);
        self.event(&Value::Object(chunk).to_string(), None)
    }

    /// One event of the stream.
    fn event(&self, data: &str, name: Option<&str>) -> String {
        let Framing {
            line_end,
            tight,
            comments,
            named,
            two_lines,
            bom: _,
            no_done: _,
        } = self.dialect.framing;
        let (end, blank) = (line_end.text(), if tight { "" } else { " " });
        let mut bytes = String::new();
        // Writing to a String cannot fail.
        if comments {
            let _ = write!(bytes, ": PROCESSING{end}{end}");
        }
        if let Some(name) = name.or_else(|| named.then_some("message")) {
            let _ = write!(bytes, "event:{blank}{name}{end}");
        }
        if named {
            let _ = write!(bytes, "id:{blank}7{end}unknown{end}");
        }
        let _ = match data.split_once("\"choices\"") {
            Some((first, second)) if two_lines => {
                write!(
                    bytes,
                    "data:{blank}{first}{end}data:{blank}\"choices\"{second}{end}{end}"
                )
            }
            _ => write!(bytes, "data:{blank}{data}{end}{end}"),
        };
        bytes
    }
}

/// The same steps as one completion, for a request without `stream`.
#[derive(Debug)]
pub(super) struct Completion<'d> {
    dialect: &'d Dialect,
    counts: Counts,
    model: Value,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Calls,
    finish: Option<String>,
    usage: Option<Map<String, Value>>,
    error: Option<Value>,
}

impl<'d> Completion<'d> {
    pub(super) fn new(dialect: &'d Dialect, request: &Request) -> Self {
        Self {
            dialect,
            counts: Counts {
                prompt: request.body.len(),
                output: 0,
            },
            model: model(request),
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Calls::default(),
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
            Step::Call(call) => self.calls.add(call),
            Step::Args(args) => self.calls.append(args),
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
        let reason = self.calls.reason();
        let calls = self.calls.whole(self.dialect);
        self.counts.output = self.text.len()
            + self.reasoning.len()
            + self.refusal.len()
            + self.calls.argument_bytes();
        let mut message = Map::from_iter([("role".to_owned(), "assistant".into())]);
        message.insert("content".to_owned(), said(&self.text));
        let thought = &self.reasoning;
        match self.dialect.reasoning {
            _ if thought.is_empty() => {}
            Reasoning::ThinkTags => {
                let content = format!("<think>{thought}</think>{}", self.text);
                message.insert("content".to_owned(), content.into());
            }
            Reasoning::UnopenedThink => {
                let content = format!("{thought}</think>{}", self.text);
                message.insert("content".to_owned(), content.into());
            }
            Reasoning::ContentList => {
                let mut content = vec![thinking(thought)];
                if !self.text.is_empty() {
                    content.push(json!({"type": "text", "text": self.text}));
                }
                message.insert("content".to_owned(), content.into());
            }
            other => {
                message.extend(
                    reasoning(other, thought)
                        .as_object()
                        .cloned()
                        .unwrap_or_default(),
                );
            }
        }
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), said(&self.refusal));
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        if self.dialect.nulls {
            message = padded(message);
        }
        let finish = self.finish.as_deref().unwrap_or(reason);
        let finish = finish_reason(self.dialect.finish, finish);
        let mut choice = json!({"index": 0, "message": message, "finish_reason": finish});
        let usage = Value::Object(self.usage.unwrap_or_else(|| self.counts.usage()));
        let mut body = json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": self.model,
        });
        let place = |object: &mut Value, key: &str, value: Value| {
            if let Value::Object(object) = object {
                object.insert(key.to_owned(), value);
            }
        };
        match self.dialect.usage {
            UsagePlace::Apart | UsagePlace::OnFinish | UsagePlace::EveryChunk => {
                place(&mut body, "usage", usage);
            }
            UsagePlace::InChoice => place(&mut choice, "usage", usage),
            UsagePlace::XGroq => place(&mut body, "x_groq", json!({"usage": usage})),
            UsagePlace::Nowhere => {}
        }
        place(&mut body, "choices", json!([choice]));
        Ok(body)
    }
}

/// A thought under its names.
fn reasoning(form: Reasoning, text: &str) -> Value {
    let details =
        json!([{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]);
    match form {
        Reasoning::ReasoningContent => json!({"reasoning_content": text}),
        Reasoning::Reasoning => json!({"reasoning": text}),
        Reasoning::BothNames => json!({"reasoning_content": text, "reasoning": text}),
        Reasoning::ReasoningDetails => json!({"reasoning_details": details}),
        Reasoning::ReasoningAndDetails => json!({"reasoning": text, "reasoning_details": details}),
        Reasoning::ContentList => json!({"content": [thinking(text)]}),
        Reasoning::ThinkTags | Reasoning::UnopenedThink => json!({"content": text}),
    }
}

fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

/// The word in the place of a finish reason, if there is one.
fn finish_reason(form: Finish, reason: &str) -> Option<&str> {
    match form {
        Finish::Missing => None,
        Finish::StopAlways if reason == "tool_calls" => Some("stop"),
        Finish::Unknown if matches!(reason, "tool_calls" | "stop") => Some(UNKNOWN_REASON),
        Finish::NullBefore
        | Finish::AbsentBefore
        | Finish::EmptyBefore
        | Finish::Repeated
        | Finish::StopAlways
        | Finish::Unknown => Some(reason),
    }
}

/// With null for everything that a message or delta may have.
fn padded(mut message: Map<String, Value>) -> Map<String, Value> {
    for key in [
        "content",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "refusal",
        "tool_calls",
        "function_call",
        "audio",
        "annotations",
    ] {
        message.entry(key).or_insert(Value::Null);
    }
    message
}

fn said(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        text.into()
    }
}

fn model(request: &Request) -> Value {
    let model = request.json.get("model").cloned();
    model.unwrap_or_else(|| "scripted".into())
}
