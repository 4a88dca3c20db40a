//! Connections to a provider that fail: why, in words, and whether another attempt can help.
use std::sync::Arc;

use kit::address::ReservedAddress;
use kit::player::{Player, PlayerWire};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::messages::{FINAL, REPEAT, path};
use super::{answer, body, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

const KEY: &[u8] = include_bytes!("../../../fixtures/tls/key.pem");
/// A certificate for 127.0.0.1 that signs itself.
const SERVER: &str = include_str!("../../../fixtures/tls/server.pem");
/// The same, marked as the certificate of an authority.
const AUTHORITY: &str = include_str!("../../../fixtures/tls/authority.pem");

/// Asserts what a client and Codex are told when the provider is at this base URL.
async fn check(wire: PlayerWire, setup: Setup, base_url: &str, what: &str, code: Option<&str>) {
    let setup = setup.wire(wire.name()).provider("max_retries = 0");
    let proxy = Proxy::start_for_url(base_url, setup).await;
    let expected = format!("{what} The request was POST {base_url}{}.", path(wire));
    let reply = proxy.post(&body()).await;
    assert_eq!(reply.error(502)["message"], *expected);
    let reply = proxy.post_with(&streaming(&body()), CODEX).await;
    let stream = reply.stream_for_codex();
    assert_eq!(stream.response["error"]["message"], *expected);
    assert_eq!(stream.error_code(), code, "{expected}");
}

/// Promise: A connection to a provider that fails says why: an unknown name, a refusal, no route,
/// no answer in time, no TLS, a certificate that is not trusted, of another name or not valid, or
/// no HTTP; each with what to do about it. Where only another configuration helps, nothing is sent
/// again.
#[kit::test(on_each_wire)]
async fn a_failed_connection_says_why(wire: PlayerWire) {
    let closed_at = ReservedAddress::new().unwrap();
    let http = player(wire).await;
    let http_at = http.address();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other_at = other.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = other.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
        }
    });
    let lookup = tokio::net::lookup_host("no-such-host.invalid:443").await;
    let name = if lookup.is_err_and(|why| why.to_string().contains("Temporary failure")) {
        "no name server could be asked for the name 'no-such-host.invalid'. Check the network."
    } else {
        "the name 'no-such-host.invalid' was not found. Check the network and the spelling of its base_url."
    };
    let mut cases = vec![
        (
            format!("http://{closed_at}/v1"),
            format!(
                "cannot be reached: {closed_at} refused the connection. Check whether the server runs, and its base_url."
            ),
            REPEAT,
        ),
        (
            "https://no-such-host.invalid/v1".to_owned(),
            format!("cannot be reached: {name}"),
            REPEAT,
        ),
        (
            format!("https://{http_at}/v1"),
            format!(
                "cannot be reached: {http_at} closed the connection instead of speaking TLS. If it does not speak TLS, write http:// in its base_url."
            ),
            REPEAT,
        ),
        (
            format!("https://{other_at}/v1"),
            format!(
                "cannot be reached: {other_at} does not speak TLS. Write http:// in its base_url, or the port at which it speaks TLS."
            ),
            FINAL,
        ),
        (
            format!("http://{other_at}/v1"),
            format!(
                "does not answer with HTTP at {other_at}. If it expects TLS, write https:// in its base_url."
            ),
            FINAL,
        ),
    ];
    if cfg!(target_os = "linux") {
        // TCP has no route to the broadcast address of loopback.
        cases.push((
            "http://127.255.255.255:9/v1".to_owned(),
            "cannot be reached: there is no route to 127.255.255.255:9. Check the network and its base_url.".to_owned(),
            REPEAT,
        ));
    }
    for (base_url, what, code) in cases {
        let what = format!("The provider 'up' {what}");
        check(wire, Setup::new(), &base_url, &what, code).await;
    }
}

#[kit::test(on_each_wire)]
async fn a_certificate_that_is_refused_says_why(wire: PlayerWire) {
    let player = player(wire).await;
    let port = tls_in_front_of(&player, SERVER).await;
    let port_of_authority = tls_in_front_of(&player, AUTHORITY).await;
    let named = Setup::new()
        .file("ca.pem", &format!("{SERVER}{AUTHORITY}"))
        .provider("ca_file = \"ca.pem\"");
    for (setup, server, what) in [
        (
            Setup::new(),
            format!("127.0.0.1:{port}"),
            "is not trusted. Name the file of its authority in ca_file.",
        ),
        (
            named.clone(),
            format!("localhost:{port}"),
            "is not for the name 'localhost'. Write a name in base_url that the certificate has.",
        ),
        (
            named,
            format!("127.0.0.1:{port_of_authority}"),
            "is not valid. The log says why.",
        ),
    ] {
        let what =
            format!("The provider 'up' cannot be reached: the certificate of {server} {what}");
        let base_url = format!("https://{server}/v1");
        check(wire, setup, &base_url, &what, FINAL).await;
    }
}

#[kit::test(on_each_wire)]
async fn a_certificate_is_trusted_once_ca_file_names_it(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([{"text": "there"}])));
    let port = tls_in_front_of(&player, SERVER).await;
    let setup = Setup::new()
        .wire_of(&player)
        .file("ca.pem", SERVER)
        .provider("ca_file = \"ca.pem\"");
    let base_url = format!("https://127.0.0.1:{port}/v1");
    let proxy = Proxy::start_for_url(&base_url, setup).await;
    let reply = proxy.post(&streaming(&body())).await;
    assert_eq!(reply.stream().response["status"], "completed");
}

/// A container with a local model often has no root certificates.
#[kit::test(on_each_wire)]
async fn a_server_on_this_machine_needs_no_certificates_of_the_system(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([{"text": "there"}])));
    let setup = Setup::new()
        .env("SSL_CERT_FILE", "/nonexistent/certificates.pem")
        .env("SSL_CERT_DIR", "/nonexistent");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let reply = proxy.post(&streaming(&body())).await;
    assert_eq!(reply.stream().response["status"], "completed");
    // TLS needs some, and sound ones.
    let setup = setup.wire(wire.name());
    let unsound = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let named = setup.clone().file("ca.pem", unsound);
    for (setup, what) in [
        (setup, "Install the package ca-certificates"),
        (
            named.provider("ca_file = \"ca.pem\""),
            "check its 'ca_file'",
        ),
    ] {
        let proxy = Proxy::start_for_url("https://127.0.0.1:9/v1", setup).await;
        let error = proxy.post(&body()).await.error(500);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(what), "{message}");
    }
}

/// The port of a TLS server with this certificate, behind which the player is.
async fn tls_in_front_of(player: &Player, certificate: &str) -> u16 {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = player.address();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let accepting = acceptor.accept(stream);
            tokio::spawn(async move {
                // It fails if the client refuses the certificate.
                if let Ok(mut client) = accepting.await {
                    let mut server = TcpStream::connect(behind).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    port
}
