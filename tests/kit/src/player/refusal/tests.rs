use super::*;

/// Each rule, with a request that keeps it and one that breaks it.
#[test]
fn each_rule_refuses_a_request_that_breaks_it() {
    let user = json!({"role": "user", "content": "go"});
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let asks = |id: &str| json!({"role": "assistant", "content": null, "tool_calls": [call(id)]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "seen"});
    let body = |messages: Value| json!({"messages": messages});
    let schema = |schema: Value| json!({"messages": [], "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}]});
    let image = |url: &str| json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]});
    let typed = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let rows = [
        (
            json!("developer"),
            body(json!([user])),
            body(json!([{"role": "developer", "content": "x"}])),
        ),
        (
            json!("system_role"),
            body(json!([user])),
            body(json!([{"role": "system", "content": "x"}])),
        ),
        (
            json!("late_system"),
            body(json!([{"role": "system", "content": "x"}, user])),
            body(json!([user, {"role": "system", "content": "x"}])),
        ),
        (
            json!("user_after_tool"),
            body(json!([asks("a"), result("a")])),
            body(json!([result("a"), user])),
        ),
        (
            json!("user_after_user"),
            body(json!([user])),
            body(json!([user, user])),
        ),
        (
            json!("empty_assistant"),
            body(json!([asks("a")])),
            body(json!([{"role": "assistant", "content": null}])),
        ),
        (
            json!("empty_content"),
            body(json!([user, asks("a")])),
            body(json!([{"role": "user", "content": [{"type": "text", "text": ""}]}])),
        ),
        (
            json!("null_content"),
            body(json!([user])),
            body(json!([asks("a")])),
        ),
        (
            json!("missing_content"),
            body(json!([asks("a")])),
            body(json!([{"role": "assistant"}])),
        ),
        (
            json!("unmatched_results"),
            body(json!([asks("a"), result("a")])),
            body(json!([asks("a"), result("b")])),
        ),
        (
            json!("unanswered_calls"),
            body(json!([asks("a"), result("a"), user])),
            body(json!([asks("a"), user])),
        ),
        (
            json!("bad_arguments"),
            body(json!([asks("a")])),
            body(
                json!([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"arguments": "{\"a\":"}}]}]),
            ),
        ),
        (
            json!("same_call_ids"),
            body(json!([asks("a"), result("a"), asks("b")])),
            body(json!([asks("a"), result("a"), asks("a")])),
        ),
        (
            json!("call_id_form"),
            body(json!([asks("abcDEF123")])),
            body(json!([asks("call_1234")])),
        ),
        (
            json!({"call_id_length": 4}),
            body(json!([asks("call")])),
            body(json!([asks("calls")])),
        ),
        (
            json!("call_id_characters"),
            body(json!([asks("call_1-a")])),
            body(json!([asks("call:1")])),
        ),
        (
            json!("image_without_text"),
            body(json!([{"role": "user", "content": [
                {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:"}}]}])),
            image("data:image/png;base64,AA=="),
        ),
        (
            json!({"temperature_above": 100}),
            json!({"temperature": 1.0}),
            json!({"temperature": 1.5}),
        ),
        (
            json!({"tool_choice_other_than": ["auto", "required"]}),
            json!({"tool_choice": "required"}),
            json!({"tool_choice": {"type": "function"}}),
        ),
        (
            json!("missing_tool_names"),
            body(json!([{"role": "tool", "name": "look", "content": ""}])),
            body(json!([result("a")])),
        ),
        (
            json!({"missing_reasoning_content": "calls"}),
            body(
                json!([{"role": "assistant", "content": "x"}, {"role": "assistant", "reasoning_content": " ", "tool_calls": [call("a")]}]),
            ),
            body(
                json!([{"role": "assistant", "reasoning_content": "", "tool_calls": [call("a")]}]),
            ),
        ),
        (
            json!({"missing_reasoning_content": "always"}),
            body(json!([{"role": "assistant", "content": "x", "reasoning_content": ""}])),
            body(json!([{"role": "assistant", "content": "x"}])),
        ),
        (
            json!("reasoning_content_unknown"),
            body(json!([asks("a")])),
            body(json!([{"role": "assistant", "content": "x", "reasoning_content": ""}])),
        ),
        (
            json!("missing_thought_signature"),
            body(json!([asks("a"), result("a"), user])),
            body(json!([user, asks("a"), result("a")])),
        ),
        (
            json!("images"),
            body(json!([user])),
            image("data:image/png;base64,AA=="),
        ),
        (
            json!("image_urls"),
            image("data:image/png;base64,AA=="),
            image("https://example.org/a.png"),
        ),
        (
            json!("tool_images"),
            image("data:image/png;base64,AA=="),
            body(
                json!([{"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]),
            ),
        ),
        (
            json!({"unknown_fields": ["messages"]}),
            body(json!([])),
            json!({"messages": [], "seed": 1}),
        ),
        (
            json!({"fields": ["stop"]}),
            body(json!([])),
            json!({"stop": "x"}),
        ),
        (
            json!("strict_tools"),
            schema(typed.clone()),
            json!({"tools": [{"function": {"name": "look", "strict": false}}]}),
        ),
        (
            json!("max_tokens_unsupported"),
            json!({"max_completion_tokens": 5}),
            json!({"max_tokens": 5}),
        ),
        (
            json!("max_completion_tokens_unsupported"),
            json!({"max_tokens": 5}),
            json!({"max_completion_tokens": 5}),
        ),
        (
            json!({"max_tokens_limit": 5}),
            json!({"max_tokens": 5}),
            json!({"max_tokens": 6}),
        ),
        (
            json!({"window": 20}),
            body(json!([user])),
            json!({"messages": [user], "max_tokens": 10}),
        ),
        (
            json!("temperature"),
            json!({"temperature": 1.0}),
            json!({"temperature": 0.5}),
        ),
        (
            json!("tool_choice_required"),
            json!({"tool_choice": "auto"}),
            json!({"tool_choice": {"type": "function"}}),
        ),
        (
            json!("parallel_tool_calls"),
            json!({}),
            json!({"parallel_tool_calls": true}),
        ),
        (
            json!("json_schema"),
            json!({"response_format": {"type": "json_object"}}),
            json!({"response_format": {"type": "json_schema"}}),
        ),
        (
            json!("stream_options"),
            json!({"stream": true}),
            json!({"stream_options": {}}),
        ),
        (
            json!("bad_schema_root"),
            schema(typed.clone()),
            schema(json!({"type": "object", "anyOf": []})),
        ),
    ];
    let of = |body: &Value| PlayerRequest::from_body(&body.to_string());
    for (rule, kept, broken) in rows {
        let refusal: ScriptedRefusal = serde_json::from_value(rule.clone()).unwrap();
        assert!(refusal.answer(&of(&kept)).is_none(), "{rule} of {kept}");
        let answer = refusal
            .answer(&of(&broken))
            .unwrap_or_else(|| panic!("{rule} of {broken}"));
        let json = answer.json.unwrap();
        let message = json["error"]["message"].as_str().unwrap();
        assert!(
            !message.contains("{found}") && !message.contains("{index}"),
            "{message}"
        );
    }
}

#[test]
fn nested_schemas_are_checked() {
    let within = |schema: Value| json!({"type": "object", "properties": {"deep": {"type": "array", "items": schema}}});
    for (kimi, gemini, schema) in [
        (false, false, json!({"type": "string", "enum": ["a"]})),
        (true, false, json!({"enum": ["a"]})),
        (
            true,
            false,
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
        ),
        (true, true, json!({"$ref": "#/x", "description": "d"})),
        (
            true,
            true,
            json!({"type": "array", "items": [{"type": "string"}], "additionalProperties": false}),
        ),
        (false, true, json!({"type": ["string", "null"]})),
        (false, true, json!({"type": "integer", "enum": [1]})),
        (false, true, json!({"type": "array"})),
        (false, true, json!({"type": "string", "const": "a"})),
        (
            false,
            true,
            json!({"type": "object", "properties": {}, "required": ["a"]}),
        ),
        (
            false,
            true,
            json!({"type": "object", "additionalProperties": false}),
        ),
    ] {
        let schema = within(schema);
        assert_eq!(
            schema::outside_moonshot(&schema).is_some(),
            kimi,
            "{schema}"
        );
        assert_eq!(
            schema::outside_gemini(&schema).is_some(),
            gemini,
            "{schema}"
        );
    }
}

#[test]
fn a_script_may_give_the_message() {
    let refusal: ScriptedRefusal = serde_json::from_value(json!({
        "rule": {"window": 10}, "status": 422, "json": {"detail": ["{limit} < {wanted} = {prompt} + {output}", 1]},
    }))
    .unwrap();
    let body = format!("{{\"max_tokens\":7,\"x\":\"{}\"}}", "x".repeat(18));
    let answer = refusal.answer(&PlayerRequest::from_body(&body)).unwrap();
    assert_eq!(answer.status, 422);
    assert_eq!(
        answer.json.unwrap(),
        json!({"detail": ["10 < 17 = 10 + 7", 1]})
    );
    let unknown = json!({"rule": "developer", "words": "?"});
    assert!(serde_json::from_value::<ScriptedRefusal>(unknown).is_err());
}
