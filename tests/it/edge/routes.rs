//! Paths and methods, and panics in handlers.
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;

use super::server::{Server, read_to_close};

const JSON: &str = "Content-Type: application/json\r\n";

#[kit::test]
async fn every_path_of_a_route_is_served() {
    let server = Server::start().await;
    for path in [
        "/v1/responses",
        "/responses",
        "/openai/v1/responses",
        "/v1/responses?a=b",
    ] {
        let headers = format!("{JSON}Content-Length: 2\r\n");
        server
            .request(&format!("POST {path}"), &headers, b"{}")
            .await
            .assert_ok("2 bytes");
    }
    for (path, body) in [
        ("/v1/models", "models"),
        ("/models", "models"),
        ("/openai/v1/models", "models"),
        ("/v1/models?client_version=1", "models"),
        ("/v1/items/one", "item one"),
        ("/items/one", "item one"),
        ("/healthz", "ok"),
    ] {
        server
            .request(&format!("GET {path}"), "", b"")
            .await
            .assert_ok(body);
    }
}

#[kit::test]
async fn one_trailing_slash_makes_no_difference() {
    let server = Server::start().await;
    for (path, body) in [
        ("/v1/models/", "models"),
        ("/models/?a=b", "models"),
        ("/openai/v1/models/", "models"),
        ("/v1/models/one/", "model one"),
        ("/v1/items/one/", "item one"),
        ("/healthz/", "ok"),
    ] {
        server
            .request(&format!("GET {path}"), "", b"")
            .await
            .assert_ok(body);
    }
    let headers = format!("{JSON}Content-Length: 2\r\n");
    server
        .request("POST /v1/responses/", &headers, b"{}")
        .await
        .assert_ok("2 bytes");
    server
        .request("GET /v1/models//", "", b"")
        .await
        .assert_error(404, "unknown_url");
}

#[kit::test]
async fn head_is_served_where_get_is() {
    let server = Server::start().await;
    for (path, length) in [("/healthz", "2"), ("/v1/models", "6"), ("/items/one", "8")] {
        let reply = server.request(&format!("HEAD {path}"), "", b"").await;
        reply.assert_ok("");
        assert_eq!(reply.header("content-length"), Some(length), "{path}");
    }
    let reply = server.request("HEAD /v1/responses", "", b"").await;
    assert_eq!((reply.status(), reply.body()), (405, ""));
}

#[kit::test]
async fn unknown_escaped_and_climbing_paths_are_not_found() {
    let server = Server::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/responses//",
        "/v1/responses/resp_1",
        "/v1/responses%2f..%2fmodels",
        "/v1/responses/..%2f..%2fetc%2fpasswd",
        "/v1/../healthz",
        "/v1/items/../models",
        "/v1/items/..",
        "/v1/items//one",
        "/v1/items/one/two",
        "/v1/models/a//b",
        "/v1/models/../healthz",
        "/v1/models/%00",
        "/v1/models/%1b[31m",
        "//healthz",
        "/healthz%00",
        "/%68ealthz",
        "/V1/models",
        "/..",
        "/v1/models;x",
        "/metrics",
        "/v1/healthz",
        "*",
    ] {
        server
            .request(&format!("GET {path}"), "", b"")
            .await
            .assert_error(404, "unknown_url");
    }
}

#[kit::test]
async fn a_404_names_the_path_and_what_is_served() {
    let server = Server::start().await;
    let list = "POST /v1/responses, GET /v1/models, GET /v1/models/{id}, GET /v1/items/{id}, \
                DELETE /v1/items/{id}, GET /healthz";
    let long = format!("/{}", "x".repeat(300));
    let cut = format!("/{}...", "x".repeat(199));
    for (path, shown) in [
        ("/v1/unknown", "/v1/unknown"),
        ("/v1/unknown/", "/v1/unknown/"),
        ("/v1//models", "/v1//models"),
        ("/unknown?key=secret", "/unknown"),
        ("/\"quoted\"", "/%22quoted%22"),
        ("/%1b[31m", "/%1b[31m"),
        ("/\u{e4}\u{9b}\u{202e}", "/%C3%A4%C2%9B%E2%80%AE"),
        ("*", "*"),
        (&*long, &*cut),
    ] {
        let reply = server.request(&format!("GET {path}"), "", b"").await;
        let message = reply.assert_error(404, "unknown_url");
        let expected = format!("Nothing at \"{shown}\". Served: {list}");
        assert_eq!(message, expected, "{path}");
    }
}

#[kit::test]
async fn a_form_to_an_unknown_path_is_not_found() {
    let server = Server::start().await;
    for path in ["/v1/files", "/openai/vector_stores", "/v1/uploads/"] {
        for kind in [
            "multipart/form-data; boundary=x",
            "text/plain",
            "application/json",
        ] {
            let headers = format!("Content-Type: {kind}\r\nContent-Length: 2\r\n");
            let reply = server
                .request(&format!("POST {path}"), &headers, b"{}")
                .await;
            reply.assert_error(404, "unknown_url");
        }
    }
}

#[kit::test]
async fn the_id_of_a_route_is_decoded() {
    let server = Server::start().await;
    for (path, body) in [
        ("/v1/models/lab/small", "model lab/small"),
        ("/v1/models/lab%2Fsmall", "model lab/small"),
        ("/v1/models/lab%2fsome%20model", "model lab/some model"),
        ("/v1/items/a%2Fb", "item a/b"),
    ] {
        server
            .request(&format!("GET {path}"), "", b"")
            .await
            .assert_ok(body);
    }
}

#[kit::test]
async fn a_405_names_the_methods_of_its_path() {
    let server = Server::start().await;
    for (line, allow) in [
        ("GET /v1/responses", "POST"),
        ("DELETE /responses", "POST"),
        ("PUT /v1/responses", "POST"),
        ("FOO /v1/responses/", "POST"),
        ("POST /v1/models", "GET, HEAD"),
        ("POST /healthz", "GET, HEAD"),
        ("TRACE /healthz", "GET, HEAD"),
        ("POST /openai/v1/models/a/b", "GET, HEAD"),
        ("PATCH /items/one", "GET, HEAD, DELETE"),
    ] {
        let reply = server.request(line, JSON, b"").await;
        let message = reply.assert_error(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some(allow));
        assert_eq!(message, format!("This path answers {allow}."));
    }
}

#[kit::test]
async fn a_websocket_upgrade_is_answered_with_426() {
    let server = Server::start().await;
    for path in ["/v1/responses", "/responses/", "/openai/v1/responses"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {{host}}\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let reply = server.send_raw(request.as_bytes()).await;
        reply.assert_error(426, "websocket_not_supported");
        assert_eq!(reply.header("allow"), None);
        assert_eq!(reply.header("upgrade"), Some("HTTP/1.1"));
        assert_eq!(reply.header("connection"), Some("close"));
    }
    server
        .request("GET /v1/responses", "Upgrade: h2c\r\n", b"")
        .await
        .assert_error(405, "method_not_allowed");
}

/// Promise: A panic ends only the request in which it happens.
#[kit::test]
async fn a_panic_costs_its_own_request() {
    let server = Server::start().await;
    let mut others = Vec::new();
    for _ in 0..50 {
        others.push(begun(&server, b"stream").await);
    }
    let reply = server.post_turn(b"panic", "").await;
    reply.assert_error(500, "server_error");
    assert!(!reply.text.contains("intended panic"), "{reply:?}");
    server.post_turn(b"{}", "").await.assert_ok("2 bytes");
    server.shutdown.ending.cancel();
    for mut other in others {
        assert!(read_to_close(&mut other).await.text.contains("end"));
    }
}

#[kit::test]
async fn a_panic_in_a_stream_cuts_its_own_connection() {
    let server = Server::start().await;
    let reply = server.post_turn(b"broken stream", "").await;
    assert!(
        !reply.text.ends_with("0\r\n\r\n"),
        "a cut stream looks complete: {reply:?}"
    );
    server.post_turn(b"{}", "").await.assert_ok("2 bytes");
}

#[kit::test]
async fn a_turn_is_dropped_when_its_client_leaves() {
    let server = Server::start().await;
    let client = begun(&server, b"stuck").await;
    drop(client);
    server.log.dropped.notified().await;
}

/// Promise: When a client disconnects, its turn ends and the upstream request is cancelled,
/// whatever the client had sent behind its request, and also while a long history is planned or
/// artifacts are searched.
#[kit::test]
async fn a_client_that_leaves_is_noticed_whatever_it_has_sent_behind_its_request() {
    let server = Server::start().await;
    let another = server.fill(b"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for behind in [&b"\r\n"[..], &another, &another.repeat(1_000)] {
        for resets in [false, true] {
            let mut client = begun(&server, b"stuck").await;
            client.write_all(behind).await.unwrap();
            if resets {
                SockRef::from(&client)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
            }
            drop(client);
            server.log.dropped.notified().await;
        }
    }
}

/// A connection whose turn has reached the application.
pub async fn begun(server: &Server, body: &[u8]) -> tokio::net::TcpStream {
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let request = [&server.fill(head.as_bytes()), body].concat();
    stream.write_all(&request).await.unwrap();
    server.log.begun.notified().await;
    stream
}
