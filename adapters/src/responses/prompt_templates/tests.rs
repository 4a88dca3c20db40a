use serde_json::json;

use super::*;

fn template(fields: Value) -> PromptTemplate {
    PromptTemplate::new(fields).unwrap()
}

/// Three templates, one of them in two versions.
fn templates() -> PromptTemplates {
    let mut templates = PromptTemplates::default();
    let clerk = json!({
        "model": "m",
        "temperature": 0.2,
        "instructions": "You are the clerk of {{shop}}.",
        "messages": [
            {"role": "user", "content": "Who are you?"},
            {"role": "assistant", "content": "The clerk of {{ shop }}, {{name}}."},
        ],
    });
    templates.add("clerk", 1, template(json!({"instructions": "old"})));
    templates.add("clerk", 10, template(clerk));
    templates.add("clerk", 9, template(json!({"instructions": "nine"})));
    let look = json!({"messages": [{"role": "user", "content": "Look: {{what}}, {{what}}!"}]});
    templates.add("look", 1, template(look));
    templates.add(
        "plain",
        1,
        template(json!({"instructions": "{{}} {{{a b}} {{{x}}"})),
    );
    templates
}

fn expanded(body: &Value) -> Result<Value, Fault> {
    let text = templates().expand(&body.to_string(), 10_000)?;
    Ok(serde_json::from_str(&text.unwrap()).unwrap())
}

#[test]
fn a_template_takes_the_place_of_the_prompt() {
    let variables = json!({"shop": "\"{{name}}\"", "name": {"type": "input_text", "text": "Ada"}});
    let prompt = json!({"id": "clerk", "variables": variables});
    let named = json!({"id": "clerk", "version": "10", "variables": variables});
    let messages = json!([
        {"type": "message", "role": "user", "content": "Who are you?"},
        {"type": "message", "role": "assistant", "content": "The clerk of \"{{name}}\", Ada."},
    ]);
    let with = |more: Value| {
        let mut items = messages.as_array().unwrap().clone();
        items.extend(more.as_array().unwrap().iter().cloned());
        Value::from(items)
    };
    let filled = "You are the clerk of \"{{name}}\".";
    let said = json!([{"type": "message", "role": "user", "content": "Hi."}]);
    for (request, expected) in [
        (
            json!({"prompt": prompt, "stream": true}),
            json!({"stream": true, "model": "m", "prompt": named, "temperature": 0.2, "instructions": filled, "input": messages}),
        ),
        (
            json!({"prompt": prompt, "input": "Hi.", "temperature": 1, "model": null}),
            json!({"model": "m", "prompt": named, "temperature": 1, "instructions": filled, "input": with(said)}),
        ),
        (
            json!({"prompt": prompt, "input": [{"role": "user", "content": "x"}], "model": "n", "instructions": "Mine."}),
            json!({"model": "n", "prompt": named, "temperature": 0.2, "instructions": "Mine.", "input": with(json!([{"role": "user", "content": "x"}]))}),
        ),
        (
            json!({"prompt": prompt, "input": []}),
            json!({"model": "m", "prompt": named, "temperature": 0.2, "instructions": filled, "input": messages}),
        ),
    ] {
        assert_eq!(expanded(&request).unwrap(), expected, "{request}");
    }
}

#[test]
fn a_version_is_chosen_and_the_newest_is_the_usual_one() {
    let instructions = |prompt: Value| {
        let expanded = expanded(&json!({"prompt": prompt, "input": "x"}));
        expanded.map(|body| body["instructions"].clone())
    };
    let variables = json!({"shop": "s", "name": "n"});
    for (prompt, expected) in [
        (json!({"id": "clerk", "version": "1"}), "old"),
        (json!({"id": "clerk", "version": "9"}), "nine"),
        (
            json!({"id": "clerk", "version": "10", "variables": variables}),
            "You are the clerk of s.",
        ),
        (
            json!({"id": "clerk", "version": null, "variables": variables}),
            "You are the clerk of s.",
        ),
        (
            json!({"id": "plain", "variables": {"x": "1"}}),
            "{{}} {{{a b}} {1",
        ),
    ] {
        assert_eq!(instructions(prompt).unwrap(), expected);
    }
}

#[test]
fn images_and_files_become_parts_of_a_message() {
    let content = |what: Value| {
        let prompt = json!({"id": "look", "variables": {"what": what}});
        expanded(&json!({"prompt": prompt})).map(|body| body["input"][0]["content"].clone())
    };
    assert_eq!(content(json!("a")).unwrap(), "Look: a, a!");
    for part in [
        json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="}),
        json!({"type": "input_file", "file_data": "AA=="}),
    ] {
        let text = |text: &str| json!({"type": "input_text", "text": text});
        let expected = json!([text("Look: "), part, text(", "), part, text("!")]);
        assert_eq!(content(part).unwrap(), expected);
    }
}

/// Promise: The id of a prompt never becomes a path; what is unknown or missing is refused with
/// what there is.
#[test]
fn what_cannot_be_filled_in_is_refused_with_what_there_is() {
    let all = json!({"shop": "s", "name": "n"});
    let image = json!({"type": "input_image", "image_url": "x"});
    for (prompt, param, code, says) in [
        (json!("clerk"), "prompt", None, "must be an object"),
        (json!({"version": "1"}), "prompt", None, "must be an object"),
        (
            json!({"id": "clerk", "variables": []}),
            "prompt",
            None,
            "must be an object",
        ),
        (
            json!({"id": "../clerk"}),
            "prompt.id",
            Some("prompt_not_found"),
            "'clerk', 'look', 'plain'",
        ),
        (
            json!({"id": "clerk", "version": "2"}),
            "prompt.version",
            Some("prompt_version_not_found"),
            "'1', '9', '10'",
        ),
        (
            json!({"id": "clerk", "version": 1}),
            "prompt.version",
            Some("prompt_version_not_found"),
            "a string such as",
        ),
        (
            json!({"id": "clerk", "version": "01"}),
            "prompt.version",
            Some("prompt_version_not_found"),
            "no such version",
        ),
        (
            json!({"id": "clerk", "variables": {"shop": "s"}}),
            "prompt.variables",
            Some("missing_prompt_variable"),
            "leaves out 'name'",
        ),
        (
            json!({"id": "clerk", "version": "1", "variables": all}),
            "prompt.variables",
            Some("unknown_prompt_variable"),
            "has no variables",
        ),
        (
            json!({"id": "clerk", "variables": {"shop": "s", "name": 7}}),
            "prompt.variables",
            None,
            "'name' must be a string",
        ),
        (
            json!({"id": "clerk", "variables": {"shop": image, "name": "n"}}),
            "prompt.variables",
            None,
            "in instructions must be a text",
        ),
        (
            json!({"id": "look", "variables": {"what": "x".repeat(6_000)}}),
            "prompt.variables",
            Some("prompt_too_large"),
            "body_limit",
        ),
    ] {
        let fault = expanded(&json!({"prompt": prompt})).unwrap_err();
        assert_eq!(fault.kind, crate::fault::Kind::InvalidRequest);
        assert_eq!(fault.param.as_deref(), Some(param), "{prompt}");
        assert_eq!(fault.code(), code, "{prompt}");
        assert!(fault.message.contains(says), "{}", fault.message);
    }
    let prompt = json!({"id": "clerk", "variables": {"shop": "s", "name": image}});
    let fault = expanded(&json!({"prompt": prompt, "instructions": "Mine."})).unwrap_err();
    assert!(fault.message.contains("assistant"), "{}", fault.message);
}

#[test]
fn a_request_without_a_prompt_is_left_alone() {
    for body in [
        r#"{"model":"m","input":"\"prompt\""}"#,
        r#"{"model":"m","tools":[{"prompt":{"id":"clerk"}}]}"#,
        r#"{"prompt":null}"#,
        r#"["prompt"]"#,
        r#"{"prompt":"#,
    ] {
        assert_eq!(templates().expand(body, 1_000), Ok(None), "{body}");
    }
    let escaped = r#"{"pr\u006fmpt":{"id":"clerk","version":"1"}}"#;
    let body = templates().expand(escaped, 1_000).unwrap().unwrap();
    assert_eq!(body.matches("mpt").count(), 1, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let prompt = json!({"id": "clerk", "version": "1", "variables": null});
    assert_eq!(body, json!({"instructions": "old", "prompt": prompt}));
}

#[test]
fn mistakes_in_a_template_are_told() {
    for (fields, says) in [
        (json!({}), "needs `instructions` or `messages`"),
        (json!({"instructions": 7}), "invalid type"),
        (
            json!({"instructions": "x", "stream": true}),
            "unknown key `stream`",
        ),
        (
            json!({"instructions": "x", "previous_response_id": "resp_1"}),
            "unknown key `previous_response_id`",
        ),
        (
            json!({"instructions": "x", "temperature": 3}),
            "temperature",
        ),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "role",
        ),
        (json!({"messages": [{"role": "user"}]}), "content"),
    ] {
        let why = PromptTemplate::new(fields.clone()).unwrap_err();
        assert!(why.contains(says), "{fields}: {why}");
    }
    for (text, is_id) in [
        ("a", true),
        ("pmpt_1-B", true),
        ("", false),
        ("../a", false),
        ("a.b", false),
        (&*"a".repeat(65), false),
    ] {
        assert_eq!(is_prompt_id(text), is_id, "{text}");
    }
    for (text, version) in [
        ("1", Some(1)),
        ("0", None),
        ("01", None),
        ("+1", None),
        ("x", None),
    ] {
        assert_eq!(prompt_version(text), version, "{text}");
    }
}
