use super::*;

/// A reply, gathered.
struct GatheredReply {
    text: String,
    reasoning: String,
    /// Name and arguments of each call.
    calls: Vec<(String, Value)>,
    ids: Vec<String>,
    status: StatusCode,
    broken: bool,
}

fn ask(body: &Value) -> GatheredReply {
    let mut gathered = GatheredReply {
        text: String::new(),
        reasoning: String::new(),
        calls: Vec::new(),
        ids: Vec::new(),
        status: StatusCode::OK,
        broken: false,
    };
    let steps = match reply(&ChatRequest::parse(body.to_string().as_bytes())) {
        SandboxReply::Steps(steps) => steps,
        SandboxReply::Error(status, _) => {
            gathered.status = status;
            return gathered;
        }
    };
    for step in steps {
        match step {
            ReplyStep::Text(text) => gathered.text.push_str(&text),
            ReplyStep::Reasoning(text) => gathered.reasoning.push_str(&text),
            ReplyStep::Call(call) => {
                gathered.ids.push(call.id);
                gathered
                    .calls
                    .push((call.name, serde_json::from_str(&call.arguments).unwrap()));
            }
            ReplyStep::Error(_) => gathered.broken = true,
        }
    }
    gathered
}

fn function(name: &str, properties: &Value, required: &Value) -> Value {
    json!({"type": "function", "function": {"name": name,
        "parameters": {"type": "object", "properties": properties, "required": required}}})
}

fn codex(prompt: &str) -> Value {
    json!({
        "messages": [
            {"role": "system", "content": "You are an agent; think about errors and patches."},
            {"role": "user", "content": "<environment_context>error parallel</environment_context>"},
            {"role": "user", "content": [{"type": "text", "text": prompt}]},
        ],
        "tools": [
            function("view_image", &json!({"path": {"type": "string"}}), &json!(["path"])),
            function("exec_command", &json!({"cmd": {"type": "string"}, "tty": {"type": "boolean"}}), &json!(["cmd"])),
            function("apply_patch", &json!({"input": {"type": "string"}}), &json!(["input"])),
        ],
    })
}

fn bare(prompt: &str) -> Value {
    json!({"messages": [{"role": "user", "content": prompt}]})
}

const ECHO: &str = "echo 'Hello from the offline model'";

#[test]
fn it_introduces_itself_and_says_how_to_get_a_real_model() {
    let reply = ask(&bare("Hi"));
    assert_eq!((reply.text.as_str(), reply.calls.len()), (GREETING, 0));
    assert!(reply.text.contains("offline model") && reply.text.contains("API key"));
}

#[test]
fn offered_a_shell_it_makes_one_call_and_quotes_the_output() {
    let mut request = codex("Hi");
    let reply = ask(&request);
    assert_eq!(
        reply.calls,
        [("exec_command".to_owned(), json!({"cmd": ECHO}))]
    );
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": []}));
    messages.push(json!({"role": "tool", "tool_call_id": "a", "content": "Wall time: 0\nOutput:\none\ntwo\n"}));
    messages.push(json!({"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "three"}]}));
    let after = ask(&request);
    assert!(
        after.text.contains("> one\n> two\n\n> three\n"),
        "{}",
        after.text
    );
    assert!(after.calls.is_empty());
    request["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "again"}));
    let again = ask(&request);
    assert_eq!(again.calls.len(), 1);
    assert_ne!(again.ids, reply.ids, "call ids are new in their history");
}

#[test]
fn each_known_shell_gets_arguments_in_its_own_form() {
    let text = json!({"type": "string"});
    let list = json!({"type": "array", "items": {"type": "string"}});
    let argv = json!(["echo", "Hello from the offline model"]);
    for (name, properties, required, arguments) in [
        (
            "shell",
            json!({"command": list}),
            json!(["command"]),
            json!({"command": argv}),
        ),
        (
            "local_shell",
            json!({"action": {"type": "object", "properties": {"command": list}}}),
            json!(["action"]),
            json!({"action": {"command": argv}}),
        ),
        (
            "shell",
            json!({"commands": list}),
            json!(["commands"]),
            json!({"commands": [ECHO]}),
        ),
        (
            "Bash",
            json!({"command": text, "description": text, "timeout": {"type": "number"}}),
            json!(["command", "description"]),
            json!({"command": ECHO, "description": "offline"}),
        ),
        ("shell", Value::Null, Value::Null, json!({"command": argv})),
        ("bash", Value::Null, Value::Null, json!({"command": ECHO})),
        (
            "exec_command",
            Value::Null,
            Value::Null,
            json!({"cmd": ECHO}),
        ),
    ] {
        let mut request = bare("Hi");
        request["tools"] = json!([function(name, &properties, &required)]);
        assert_eq!(ask(&request).calls, [(name.to_owned(), arguments)]);
    }
}

#[test]
fn a_short_message_asks_for_a_demonstration() {
    let reply = ask(&codex("Show me some reasoning"));
    assert!(reply.reasoning.contains("scripted thought"));
    assert_eq!(reply.calls.len(), 1);
    assert!(!ask(&bare("Think!")).reasoning.is_empty());

    let reply = ask(&codex("Two calls in parallel, please"));
    let commands: Vec<&str> = reply
        .calls
        .iter()
        .filter_map(|(_, arguments)| arguments["cmd"].as_str())
        .collect();
    assert_eq!(commands, [ECHO, "pwd"]);
    assert_ne!(reply.ids[0], reply.ids[1]);

    let reply = ask(&codex("Give a LONG ANSWER"));
    assert!(reply.text.lines().count() > 200 && reply.calls.is_empty());

    assert_eq!(
        ask(&codex("Give me an error")).status,
        StatusCode::BAD_REQUEST
    );
    let reply = ask(&codex("An error in the stream"));
    assert!(reply.broken && reply.status == StatusCode::OK && !reply.text.is_empty());
}

#[test]
fn a_patch_creates_a_small_file() {
    let reply = ask(&codex("Apply a patch"));
    assert_eq!(reply.calls[0].0, "apply_patch");
    let patch = reply.calls[0].1["input"].as_str().unwrap();
    assert!(patch.starts_with("*** Begin Patch\n*** Add File: respondent-offline.txt\n+"));
    assert!(patch.ends_with("\n*** End Patch\n"));

    let mut request = bare("Apply a patch");
    assert!(ask(&request).text.starts_with("No tool for that"));
    request["tools"] = json!([function(
        "apply_patch",
        &json!({"operation": {"type": "object"}}),
        &json!([])
    )]);
    assert_eq!(ask(&request).calls[0].1["operation"]["type"], "create_file");
}

#[test]
fn tool_choice_and_response_formats_are_obeyed() {
    let weather = function(
        "get_weather",
        &json!({"location": {"type": "string"}, "unit": {"enum": ["c", "f"]}}),
        &json!(["location", "unit"]),
    );
    let mut request = bare("How is the weather?");
    request["tools"] = json!([weather]);
    let call = (
        "get_weather".to_owned(),
        json!({"location": "offline", "unit": "c"}),
    );
    assert_eq!(ask(&request).calls, std::slice::from_ref(&call));
    request["messages"][0]["content"] = json!("Hi");
    assert!(ask(&request).calls.is_empty());
    for choice in [
        json!("required"),
        json!({"type": "function", "function": {"name": "get_weather"}}),
    ] {
        request["tool_choice"] = choice;
        assert_eq!(ask(&request).calls, std::slice::from_ref(&call));
    }
    let mut request = codex("Hi");
    request["tool_choice"] = json!("none");
    assert!(ask(&request).calls.is_empty());

    let mut request = bare("Hi");
    request["response_format"] = json!({"type": "json_schema", "json_schema": {"schema": {
        "type": "object", "required": ["n", "list", "self"], "$defs": {"n": {"type": ["integer", "null"]}},
        "properties": {"n": {"$ref": "#/$defs/n"}, "list": {"type": "array", "items": {"type": "boolean"}},
            "self": {"anyOf": [{"const": 3}]}},
    }}});
    assert_eq!(ask(&request).text, r#"{"n":1,"list":[true],"self":3}"#);
}

#[test]
fn pasted_text_and_compaction_ask_for_no_demonstration() {
    let reply = ask(&bare(&"error patch think ".repeat(100)));
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (StatusCode::OK, GREETING)
    );
    let reply = ask(&codex(
        "You are performing a CONTEXT CHECKPOINT COMPACTION. Keep errors in mind.",
    ));
    assert!(reply.text.starts_with("Summary") && reply.calls.is_empty());
}

#[test]
fn any_body_gets_a_reply_and_always_the_same() {
    let again: serde_json::Map<String, Value> = (0..100)
        .map(|n| (n.to_string(), json!({"$ref": "#"})))
        .collect();
    let loops = json!({"type": "object", "properties": again});
    for body in [
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "[1]".to_owned(),
        json!({"messages": 5, "tools": {"a": 1}}).to_string(),
        json!({"messages": [null, 3, {"role": 5}, {"role": "user", "content": {"a": 1}}], "tools": [null, {"function": 3}]}).to_string(),
        json!({"messages": [{"role": "tool"}]}).to_string(),
        json!({"messages": [{"role": "tool", "content": null}, {"role": "assistant", "content": "x"}]}).to_string(),
        json!({"messages": [], "tools": [{"function": {"name": "shell", "parameters": 7}}]}).to_string(),
        json!({"messages": [], "tool_choice": "required", "tools": [{"function": {"name": "x", "parameters": loops}}]}).to_string(),
        json!({"response_format": {"type": "json_schema"}}).to_string(),
    ] {
        let request = ChatRequest::parse(body.as_bytes());
        let (one, two) = (reply(&request), reply(&request));
        assert!(
            matches!(&one, SandboxReply::Steps(steps) if !steps.is_empty()),
            "{body}"
        );
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
    }
}
