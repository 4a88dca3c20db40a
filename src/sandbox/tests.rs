//! The sandbox through a real socket: the exact bytes of its replies.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Sandbox;

async fn sandbox() -> Sandbox {
    Sandbox::start().await.unwrap()
}

/// Sends a request on a connection and returns all bytes up to `end`.
async fn exchange(socket: &mut TcpStream, request: &str, end: &str) -> String {
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(end.as_bytes()) {
        let read = socket.read_buf(&mut reply).await.unwrap();
        assert!(read > 0, "ended early: {}", String::from_utf8_lossy(&reply));
    }
    String::from_utf8(reply).unwrap()
}

fn post(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn an_error_is_a_document() {
    let sandbox = sandbox().await;
    let mut socket = TcpStream::connect(sandbox.address()).await.unwrap();
    let body = r#"{"error":{"message":"You asked for an error: this one is scripted, nothing is wrong.","type":"invalid_request_error","param":null,"code":"scripted_error"}}"#;
    let request = post(&json!({"messages": [{"role": "user", "content": "error"}]}));
    // Both on one connection: it is kept alive.
    for _ in 0..2 {
        let reply = exchange(&mut socket, &request, body).await;
        assert!(reply.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{reply}");
        assert!(reply.contains("content-type: application/json\r\n"));
    }
}

#[tokio::test]
async fn a_stream_has_these_bytes() {
    let sandbox = sandbox().await;
    let mut socket = TcpStream::connect(sandbox.address()).await.unwrap();
    let request = json!({
        "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "pwd: think"}], "tool_choice": "required",
        "tools": [{"type": "function", "function": {"name": "pwd", "parameters": {"properties": {"é": {"const": 1}}}}}],
    });
    let reply = exchange(&mut socket, &post(&request), "\r\n0\r\n\r\n").await;
    let (head, chunks) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    let chunk = |choices: &str, more: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"scripted\",\"choices\":[{choices}]{more}}}\n\n"
        )
    };
    let delta = |delta: &str| {
        chunk(
            &format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#),
            "",
        )
    };
    let arguments = |text: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{}}}}}]}}"#,
            json!(text)
        ))
    };
    let prompt = request.to_string().len() / 4;
    let mut expected = vec![
        delta(r#"{"role":"assistant","reasoning_content":"The user wants to "}"#),
        delta(r#"{"reasoning_content":"see reasoning. I have "}"#),
    ];
    for piece in [
        "none of my own, ",
        "so this is a ",
        "scripted thought: first look ",
        "at the wish, then ",
        "at the offered tools, ",
        "then answer.",
    ] {
        expected.push(delta(&format!(r#"{{"reasoning_content":"{piece}"}}"#)));
    }
    for piece in ["I will use a ", "tool to show that ", "it works."] {
        expected.push(delta(&format!(r#"{{"content":"{piece}"}}"#)));
    }
    expected.push(
        delta(r#"{"tool_calls":[{"index":0,"id":"call_1_0","type":"function","function":{"name":"pwd","arguments":""}}]}"#)
            + &arguments("{\"é")
            + &arguments("\":1")
            + &arguments("}"),
    );
    expected.push(
        chunk(r#"{"index":0,"delta":{},"finish_reason":"tool_calls"}"#, "")
            + &chunk(
                "",
                &format!(
                    r#","usage":{{"prompt_tokens":{prompt},"completion_tokens":49,"total_tokens":{}}}"#,
                    prompt + 49
                ),
            )
            + "data: [DONE]\n\n",
    );
    let framed: Vec<String> = expected
        .iter()
        .map(|chunk| format!("{:X}\r\n{chunk}\r\n", chunk.len()))
        .collect();
    assert_eq!(chunks, framed.concat() + "0\r\n\r\n");
}

#[tokio::test]
async fn an_error_in_the_stream_is_its_last_event() {
    let sandbox = sandbox().await;
    let mut socket = TcpStream::connect(sandbox.address()).await.unwrap();
    let request =
        json!({"stream": true, "messages": [{"role": "user", "content": "error in the stream"}]});
    let reply = exchange(&mut socket, &post(&request), "\r\n0\r\n\r\n").await;
    assert!(
        reply.ends_with(
            "data: {\"error\":{\"message\":\"You asked for an error in the stream.\",\"code\":502}}\n\n\r\n0\r\n\r\n"
        ),
        "{reply}"
    );
}

#[tokio::test]
async fn a_dropped_sandbox_closes_its_connections() {
    let sandbox = sandbox().await;
    let mut socket = TcpStream::connect(sandbox.address()).await.unwrap();
    let request = post(&json!({"messages": []}));
    exchange(&mut socket, &request, "\r\n0\r\n\r\n").await;
    drop(sandbox);
    assert_eq!(socket.read_buf(&mut Vec::new()).await.unwrap_or(0), 0);
}
