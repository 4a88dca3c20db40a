//! Renders steps in the Chat Completions wire, in any dialect: as stream events, or composed into
//! one completion.

use super::dialect::{
    ChatDialect, EventFraming, FinishReasonForm, ReasoningPlacement, StreamErrorForm,
    UsagePlacement,
};
use super::http::PlayerRequest;
use super::script::ScriptStep;
use super::tool_calls::{self, CallRenderer};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The `created` of every reply, constant so that the same script gives the same bytes.
const CREATED: u64 = 1_700_000_000;
/// A finish reason that no client knows.
const UNKNOWN_REASON: &str = "end_of_turn";

/// Renders steps as stream events.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent states of a stream"
)]
pub(super) struct StreamRenderer<'d> {
    dialect: &'d ChatDialect,
    estimate: EstimatedTokens,
    wants_usage: bool,
    /// Token counts of the script, held back for the chunk with the finish reason.
    usage: Option<Map<String, Value>>,
    model: Value,
    started: bool,
    finished: bool,
    /// A `<think>` tag was sent and not closed.
    thinking_open: bool,
    calls: CallRenderer,
}

/// Bytes from which token counts are estimated when the script gives none.
#[derive(Debug)]
struct EstimatedTokens {
    prompt: usize,
    output: usize,
}

impl EstimatedTokens {
    /// A token is reckoned as four bytes.
    fn usage(&self) -> Map<String, Value> {
        let (prompt, output) = ((self.prompt / 4).max(1), (self.output / 4).max(1));
        Map::from_iter([
            ("prompt_tokens".to_owned(), prompt.into()),
            ("completion_tokens".to_owned(), output.into()),
            ("total_tokens".to_owned(), (prompt + output).into()),
        ])
    }
}

impl<'d> StreamRenderer<'d> {
    pub(super) fn new(dialect: &'d ChatDialect, request: &PlayerRequest) -> Self {
        Self {
            dialect,
            estimate: EstimatedTokens {
                prompt: request.body.len(),
                output: 0,
            },
            // A stream that the request did not ask for has token counts, as a document has.
            wants_usage: request.wants_usage() || !request.streams(),
            usage: None,
            model: model(request),
            started: false,
            finished: false,
            thinking_open: false,
            calls: CallRenderer::default(),
        }
    }

    /// The bytes before the first step.
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

    /// The bytes of a step. Calls that are interleaved are held back and come with the next other
    /// step.
    pub(super) fn render(&mut self, step: &ScriptStep) -> String {
        match step {
            ScriptStep::Call(call) => {
                let bytes = self.close_thinking("");
                if self.dialect.interleaved {
                    self.calls.defer(call, self.dialect);
                    return bytes;
                }
                let index = self.calls.next(call);
                bytes + &self.fragments(tool_calls::fragments(call, index, self.dialect))
            }
            ScriptStep::Args(args) => {
                let fragment = tool_calls::bare_fragment(args, self.dialect);
                self.flush_calls() + &self.fragments(vec![fragment])
            }
            ScriptStep::Text(text) if self.thinking_open => self.close_thinking(text),
            ScriptStep::Text(text) => self.flush_calls() + &self.content(text),
            ScriptStep::Reasoning(text) => self.flush_calls() + &self.reasoning(text),
            ScriptStep::Refusal(text) => {
                self.close_pending() + &self.delta(text.len(), json!({"refusal": text}))
            }
            ScriptStep::Usage(usage) => self.close_pending() + &self.usage_step(usage),
            ScriptStep::Finish(reason) => {
                let usage = self.usage.take();
                self.close_pending() + &self.finish(reason, usage.as_ref())
            }
            ScriptStep::Error(error) => self.flush_calls() + &self.error(error),
            ScriptStep::Done(_) => self.close_pending() + &self.event("[DONE]", None),
            ScriptStep::Raw(bytes) => self.close_pending() + bytes,
            ScriptStep::Chunk(chunk) => {
                self.close_pending() + &self.event(&chunk.to_string(), None)
            }
            ScriptStep::Nothing(_) => self.close_pending() + &self.chunk(&json!([]), []),
            ScriptStep::Gate(_)
            | ScriptStep::DelayMs(_)
            | ScriptStep::Stall(_)
            | ScriptStep::Cut(_)
            | ScriptStep::Repeat(_) => self.flush_calls(),
        }
    }

    /// Finish reason, usage and `[DONE]`, for a script without an explicit end.
    pub(super) fn end(&mut self, usage: Option<&Map<String, Value>>) -> String {
        let mut bytes = self.close_pending();
        let usage = usage.cloned().unwrap_or_else(|| self.estimate.usage());
        bytes.push_str(&self.finish(self.calls.finish_reason(), Some(&usage)));
        if self.dialect.usage == UsagePlacement::Apart && self.wants_usage {
            bytes.push_str(&self.usage_chunk(&usage));
        }
        if !self.dialect.framing.no_done {
            bytes.push_str(&self.event("[DONE]", None));
        }
        bytes
    }

    /// The bytes of everything that was held back.
    fn close_pending(&mut self) -> String {
        self.close_thinking("") + &self.flush_calls()
    }

    fn flush_calls(&mut self) -> String {
        let fragments = self.calls.take_deferred();
        self.fragments(fragments)
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
        if !std::mem::take(&mut self.thinking_open) {
            return String::new();
        }
        self.content("</thi") + &self.content(&format!("nk>{text}"))
    }

    fn reasoning(&mut self, text: &str) -> String {
        let tagged = match self.dialect.reasoning {
            ReasoningPlacement::ThinkTags => true,
            ReasoningPlacement::UnopenedThink => false,
            other => return self.delta(text.len(), reasoning(other, text)),
        };
        if std::mem::replace(&mut self.thinking_open, true) || !tagged {
            return self.content(text);
        }
        self.content("<th") + &self.content(&format!("ink>{text}"))
    }

    fn usage_step(&mut self, usage: &Map<String, Value>) -> String {
        match self.dialect.usage {
            UsagePlacement::Nowhere => String::new(),
            UsagePlacement::Apart if !self.wants_usage => String::new(),
            UsagePlacement::Apart => self.usage_chunk(usage),
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
        let delta = self.with_nulls(Map::new());
        let mut choice = Map::from_iter([
            ("index".to_owned(), 0.into()),
            ("delta".to_owned(), delta.into()),
            ("finish_reason".to_owned(), reason.into()),
        ]);
        let mut bytes = String::new();
        if self.dialect.finish == FinishReasonForm::Repeated {
            bytes.push_str(&once(choice.clone(), None));
        }
        let usage = usage.map(|usage| Value::Object(usage.clone()));
        let mut extra = None;
        if let Some(usage) = usage {
            match self.dialect.usage {
                UsagePlacement::OnFinish | UsagePlacement::EveryChunk => {
                    extra = Some(("usage".to_owned(), usage));
                }
                UsagePlacement::InChoice => {
                    choice.insert("usage".to_owned(), usage);
                }
                UsagePlacement::XGroq => {
                    extra = Some(("x_groq".to_owned(), json!({"id": "req_1", "usage": usage})));
                }
                UsagePlacement::Apart | UsagePlacement::Nowhere => {}
            }
        }
        bytes + &once(choice, extra)
    }

    fn error(&self, error: &Value) -> String {
        let mut bytes = match self.dialect.error {
            StreamErrorForm::Chunk | StreamErrorForm::Document | StreamErrorForm::Html => {
                self.event(&json!({"error": error}).to_string(), None)
            }
            StreamErrorForm::InChunk => {
                let choice =
                    json!({"index": 0, "delta": {"content": ""}, "finish_reason": "error"});
                self.chunk(&json!([choice]), [("error".to_owned(), error.clone())])
            }
            StreamErrorForm::Event => {
                self.event(&json!({"error": error}).to_string(), Some("error"))
            }
            StreamErrorForm::List => self.event(&json!([{"error": error}]).to_string(), None),
            StreamErrorForm::Bare => {
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
        self.estimate.output = self.estimate.output.saturating_add(length);
        let mut whole = Map::new();
        if !std::mem::replace(&mut self.started, true) || self.dialect.role_everywhere {
            whole.insert("role".to_owned(), "assistant".into());
        }
        if let Value::Object(delta) = delta {
            whole.extend(delta);
        }
        let mut choice = Map::from_iter([
            ("index".to_owned(), 0.into()),
            ("delta".to_owned(), self.with_nulls(whole).into()),
        ]);
        match self.dialect.finish {
            FinishReasonForm::AbsentBefore => {}
            FinishReasonForm::EmptyBefore => {
                choice.insert("finish_reason".to_owned(), "".into());
            }
            FinishReasonForm::NullBefore
            | FinishReasonForm::Repeated
            | FinishReasonForm::StopAlways
            | FinishReasonForm::Unknown
            | FinishReasonForm::Missing => {
                choice.insert("finish_reason".to_owned(), Value::Null);
            }
        }
        if self.dialect.nulls {
            choice.insert("logprobs".to_owned(), Value::Null);
        }
        let count = (self.dialect.usage == UsagePlacement::EveryChunk)
            .then(|| ("usage".to_owned(), self.estimate.usage().into()));
        self.chunk(&json!([choice]), count)
    }

    fn with_nulls(&self, delta: Map<String, Value>) -> Map<String, Value> {
        if self.dialect.nulls {
            fill_nulls(delta)
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
        let EventFraming {
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

/// Composes steps into one completion, for a request without `stream`.
#[derive(Debug)]
pub(super) struct CompletionRenderer<'d> {
    dialect: &'d ChatDialect,
    estimate: EstimatedTokens,
    model: Value,
    text: String,
    reasoning: String,
    refusal: String,
    calls: CallRenderer,
    finish: Option<String>,
    usage: Option<Map<String, Value>>,
    error: Option<Value>,
}

impl<'d> CompletionRenderer<'d> {
    pub(super) fn new(dialect: &'d ChatDialect, request: &PlayerRequest) -> Self {
        Self {
            dialect,
            estimate: EstimatedTokens {
                prompt: request.body.len(),
                output: 0,
            },
            model: model(request),
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: CallRenderer::default(),
            finish: None,
            usage: None,
            error: None,
        }
    }

    /// Adds a step. Chunks and raw bytes have no meaning in a completion and are ignored.
    pub(super) fn add(&mut self, step: &ScriptStep) {
        match step {
            ScriptStep::Text(text) => self.text.push_str(text),
            ScriptStep::Reasoning(text) => self.reasoning.push_str(text),
            ScriptStep::Refusal(text) => self.refusal.push_str(text),
            ScriptStep::Call(call) => self.calls.add(call),
            ScriptStep::Args(args) => self.calls.append(args),
            ScriptStep::Usage(usage) => self.usage = Some(usage.clone()),
            ScriptStep::Finish(reason) => self.finish = Some(reason.clone()),
            ScriptStep::Error(error) => self.error = Some(error.clone()),
            ScriptStep::Done(_)
            | ScriptStep::Raw(_)
            | ScriptStep::Chunk(_)
            | ScriptStep::Nothing(_)
            | ScriptStep::Gate(_)
            | ScriptStep::DelayMs(_)
            | ScriptStep::Stall(_)
            | ScriptStep::Cut(_)
            | ScriptStep::Repeat(_) => {}
        }
    }

    /// The completion, or the body of an error step.
    pub(super) fn body(mut self) -> Result<Value, Value> {
        if let Some(error) = self.error {
            return Err(json!({"error": error}));
        }
        let reason = self.calls.finish_reason();
        let calls = self.calls.whole(self.dialect);
        self.estimate.output = self.text.len()
            + self.reasoning.len()
            + self.refusal.len()
            + self.calls.argument_bytes();
        let mut message = Map::from_iter([("role".to_owned(), "assistant".into())]);
        message.insert("content".to_owned(), text_or_null(&self.text));
        let thought = &self.reasoning;
        match self.dialect.reasoning {
            _ if thought.is_empty() => {}
            ReasoningPlacement::ThinkTags => {
                let content = format!("<think>{thought}</think>{}", self.text);
                message.insert("content".to_owned(), content.into());
            }
            ReasoningPlacement::UnopenedThink => {
                let content = format!("{thought}</think>{}", self.text);
                message.insert("content".to_owned(), content.into());
            }
            ReasoningPlacement::ContentList => {
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
            message.insert("refusal".to_owned(), text_or_null(&self.refusal));
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        if self.dialect.nulls {
            message = fill_nulls(message);
        }
        let finish = self.finish.as_deref().unwrap_or(reason);
        let finish = finish_reason(self.dialect.finish, finish);
        let mut choice = json!({"index": 0, "message": message, "finish_reason": finish});
        let usage = Value::Object(self.usage.unwrap_or_else(|| self.estimate.usage()));
        let mut body = json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": self.model,
        });
        let place = |object: &mut Value, key: &str, value: Value| {
            if let Value::Object(object) = object {
                object.insert(key.to_owned(), value);
            }
        };
        match self.dialect.usage {
            UsagePlacement::Apart | UsagePlacement::OnFinish | UsagePlacement::EveryChunk => {
                place(&mut body, "usage", usage);
            }
            UsagePlacement::InChoice => place(&mut choice, "usage", usage),
            UsagePlacement::XGroq => place(&mut body, "x_groq", json!({"usage": usage})),
            UsagePlacement::Nowhere => {}
        }
        place(&mut body, "choices", json!([choice]));
        Ok(body)
    }
}

/// The reasoning under the keys of this placement.
fn reasoning(form: ReasoningPlacement, text: &str) -> Value {
    let details =
        json!([{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]);
    match form {
        ReasoningPlacement::ReasoningContent => json!({"reasoning_content": text}),
        ReasoningPlacement::Reasoning => json!({"reasoning": text}),
        ReasoningPlacement::BothNames => json!({"reasoning_content": text, "reasoning": text}),
        ReasoningPlacement::ReasoningDetails => json!({"reasoning_details": details}),
        ReasoningPlacement::ReasoningAndDetails => {
            json!({"reasoning": text, "reasoning_details": details})
        }
        ReasoningPlacement::ContentList => json!({"content": [thinking(text)]}),
        ReasoningPlacement::ThinkTags | ReasoningPlacement::UnopenedThink => {
            json!({"content": text})
        }
    }
}

fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

/// The finish reason as this form sends it; `None` if it is never sent.
fn finish_reason(form: FinishReasonForm, reason: &str) -> Option<&str> {
    match form {
        FinishReasonForm::Missing => None,
        FinishReasonForm::StopAlways if reason == "tool_calls" => Some("stop"),
        FinishReasonForm::Unknown if matches!(reason, "tool_calls" | "stop") => {
            Some(UNKNOWN_REASON)
        }
        FinishReasonForm::NullBefore
        | FinishReasonForm::AbsentBefore
        | FinishReasonForm::EmptyBefore
        | FinishReasonForm::Repeated
        | FinishReasonForm::StopAlways
        | FinishReasonForm::Unknown => Some(reason),
    }
}

/// Adds null for every key that a message or delta may have.
fn fill_nulls(mut message: Map<String, Value>) -> Map<String, Value> {
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

fn text_or_null(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        text.into()
    }
}

fn model(request: &PlayerRequest) -> Value {
    let model = request.json.get("model").cloned();
    model.unwrap_or_else(|| "scripted".into())
}
