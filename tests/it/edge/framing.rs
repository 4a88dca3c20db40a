//! Requests whose framing could be understood in two ways.
use std::sync::atomic::Ordering::SeqCst;

use super::server::Server;

/// A request that an attacker hides in the body of another one.
const HIDDEN: &str = "GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n";

/// Headers of a request whose body is `0 CR LF CR LF` and the hidden request.
const FRAMINGS: [&str; 20] = [
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5, 6",
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: 0x5",
    "Content-Length: 5 5",
    "Content-Length: 99999999999999999999999",
    "Content-Length: ",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding\t: chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding: chunked\r\n\tContent-Length: 5",
    "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5",
];

/// Promise: A request with ambiguous framing is never read as two requests.
#[kit::test]
async fn ambiguous_framing_never_yields_a_second_request() {
    for framing in FRAMINGS {
        let server = Server::start().await;
        let request = format!(
            "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\nContent-Type: application/json\r\n\
             {framing}\r\n\r\n0\r\n\r\n{HIDDEN}"
        );
        let reply = server.send_raw(request.as_bytes()).await;
        assert_eq!(server.log.models.load(SeqCst), 0, "{framing}: {reply:?}");
        assert!(reply.responses() <= 1, "{framing}: {reply:?}");
        assert!(
            [0, 400, 413].contains(&reply.status()) || closed_after_chunked(framing, &reply.text)
        );
    }
}

/// Whether this was served as a chunked body and the connection closed after it, which
/// RFC 9112, 6.3 allows although there is a length.
fn closed_after_chunked(framing: &str, reply: &str) -> bool {
    let both = framing.contains("Content-Length") && framing.contains("Transfer-Encoding: chunked");
    assert!(both, "{framing}: {reply}");
    reply.to_lowercase().contains("connection: close")
}

/// Heads that no server should accept.
const BROKEN: [&[u8]; 14] = [
    b"GET /v1/models HTTP/1.1\r\nHost : {host}\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nX: a\r\n b\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\n Host: {host}\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nX: a\rb\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n: empty\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nno colon\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\xffx: 1\r\n\r\n",
    b"GET /v1/models HTTP/3.7\r\nHost: {host}\r\n\r\n",
    b"GET /v1/mo dels HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"GET  /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"G\x01T /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

#[kit::test]
async fn broken_lines_are_refused() {
    let server = Server::start().await;
    for request in BROKEN {
        let reply = server.send_raw(request).await;
        let shown = String::from_utf8_lossy(request);
        assert!(
            [0, 400, 505].contains(&reply.status()),
            "{shown}: {reply:?}"
        );
    }
    assert_eq!(server.log.models.load(SeqCst), 0);
    // A bare LF may end a line (RFC 9112, 2.2), but then everywhere.
    let mixed = b"POST /v1/responses HTTP/1.1\nHost: {host}\nContent-Type: application/json\r\n\
        Connection: close\nContent-Length: 2\n\n{}GET /v1/models HTTP/1.1\nHost: {host}\n\n";
    let reply = server.send_raw(mixed).await;
    assert!(reply.responses() <= 1, "{reply:?}");
    assert_eq!(server.log.models.load(SeqCst), 0);
}

#[kit::test]
async fn an_absolute_target_must_name_this_server() {
    let server = Server::start().await;
    for target in [
        "http://evil.example/models",
        "https://evil.example:443/models",
        "http://localhost:1/models",
        "http://user@{host}/models",
        "http://{host}@evil.example/models",
    ] {
        let reply = server.request(&format!("GET {target}"), "", b"").await;
        assert!([400, 403].contains(&reply.status()), "{target}: {reply:?}");
    }
    server
        .request("CONNECT evil.example:443", "", b"")
        .await
        .assert_error(403, "host_not_allowed");
    server
        .request("GET http://{host}/models", "", b"")
        .await
        .assert_ok("models");
}

#[kit::test]
async fn nothing_is_read_after_a_chunked_body() {
    let server = Server::start().await;
    let request = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{HIDDEN}"
    );
    let reply = server.send_raw(request.as_bytes()).await;
    reply.assert_ok("2 bytes");
    assert_eq!(server.log.models.load(SeqCst), 0);
    for chunk in [
        "2\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n",
        "0x2\r\n{}\r\n",
        "2\r\n{}xx",
        "fffffffffffffffff\r\n",
    ] {
        let headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        let reply = server
            .request("POST /v1/responses", headers, chunk.as_bytes())
            .await;
        assert!([0, 400].contains(&reply.status()), "{chunk:?}: {reply:?}");
    }
    assert_eq!(server.turns(), 1);
}

/// Promise: Request heads that are too large are refused, and paths are compared exactly as sent,
/// without decoding.
#[kit::test]
async fn heads_that_are_too_large_are_refused() {
    let server = Server::start().await;
    let many = "X-Many: 1\r\n".repeat(10_000);
    let just_over = "X: 1\r\n".repeat(101);
    let large = format!("X-Large: {}\r\n", "x".repeat(1 << 20));
    for headers in [many, just_over, large] {
        let reply = server.request("GET /healthz", &headers, b"").await;
        assert!(
            [431, 400].contains(&reply.status()),
            "{:?}",
            reply.text.get(..60)
        );
    }
    let long = server
        .request(&format!("GET /{}", "x".repeat(1 << 20)), "", b"")
        .await;
    assert!(
        [414, 431, 400].contains(&long.status()),
        "{:?}",
        long.text.get(..60)
    );
    let usual = "X: 1\r\n".repeat(90);
    server
        .request("GET /healthz", &usual, b"")
        .await
        .assert_ok("ok");
}
