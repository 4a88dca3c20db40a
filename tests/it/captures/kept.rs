//! What a request says and what the Chat request of it says, both as flat
//! lists that must be the same.

use std::collections::BTreeSet;

use adapters::compaction_blob::UNREADABLE_SUMMARY;
use adapters::notes::Notes;
use serde_json::Value;

const IMAGE: &str = "(The image stands in the next user message.)";
const CAPTION: &str = "Output of the tool call ";

/// Tools that nobody here runs, and items that say nothing to a Chat model.
const DROPPED_TOOLS: [&str; 1] = ["web_search"];
const SILENT_ITEMS: [&str; 3] = ["additional_tools", "web_search_call", "compaction_trigger"];

/// One thing that is said, in its order.
#[derive(Debug, PartialEq)]
enum Said {
    Text {
        role: &'static str,
        text: String,
    },
    /// Calls are counted: an id may recur in a session.
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
struct Content {
    said: Vec<Said>,
    images: Vec<String>,
    reasoning: Vec<String>,
    tools: BTreeSet<String>,
    /// The ids of the calls in their order.
    ids: Vec<String>,
}

/// Compares the two.
pub fn check(name: &str, request: &Value, chat: &Value, notes: &Notes) {
    let (mut wanted, got) = (of_request(request), of_chat(chat));
    wanted.said = one_system_message(wanted.said);
    for (at, (wanted, got)) in wanted.said.iter().zip(&got.said).enumerate() {
        assert_eq!(wanted, got, "{name}: at {at}");
    }
    assert_eq!(wanted.said.len(), got.said.len(), "{name}");
    for (at, (id, sent)) in wanted.ids.iter().zip(&got.ids).enumerate() {
        let recurs = wanted.ids.iter().take(at).any(|earlier| earlier == id);
        assert_eq!(recurs, id != sent, "{name}: {id} is sent as {sent}");
    }
    let different: BTreeSet<&String> = got.ids.iter().collect();
    assert_eq!(different.len(), got.ids.len(), "{name}: {:?}", got.ids);
    assert_eq!(wanted.images, got.images, "{name}");
    let reasoning = got.reasoning.concat();
    for text in &wanted.reasoning {
        assert!(reasoning.contains(text), "{name}: lost reasoning {text:?}");
    }
    assert_eq!(wanted.tools, got.tools, "{name}");
    let skipped = |kind: &str| items(request).iter().any(|item| item["type"] == kind);
    assert_eq!(
        skipped("compaction"),
        notes.iter().any(|note| note.code == "item_skipped"),
        "{name}: {notes:?}"
    );
}

fn of_request(request: &Value) -> Content {
    let mut content = Content::default();
    if let Some(text) = request["instructions"].as_str() {
        content.text("system", text);
    }
    content.offer(&request["tools"], None);
    for item in items(request) {
        content.item(item);
    }
    content
}

/// What the provider of these tests takes: the system text in one message at the
/// start, a later one in a user message that says what it is.
fn one_system_message(said: Vec<Said>) -> Vec<Said> {
    let mut head = Vec::new();
    let mut rest = Vec::new();
    for said in said {
        match said {
            Said::Text {
                role: "system",
                text,
            } if rest.is_empty() => head.push(text),
            Said::Text {
                role: "system",
                text,
            } => rest.push(Said::Text {
                role: "user",
                text: format!("[System instruction]\n{text}"),
            }),
            said => rest.push(said),
        }
    }
    if !head.is_empty() {
        let role = "system";
        let text = head.join("\n\n");
        rest.insert(0, Said::Text { role, text });
    }
    rest
}

fn items(request: &Value) -> &[Value] {
    request["input"].as_array().expect("a list of items")
}

impl Content {
    fn text(&mut self, role: &'static str, text: &str) {
        let text = text.to_owned();
        self.said.push(Said::Text { role, text });
    }

    fn call(&mut self, id: String, name: String, arguments: Value) {
        self.said.push(Said::Call {
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
        self.said.push(Said::Output { call, text });
    }

    fn item(&mut self, item: &Value) {
        match item["type"].as_str().unwrap_or("message") {
            "message" => self.message(item),
            "reasoning" => {
                // The thinking itself, or what is left of it.
                let parts = [&item["content"], &item["summary"]].map(list);
                let parts = parts.into_iter().find(|parts| !parts.is_empty());
                self.reasoning.extend(texts(parts.unwrap_or_default()));
            }
            "function_call" => {
                let name = flat(item["namespace"].as_str(), &string(item, "name"));
                self.call(
                    string(item, "call_id"),
                    name,
                    Value::from(string(item, "arguments")),
                );
            }
            "custom_tool_call" => {
                let name = flat(item["namespace"].as_str(), &string(item, "name"));
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
            // Their server sealed it.
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
                    SILENT_ITEMS.contains(&other),
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
            texts.push(IMAGE.to_owned());
        }
        self.result(&id, texts.join("\n"));
    }

    fn offer(&mut self, tools: &Value, namespace: Option<&str>) {
        for tool in list(tools) {
            match tool["type"].as_str().expect("a tool has a type") {
                "namespace" => self.offer(&tool["tools"], tool["name"].as_str()),
                "function" | "custom" => {
                    self.tools.insert(flat(namespace, &string(tool, "name")));
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

/// The Chat request in the same terms.
fn of_chat(chat: &Value) -> Content {
    let mut content = Content::default();
    for tool in list(&chat["tools"]) {
        assert!(
            content.tools.insert(string(&tool["function"], "name")),
            "offered twice"
        );
    }
    for message in list(&chat["messages"]) {
        match message["role"].as_str().expect("a message has a role") {
            "system" => content.text("system", &string(message, "content")),
            "user" => user(&mut content, &message["content"]),
            "assistant" => {
                if let Some(text) = message["content"].as_str() {
                    content.text("assistant", text);
                }
                content
                    .reasoning
                    .extend(message["reasoning_content"].as_str().map(str::to_owned));
                for call in list(&message["tool_calls"]) {
                    let (name, arguments) = called(&call["function"]);
                    content.call(string(call, "id"), name, arguments);
                }
            }
            "tool" => {
                let text = found(&string(message, "content"));
                content.result(&string(message, "tool_call_id"), text);
            }
            other => panic!("a message of the role {other}"),
        }
    }
    content
}

fn user(content: &mut Content, value: &Value) {
    if let Some(text) = value.as_str() {
        return content.text("user", text);
    }
    for part in list(value) {
        match part["type"].as_str().expect("a part has a type") {
            "image_url" => content.images.push(string(&part["image_url"], "url")),
            _ if string(part, "text").starts_with(CAPTION) => {}
            _ => content.text("user", &string(part, "text")),
        }
    }
}

/// Arguments of forms that are no functions are compared by value.
fn called(function: &Value) -> (String, Value) {
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

/// The result of a tool search as the names in it, any other as it is.
fn found(text: &str) -> String {
    match text.strip_prefix("These tools can be called now: ") {
        Some(names) => {
            let names: BTreeSet<&str> = names.split(", ").collect();
            names.into_iter().collect::<Vec<_>>().join(" ")
        }
        None => text.to_owned(),
    }
}

fn flat(namespace: Option<&str>, name: &str) -> String {
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
