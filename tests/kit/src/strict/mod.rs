//! The strict checker: every rule that a Responses client may rely on, checked on the raw text that
//! it gets.
//!
//! - `frame`: the text of a stream, split into frames
//! - `flow`: the order of events and items
//! - `open`: the events of the open item
//! - `part`: the deltas of one part or of a call's arguments
//! - `item`, `response`, `compaction`: the shapes of the objects
//! - `types`: the same text, parsed into async-openai's types
//! - `rule`: the names of the rules

mod compaction;
mod flow;
mod frame;
mod item;
mod open;
mod part;
mod response;
mod rule;
mod types;

#[cfg(test)]
mod tests;

pub use rule::{RuleViolation, StreamRule};

use rule::ViolationReport;
use serde_json::Value;

/// A stream that keeps every rule, as [`check`] returns it.
#[derive(Debug, Clone)]
pub struct CheckedStream {
    /// `(type, data)` of each event, the terminal one last, without `[DONE]`.
    pub events: Vec<(String, Value)>,
    /// The type of the terminal event: `response.completed`, `.incomplete` or `.failed`.
    pub terminal: String,
    /// The response object of the terminal event.
    pub response: Value,
}

/// A call in a response, of any item type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedCall {
    /// The item's `type`, such as `function_call`.
    pub kind: String,
    /// Name of the function or custom tool; empty for the typed calls (shell, patch, search).
    pub name: String,
    /// Namespace of the function, if it has one.
    pub namespace: Option<String>,
    /// The id that its output refers to.
    pub call_id: String,
    /// `arguments` or `input`, as sent; for typed calls the JSON of `action` or `operation`.
    pub arguments: String,
    /// `completed` or `incomplete`.
    pub status: String,
}

impl CheckedStream {
    /// All text of the output messages, in order.
    pub fn text(&self) -> String {
        parts(&self.response, "message", "content", "text")
    }

    /// All reasoning, raw or summarised, in order.
    pub fn reasoning(&self) -> String {
        parts(&self.response, "reasoning", "summary", "text")
            + &parts(&self.response, "reasoning", "content", "text")
    }

    /// All refusals, in order.
    pub fn refusal(&self) -> String {
        parts(&self.response, "message", "content", "refusal")
    }

    /// The calls, in order.
    pub fn calls(&self) -> Vec<CheckedCall> {
        calls(&self.response)
    }

    /// `error.code` of a failed response.
    pub fn error_code(&self) -> Option<&str> {
        self.response.pointer("/error/code").and_then(Value::as_str)
    }

    /// How many events are of this type.
    pub fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|(name, _)| name == kind).count()
    }
}

/// Checks the whole body of a streamed answer; the error holds every violation.
pub fn check(sse_body: &str) -> Result<CheckedStream, Vec<RuleViolation>> {
    check_stream(sse_body, false)
}

/// [`check`] for a stream to Codex. Codex treats every done item as complete, so the item in which
/// an answer failed stays open, and so does one that says what the answer waits for.
pub fn check_for_codex(sse_body: &str) -> Result<CheckedStream, Vec<RuleViolation>> {
    check_stream(sse_body, true)
}

fn check_stream(sse_body: &str, may_stay_open: bool) -> Result<CheckedStream, Vec<RuleViolation>> {
    let mut report = ViolationReport::default();
    let frames = frame::split_frames(sse_body, &mut report);
    let end = flow::follow(&frames, may_stay_open, &mut report);
    if !report.violations.is_empty() {
        return Err(report.violations);
    }
    // A missing terminal event is a violation, so there is one here.
    let Some((terminal, response)) = end else {
        return Err(Vec::new());
    };
    Ok(CheckedStream {
        events: frames
            .into_iter()
            .map(|frame| (frame.kind, frame.data))
            .collect(),
        terminal,
        response,
    })
}

/// [`check`] for tests.
///
/// # Panics
/// On any violation, with all of them and the stream in the message.
#[expect(clippy::panic, reason = "the message is what a failing test shows")]
pub fn check_or_panic(sse_body: &str) -> CheckedStream {
    match check(sse_body) {
        Ok(stream) => stream,
        Err(found) => panic!("{}\nin the stream:\n{sse_body}", list(&found)),
    }
}

/// [`check_for_codex`] for tests.
///
/// # Panics
/// On any violation, with all of them and the stream in the message.
#[expect(clippy::panic, reason = "the message is what a failing test shows")]
pub fn check_for_codex_or_panic(sse_body: &str) -> CheckedStream {
    match check_for_codex(sse_body) {
        Ok(stream) => stream,
        Err(found) => panic!("{}\nin the stream:\n{sse_body}", list(&found)),
    }
}

/// Checks the response object of an answer that was not streamed, and returns it.
pub fn check_response(json: &str) -> Result<Value, Vec<RuleViolation>> {
    check_object(json, |value, report| {
        response::settled(value, report);
        for item in array(value, "output") {
            item::shape(item, item::ItemStage::Done, report);
        }
    })
}

/// Checks the answer of `POST /v1/responses/compact`, and returns it.
pub fn check_compaction(json: &str) -> Result<Value, Vec<RuleViolation>> {
    check_document(json, compaction::object)
}

/// Checks the object of a response that is still running (a background response when polled).
pub fn check_running(json: &str) -> Result<Value, Vec<RuleViolation>> {
    check_object(json, |value, report| {
        let status = string(value, "status").unwrap_or_default();
        report.require(
            matches!(status, "queued" | "in_progress"),
            StreamRule::ResponseStatus,
            || format!("{status:?} while it runs"),
        );
        response::endings(value, status, report);
        for item in array(value, "output") {
            let open = string(item, "status") == Some("in_progress");
            let stage = if open {
                item::ItemStage::Added
            } else {
                item::ItemStage::Done
            };
            item::shape(item, stage, report);
        }
    })
}

fn check_object(
    json: &str,
    rules: fn(&Value, &mut ViolationReport),
) -> Result<Value, Vec<RuleViolation>> {
    check_document(json, |value, report| {
        response::object(value, report);
        rules(value, report);
        let mut ids = item::SeenIds::default();
        for item in array(value, "output") {
            ids.insert(item, report);
        }
        types::response(value, report);
    })
}

fn check_document(
    json: &str,
    rules: impl FnOnce(&Value, &mut ViolationReport),
) -> Result<Value, Vec<RuleViolation>> {
    let mut report = ViolationReport::default();
    let value = match serde_json::from_str::<Value>(json) {
        Ok(value) => value,
        Err(error) => {
            report.add(StreamRule::Framing, format!("not JSON: {error}"));
            return Err(report.violations);
        }
    };
    rules(&value, &mut report);
    if report.violations.is_empty() {
        Ok(value)
    } else {
        Err(report.violations)
    }
}

/// [`check_response`] for tests.
///
/// # Panics
/// On any violation, with all of them and the object in the message.
#[expect(clippy::panic, reason = "the message is what a failing test shows")]
pub fn check_response_or_panic(json: &str) -> Value {
    match check_response(json) {
        Ok(value) => value,
        Err(found) => panic!("{}\nin the response:\n{json}", list(&found)),
    }
}

/// Checks the body of an HTTP error, `{"error":{message,type,param,code}}`, and returns the inner
/// object.
///
/// # Errors
/// What is wrong with it.
pub fn check_error(json: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(json).map_err(|error| format!("{error}: {json}"))?;
    let error = value.get("error").cloned().unwrap_or_default();
    let said = |key: &str| string(&error, key).is_some_and(|text| !text.is_empty());
    let optional = |key: &str| {
        error
            .get(key)
            .is_some_and(|value| value.is_null() || value.is_string())
    };
    if said("message") && said("type") && optional("param") && optional("code") {
        return Ok(error);
    }
    Err(format!("not an error body: {json}"))
}

/// Compares the settings that a response repeats with those of its request (null in a tool counts
/// as absent): tools, except those that run on a server, `tool_choice`, instructions and others.
/// Keys that the request leaves out are not compared.
///
/// # Errors
/// The first key that differs.
pub fn same_settings(request: &Value, response: &Value) -> Result<(), String> {
    const SETTINGS: [&str; 13] = [
        "tools",
        "tool_choice",
        "instructions",
        "previous_response_id",
        "parallel_tool_calls",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "temperature",
        "top_p",
        "store",
        "prompt_cache_key",
        "safety_identifier",
    ];
    let differs = SETTINGS.iter().find(|key| {
        let asked = request.get(**key).filter(|value| !value.is_null());
        let told = response.get(**key).map(without_nulls);
        let asked = asked.map(without_nulls).map(|asked| match (**key, &told) {
            ("tools", Some(told)) => without_hosted_tools(asked, told),
            _ => asked,
        });
        asked.is_some() && asked != told
    });
    differs.map_or(Ok(()), |key| {
        Err(format!(
            "{key}: asked {:?}, told {:?}",
            request.get(*key),
            response.get(*key)
        ))
    })
}

/// The list of tools without those that run on a server, unless the response tells them.
fn without_hosted_tools(mut asked: Value, told: &Value) -> Value {
    const RUN_BY_CLIENTS: [&str; 7] = [
        "function",
        "custom",
        "namespace",
        "local_shell",
        "shell",
        "apply_patch",
        "tool_search",
    ];
    let told = told.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(tools) = asked.as_array_mut() {
        tools.retain(|tool| {
            let kind = string(tool, "type").unwrap_or("function");
            RUN_BY_CLIENTS.contains(&kind) || told.contains(tool)
        });
    }
    asked
}

/// The value without the keys that are null in the objects of a list.
fn without_nulls(value: &Value) -> Value {
    let mut value = value.clone();
    let objects = value.as_array_mut().into_iter().flatten();
    for object in objects.filter_map(Value::as_object_mut) {
        object.retain(|_, field| !field.is_null());
    }
    value
}

/// Compares the `output` of two response objects, except for item ids.
///
/// # Errors
/// The first pair of items that differs, as text.
pub fn same_output(streamed: &Value, nonstreamed: &Value) -> Result<(), String> {
    let plain = |response: &Value| -> Vec<Value> {
        let mut items = array(response, "output").to_vec();
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.insert("id".into(), Value::from("id"));
        }
        items
    };
    let (left, right) = (plain(streamed), plain(nonstreamed));
    if let Some((a, b)) = left.iter().zip(&right).find(|(a, b)| a != b) {
        return Err(format!(
            "outputs differ\n streamed:     {a}\n not streamed: {b}"
        ));
    }
    if left.len() == right.len() {
        return Ok(());
    }
    Err(format!(
        "{} items streamed, {} not streamed",
        left.len(),
        right.len()
    ))
}

/// The calls in the `output` of a response object, in order.
pub fn calls(response: &Value) -> Vec<CheckedCall> {
    let text = |item: &Value, key: &str| string(item, key).unwrap_or_default().to_owned();
    array(response, "output")
        .iter()
        .filter(|item| item.get("call_id").is_some())
        .map(|item| CheckedCall {
            kind: text(item, "type"),
            name: text(item, "name"),
            namespace: string(item, "namespace").map(str::to_owned),
            call_id: text(item, "call_id"),
            arguments: ["arguments", "input", "action", "operation"]
                .iter()
                .find_map(|key| item.get(*key))
                .map(|value| {
                    value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned)
                })
                .unwrap_or_default(),
            status: text(item, "status"),
        })
        .collect()
}

fn parts(response: &Value, kind: &str, list: &str, key: &str) -> String {
    array(response, "output")
        .iter()
        .filter(|item| string(item, "type") == Some(kind))
        .flat_map(|item| array(item, list))
        .filter_map(|part| string(part, key))
        .collect()
}

fn list(found: &[RuleViolation]) -> String {
    let lines: Vec<String> = found.iter().map(RuleViolation::to_string).collect();
    lines.join("\n")
}

fn string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
