//! The strict checker, with the one departure that Codex needs.

use kit::strict::{self, Rule, Stream};
use serde_json::Value;

/// Checks a stream. Codex takes every item that is done for whole, so what is
/// open when an answer breaks off stays open for it, and nothing that it gets
/// is incomplete.
pub fn stream(body: &str, codex: bool) -> Stream {
    let stream = match strict::check(body) {
        Err(found)
            if codex
                && found.iter().all(|violation| {
                    violation.rule == Rule::OneItemAtATime
                        && violation.to_string().contains("still open at the end")
                }) =>
        {
            read(body)
        }
        _ => return strict::check_or_panic(body),
    };
    assert_eq!(stream.terminal, "response.failed");
    for item in stream.response["output"].as_array().unwrap() {
        assert_eq!(item["status"], "completed", "{item}");
    }
    stream
}

fn read(body: &str) -> Stream {
    let events: Vec<(String, Value)> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: {"))
        .map(|rest| serde_json::from_str::<Value>(&format!("{{{rest}")).unwrap())
        .map(|data| (data["type"].as_str().unwrap().to_owned(), data))
        .collect();
    let (terminal, data) = events.last().cloned().unwrap();
    Stream {
        response: data["response"].clone(),
        events,
        terminal,
    }
}
