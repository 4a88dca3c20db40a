//! The shapes of output items.

use super::rule::{StreamRule, ViolationReport};
use super::{array, string};
use serde_json::Value;
use std::collections::HashSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemStage {
    Added,
    Done,
}

/// The ids so far in one response.
#[derive(Debug, Default)]
pub(super) struct SeenIds {
    items: HashSet<String>,
    calls: HashSet<String>,
}

impl SeenIds {
    pub(super) fn insert(&mut self, item: &Value, report: &mut ViolationReport) {
        let id = string(item, "id").unwrap_or_default();
        report.require(self.items.insert(id.to_owned()), StreamRule::ItemId, || {
            format!("{id:?} again")
        });
        let kind = string(item, "type").unwrap_or_default();
        // The output of a tool that ran at the upstream names its call.
        let is_output = kind.ends_with("_output");
        let names_itself = |id: &&str| !is_output && !id.is_empty();
        if let Some(call) = string(item, "call_id").filter(names_itself) {
            report.require(
                self.calls.insert(call.to_owned()),
                StreamRule::CallId,
                || format!("{call:?} again"),
            );
        }
    }
}

/// The prefix of an item's id. Empty where OpenAI's prefix varies: any lower-case word is allowed.
fn prefix(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "message" => "msg_",
        "reasoning" => "rs_",
        "function_call" => "fc_",
        "custom_tool_call" => "ctc_",
        "web_search_call" => "ws_",
        "compaction" => "cmp_",
        "file_search_call" => "fs_",
        "code_interpreter_call" => "ci_",
        "image_generation_call" => "ig_",
        "tool_search_call"
        | "tool_search_output"
        | "shell_call_output"
        // A search of xAI's own, beside those of the API.
        | "x_search_call"
        | "local_shell_call"
        | "shell_call"
        | "apply_patch_call"
        | "mcp_call"
        | "mcp_list_tools"
        | "mcp_approval_request" => "",
        _ => return None,
    })
}

pub(super) fn shape(item: &Value, stage: ItemStage, report: &mut ViolationReport) {
    let kind = string(item, "type").unwrap_or_default();
    let Some(prefix) = prefix(kind) else {
        report.add(
            StreamRule::ItemShape,
            format!("an output item of type {kind:?}"),
        );
        return;
    };
    let id = string(item, "id").unwrap_or_default();
    let word = id.split_once('_').map_or("", |(word, _)| word);
    report.require(
        id.starts_with(prefix)
            && id.len() > word.len() + 1
            && !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase()),
        StreamRule::ItemId,
        || format!("{id:?} for a {kind}"),
    );
    // In the schema these have no status, or an optional one.
    let free = matches!(
        kind,
        "reasoning" | "compaction" | "mcp_list_tools" | "mcp_approval_request"
    );
    if !free || item.get("status").is_some() {
        status(item, kind, stage, report);
    }
    match kind {
        "message" => message(item, stage, report),
        "reasoning" => reasoning(item, stage, report),
        "compaction" => text(item, &["encrypted_content"], report),
        "web_search_call" => {
            let action = item.pointer("/action/type").and_then(Value::as_str);
            let known = matches!(
                action,
                Some("search" | "open_page" | "find" | "find_in_page")
            );
            report.require(
                known || stage == ItemStage::Added,
                StreamRule::ItemShape,
                || format!("{kind} with action {action:?}"),
            );
        }
        // They run at the upstream, and come as that wrote them.
        "file_search_call"
        | "code_interpreter_call"
        | "image_generation_call"
        | "tool_search_output"
        | "shell_call_output"
        | "x_search_call" => {}
        "mcp_call" | "mcp_approval_request" => {
            text(item, &["server_label", "name", "arguments"], report);
        }
        "mcp_list_tools" => {
            text(item, &["server_label"], report);
            report.require(
                item.get("tools").is_some_and(Value::is_array),
                StreamRule::ItemShape,
                || format!("{kind} without tools"),
            );
        }
        _ => call(item, kind, stage, report),
    }
}

fn status(item: &Value, kind: &str, stage: ItemStage, report: &mut ViolationReport) {
    let status = string(item, "status").unwrap_or_default();
    let fits = match stage {
        // Shell-like calls have no deltas and may be complete when they are added.
        ItemStage::Added => {
            status == "in_progress" || (status == "completed" && streams(kind).is_none())
        }
        ItemStage::Done => {
            matches!(status, "completed" | "incomplete")
                || (status == "failed" && matches!(kind, "web_search_call" | "mcp_call"))
        }
    };
    report.require(fits, StreamRule::ItemStatus, || {
        format!("{kind} {stage:?} with status {status:?}")
    });
}

/// The field that a kind of item streams outside of parts, and the stem of its events.
pub(super) fn streams(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "function_call" => Some(("arguments", "response.function_call_arguments")),
        "custom_tool_call" => Some(("input", "response.custom_tool_call_input")),
        "mcp_call" => Some(("arguments", "response.mcp_call_arguments")),
        // A message is streamed in parts.
        "message" => Some(("content", "")),
        _ => None,
    }
}

fn message(item: &Value, stage: ItemStage, report: &mut ViolationReport) {
    report.require(
        string(item, "role") == Some("assistant"),
        StreamRule::ItemShape,
        || format!("message with role {:?}", item.get("role")),
    );
    let content = item.get("content").and_then(Value::as_array);
    report.require(
        content.is_some_and(|parts| parts.is_empty() == (stage == ItemStage::Added)),
        StreamRule::ItemShape,
        || format!("message {stage:?} with content {:?}", item.get("content")),
    );
    for part in array(item, "content") {
        report.require(
            matches!(string(part, "type"), Some("output_text" | "refusal")),
            StreamRule::ItemShape,
            || format!("message part {part}"),
        );
        content_part(part, report);
    }
    let phase = item.get("phase");
    let known = matches!(
        phase.and_then(Value::as_str),
        Some("commentary" | "final_answer")
    );
    report.require(
        known || (stage == ItemStage::Added && phase.is_none()),
        StreamRule::Phase,
        || format!("message {stage:?} with phase {phase:?}"),
    );
}

fn reasoning(item: &Value, stage: ItemStage, report: &mut ViolationReport) {
    for key in ["content", "encrypted_content"] {
        report.require(
            !item.get(key).is_some_and(Value::is_null),
            StreamRule::AbsentNotNull,
            || format!("`{key}` is null"),
        );
    }
    let has = |key: &str| !array(item, key).is_empty();
    report.require(
        item.get("summary").is_some_and(Value::is_array),
        StreamRule::ItemShape,
        || "reasoning without summary".into(),
    );
    report.require(
        !(has("summary") && has("content")),
        StreamRule::OneReasoningStream,
        || "summary and content in one item".into(),
    );
    if stage == ItemStage::Added {
        report.require(
            !has("summary") && !has("content"),
            StreamRule::ItemShape,
            || "reasoning added with text".into(),
        );
        return;
    }
    let parts = array(item, "summary")
        .iter()
        .map(|part| (part, "summary_text"));
    for (part, kind) in parts.chain(
        array(item, "content")
            .iter()
            .map(|part| (part, "reasoning_text")),
    ) {
        report.require(
            string(part, "type") == Some(kind) && string(part, "text").is_some(),
            StreamRule::ItemShape,
            || format!("reasoning part {part} as a {kind}"),
        );
    }
}

fn call(item: &Value, kind: &str, stage: ItemStage, report: &mut ViolationReport) {
    let call_id = string(item, "call_id").unwrap_or_default();
    let id = string(item, "id").unwrap_or_default();
    // A search that the server itself runs has no output.
    let unanswered = kind == "tool_search_call"
        && string(item, "execution") == Some("server")
        && item.get("call_id").is_some_and(Value::is_null);
    report.require(
        unanswered || (!call_id.is_empty() && call_id != id && call_id.len() <= 64),
        StreamRule::CallId,
        || format!("call_id {call_id:?} of {id:?}"),
    );
    let named = string(item, "name").is_some_and(|name| !name.is_empty());
    let list = |path: &str| {
        item.pointer(path)
            .and_then(Value::as_array)
            .is_some_and(|words| !words.is_empty() && words.iter().all(Value::is_string))
    };
    let word = |path: &str| item.pointer(path).and_then(Value::as_str);
    let good = match kind {
        "function_call" => named && (item.get("namespace").is_none_or(Value::is_string)),
        "custom_tool_call" => named,
        "tool_search_call" => {
            item.get("arguments").is_some_and(Value::is_object)
                && matches!(word("/execution"), Some("client" | "server"))
        }
        "local_shell_call" => {
            word("/action/type") == Some("exec")
                && list("/action/command")
                && item.pointer("/action/env").is_some_and(Value::is_object)
        }
        // The commands may come in events of their own.
        "shell_call" => list("/action/commands") || stage == ItemStage::Added,
        "apply_patch_call" => {
            let diff = word("/operation/diff").is_some();
            word("/operation/path").is_some()
                && match word("/operation/type") {
                    Some("create_file" | "update_file") => diff,
                    Some("delete_file") => !diff,
                    _ => false,
                }
        }
        _ => false,
    };
    report.require(good, StreamRule::ItemShape, || {
        format!("{kind} {stage:?} as {item}")
    });
    let Some((field, _)) = streams(kind) else {
        return;
    };
    let body = string(item, field);
    let fits = body.is_some_and(|body| match stage {
        ItemStage::Added => body.is_empty(),
        ItemStage::Done => {
            !body.is_empty()
                || kind == "custom_tool_call"
                || string(item, "status") == Some("incomplete")
        }
    });
    report.require(fits, StreamRule::ItemShape, || {
        format!("{kind} {stage:?} with {field} {body:?}")
    });
}

/// A part of a message or of raw reasoning.
pub(super) fn content_part(part: &Value, report: &mut ViolationReport) {
    match string(part, "type") {
        Some("output_text") => {
            text_of(part, "text", report);
            for (key, rule) in [
                ("annotations", StreamRule::Annotations),
                ("logprobs", StreamRule::Logprobs),
            ] {
                report.require(part.get(key).is_some_and(Value::is_array), rule, || {
                    format!("`{key}` of the part is {:?}", part.get(key))
                });
            }
        }
        Some("refusal") => text_of(part, "refusal", report),
        Some("reasoning_text" | "summary_text") => text_of(part, "text", report),
        other => report.add(StreamRule::ItemShape, format!("part of type {other:?}")),
    }
}

fn text_of(part: &Value, key: &str, report: &mut ViolationReport) {
    report.require(string(part, key).is_some(), StreamRule::ItemShape, || {
        format!("part without {key}: {part}")
    });
}

fn text(item: &Value, keys: &[&str], report: &mut ViolationReport) {
    let kind = string(item, "type").unwrap_or_default();
    for key in keys {
        report.require(string(item, key).is_some(), StreamRule::ItemShape, || {
            format!("{kind} without `{key}`: {item}")
        });
    }
}
