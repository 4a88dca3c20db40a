use serde_json::{Value, json};

use super::*;
use crate::plan::{Bounds, plan};
use crate::responses::request::TurnSource;

fn counted(request: &Value) -> u64 {
    let mut body = request.clone();
    body["model"] = "m".into();
    let source = TurnSource::new(body.to_string());
    let turn = source.turn().unwrap();
    input_tokens(&turn, &plan(&turn, &Bounds::none()))
}

/// Promise: `input_tokens` is within a quarter of OpenAI's count in the median of each size, and
/// follows what the model has counted before; bounds keep their own estimate.
#[test]
fn requests_are_estimated_as_they_are_counted() {
    for line in include_str!("../../../fixtures/token-counts.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let tokens = row["input_tokens"].as_f64().unwrap();
        let estimate = counted(&row["request"]);
        let estimate = u32::try_from(estimate).map(f64::from).unwrap();
        assert!(
            (estimate / tokens - 1.0).abs() < 0.25,
            "{estimate} of {tokens}: {line}"
        );
    }
}

fn said(part: &Value) -> Value {
    json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, part]}]})
}

#[test]
fn images_and_files_count_by_what_they_are() {
    let data = "A".repeat(24_000);
    let image = |detail: &str| {
        let url = format!("data:image/png;base64,{data}");
        counted(&said(
            &json!({"type": "input_image", "image_url": url, "detail": detail}),
        ))
    };
    let file = |kind: &str| {
        let data = format!("data:{kind};base64,{data}");
        counted(&said(
            &json!({"type": "input_file", "filename": "f", "file_data": data}),
        ))
    };
    assert!((500..800).contains(&image("auto")));
    assert!((50..150).contains(&image("low")));
    assert!((300..1_000).contains(&file("application/pdf")));
    assert!((4_000..5_000).contains(&file("text/plain")));
}

#[test]
fn what_is_not_sent_does_not_count() {
    let tool = |deferred: bool| json!({"type": "function", "name": "look_up", "description": "Looks something up in the great catalogue of all known things.", "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}, "defer_loading": deferred});
    let with_tools = |tools: Value| counted(&json!({"input": "Go.", "tools": tools}));
    let search = json!({"type": "tool_search"});
    let alone = with_tools(json!([search]));
    assert_eq!(with_tools(json!([search, tool(true)])), alone);
    assert!(with_tools(json!([search, tool(false)])) > alone + 20);
    assert_eq!(
        with_tools(json!([{"type": "web_search"}])),
        counted(&json!({"input": "Go."}))
    );
    let body = json!({"input": [
        {"role": "user", "content": "Go."},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a long query about nothing"}},
    ]});
    // What it searched for is told to the model.
    assert!(counted(&body) > counted(&json!({"input": "Go."})) + 10);
}
