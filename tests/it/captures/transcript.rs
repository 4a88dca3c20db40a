//! Flattens a request and the upstream request made from it into transcripts, which must be equal.

use std::collections::BTreeSet;

use adapters::compaction_blob::UNREADABLE_SUMMARY;
use adapters::notes::Notes;
use kit::player::PlayerWire;
use serde_json::Value;

/// The text in a result that stands for an image.
const IMAGE_NOTICE: &str = "(The image stands in the next user message.)";
/// The beginning of the text before an image that a tool returned.
const CAPTION: &str = "Output of the tool call ";

/// Hosted tools, which a Chat model cannot use, and what it is told of them.
const DROPPED_TOOLS: [&str; 1] = ["web_search"];
pub const NO_SEARCH: &str = "Web search is not available here. Say so where an answer needs more than you know, and make up no results.";
/// What the user says where nobody said anything.
const EMPTY_MESSAGE: &str = "(The message is empty.)";
/// Items that have no counterpart in a Chat request.
const IGNORED_ITEMS: [&str; 2] = ["additional_tools", "compaction_trigger"];

/// A text, a call or a result of the conversation.
#[derive(Debug, PartialEq)]
enum TranscriptEntry {
    Text {
        role: &'static str,
        text: String,
    },
    /// Calls are numbered, because an id can recur in a session.
    Call {
        call: usize,
        name: String,
        arguments: Value,
    },
    Output {
        call: usize,
        text: String,
    },
}

#[derive(Default)]
struct Transcript {
    entries: Vec<TranscriptEntry>,
    images: Vec<String>,
    reasoning: Vec<String>,
    tools: BTreeSet<String>,
    /// The ids of the calls in their order.
    ids: Vec<String>,
}

/// Asserts that both requests have the same transcript.
pub fn check(wire: PlayerWire, name: &str, request: &Value, sent: &Value, notes: &Notes) {
    let mut expected = request_transcript(request);
    let actual = match wire {
        PlayerWire::Chat => {
            expected.entries = with_one_system_message(expected.entries);
            chat_transcript(sent)
        }
        PlayerWire::Responses => request_transcript(sent),
    };
    for (at, (expected, actual)) in expected.entries.iter().zip(&actual.entries).enumerate() {
        assert_eq!(expected, actual, "{name}: at {at}");
    }
    assert_eq!(expected.entries.len(), actual.entries.len(), "{name}");
    for (at, (id, sent)) in expected.ids.iter().zip(&actual.ids).enumerate() {
        let recurs = expected.ids.iter().take(at).any(|earlier| earlier == id);
        assert_eq!(recurs, id != sent, "{name}: {id} is sent as {sent}");
    }
    let different: BTreeSet<&String> = actual.ids.iter().collect();
    assert_eq!(
        different.len(),
        actual.ids.len(),
        "{name}: {:?}",
        actual.ids
    );
    assert_eq!(expected.images, actual.images, "{name}");
    let reasoning = actual.reasoning.concat();
    for text in &expected.reasoning {
        assert!(reasoning.contains(text), "{name}: lost reasoning {text:?}");
    }
    assert_eq!(expected.tools, actual.tools, "{name}");
    let skipped = |kind: &str| items(request).iter().any(|item| item["type"] == kind);
    assert_eq!(
        skipped("compaction"),
        notes.iter().any(|note| note.code == "item_skipped"),
        "{name}: {notes:?}"
    );
}

fn request_transcript(request: &Value) -> Transcript {
    let mut transcript = Transcript::default();
    if let Some(text) = request["instructions"].as_str() {
        transcript.text("system", text);
    }
    if list(&request["tools"])
        .iter()
        .any(|tool| tool["type"] == "web_search")
    {
        transcript.text("system", NO_SEARCH);
    }
    transcript.offer(&request["tools"], None);
    for item in items(request) {
        transcript.item(item);
    }
    // A request that only prepares the next one has no message of the user yet.
    if request["generate"] == false {
        transcript.text("user", EMPTY_MESSAGE);
    }
    transcript
}

/// Rewrites the system messages as they are sent to the provider of these tests: the leading ones
/// are joined into one message, and a later one becomes a user message with a heading.
fn with_one_system_message(entries: Vec<TranscriptEntry>) -> Vec<TranscriptEntry> {
    let mut head = Vec::new();
    let mut rest = Vec::new();
    for entry in entries {
        match entry {
            TranscriptEntry::Text {
                role: "system",
                text,
            } if rest.is_empty() => head.push(text),
            TranscriptEntry::Text {
                role: "system",
                text,
            } => rest.push(TranscriptEntry::Text {
                role: "user",
                text: format!("[System instruction]\n{text}"),
            }),
            other => rest.push(other),
        }
    }
    if !head.is_empty() {
        let role = "system";
        let text = head.join("\n\n");
        rest.insert(0, TranscriptEntry::Text { role, text });
    }
    rest
}

fn items(request: &Value) -> &[Value] {
    request["input"].as_array().expect("a list of items")
}

impl Transcript {
    fn text(&mut self, role: &'static str, text: &str) {
        let text = text.to_owned();
        self.entries.push(TranscriptEntry::Text { role, text });
    }

    fn call(&mut self, id: String, name: String, arguments: Value) {
        self.entries.push(TranscriptEntry::Call {
            call: self.ids.len(),
            name,
            arguments,
        });
        self.ids.push(id);
    }

    /// The result of the latest call with this id.
    fn result(&mut self, id: &str, text: String) {
        let call = self.ids.iter().rposition(|known| known == id);
        let call = call.expect("a result has a call");
        self.entries.push(TranscriptEntry::Output { call, text });
    }

    fn item(&mut self, item: &Value) {
        match item["type"].as_str().unwrap_or("message") {
            "message" => self.message(item),
            "reasoning" => {
                // The reasoning itself or, without it, its summary.
                let parts = [&item["content"], &item["summary"]].map(list);
                let parts = parts.into_iter().find(|parts| !parts.is_empty());
                self.reasoning.extend(texts(parts.unwrap_or_default()));
            }
            "function_call" => {
                let name = flat_name(item["namespace"].as_str(), &string(item, "name"));
                self.call(
                    string(item, "call_id"),
                    name,
                    Value::from(string(item, "arguments")),
                );
            }
            "custom_tool_call" => {
                let name = flat_name(item["namespace"].as_str(), &string(item, "name"));
                self.call(
                    string(item, "call_id"),
                    name,
                    serde_json::json!({"input": item["input"]}),
                );
            }
            "tool_search_call" => {
                let id = string(item, "call_id");
                self.call(id, "tool_search".into(), item["arguments"].clone());
            }
            "web_search_call" => {
                let query = string(&item["action"], "query");
                let text = format!(
                    "Earlier in this conversation, on a server:\nThe web was searched for: {query}"
                );
                self.text("user", &text);
            }
            // OpenAI's server encrypted it.
            "compaction" => self.text("user", UNREADABLE_SUMMARY),
            "function_call_output" | "custom_tool_call_output" => self.output(item),
            "tool_search_output" => {
                let before = std::mem::take(&mut self.tools);
                self.offer(&item["tools"], None);
                let text = self.tools.iter().cloned().collect::<Vec<_>>().join(" ");
                self.tools.extend(before);
                self.result(&string(item, "call_id"), text);
            }
            other => {
                assert!(
                    IGNORED_ITEMS.contains(&other),
                    "an item of a new type: {other}"
                );
                self.offer(&item["tools"], None);
            }
        }
    }

    fn message(&mut self, item: &Value) {
        let role = match item["role"].as_str() {
            Some("developer" | "system") => "system",
            Some("assistant") => "assistant",
            _ => "user",
        };
        if let Some(text) = item["content"].as_str() {
            return self.text(role, text);
        }
        let parts = list(&item["content"]);
        for part in parts.iter().filter(|part| part["type"] == "input_image") {
            self.images.push(string(part, "image_url"));
        }
        let texts = texts(parts);
        match role {
            "user" => texts.iter().for_each(|text| self.text(role, text)),
            "system" => self.text(role, &texts.join("\n\n")),
            _ => self.text(role, &texts.concat()),
        }
    }

    fn output(&mut self, item: &Value) {
        let id = string(item, "call_id");
        if let Some(text) = item["output"].as_str() {
            return self.result(&id, text.to_owned());
        }
        let parts = list(&item["output"]);
        let mut texts = texts(parts);
        let count = self.images.len();
        let images = parts.iter().filter(|part| part["type"] == "input_image");
        self.images
            .extend(images.map(|part| string(part, "image_url")));
        if self.images.len() > count {
            texts.push(IMAGE_NOTICE.to_owned());
        }
        self.result(&id, texts.join("\n"));
    }

    /// Adds the tools that the model is offered.
    fn offer(&mut self, tools: &Value, namespace: Option<&str>) {
        for tool in list(tools) {
            match tool["type"].as_str().expect("a tool has a type") {
                "namespace" => self.offer(&tool["tools"], tool["name"].as_str()),
                "function" | "custom" => {
                    self.tools
                        .insert(flat_name(namespace, &string(tool, "name")));
                }
                "tool_search" => {
                    self.tools.insert("tool_search".to_owned());
                }
                other => assert!(
                    DROPPED_TOOLS.contains(&other),
                    "a tool of a new type: {other}"
                ),
            }
        }
    }
}

/// The transcript of a Chat request.
fn chat_transcript(chat: &Value) -> Transcript {
    let mut transcript = Transcript::default();
    for tool in list(&chat["tools"]) {
        assert!(
            transcript.tools.insert(string(&tool["function"], "name")),
            "a tool is offered twice"
        );
    }
    for message in list(&chat["messages"]) {
        match message["role"].as_str().expect("a message has a role") {
            "system" => transcript.text("system", &string(message, "content")),
            "user" => user(&mut transcript, &message["content"]),
            "assistant" => {
                if let Some(text) = message["content"].as_str() {
                    transcript.text("assistant", text);
                }
                transcript
                    .reasoning
                    .extend(message["reasoning_content"].as_str().map(str::to_owned));
                for call in list(&message["tool_calls"]) {
                    let (name, arguments) = chat_call(&call["function"]);
                    transcript.call(string(call, "id"), name, arguments);
                }
            }
            "tool" => {
                let text = normalized_result(&string(message, "content"));
                transcript.result(&string(message, "tool_call_id"), text);
            }
            other => panic!("a message of the role {other}"),
        }
    }
    transcript
}

fn user(transcript: &mut Transcript, value: &Value) {
    if let Some(text) = value.as_str() {
        return transcript.text("user", text);
    }
    for part in list(value) {
        match part["type"].as_str().expect("a part has a type") {
            "image_url" => transcript.images.push(string(&part["image_url"], "url")),
            _ if string(part, "text").starts_with(CAPTION) => {}
            _ => transcript.text("user", &string(part, "text")),
        }
    }
}

/// The name and the arguments of a call in a Chat request. The arguments of custom tools and of
/// `tool_search` are compared as JSON, all others as text.
fn chat_call(function: &Value) -> (String, Value) {
    let (name, arguments) = (string(function, "name"), string(function, "arguments"));
    let value: Option<Value> = serde_json::from_str(&arguments).ok();
    let is_custom = value.as_ref().is_some_and(|value| {
        value
            .as_object()
            .is_some_and(|o| o.len() == 1 && o.contains_key("input"))
    });
    match value {
        Some(value) if is_custom || name == "tool_search" => (name, value),
        _ => (name, Value::from(arguments)),
    }
}

/// The result of a tool search as a list of names; any other result unchanged.
fn normalized_result(text: &str) -> String {
    match text.strip_prefix("These tools can be called now: ") {
        Some(names) => {
            let names: BTreeSet<&str> = names.split(", ").collect();
            names.into_iter().collect::<Vec<_>>().join(" ")
        }
        None => text.to_owned(),
    }
}

fn flat_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    }
}

fn texts(parts: &[Value]) -> Vec<String> {
    let texts = parts.iter().filter(|part| part["text"].is_string());
    texts.map(|part| string(part, "text")).collect()
}

fn string(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
