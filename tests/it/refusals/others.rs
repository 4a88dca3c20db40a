//! Refusals that no other request would change (`fixtures/refusals_of_others.json`).
use super::lab::{Lab, LabServer, body_key};
use super::{RefusalEntry, read};
use serde_json::{Value, json};

/// The longest text of a reply: that for people.
fn words(body: &Value) -> String {
    let mut texts = Vec::new();
    collect(body, &mut texts);
    texts
        .into_iter()
        .max_by_key(String::len)
        .unwrap_or_default()
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| collect(value, into)),
        Value::Object(object) => object.values().for_each(|value| collect(value, into)),
        _ => {}
    }
}

/// Promise: What no change of a request heals, such as a used-up account, costs one request, and
/// the client reads the words of the provider.
#[kit::test]
async fn a_refusal_that_is_not_about_the_request_is_told_at_once() {
    let entries: Vec<RefusalEntry> = read("refusals_of_others.json");
    let server = |entry: &RefusalEntry| {
        let mut answer = json!({"status": entry.status});
        answer[body_key(&entry.body, "body")] = entry.body.clone();
        LabServer {
            answer,
            settings: "max_retries = 0",
            refuse: Vec::new(),
            ..entry.server()
        }
    };
    let lab = Lab::start(entries.iter().map(server).collect()).await;
    let mut failures = Vec::new();
    for entry in &entries {
        let reply = lab.post(&entry.name, &entry.ask).await;
        let sent = lab.requests(&entry.name).len();
        let words: String = words(&entry.body).chars().take(60).collect();
        let told = plain(&reply.body);
        if sent != 1 || !told.contains(&plain(&words)) {
            failures.push(format!(
                "{}: {sent} requests, {told}\n{}",
                entry.name,
                lab.told(&entry.name)
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A text without escapes, quotes and spaces.
fn plain(text: &str) -> String {
    let text = text.replace("\\n", "").replace("\\\"", "");
    text.chars()
        .filter(|it| !it.is_whitespace() && !"\"\\".contains(*it))
        .collect()
}
