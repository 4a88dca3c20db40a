//! Recorded answers of upstreams that speak the Responses API themselves: each reaches the client
//! as the items that the upstream sent, however its bytes are split, and goes back to it as it
//! came.

use kit::drive::DrivenAnswer;
use kit::strict::{self, CheckedStream};
use registry::{RelayQuirks, WireQuirks};
use serde_json::{Map, Value, json};

use super::answers::{reads, splits};
use super::body::Recording;
use super::replay::{ReplayClient, replay};
use super::{assert_no_problems, refusals};

pub fn check(folder: &str, recordings: &[Recording]) {
    let mut problems = Vec::new();
    for recording in recordings {
        let mut report = |problem: String| {
            problems.push(format!("{folder}/{}: {problem}", recording.name));
        };
        match recording.status {
            Some(status) if status >= 400 => refusals::check(status, recording, &mut report),
            Some(_) | None => {
                if let Some(response) = recorded_response(&recording.body) {
                    check_replay(recording, &response, &mut report);
                }
            }
        }
    }
    assert_no_problems(&problems);
}

/// The final response object of an answer, streamed or whole. `None` for what is none: an answer
/// of another endpoint, or one that is still queued.
fn recorded_response(body: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(body).ok()?;
    if let Ok(document) = serde_json::from_str::<Value>(text) {
        let is_final = document["object"] == "response" && document["status"] == "completed";
        return is_final.then_some(document);
    }
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    // OpenAI encrypts reasoning anew for its last event, so that the items count as they came.
    let mut items: Vec<(u64, Value)> = Vec::new();
    for event in events {
        match event["type"].as_str() {
            Some("response.output_item.done") => {
                items.push((event["output_index"].as_u64()?, event["item"].clone()));
            }
            Some("response.completed" | "response.incomplete") => {
                let mut response = event["response"].clone();
                items.sort_by_key(|(index, _)| *index);
                response["output"] = items.into_iter().map(|(_, item)| item).collect();
                return Some(response);
            }
            _ => {}
        }
    }
    None
}

fn check_replay(recording: &Recording, response: &Value, report: &mut dyn FnMut(String)) {
    let quirks = WireQuirks::Responses(RelayQuirks::default());
    let body = recording.body.as_slice();
    let any = replay(&quirks, ReplayClient::Any, [body]);
    let codex = replay(&quirks, ReplayClient::Codex, [body]);
    let whole = replay(&quirks, ReplayClient::Unstreamed, [body]);
    for (split, sizes) in splits(body) {
        if replay(&quirks, ReplayClient::Any, reads(body, &sizes)).body != any.body {
            report(format!("differs when it is read {split}"));
        }
    }
    let stream = match strict::check(&text(&any)) {
        Ok(stream) => stream,
        Err(broken) => return report(format!("the stream breaks rules: {broken:?}")),
    };
    match strict::check_for_codex(&text(&codex)) {
        Ok(codex) if codex.calls() != stream.calls() => report("Codex gets other calls".into()),
        Ok(_) => {}
        Err(broken) => report(format!("the stream for Codex breaks rules: {broken:?}")),
    }
    match strict::check_response(&text(&whole)) {
        Ok(whole) if whole["output"] == stream.response["output"] => {}
        Ok(whole) => report(format!("differs without streaming: {whole}")),
        Err(broken) => report(format!("the response breaks rules: {broken:?}")),
    }
    compare(response, &stream, report);
}

fn text(played: &DrivenAnswer) -> String {
    String::from_utf8(played.body.clone()).unwrap()
}

/// Compares the items with those that the upstream sent, but for what the proxy changes.
fn compare(recorded: &Value, stream: &CheckedStream, report: &mut dyn FnMut(String)) {
    if recorded["status"] != stream.response["status"] {
        report(format!("ends as {}", stream.response["status"]));
    }
    let counts = |usage: &Value| {
        [
            usage["input_tokens"].clone(),
            usage["output_tokens"].clone(),
            usage["input_tokens_details"]["cached_tokens"].clone(),
            usage["output_tokens_details"]["reasoning_tokens"].clone(),
        ]
    };
    // An estimate replaces counts that were not recorded.
    if recorded["usage"]["input_tokens"].as_u64() > Some(0)
        && counts(&recorded["usage"]) != counts(&stream.response["usage"])
    {
        report(format!("the usage is {}", stream.response["usage"]));
    }
    let items = |response: &Value| -> Vec<Value> {
        let items = response["output"].as_array().cloned().unwrap_or_default();
        items.iter().map(comparable).collect()
    };
    let (sent, got) = (items(recorded), items(&stream.response));
    if sent != got {
        report(format!("the items were {sent:?} and came as {got:?}"));
    }
}

/// An item without what the proxy adds or replaces: ids, envelopes of encrypted content, and the
/// fields that clients expect and this upstream leaves out.
fn comparable(item: &Value) -> Value {
    let mut item = item.as_object().cloned().unwrap_or_default();
    for key in ["id", "phase", "status"] {
        item.remove(key);
    }
    if let Some(sealed) = item.get("encrypted_content").and_then(Value::as_str) {
        let inner = sealed.splitn(4, '.').nth(3);
        let inner = inner
            .filter(|_| sealed.starts_with("rse1."))
            .unwrap_or(sealed);
        item.insert("encrypted_content".into(), json!(inner));
    }
    for part in item
        .get_mut("content")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if part["type"] == "output_text" {
            part.as_object_mut().unwrap().remove("logprobs");
            for citation in part["annotations"].as_array_mut().into_iter().flatten() {
                for key in ["start_index", "end_index", "title"] {
                    citation.as_object_mut().unwrap().remove(key);
                }
            }
        }
    }
    // An empty list or string is as good as none.
    let filled = |value: &Value| {
        !value.is_null() && *value != json!([]) && *value != json!("") && *value != json!("{}")
    };
    Value::Object(
        item.into_iter()
            .filter(|(_, value)| filled(value))
            .collect::<Map<_, _>>(),
    )
}
