//! Refusals that no other request would change (`fixtures/refusals_of_others.json`).
use super::lab::{Lab, LabServer, body_key, tells};
use super::{RefusalEntry, read};
use serde_json::json;

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
    let lab = Lab::start(entries.iter().map(server)).await;
    let mut failures = Vec::new();
    for entry in &entries {
        let reply = lab.post(&entry.name, "m", &entry.ask).await;
        let sent = lab.requests(&entry.name).len();
        if sent != 1 || !tells(&reply.body, &entry.body) {
            failures.push(format!("{}: {sent} requests, {}", entry.name, reply.body));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
