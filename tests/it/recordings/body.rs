//! A recorded exchange, and what kind of answer it holds. The content tells,
//! not the file's name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// One exchange.
pub struct Recording {
    pub name: String,
    /// The HTTP status where it was recorded.
    pub status: Option<u16>,
    pub body: Vec<u8>,
    /// What was asked, if that is a chat request.
    pub request: Option<Value>,
}

/// What an answer is.
pub enum Answer {
    /// The chunks of a stream, `[DONE]` left out.
    Stream(Vec<Value>),
    /// A whole answer.
    Document(Value),
    /// An HTTP error.
    Refusal(u16),
    /// No chat: another endpoint, another wire or a body that cannot be read.
    Other,
}

/// Every recording of a folder, in order.
pub fn read(folder: &Path) -> Vec<Recording> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_beside = name.ends_with(".req.json") || name.ends_with(".meta.json");
        if path.is_file() && !is_beside {
            names.insert(name);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let case = name
                .rsplit_once('.')
                .map_or(name.as_str(), |(case, _)| case);
            let beside = |end: &str| -> Option<Value> {
                let text = fs::read(folder.join(format!("{case}.{end}.json"))).ok()?;
                serde_json::from_slice(&text).ok()
            };
            let meta = beside("meta").unwrap_or_default();
            Recording {
                status: meta["status"].as_u64().and_then(|n| u16::try_from(n).ok()),
                body: fs::read(folder.join(&name)).unwrap(),
                request: beside("req").and_then(chat_request),
                name,
            }
        })
        .collect()
}

/// Some recordings wrap the body in the exchange around it. Ollama's own
/// endpoint has messages too, and `options` beside them.
fn chat_request(request: Value) -> Option<Value> {
    let body = request.get("body_json").cloned().unwrap_or(request);
    (body["messages"].is_array() && body.get("options").is_none()).then_some(body)
}

impl Recording {
    pub fn answer(&self) -> Answer {
        if let Some(status) = self.status.filter(|status| *status >= 400) {
            return Answer::Refusal(status);
        }
        if let Ok(document) = serde_json::from_slice::<Value>(&self.body) {
            return if is_answer(&document) {
                Answer::Document(document)
            } else {
                Answer::Other
            };
        }
        let Some(chunks) = chunks(&self.body) else {
            return Answer::Other;
        };
        if chunks.iter().any(is_chunk) {
            Answer::Stream(chunks)
        } else {
            Answer::Other
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

/// The error that a body of status 200 tells of, wherever it stands.
pub fn error(body: &Value) -> Option<&Value> {
    // The Gemini endpoint wraps its errors in a list.
    let body = body.get(0).unwrap_or(body);
    if body["type"].as_str().is_some_and(|kind| kind.contains('.')) {
        return None;
    }
    let inner = body.get("error").filter(|error| !error.is_null());
    // Older vLLM has no wrapper; MiniMax has a status of its own.
    inner
        .or_else(|| (body["object"] == "error").then_some(body))
        .or_else(|| {
            body.get("base_resp")
                .filter(|resp| resp["status_code"].as_i64().is_some_and(|code| code != 0))
        })
}

/// The data of every event, as the standard has it; the last one may lack its
/// blank line. `None` for a body that is no event stream.
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
