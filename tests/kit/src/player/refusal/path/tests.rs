use super::super::ScriptedRefusal;
use super::*;

fn request() -> Value {
    json!({
        "stream_options": {"include_usage": true}, "temperature": 1.5, "n": 1,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a"}, {"id": "call_b"}]},
            {"role": "tool", "tool_call_id": "a", "content": "seen"},
        ],
        "tools": [
            {"function": {"name": "look", "parameters": {"properties": {"at": {"$ref": "#/a"}}}}},
            {"function": {"name": "take", "strict": true}},
        ],
    })
}

/// Each rule, and the path and the value that it refuses.
#[test]
fn a_path_finds_what_is_refused() {
    let refused = [
        (
            json!({"path": "stream_options"}),
            "stream_options {\"include_usage\":true}",
        ),
        (
            json!({"path": "stream_options.include_usage"}),
            "stream_options.include_usage true",
        ),
        (
            json!({"path": "messages[*].content", "is": "null"}),
            "messages[2].content null",
        ),
        (
            json!({"path": "messages[*].content", "is": "list"}),
            "messages[1].content [{\"type\":\"text\",\"text\":\"\"},{\"type\":\"image_url\"}]",
        ),
        (
            json!({"path": "messages[*].content", "is": "string", "role": "tool"}),
            "messages[3].content seen",
        ),
        (
            json!({"path": "messages[*].content", "with": "tool_calls"}),
            "messages[2].content null",
        ),
        (
            json!({"path": "messages[*].content[*].text", "is": "empty"}),
            "messages[1].content[0].text ",
        ),
        (
            json!({"path": "messages[*].content[*].text", "is": "missing"}),
            "messages[1].content[1].text ",
        ),
        (
            json!({"path": "messages[*].name", "is": "missing", "role": "tool"}),
            "messages[3].name ",
        ),
        (
            json!({"path": "messages[-1].role"}),
            "messages[3].role tool",
        ),
        (
            json!({"path": "messages[0].content", "longer": 8}),
            "messages[0].content Be brief.",
        ),
        (
            json!({"path": "messages[*].tool_calls", "longer": 1}),
            "messages[2].tool_calls [{\"id\":\"a\"},{\"id\":\"call_b\"}]",
        ),
        (
            json!({"path": "messages[*].tool_calls[*].id", "contains": "call"}),
            "messages[2].tool_calls[1].id call_b",
        ),
        (
            json!({"path": "messages[*].role", "in": ["tool", "system"]}),
            "messages[0].role system",
        ),
        (
            json!({"path": "messages[*].role", "not_in": ["system", "user"]}),
            "messages[2].role assistant",
        ),
        (
            json!({"path": "temperature", "above": 1}),
            "temperature 1.5",
        ),
        (
            json!({"path": "tools[*].function.parameters.**.$ref"}),
            "tools[0].function.parameters.properties.at.$ref #/a",
        ),
        (
            json!({"path": "tools[*].function.strict", "tool": "take"}),
            "tools[1].function.strict true",
        ),
        (
            json!({"path": "tools", "contains": "#/a", "is": "list"}),
            "tools ",
        ),
    ];
    for (rule, found) in refused {
        let breach = breach(&rule).unwrap_or_else(|| panic!("{rule}"));
        let [(_, path), ..] = place_forms(&breach.place);
        assert!(
            format!("{path} {}", breach.found).starts_with(found),
            "{rule}"
        );
    }
    for kept in [
        json!({"path": "seed"}),
        json!({"path": "n", "above": 1}),
        json!({"path": "stream_options.include_usage", "is": "missing"}),
        json!({"path": "stop.more", "is": "missing"}),
        json!({"path": "messages[*].content", "role": "tool", "longer": 4}),
        json!({"path": "messages[4].content"}),
        json!({"path": "messages[-5].content"}),
        json!({"path": "tools[*].function.strict", "tool": "look"}),
        json!({"path": "messages[*].content", "with": "name"}),
    ] {
        assert_eq!(breach(&kept), None, "{kept}");
    }
}

fn breach(rule: &Value) -> Option<RuleBreach> {
    let rule: PathRule = serde_json::from_value(rule.clone()).unwrap();
    rule.breach(&PlayerRequest::from_body(&request().to_string()))
}

#[test]
fn a_refusal_names_the_place_in_the_form_of_the_server() {
    let rule = json!({"at": {"path": "messages[*].tool_calls[*].id", "longer": 5}});
    let answer = |reply: (&str, Value)| {
        let mut refusal = json!({"rule": rule});
        refusal[reply.0] = reply.1;
        let refusal: ScriptedRefusal = serde_json::from_value(refusal).unwrap();
        let request = PlayerRequest::from_body(&request().to_string());
        refusal.answer(&request).unwrap()
    };
    let text = "{path} {dots} {slashes} {name} {index} {limit} {found} {loc}";
    let filled = "messages[2].tool_calls[1].id messages.2.tool_calls.1.id messages/2/tool_calls/1/id id 2 5 call_b [\"body\",\"messages\",2,\"tool_calls\",1,\"id\"]";
    assert_eq!(answer(("text", json!(text))).body.unwrap(), filled);
    let body =
        json!({"loc": "{loc}", "at": ["{index}", "{limit}"], "found": "{found}", "{name}": 0});
    let loc = json!(["body", "messages", 2, "tool_calls", 1, "id"]);
    let filled = json!({"loc": loc, "at": [2, 5], "found": "call_b", "id": 0});
    assert_eq!(answer(("json", body)).json.unwrap(), filled);
    let events = answer(("text", json!("data: {\"error\": \"{name}\"}\n\n")));
    assert_eq!(events.headers["content-type"], "text/event-stream");
}

#[test]
fn a_path_that_cannot_be_read_is_an_error() {
    for path in ["", "messages[].role", "messages[a]", "messages[0", "a..b"] {
        assert!(
            serde_json::from_value::<PathRule>(json!({"path": path})).is_err(),
            "{path}"
        );
    }
    assert!(serde_json::from_value::<PathRule>(json!({"path": "a", "are": "null"})).is_err());
}
