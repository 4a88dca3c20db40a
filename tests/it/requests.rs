//! Requests of many kinds to the real program: which are refused and which are served.
use std::fmt::Write as _;
use std::io::Write as _;

use kit::player::PlayerWire;
use kit::strict;
use serde_json::{Value, json};

use crate::faults::{answer, body, repeating_player};
use crate::proxy::{Proxy, streaming};
use crate::stored::background;
use crate::websocket::client::{Socket, TEXT};

/// As the test `tool-calling` of the Open Responses suite asks.
#[kit::test]
async fn a_response_names_what_a_tool_definition_left_out() {
    let player = repeating_player(
        PlayerWire::Chat,
        answer(json!([
            {"call": {"id": "c1", "name": "weather", "arguments": "{}"}}
        ])),
    )
    .await;
    let proxy = Proxy::start(&player).await;
    let mut request = body();
    request["tools"] =
        json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    let response = proxy.response(&request).await;
    let tool = json!({
        "type": "function", "name": "weather", "description": null, "strict": null,
        "parameters": {"type": "object"},
    });
    assert_eq!(response["tools"], json!([tool]));
    let reply = proxy.post(&streaming(&request)).await;
    let streamed = strict::check_or_panic(&reply.body);
    assert_eq!(streamed.response["tools"], json!([tool]));
}

/// As the test `compact-response` of the Open Responses suite asks. What providers cache must not
/// change when the messages come back with the ids that they got.
#[kit::test]
async fn the_messages_of_a_compaction_are_complete_items_and_change_no_prompt() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a summary"}]))).await;
    let proxy = Proxy::start(&player).await;
    let messages = [
        json!({"role": "user", "content": "one"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]}),
    ];
    let mut request = body();
    request["input"] = json!(messages);
    let reply = proxy.post_to("/v1/responses/compact", &request, &[]).await;
    let compacted = strict::check_compaction(&reply.body).unwrap();
    let output = compacted["output"].as_array().unwrap();
    let mut prompts = Vec::new();
    for input in [&output[..2], &messages] {
        request["input"] = json!(input);
        proxy.response(&request).await;
        prompts.push(player.requests().last().unwrap().json());
    }
    assert_eq!(prompts[0].to_string(), prompts[1].to_string());
}

#[kit::test]
async fn items_of_recent_answers_can_be_referenced() {
    let player = repeating_player(
        PlayerWire::Chat,
        answer(json!([
            {"reasoning": "I must look."},
            {"call": {"id": "c1", "name": "look", "arguments": "{}"}}
        ])),
    )
    .await;
    let proxy = Proxy::start(&player).await;
    for store in [json!(true), Value::Null, json!(false)] {
        let mut first = body();
        first["store"] = store.clone();
        let output = proxy.response(&first).await["output"].clone();
        let mut input = vec![json!({"role": "user", "content": "go"})];
        for item in output.as_array().unwrap() {
            input.push(json!({"type": "item_reference", "id": item["id"]}));
        }
        input.push(json!({"type": "function_call_output", "call_id": "c1", "output": "seen"}));
        let mut second = body();
        second["input"] = Value::Array(input);
        let reply = proxy.post(&second).await;
        if store == json!(false) {
            assert_eq!(reply.error(400)["code"], "item_not_found");
            continue;
        }
        assert_eq!(reply.status, 200, "{reply:?}");
        let sent = player.requests().last().unwrap().json();
        let assistant = &sent["messages"][1];
        assert_eq!(assistant["reasoning_content"], "I must look.");
        assert_eq!(assistant["tool_calls"][0]["id"], "c1");
        assert_eq!(sent["messages"][2]["content"], "seen");
    }
}

/// Invalid requests, with the parameter and the code that the error must name.
fn invalid_requests() -> Vec<(Value, &'static str, Value)> {
    let with = |key: &str, value: Value| {
        let mut body = body();
        body[key] = value;
        body
    };
    let missing = || json!("missing_required_parameter");
    let pairs: serde_json::Map<String, Value> =
        (0..17).map(|n| (format!("k{n}"), json!("v"))).collect();
    let reference =
        json!([{"role": "user", "content": "go"}, {"type": "item_reference", "id": "msg_1"}]);
    let file = json!([{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]);
    let image =
        json!([{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]);
    vec![
        (json!({"input": "go"}), "model", missing()),
        (json!({"model": "m"}), "input", missing()),
        (with("model", json!("")), "model", json!(null)),
        (with("model", json!(7)), "model", json!(null)),
        (with("input", json!({})), "body", json!("invalid_json")),
        (with("input", json!([7])), "body", json!("invalid_json")),
        (
            with("previous_response_id", json!("resp_%")),
            "previous_response_id",
            json!("previous_response_not_found"),
        ),
        (
            with("conversation", json!("conv_1")),
            "conversation",
            json!("conversation_not_found"),
        ),
        (with("background", json!("yes")), "background", json!(null)),
        (
            with("prompt", json!({"id": "pmpt_1"})),
            "prompt",
            json!("unsupported_parameter"),
        ),
        (with("input", file), "input", json!("unsupported_content")),
        (with("input", image), "input", json!("unsupported_content")),
        (with("input", reference), "input", json!("item_not_found")),
        (with("metadata", json!("x")), "metadata", json!(null)),
        (with("metadata", json!({"k": 1})), "metadata", json!(null)),
        (
            with("metadata", Value::Object(pairs)),
            "metadata",
            json!(null),
        ),
        (
            with("metadata", json!({"k": "v".repeat(513)})),
            "metadata",
            json!(null),
        ),
        (
            with("metadata", json!({"k".repeat(65): "v"})),
            "metadata",
            json!(null),
        ),
        (with("stream", json!("yes")), "stream", json!(null)),
        (with("temperature", json!(3)), "temperature", json!(null)),
        (with("top_p", json!("x")), "top_p", json!(null)),
        (
            with("max_output_tokens", json!(0)),
            "max_output_tokens",
            json!(null),
        ),
        (with("tools", json!({})), "tools", json!(null)),
        (
            with("tools", json!([{"type": "function"}])),
            "tools[0].name",
            json!("missing_required_parameter"),
        ),
        (
            with("text", json!({"format": {"type": "yaml"}})),
            "text.format.type",
            json!(null),
        ),
        (
            with("text", json!({"format": {"type": "json_schema"}})),
            "text.format.name",
            json!(null),
        ),
        (
            with("instructions", json!(["a"])),
            "instructions",
            json!(null),
        ),
    ]
}

#[kit::test]
async fn invalid_requests_are_refused() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    for (request, param, code) in invalid_requests() {
        let mut job = request.clone();
        if job.get("background").is_none() {
            job["background"] = true.into();
        }
        for request in [streaming(&request), request.clone(), job] {
            if request["stream"] == "yes" || (param == "stream" && request["stream"] == true) {
                continue;
            }
            let status = if param == "conversation" { 404 } else { 400 };
            let error = proxy.post(&request).await.error(status);
            assert_eq!(error["type"], "invalid_request_error", "{request}");
            assert_eq!(error["code"], code, "{request}: {error}");
            let named = error["param"].as_str().unwrap_or_default();
            assert!(named.starts_with(param), "{request}: {error}");
        }
    }
    let mut wrong = body();
    wrong["stream"] = "yes".into();
    assert_eq!(proxy.post(&wrong).await.error(400)["param"], "stream");
    assert!(player.requests().is_empty());
    assert!(!proxy.whole_log().await.contains("panicked"));
}

#[kit::test]
async fn unusual_but_valid_requests_are_served() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let input = |items: Value| json!({"model": "m", "input": items});
    let with = |key: &str, value: Value| {
        let mut body = body();
        body[key] = value;
        body
    };
    for request in [
        with("quantum", json!({"a": [1]})),
        with("tools", json!([{"type": "teleport", "x": 1}])),
        with(
            "tools",
            json!([{"type": "web_search"}, {"type": "file_search", "vector_store_ids": ["x"]}]),
        ),
        with("tools", json!([])),
        with("tools", json!(null)),
        with("metadata", json!(null)),
        with("stream", json!(null)),
        with("temperature", json!(null)),
        with("previous_response_id", json!(null)),
        with("background", json!(false)),
        with("store", json!(true)),
        with("truncation", json!("auto")),
        with(
            "include",
            json!(["reasoning.encrypted_content", "future.thing"]),
        ),
        with("service_tier", json!("flex")),
        with("reasoning", json!({"effort": "high", "summary": "auto"})),
        with("text", json!({"verbosity": "low"})),
        with(
            "text",
            json!({"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}}),
        ),
        with("prompt_cache_key", json!("k")),
        with("user", json!("u")),
        with("client_metadata", json!({"a": "b"})),
        input(json!([{"type": "telepathy", "thought": "x"}, {"role": "user", "content": "go"}])),
        input(
            json!([{"role": "developer", "content": "be kind"}, {"role": "user", "content": "go"}]),
        ),
        input(
            json!([{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "smell", "of": "tea"}]}, {"role": "user", "content": "go"}]),
        ),
        input(
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}]}]),
        ),
        input(
            json!([{"role": "user", "content": "go"}, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "not ours"}]),
        ),
        input(json!([
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "r"}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}
        ])),
        input(
            json!([{"role": "user", "content": "go"}, {"type": "function_call_output", "call_id": "orphan", "output": "r"}]),
        ),
    ] {
        let stream = proxy.stream(&request).await;
        let whole = proxy.response(&request).await;
        kit::strict::same_output(&stream.response, &whole).unwrap();
        assert_eq!(stream.text(), "a", "{request}");
    }
    let reply = proxy
        .post(&with(
            "tools",
            json!([{"type": "teleport"}, {"type": "web_search"}]),
        ))
        .await;
    assert_eq!(reply.header("x-respondent-notes"), Some("tool_dropped"));
    assert!(player.requests().last().unwrap().json()["tools"].is_null());
}

/// A request body with this JSON as its input.
fn request_with_input(value: &str) -> String {
    format!("{{\"model\":\"m\",\"input\":{value}}}")
}

#[kit::test]
async fn hostile_json_is_refused_or_served() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let tool = |parameters: &str| {
        format!(
            "{{\"model\":\"m\",\"input\":\"go\",\"tools\":[{{\"type\":\"function\",\"name\":\"f\",\"parameters\":{parameters}}}]}}"
        )
    };
    let mut keys = String::from("{\"model\":\"m\",\"input\":\"go\"");
    for n in 0..1_000_000 {
        let _ = write!(keys, ",\"k{n}\":0");
    }
    keys.push('}');
    let refused: Vec<(&str, Vec<u8>)> = vec![
        ("depth in input", request_with_input(&deep(100_000)).into()),
        ("unclosed depth", "[".repeat(100_000).into()),
        (
            "depth in an unknown parameter",
            format!(
                "{{\"model\":\"m\",\"input\":\"go\",\"x\":{}}}",
                deep(100_000)
            )
            .into(),
        ),
        ("depth in a schema", tool(&deep(100_000)).into()),
        (
            "depth in the content",
            request_with_input(&format!(
                "[{{\"role\":\"user\",\"content\":{}}}]",
                deep(100_000)
            ))
            .into(),
        ),
        (
            "a duplicate key",
            "{\"model\":\"m\",\"model\":\"n\",\"input\":\"go\"}".into(),
        ),
        ("NaN", request_with_input("NaN").into()),
        (
            "Infinity",
            "{\"model\":\"m\",\"input\":\"go\",\"temperature\":Infinity}".into(),
        ),
        (
            "a huge number",
            "{\"model\":\"m\",\"input\":\"go\",\"temperature\":1e999}".into(),
        ),
        ("NUL outside a string", "{\"model\":\0\"m\"}".into()),
        ("NUL inside a string", request_with_input("\"a\0b\"").into()),
        (
            "a byte order mark",
            "\u{feff}{\"model\":\"m\",\"input\":\"go\"}".into(),
        ),
        ("text in another encoding", b"\"\xff\"".to_vec()),
        (
            "bytes that are no text outside a string",
            b"{\"model\":\xff}".to_vec(),
        ),
        ("an empty body", Vec::new()),
        ("an array", "[]".into()),
        ("a string", "\"go\"".into()),
        (
            "a truncated body",
            "{\"model\":\"m\",\"input\":\"go\"".into(),
        ),
        (
            "text after the end",
            "{\"model\":\"m\",\"input\":\"go\"}{}".into(),
        ),
        (
            "a comment",
            "{\"model\":\"m\",/* */\"input\":\"go\"}".into(),
        ),
    ];
    for (name, bytes) in refused {
        let reply = proxy.post_bytes(bytes, &[]).await;
        assert_eq!(reply.status, 400, "{name}: {}", reply.body);
        let error = reply.error(400);
        assert_eq!(error["type"], "invalid_request_error", "{name}");
        assert!(error["message"].as_str().unwrap().len() < 1000, "{name}");
    }
    assert!(player.requests().is_empty());
    for (name, text) in [
        ("a million keys", keys),
        ("NUL as an escape", request_with_input("\"a\\u0000b\"")),
        (
            "a whole surrogate pair",
            request_with_input("\"\\ud83d\\ude00\""),
        ),
        (
            "white space around the body",
            format!("\r\n\t {} \n", request_with_input("\"go\"")),
        ),
        ("usual depth", tool(&format!("{{\"x\":{}}}", deep(100)))),
    ] {
        let reply = proxy.post_bytes(text, &[]).await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.body);
    }
    assert_eq!(proxy.get("/healthz").await.status, 200);
    assert!(!proxy.whole_log().await.contains("panicked"));
}

/// Promise: Half a surrogate pair, and bytes that are not UTF-8, anywhere in a request become
/// U+FFFD with a note, on every way into the server: a client cannot take them out of its history.
///
/// Bodies with something that is no text; each has the mark in its place for the provider.
#[kit::test]
async fn half_a_surrogate_pair_and_bytes_that_are_no_text_are_u_fffd_with_a_note() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let call = |arguments: &str| {
        request_with_input(&format!(
            r#"[{{"role":"user","content":"go"}},{{"type":"function_call","call_id":"c1","name":"f","arguments":"{arguments}"}},{{"type":"function_call_output","call_id":"c1","output":"ok"}}]"#
        ))
    };
    let bodies: [(&str, Vec<u8>, &str); 14] = [
        ("a high half", request_with_input(r#""cut \ud83d""#).into(), "cut \u{fffd}"),
        ("a low half", request_with_input(r#""\uDE00 cut""#).into(), "\u{fffd} cut"),
        ("halves in the wrong order", request_with_input(r#""\ude00\ud83d""#).into(), "\u{fffd}\u{fffd}"),
        ("two high halves", request_with_input(r#""\ud83d\ud83d\ude00""#).into(), "\u{fffd}😀"),
        ("half before an escape", request_with_input(r#""\ud83d\n""#).into(), "\u{fffd}\n"),
        ("in a result", request_with_input(r#"[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"cut \ud83d"}]"#).into(), "cut \u{fffd}"),
        ("in a nested key", br#"{"model":"up/m","input":"go","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"p\ud83d":{"type":"string"}}}}]}"#.to_vec(), "p\u{fffd}"),
        ("in the instructions", br#"{"model":"up/m","input":"go","instructions":"be \udfff"}"#.to_vec(), "be \u{fffd}"),
        ("in arguments", call(r#"{\"a\":\"\ud83d\"}"#).into(), "{\"a\":\"\u{fffd}\"}"),
        ("in arguments as text", call(r#"{\"a\":\"\\ud83d\"}"#).into(), r#"{"a":"\ufffd"}"#),
        ("a byte", [&b"{\"model\":\"up/m\",\"input\":\"a"[..], b"\xff", b"z\"}"].concat(), "a\u{fffd}z"),
        ("a cut character", [&b"{\"model\":\"up/m\",\"input\":\"a"[..], b"\xe2\x82", b"z\"}"].concat(), "a\u{fffd}z"),
        ("an encoded half", [&b"{\"model\":\"up/m\",\"input\":\"a"[..], b"\xed\xa0\x80", b"z\"}"].concat(), "a\u{fffd}z"),
        ("encoded halves of a pair and another one", [&b"{\"model\":\"up/m\",\"input\":\"a"[..], b"\xed\xa0\xbd\xed\xb8\x80\xed\xb8\x80", b"z\"}"].concat(), "a😀\u{fffd}z"),
    ];
    for (name, bytes, sent) in bodies {
        let mut streamed = bytes.clone();
        streamed.splice(1..1, *b"\"stream\":true,");
        for body in [bytes, streamed] {
            let reply = proxy.post_bytes(body, &[]).await;
            assert_eq!(reply.status, 200, "{name}: {}", reply.body);
            let notes = reply.header("x-respondent-notes").unwrap_or_default();
            assert!(notes.contains("text_replaced"), "{name}: {notes}");
            let request = player.requests().pop().unwrap();
            let body: Value = serde_json::from_str(&request.body).unwrap();
            assert!(has_text(&body, sent), "{name}: {body}");
        }
    }
    let whole = request_with_input(r#""\ud83d\ude00 \\ud83d""#);
    let reply = proxy.post_bytes(whole, &[]).await;
    assert_eq!(reply.header("x-respondent-notes"), None);
}

/// Whether a text is in a string or a key of a JSON value.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(values) => values.iter().any(|value| has_text(value, text)),
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| key.contains(text) || has_text(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[kit::test]
async fn what_is_no_text_is_replaced_on_every_way_into_the_server() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    // The mark is in a string of its own, so that it can be replaced by half a pair.
    let cut = |body: Value| body.to_string().replace("CUT", r"cut \ud83d");
    let post = async |path: &str, body: Value| {
        let reply = proxy
            .open_at(path, cut(body), &[])
            .await
            .read_to_end()
            .await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply
    };
    let item = json!({"type": "message", "role": "user", "content": "CUT"});
    let turn = json!({"model": "up/m", "input": [item]});
    post("/v1/responses/input_tokens", turn.clone()).await;
    post("/v1/responses/compact", turn.clone()).await;
    let made = post(
        "/v1/conversations",
        json!({"items": [item], "metadata": {"k": "CUT"}}),
    )
    .await;
    let made: Value = serde_json::from_str(&made.body).unwrap();
    assert_eq!(made["metadata"]["k"], "cut \u{fffd}");
    let conversation = made["id"].as_str().unwrap();
    let items = format!("/v1/conversations/{conversation}/items");
    post(&items, json!({"items": [item]})).await;
    let listed: Value = serde_json::from_str(&proxy.get(&items).await.body).unwrap();
    assert_eq!(listed["data"][1]["content"][0]["text"], "cut \u{fffd}");

    let mut job = turn.clone();
    job["background"] = json!(true);
    let job = post("/v1/responses", job).await;
    let job = serde_json::from_str(&job.body).unwrap();
    let ended = background::ended(&proxy, &job).await;
    assert_eq!(ended["status"], "completed");

    let mut socket = Socket::open(&proxy).await;
    let mut message = turn.clone();
    message["type"] = "response.create".into();
    assert!(socket.send_frame(TEXT, cut(message).as_bytes()).await);
    assert_eq!(socket.stream_on(None).await.text(), "a");
    for request in player.requests() {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert!(has_text(&body, "cut \u{fffd}"), "{body}");
    }
}

#[kit::test]
async fn compressed_bodies_are_accepted() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let text = streaming(&body()).to_string();
    let zstd = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    for (coding, bytes) in [("zstd", zstd), ("gzip", gzip)] {
        let reply = proxy
            .post_bytes(bytes, &[("content-encoding", coding)])
            .await;
        assert_eq!(reply.stream().text(), "a", "{coding}");
    }
    assert_eq!(player.requests()[0].body, player.requests()[1].body);
}

#[kit::test]
async fn every_form_of_tool_choice_is_read() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let tools = json!([
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "c"},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g", "parameters": {"type": "object"}}]},
        {"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"},
        {"type": "web_search"}
    ]);
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    for (choice, sent) in [
        (json!("auto"), json!("auto")),
        (json!("none"), json!("none")),
        (json!("required"), json!("required")),
        (json!({"type": "function", "name": "f"}), named("f")),
        (json!({"type": "custom", "name": "c"}), named("c")),
        (
            json!({"type": "function", "name": "g", "namespace": "ns"}),
            named("ns__g"),
        ),
        (json!({"type": "local_shell"}), named("local_shell")),
        (json!({"type": "shell"}), named("shell")),
        (json!({"type": "apply_patch"}), named("apply_patch")),
        (
            json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}),
            Value::Null,
        ),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]}),
            Value::Null,
        ),
    ] {
        let mut body = body();
        body["tools"] = tools.clone();
        body["tool_choice"] = choice.clone();
        let whole = proxy.response(&body).await;
        assert_eq!(whole["tool_choice"], choice);
        let request = player.requests().last().unwrap().json();
        match sent.as_str() {
            // The default may be left out.
            Some("auto") => {
                assert!(request["tool_choice"].is_null() || request["tool_choice"] == "auto");
            }
            _ if sent.is_null() => assert_ne!(request["tool_choice"], "none"),
            _ => assert_eq!(request["tool_choice"], sent, "{choice}"),
        }
    }
    let count = player.requests().len();
    for choice in [
        json!({"type": "web_search"}),
        json!({"type": "file_search"}),
        json!({"type": "function", "name": "absent"}),
        json!({"type": "function"}),
        json!({"type": "custom", "name": "f"}),
        json!("sometimes"),
        json!(7),
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}),
        json!({"type": "allowed_tools", "mode": "maybe", "tools": []}),
    ] {
        let mut body = body();
        body["tools"] = tools.clone();
        body["tool_choice"] = choice.clone();
        let error = proxy.post(&body).await.error(400);
        let param = error["param"].as_str().unwrap();
        assert!(param.starts_with("tool_choice"), "{choice}");
    }
    let mut body = body();
    body["tools"] = json!([{"type": "web_search"}]);
    body["tool_choice"] = "required".into();
    let error = proxy.post(&body).await.error(400);
    assert!(error["message"].as_str().unwrap().contains("web_search"));
    assert_eq!(player.requests().len(), count);
}

#[kit::test]
async fn the_routes_of_the_api() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let models: Value = serde_json::from_str(&proxy.get("/v1/models").await.body).unwrap();
    assert!(models["data"].is_array() && models["models"].is_array());
    let health: Value = serde_json::from_str(&proxy.get("/healthz").await.body).unwrap();
    assert_eq!(health["status"], "ok");
    assert!(proxy.metrics().await.ends_with("# EOF\n"));
    for path in ["/v1/nothing", "/v1/responses/resp_1", "/v1/../etc"] {
        let reply = proxy.get(path).await;
        assert!([404, 405].contains(&reply.status), "{path}: {reply:?}");
        reply.error(reply.status);
    }
}
