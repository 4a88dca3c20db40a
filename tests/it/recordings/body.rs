//! A recorded exchange and the kind of its answer, which is derived from the content and not from
//! the file's name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// A recorded exchange.
pub struct Recording {
    pub name: String,
    /// The HTTP status, if it was recorded.
    pub status: Option<u16>,
    pub body: Vec<u8>,
    /// The request, if it is a Chat request.
    pub request: Option<Value>,
}

/// A recorded answer by its kind.
pub enum RecordedAnswer {
    /// The chunks of a stream without `[DONE]`.
    Stream(Vec<Value>),
    /// An answer in one JSON document.
    Document(Value),
    /// An HTTP error.
    Refusal(u16),
    /// Not a Chat answer: another endpoint, another API, or a body that cannot be read.
    Other,
}

/// All recordings of a folder, sorted by name.
pub fn read_recordings(folder: &Path) -> Vec<Recording> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_companion = name.ends_with(".req.json") || name.ends_with(".meta.json");
        if path.is_file() && !is_companion {
            names.insert(name);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let case = name
                .rsplit_once('.')
                .map_or(name.as_str(), |(case, _)| case);
            let companion = |end: &str| -> Option<Value> {
                let text = fs::read(folder.join(format!("{case}.{end}.json"))).ok()?;
                serde_json::from_slice(&text).ok()
            };
            let meta = companion("meta").unwrap_or_default();
            Recording {
                status: meta["status"].as_u64().and_then(|n| u16::try_from(n).ok()),
                body: fs::read(folder.join(&name)).unwrap(),
                request: companion("req").and_then(chat_request),
                name,
            }
        })
        .collect()
}

/// The Chat request in a recorded request. Some recordings wrap the body in a description of the
/// exchange. Ollama's native endpoint also has messages, but with `options` beside them.
fn chat_request(request: Value) -> Option<Value> {
    let body = request.get("body_json").cloned().unwrap_or(request);
    (body["messages"].is_array() && body.get("options").is_none()).then_some(body)
}

impl Recording {
    pub fn answer(&self) -> RecordedAnswer {
        if let Some(status) = self.status.filter(|status| *status >= 400) {
            return RecordedAnswer::Refusal(status);
        }
        if let Ok(document) = serde_json::from_slice::<Value>(&self.body) {
            return if is_answer(&document) {
                RecordedAnswer::Document(document)
            } else {
                RecordedAnswer::Other
            };
        }
        let Some(chunks) = chunks(&self.body) else {
            return RecordedAnswer::Other;
        };
        if chunks.iter().any(is_chunk) {
            RecordedAnswer::Stream(chunks)
        } else {
            RecordedAnswer::Other
        }
    }
}

fn is_answer(document: &Value) -> bool {
    let has_choice = document["choices"]
        .as_array()
        .is_some_and(|choices| choices.iter().any(|choice| choice["message"].is_object()));
    has_choice || error(document).is_some()
}

fn is_chunk(chunk: &Value) -> bool {
    let has_delta = chunk["choices"].as_array().is_some_and(|choices| {
        choices
            .iter()
            .any(|choice| choice["delta"].is_object() || choice["message"].is_object())
    });
    has_delta || error(chunk).is_some()
}

/// The error in a body with status 200, wherever the provider puts it.
pub fn error(body: &Value) -> Option<&Value> {
    // The Gemini endpoint wraps its errors in a list.
    let body = body.get(0).unwrap_or(body);
    if body["type"].as_str().is_some_and(|kind| kind.contains('.')) {
        return None;
    }
    let inner = body.get("error").filter(|error| !error.is_null());
    // Older versions of vLLM have no wrapper; MiniMax has its own status field.
    inner
        .or_else(|| (body["object"] == "error").then_some(body))
        .or_else(|| {
            body.get("base_resp")
                .filter(|resp| resp["status_code"].as_i64().is_some_and(|code| code != 0))
        })
}

/// The data of every event, parsed as the standard says; the last event may lack its blank line.
/// `None` if the body is not an event stream.
fn chunks(body: &[u8]) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(body).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut chunks = Vec::new();
    for event in lines.split("\n\n") {
        let data: Vec<&str> = event
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| data.strip_prefix(' ').unwrap_or(data))
            .collect();
        let data = data.join("\n");
        match data.trim() {
            "" => {}
            "[DONE]" => break,
            data => chunks.push(serde_json::from_str(data).ok()?),
        }
    }
    Some(chunks)
}
