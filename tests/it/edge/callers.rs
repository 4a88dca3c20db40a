//! The guard: DNS rebinding, cross-site pages, tokens.
use respondent::secrets::Token;
use respondent::serve::{EdgeSettings, GuardSettings, ListenLimits};

use super::server::Server;

const ROUTES: [&str; 11] = [
    "GET /healthz",
    "GET /metrics",
    "GET /diagnostics/turns",
    "GET /diagnostics/bundle",
    "GET /v1/models",
    "GET /models",
    "POST /v1/responses",
    "POST /responses",
    "POST /openai/v1/responses",
    "GET /v1/responses",
    "DELETE /nowhere",
];

const JSON: &str = "Content-Type: application/json\r\n";

async fn guarded(guard: GuardSettings) -> Server {
    let settings = EdgeSettings {
        guard,
        ..EdgeSettings::default()
    };
    Server::with(settings, ListenLimits::default()).await
}

/// Promise: A request with a foreign `Host` and without a token is refused with 403 on every route
/// but `/healthz`, before its body is read.
#[kit::test]
async fn a_foreign_host_is_refused_on_every_route_before_the_body() {
    let server = Server::start().await;
    let port = server.addr.port();
    for route in ROUTES.iter().filter(|route| **route != "GET /healthz") {
        for host in [
            "Host: evil.example\r\n".to_owned(),
            format!("Host: evil.example:{port}\r\n"),
            format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
            format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"),
            "Host: \r\n".to_owned(),
            String::new(),
        ] {
            // The announced body is never sent: a response proves that the server did not
            // wait for it.
            let head = format!("{route} HTTP/1.1\r\n{host}Content-Length: 100\r\n{JSON}\r\n");
            server
                .send_raw(head.as_bytes())
                .await
                .assert_error(403, "host_not_allowed");
        }
    }
    assert_eq!(server.turns(), 0);
    assert!(
        server
            .log
            .refused
            .lock()
            .unwrap()
            .iter()
            .all(|reason| *reason == "host")
    );
}

/// Whether a host is served: by a server without a token, and by one whose token is sent.
#[kit::test]
async fn loopback_names_addresses_configured_hosts_and_holders_of_the_token_are_served() {
    let hosts = vec!["box.lan".to_owned(), "named.lan:9".to_owned()];
    let open = guarded(GuardSettings {
        hosts,
        ..GuardSettings::default()
    })
    .await;
    let closed = guarded(GuardSettings {
        token: Some(Token::new("open-sesame").unwrap()),
        ..GuardSettings::default()
    })
    .await;
    for (host, without_token) in [
        // Directly.
        ("127.0.0.1:9797", true),
        ("localhost:9797", true),
        ("[::1]:9797", true),
        // Through a forwarded port.
        ("localhost:8080", true),
        ("127.0.0.1:8080", true),
        // Through a reverse proxy.
        ("localhost", true),
        ("LocalHost", true),
        ("127.0.0.1", true),
        // By an address of the machine.
        ("192.0.2.2:9797", true),
        ("0.0.0.0:9797", true),
        ("[fd00::1]:9797", true),
        // By a name below localhost.
        ("app.localhost:9797", true),
        // By a name that is configured, with its port if it has one.
        ("box.lan", true),
        ("box.lan:1234", true),
        ("named.lan:9", true),
        ("named.lan", false),
        // By a name that is not.
        ("respondent:9797", false),
        ("host.docker.internal:9797", false),
        ("my-mac.local:9797", false),
        ("localhost.evil.example:9797", false),
    ] {
        let get = |path: &str, token: &str| {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{token}\r\n")
        };
        let reply = open.send_raw(get("/models", "").as_bytes()).await;
        if without_token {
            reply.assert_ok("models");
        } else {
            let message = reply.assert_error(403, "host_not_allowed");
            let name = host.split(':').next().unwrap();
            let expected = format!(
                "This server does not answer to the host name \"{host}\". Add \"{name}\" to \
                 allowed_hosts under [server] in "
            );
            assert!(message.starts_with(&expected), "{message}");
        }
        let token = "Authorization: Bearer open-sesame\r\n";
        let reply = closed.send_raw(get("/models", token).as_bytes()).await;
        reply.assert_ok("models");
        let reply = closed.send_raw(get("/models", "").as_bytes()).await;
        reply.assert_error(401, "invalid_api_key");
        for server in [&open, &closed] {
            let reply = server.send_raw(get("/healthz", "").as_bytes()).await;
            reply.assert_ok("ok");
        }
    }
}

/// Promise: Web pages of other origins cannot call the server, with or without a CORS preflight.
#[kit::test]
async fn pages_of_other_origins_are_refused() {
    let server = Server::start().await;
    let port = server.addr.port();
    for route in ROUTES {
        for header in [
            "Origin: http://evil.example".to_owned(),
            "Origin: null".to_owned(),
            "Origin: *".to_owned(),
            "Origin:".to_owned(),
            format!("Origin: http://localhost:{port}"),
            "Sec-Fetch-Site: cross-site".to_owned(),
            "Sec-Fetch-Site: same-site".to_owned(),
        ] {
            let reply = server
                .request(route, &format!("{JSON}{header}\r\n"), b"")
                .await;
            let message = reply.assert_error(403, "origin_not_allowed");
            if header == "Origin: http://evil.example" {
                assert!(message.contains("\"http://evil.example\""), "{message}");
            }
        }
    }
    let typed = server
        .request("GET /healthz", "Sec-Fetch-Site: none\r\n", b"")
        .await;
    typed.assert_ok("ok");
}

#[kit::test]
async fn posts_that_need_no_preflight_are_refused() {
    let server = Server::start().await;
    for kind in [
        "Content-Type: text/plain\r\n",
        "Content-Type: text/plain; application/json\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        "Content-Type: application/jsonp\r\n",
        "",
    ] {
        let headers = format!("{kind}Content-Length: 2\r\n");
        let reply = server.request("POST /v1/responses", &headers, b"{}").await;
        reply.assert_error(415, "unsupported_content_type");
        let hint = "with curl, add -H 'content-type: application/json'";
        assert!(format!("{reply:?}").contains(hint), "{reply:?}");
    }
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    for headers in [form, chunked] {
        let reply = server.request("POST /v1/responses", headers, b"").await;
        reply.assert_error(415, "unsupported_content_type");
    }
    assert_eq!(server.turns(), 0);
    for headers in ["", "Content-Length: 0\r\n"] {
        let nothing = server.request("POST /v1/responses", headers, b"").await;
        nothing.assert_ok("0 bytes");
    }
    let headers = "Content-Type: Application/JSON; charset=utf-8\r\nContent-Length: 2\r\n";
    server
        .request("POST /v1/responses", headers, b"{}")
        .await
        .assert_ok("2 bytes");
}

const PREFLIGHT: &str = "Access-Control-Request-Method: POST\r\n\
    Access-Control-Request-Headers: authorization,content-type,x-stainless-os\r\n";

#[kit::test]
async fn preflights_are_refused_without_a_permission() {
    let server = Server::start().await;
    for target in ["/v1/responses", "/healthz", "/nowhere", "*"] {
        for origin in ["Origin: http://evil.example\r\n", ""] {
            let line = format!("OPTIONS {target}");
            let reply = server
                .request(&line, &format!("{origin}{PREFLIGHT}"), b"")
                .await;
            reply.assert_error(403, "origin_not_allowed");
            assert!(!reply.text.to_lowercase().contains("access-control-"));
        }
    }
}

#[kit::test]
async fn only_a_configured_origin_gets_a_permission() {
    let origins = vec!["http://localhost:3000".to_owned(), "*".to_owned()];
    let token = Some(Token::new("open-sesame").unwrap());
    let server = guarded(GuardSettings {
        origins,
        token,
        ..GuardSettings::default()
    })
    .await;
    let origin = "Origin: http://localhost:3000\r\nSec-Fetch-Site: cross-site\r\n";

    let preflight = server
        .request(
            "OPTIONS /v1/responses",
            &format!("{origin}{PREFLIGHT}"),
            b"",
        )
        .await;
    assert_eq!(preflight.status(), 204);
    assert_eq!(
        preflight.header("access-control-allow-methods"),
        Some("GET, POST, DELETE")
    );
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        Some("authorization,content-type,x-stainless-os")
    );

    let authorized = format!("{origin}Authorization: Bearer open-sesame\r\n");
    let served = server.post_turn(b"{}", &authorized).await;
    served.assert_ok("2 bytes");
    let refused = server.post_turn(b"{}", origin).await;
    assert_eq!(refused.status(), 401);
    for reply in [preflight, served, refused] {
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, Some("http://localhost:3000"));
        assert_eq!(reply.header("vary"), Some("origin"));
        reply.assert_sealed();
    }

    let other = server
        .post_turn(b"{}", "Origin: http://localhost:3001\r\n")
        .await;
    other.assert_error(403, "origin_not_allowed");
    server
        .post_turn(b"{}", "Origin: *\r\n")
        .await
        .assert_error(403, "origin_not_allowed");
}

/// Promise: Every route except `/healthz` requires the token, which is compared in constant time.
#[kit::test]
async fn every_route_but_healthz_requires_the_token() {
    let token = Some(Token::new("open-sesame").unwrap());
    let server = guarded(GuardSettings {
        token,
        ..GuardSettings::default()
    })
    .await;
    for route in ROUTES {
        let reply = server.request(route, JSON, b"").await;
        if route == "GET /healthz" {
            reply.assert_ok("ok");
        } else {
            reply.assert_error(401, "invalid_api_key");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    let slash = server.request("GET /healthz/", "", b"").await;
    slash.assert_ok("ok");
    server
        .post_turn(b"{}", "Authorization: bearer open-sesame\r\n")
        .await
        .assert_ok("2 bytes");
    for header in ["X-Api-Key", "Api-Key"] {
        let headers = format!("{header}: open-sesame\r\n");
        let reply = server.post_turn(b"{}", &headers).await;
        reply.assert_ok("2 bytes");
        for wrong in ["", "open-sesam", "Bearer open-sesame"] {
            let headers = format!("{header}: {wrong}\r\n");
            let reply = server.post_turn(b"{}", &headers).await;
            reply.assert_error(401, "invalid_api_key");
        }
    }
}

#[kit::test]
async fn only_the_exact_token_is_accepted() {
    let token = Some(Token::new("open-sesame").unwrap());
    let server = guarded(GuardSettings {
        token,
        ..GuardSettings::default()
    })
    .await;
    let long = format!("Bearer open-sesame{}", "x".repeat(300));
    for wrong in [
        "Bearer open-sesamf",
        "Bearer open-sesam",
        "Bearer open-sesame2",
        "Bearer  open-sesame",
        "Bearer",
        "Bearer ",
        "Basic open-sesame",
        "open-sesame",
        "Bearer open-sesame\r\nAuthorization: Bearer open-sesame",
        &long,
    ] {
        let reply = server
            .post_turn(b"{}", &format!("Authorization: {wrong}\r\n"))
            .await;
        reply.assert_error(401, "invalid_api_key");
        assert!(
            !reply.text.contains("sesam"),
            "the token is echoed: {reply:?}"
        );
    }
    assert_eq!(server.turns(), 0);
}

#[kit::test]
async fn changed_settings_apply_to_the_next_request() {
    let server = Server::start().await;
    server.post_turn(b"{}", "").await.assert_ok("2 bytes");
    let mut settings = EdgeSettings::clone(&server.settings.load());
    settings.guard.token = Some(Token::new("from-now-on").unwrap());
    server.settings.store(settings.into());
    server
        .post_turn(b"{}", "")
        .await
        .assert_error(401, "invalid_api_key");
    server
        .post_turn(b"{}", "Authorization: Bearer from-now-on\r\n")
        .await
        .assert_ok("2 bytes");
}
