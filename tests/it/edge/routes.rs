//! Paths and methods, and what a fault behind them costs.
use libtest_mimic::Trial;
use tokio::io::AsyncWriteExt;

use super::server::{Server, rest};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("every path of a route is served", served),
        case(
            "R29 unknown, escaped and climbing paths are not found",
            not_found,
        ),
        case("other methods are told the right ones", methods),
        case("a websocket upgrade is answered with 426", websocket),
        case("R12 a panic costs its own request", panic_in_a_turn),
        case(
            "R12 a panic in a stream cuts its own connection",
            panic_in_a_stream,
        ),
        case("R8 a turn is dropped when its client leaves", disconnect),
    ]
}

async fn served() {
    let server = Server::start().await;
    for path in [
        "/v1/responses",
        "/responses",
        "/openai/v1/responses",
        "/v1/responses?a=b",
    ] {
        let headers = "Content-Type: application/json\r\nContent-Length: 2\r\n";
        server
            .ask(&format!("POST {path}"), headers, b"{}")
            .await
            .says("2 bytes");
    }
    for path in [
        "/v1/models",
        "/models",
        "/openai/v1/models",
        "/v1/models?client_version=1",
    ] {
        server
            .ask(&format!("GET {path}"), "", b"")
            .await
            .says("models");
    }
    server.ask("GET /healthz", "", b"").await.says("ok");
    server.ask("GET /metrics", "", b"").await.says("metrics");
    server
        .ask("GET /diagnostics/turns", "", b"")
        .await
        .says("turns");
    server
        .ask("GET /diagnostics/bundle?select=last", "", b"")
        .await
        .says("bundle");
    server.ask("HEAD /healthz", "", b"").await.says("");
}

async fn not_found() {
    let server = Server::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/responses/",
        "/v1/responses/resp_1",
        "/v1/responses%2f..%2fmodels",
        "/v1/responses/..%2f..%2fetc%2fpasswd",
        "/v1/../healthz",
        "//healthz",
        "/healthz%00",
        "/%68ealthz",
        "/V1/models",
        "/..",
        "/v1/models;x",
        "/diagnostics",
        "/diagnostics/",
        "/v1/diagnostics/turns",
        "/diagnostics/bundle/../turns",
    ] {
        server
            .ask(&format!("GET {path}"), "", b"")
            .await
            .refuses(404, "unknown_url");
    }
}

async fn methods() {
    let server = Server::start().await;
    let json = "Content-Type: application/json\r\n";
    for (line, allow) in [
        ("GET /v1/responses", "POST"),
        ("DELETE /responses", "POST"),
        ("PUT /v1/responses", "POST"),
        ("POST /v1/models", "GET, HEAD"),
        ("POST /healthz", "GET, HEAD"),
        ("TRACE /metrics", "GET, HEAD"),
        ("POST /diagnostics/turns", "GET, HEAD"),
        ("DELETE /diagnostics/bundle", "GET, HEAD"),
    ] {
        let reply = server.ask(line, json, b"").await;
        reply.refuses(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some(allow));
    }
}

async fn websocket() {
    let server = Server::start().await;
    for path in ["/v1/responses", "/responses", "/openai/v1/responses"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {{host}}\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        server
            .raw(request.as_bytes())
            .await
            .refuses(426, "websocket_not_supported");
    }
    server
        .ask("GET /v1/responses", "Upgrade: h2c\r\n", b"")
        .await
        .refuses(405, "method_not_allowed");
}

async fn panic_in_a_turn() {
    let server = Server::start().await;
    let mut other = begun(&server, b"stream").await;
    let reply = server.turn(b"panic", "").await;
    reply.refuses(500, "server_error");
    assert!(!reply.text.contains("as asked"), "{reply:?}");
    server.turn(b"{}", "").await.says("2 bytes");
    server.shutdown.ending.cancel();
    assert!(rest(&mut other).await.text.contains("end"));
}

async fn panic_in_a_stream() {
    let server = Server::start().await;
    let reply = server.turn(b"broken stream", "").await;
    assert!(
        !reply.text.ends_with("0\r\n\r\n"),
        "a cut stream looks complete: {reply:?}"
    );
    server.turn(b"{}", "").await.says("2 bytes");
}

async fn disconnect() {
    let server = Server::start().await;
    let client = begun(&server, b"stuck").await;
    drop(client);
    server.seen.dropped.notified().await;
}

/// A connection whose turn has reached the app.
pub async fn begun(server: &Server, body: &[u8]) -> tokio::net::TcpStream {
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let request = [&server.fill(head.as_bytes()), body].concat();
    stream.write_all(&request).await.unwrap();
    server.seen.begun.notified().await;
    stream
}
