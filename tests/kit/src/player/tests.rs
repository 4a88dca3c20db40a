use super::*;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn player(script: Value) -> Player {
    Player::start(serde_json::from_value(script).unwrap())
        .await
        .unwrap()
}

/// Sends a POST on a new connection and returns all bytes up to its end.
async fn ask(player: &Player, body: &Value) -> io::Result<String> {
    let mut socket = connect(player).await;
    post(&mut socket, body, "connection: close\r\n").await;
    let mut reply = Vec::new();
    socket.read_to_end(&mut reply).await?;
    Ok(String::from_utf8(reply).unwrap())
}

async fn connect(player: &Player) -> TcpStream {
    TcpStream::connect(player.address()).await.unwrap()
}

async fn post(socket: &mut TcpStream, body: &Value, headers: &str) {
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).await.unwrap();
}

async fn until(socket: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        assert!(socket.read_buf(&mut text).await.unwrap() > 0, "ended early");
    }
    String::from_utf8(text).unwrap()
}

/// The HTTP chunks of a streamed body; the last one is empty if the body is whole.
fn chunks(reply: &str) -> Vec<String> {
    let (_, mut rest) = reply.split_once("\r\n\r\n").unwrap();
    let mut chunks = Vec::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        chunks.push(after.get(..size).unwrap().to_owned());
        rest = after.get(size + 2..).unwrap();
    }
    chunks
}

fn events(reply: &str) -> Vec<String> {
    let body = chunks(reply).concat();
    body.split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
        .collect()
}

/// The usage, the error or the choices of each event; the text of an event that is not JSON.
fn contents(reply: &str) -> Vec<Value> {
    let pick = |event: String| match serde_json::from_str::<Value>(&event) {
        Ok(chunk) => ["usage", "error", "choices"]
            .iter()
            .find_map(|key| chunk.get(key).cloned())
            .unwrap(),
        Err(_) => Value::from(event),
    };
    events(reply).into_iter().map(pick).collect()
}

fn streamed() -> Value {
    json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi there"}],
        "tools": [{"type": "function", "function": {"name": "ls"}}]})
}

fn plain() -> Value {
    json!({"model": "m", "messages": [{"role": "tool", "content": [{"type": "text", "text": "out"}]}]})
}

#[tokio::test]
async fn an_end_is_added_to_a_script_without_one() {
    let player = player(json!({"answers": [{"steps": [
        {"reasoning": "Hm"}, {"text": "Hi"},
        {"call": {"id": "c1", "name": "ls", "arguments": "{\"é\":1}", "pieces": 2}},
        {"usage": {"prompt_tokens": 7}},
    ]}]}))
    .await;
    let reply = ask(&player, &streamed()).await.unwrap();
    let delta = |delta: Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    let args =
        |text: &str| delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}));
    assert!(reply.contains("content-type: text/event-stream\r\n"));
    assert_eq!(
        contents(&reply),
        [
            delta(json!({"role": "assistant", "reasoning_content": "Hm"})),
            delta(json!({"content": "Hi"})),
            delta(
                json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                "function": {"name": "ls", "arguments": ""}}]})
            ),
            args("{\"é\""),
            args(":1}"),
            json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
            json!({"prompt_tokens": 7}),
            json!("[DONE]"),
        ]
    );
    assert_eq!(chunks(&reply).last().unwrap(), "");
}

#[tokio::test]
async fn usage_is_sent_if_asked_for() {
    let player =
        player(json!({"answers": [{"repeat": true, "steps": [{"text": "12345678"}]}]})).await;
    let mut request = streamed();
    let reply = contents(&ask(&player, &request).await.unwrap());
    let prompt = request.to_string().len() / 4;
    assert_eq!(
        reply[2],
        json!({"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2})
    );
    request.as_object_mut().unwrap().remove("stream_options");
    assert_eq!(contents(&ask(&player, &request).await.unwrap()).len(), 3);
}

#[tokio::test]
async fn a_script_may_have_an_explicit_end() {
    for (steps, last) in [
        (
            json!([{"text": "a"}, {"finish": "length"}]),
            json!([{"index": 0, "delta": {}, "finish_reason": "length"}]),
        ),
        (
            json!([{"text": "a"}, {"error": {"message": "m"}}]),
            json!({"message": "m"}),
        ),
        (json!([{"text": "a"}, {"done": true}]), json!("[DONE]")),
        (
            json!([{"chunk": {"choices": []}}, {"raw": "data: x\n\n"}]),
            json!("x"),
        ),
    ] {
        let player = player(json!({"answers": [{"steps": steps}]})).await;
        let reply = ask(&player, &streamed()).await.unwrap();
        assert_eq!(contents(&reply).last(), Some(&last));
        assert_eq!(chunks(&reply).last().unwrap(), "");
    }
}

#[tokio::test]
async fn without_a_stream_the_steps_make_one_completion() {
    let player = player(json!({"answers": [
        {"steps": [{"reasoning": "Hm"}, {"text": "H"}, {"text": "i"},
            {"call": {"index": 1, "id": "b", "name": "rm"}}, {"call": {"index": 0, "id": "a", "name": "ls", "arguments": "{}"}},
            {"args": {"index": 1, "text": "{}"}}]},
        {"steps": [{"text": "H"}, {"error": {"message": "m"}}]},
    ]}))
    .await;
    let reply = ask(&player, &plain()).await.unwrap();
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    assert_eq!(
        body["choices"],
        json!([{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Hi",
            "reasoning_content": "Hm", "tool_calls": [call("a", "ls"), call("b", "rm")]}}])
    );
    assert!(body["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let reply = ask(&player, &plain()).await.unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 500 ") && reply.ends_with(r#"{"error":{"message":"m"}}"#),
        "{reply}"
    );
}

#[tokio::test]
async fn the_first_matching_answer_is_used_once() {
    let player = player(json!({"answers": [
        {"when": {"last_role": "tool", "last_contains": "out", "stream": false}, "body": "tool"},
        {"when": {"tool_offered": "ls", "body_contains": "hi there"}, "body": "offered"},
        {"when": {"tool_offered": "rm"}, "body": "never"},
        {"when": {"last_role": "user"}, "repeat": true, "status": 429, "headers": {"retry-after": "2"}, "json": {"a": 1}},
    ]}))
    .await;
    assert!(
        ask(&player, &streamed())
            .await
            .unwrap()
            .ends_with("offered")
    );
    for _ in 0..2 {
        let reply = ask(&player, &streamed()).await.unwrap();
        assert!(reply.starts_with("HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\n"));
        assert!(reply.ends_with("\r\n\r\n{\"a\":1}"));
    }
    assert!(ask(&player, &plain()).await.unwrap().ends_with("tool"));
    assert!(
        ask(&player, &plain())
            .await
            .unwrap()
            .contains("script exhausted")
    );
    player.push(ScriptedAnswer {
        body: Some("late".to_owned()),
        ..ScriptedAnswer::default()
    });
    assert!(ask(&player, &plain()).await.unwrap().ends_with("late"));
    let records = player.requests();
    assert_eq!(records.len(), 6);
    assert_eq!(records[0].json(), streamed());
    assert!(
        records[0]
            .head
            .starts_with("POST /v1/chat/completions HTTP/1.1\r\n")
    );
}

#[tokio::test]
async fn a_body_is_cut_into_writes_of_equal_size() {
    let player = player(json!({"answers": [{"split": 7, "steps": [{"text": "Hello"}]}]})).await;
    let reply = ask(&player, &streamed()).await.unwrap();
    let (end, rest) = chunks(&reply)
        .split_last()
        .map(|(end, rest)| (end.clone(), rest.to_vec()))
        .unwrap();
    let (short, full) = rest.split_last().unwrap();
    assert!(end.is_empty() && short.len() <= 7 && full.iter().all(|chunk| chunk.len() == 7));
    assert_eq!(contents(&reply).last(), Some(&json!("[DONE]")));
}

#[tokio::test]
async fn repeats_are_unrolled() {
    let player = player(
        json!({"answers": [{"steps": [{"repeat": {"times": 100, "steps": [
            {"repeat": {"times": 3, "steps": [{"text": "a"}]}}, {"text": "b"},
        ]}}]}]}),
    )
    .await;
    let text: String = contents(&ask(&player, &streamed()).await.unwrap())
        .iter()
        .filter_map(|choices| {
            choices
                .pointer("/0/delta/content")?
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(text, "aaab".repeat(100));
}

#[tokio::test]
async fn a_connection_is_closed_or_reset() {
    let player = player(json!({"answers": [
        {"steps": [{"text": "a"}, {"cut": "fin"}]},
        {"steps": [{"text": "a"}, {"cut": "rst"}]},
        {"headers": {"Content-Length": "99"}, "body": "short"},
    ]}))
    .await;
    let reply = ask(&player, &streamed()).await.unwrap();
    assert!(
        !chunks(&reply).last().unwrap().is_empty(),
        "no end of the body"
    );
    let error = ask(&player, &streamed()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let reply = ask(&player, &streamed()).await.unwrap();
    assert!(reply.contains("Content-Length: 99\r\n") && reply.ends_with("\r\n\r\nshort"));
}

#[tokio::test]
async fn a_stall_lasts_until_the_peer_closes() {
    let player = player(
        json!({"answers": [{"body": "first"}, {"steps": [{"text": "a"}, {"stall": true}]}]}),
    )
    .await;
    let mut socket = connect(&player).await;
    post(&mut socket, &streamed(), "").await;
    until(&mut socket, "first").await;
    post(&mut socket, &streamed(), "").await;
    until(&mut socket, "\n\n\r\n").await;
    player.wait_requests(2).await;
    let states: Vec<_> = player
        .requests()
        .iter()
        .map(|record| (record.finished, record.closed))
        .collect();
    assert_eq!(states, [(true, false), (false, false)]);
    drop(socket);
    player.wait_closed(1).await;
    let states: Vec<_> = player
        .requests()
        .iter()
        .map(|record| (record.finished, record.closed))
        .collect();
    assert_eq!(states, [(true, true), (false, true)]);
}

#[tokio::test]
async fn a_request_may_be_chunked_and_a_get_lists_models() {
    let player = player(json!({"models": ["a", "b"], "answers": [{"body": "ok"}]})).await;
    let mut socket = connect(&player).await;
    let request = "POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2\r\n{\"\r\n4\r\na\":1\r\n1\r\n}\r\n0\r\n\r\n";
    for byte in request.as_bytes() {
        socket.write_all(&[*byte]).await.unwrap();
    }
    let reply = until(&mut socket, "ok").await;
    assert!(reply.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
    assert_eq!(player.requests()[0].json(), json!({"a": 1}));
    socket
        .write_all(b"GET /v1/models HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let reply = until(&mut socket, "]}").await;
    assert!(reply.contains(r#"{"id":"a","object":"model""#) && reply.contains(r#"{"id":"b""#));
    socket.write_all(b"\x00garbage\r\n\r\n").await.unwrap();
    assert_eq!(socket.read_buf(&mut Vec::new()).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_key_and_a_path_are_asked_for() {
    let player = player(json!({
        "base_path": "/api/v2", "key": ["api-key", "k"], "public_list": true,
        "model_list": [{"id": "m"}], "answers": [{"repeat": true, "body": "let in"}],
    }))
    .await;
    assert!(player.base_url().ends_with("/api/v2"));
    let mut socket = connect(&player).await;
    for (request, answer) in [
        ("POST /v1/x HTTP/1.1\r\napi-key: k\r\n", "no such route"),
        ("POST /api/v2/x HTTP/1.1\r\n", "no such key"),
        ("POST /api/v2/x HTTP/1.1\r\nApi-Key: k\r\n", "let in"),
        ("GET /api/v2/models HTTP/1.1\r\n", r#"[{"id":"m"}]"#),
    ] {
        let request = format!("{request}content-length: 0\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        while !String::from_utf8_lossy(&reply).contains(answer) {
            assert!(socket.read_buf(&mut reply).await.unwrap() > 0, "{request}");
        }
    }
}

#[tokio::test]
async fn a_dropped_player_listens_no_more() {
    let player = player(json!({"answers": [{"steps": [{"text": "a"}, {"stall": true}]}]})).await;
    let mut socket = connect(&player).await;
    post(&mut socket, &streamed(), "").await;
    until(&mut socket, "\n\n\r\n").await;
    drop(player);
    assert_eq!(socket.read_buf(&mut Vec::new()).await.unwrap_or(0), 0);
}

#[test]
fn unknown_keys_are_refused() {
    for script in [
        json!({"answer": []}),
        json!({"answers": [{"step": []}]}),
        json!({"answers": [{"steps": [{"say": "x"}]}]}),
        json!({"answers": [{"when": {"role": "user"}}]}),
        json!({"answers": [{"steps": [{"text": "x", "reasoning": "y"}]}]}),
        json!({"answers": [{"steps": [{"call": {"name": "ls", "args": ""}}]}]}),
    ] {
        assert!(
            serde_json::from_value::<PlayerScript>(script.clone()).is_err(),
            "{script}"
        );
    }
}

#[tokio::test]
async fn the_requests_can_be_asked_for() {
    let player = player(json!({
        "refuse": ["temperature"],
        "answers": [{"when": {"tool_offered": "demo__echo"}, "steps": [{"text": "ok"}]}],
    }))
    .await;
    let tools = json!([{"type": "namespace", "name": "demo", "tools": [{"name": "echo"}]}]);
    assert!(
        ask(&player, &json!({"tools": tools}))
            .await
            .unwrap()
            .contains("ok")
    );
    ask(&player, &json!({"temperature": 0.5})).await.unwrap();
    let mut socket = connect(&player).await;
    let get = "GET /v1/requests HTTP/1.1\r\nconnection: close\r\n\r\n";
    socket.write_all(get.as_bytes()).await.unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).await.unwrap();
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let requests: Value = serde_json::from_str(body).unwrap();
    assert_eq!(requests[0]["path"], "/v1/chat/completions");
    assert_eq!(requests[0]["json"]["tools"], tools);
    assert_eq!(requests[0]["refusal"], Value::Null);
    assert!(requests[1]["refusal"]["error"]["message"].is_string());
}
