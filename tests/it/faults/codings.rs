//! Answers in a content coding that nobody asked for.
use std::io::Write;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::body;
use crate::proxy::{Proxy, Setup, streaming};

const FIRST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"first \"}}]}\n\n";
const SECOND: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"second\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const DOCUMENT: &str =
    r#"{"choices":[{"index":0,"message":{"content":"first second"},"finish_reason":"stop"}]}"#;
const OVERFLOW: &str = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."}}"#;
/// FIRST, flushed, and SECOND in brotli.
const BROTLI: [&str; 2] = [
    "ix4AAAQsPX+hT3kwLukyosvBBhw4BDjwFNhGw8bYmeKpGTFkqRuaJ74gEe8h4ofh+C1CzdL+zhg=",
    "IQYAQHRyfsHzBUtr3lqABTnGDcy3bhudLzxMDp8rIvZva1A5Ii7T84RA+r9HcZVleAM=",
];
/// OVERFLOW in brotli.
const BROTLI_ERROR: &str = "G3oAYIzTFfMhhXUPmnGk3cu0jRZzpdOnkwOH7/ZTVlySSLkTn7OV4DSPKKRGAQv0GcE8N5W0k54Lv785DeIlijppcLftE9uCZA==";
/// 64 MiB of blanks in brotli.
const BROTLI_BOMB: &str = "y///P/glQOKxQCD3/o///3/wSwDEYRGA7v0f////4JcAiMMCAN37P/7//8EvARCHBQC693/8//+DXwIgDgsAdO//+P//B78EQBwWAOje//H//w9+CYA4LADQvf/L//8//BIAcVgAoHv/Bw==";
const CODINGS: [&str; 7] = [
    "gzip",
    "x-gzip",
    "deflate",
    "raw deflate",
    "br",
    "zstd",
    "GZIP",
];

/// A provider that sends raw pieces: the second one when it is told to.
struct RawProvider {
    base_url: String,
    go_on: Arc<Notify>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl RawProvider {
    async fn start(status: u16, headers: &str, pieces: [Vec<u8>; 2]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (go_on, requests) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let provider = Self {
            base_url,
            go_on: Arc::clone(&go_on),
            requests: Arc::clone(&requests),
        };
        let head = format!("HTTP/1.1 {status} Any\r\n{headers}connection: close\r\n\r\n");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"}") && !request.starts_with(b"GET") {
                    stream.read_buf(&mut request).await.unwrap();
                }
                let request = String::from_utf8(request).unwrap();
                requests.lock().unwrap().push(request.to_lowercase());
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&pieces[0]).await;
                if !pieces[1].is_empty() {
                    go_on.notified().await;
                    let _ = stream.write_all(&pieces[1]).await;
                }
            }
        });
        provider
    }

    async fn proxy(&self) -> Proxy {
        let setup = Setup::new().provider("max_retries = 0");
        Proxy::start_for_url(&self.base_url, setup).await
    }
}

/// The header of a coding.
fn header(coding: &str) -> String {
    format!(
        "content-encoding: {}\r\n",
        coding.trim_start_matches("raw ")
    )
}

/// Two texts in a coding, flushed between them.
fn coded(coding: &str, texts: [&str; 2]) -> [Vec<u8>; 2] {
    fn flushed<W: Write>(mut encoder: W, texts: [&str; 2], sent: fn(&W) -> usize) -> (W, usize) {
        encoder.write_all(texts[0].as_bytes()).unwrap();
        encoder.flush().unwrap();
        let at = sent(&encoder);
        encoder.write_all(texts[1].as_bytes()).unwrap();
        (encoder, at)
    }
    let level = flate2::Compression::default();
    let (mut bytes, at) = match coding {
        "br" => {
            let pieces = match texts {
                [FIRST, SECOND] => BROTLI,
                [OVERFLOW, ""] => [BROTLI_ERROR, ""],
                other => panic!("no brotli of {other:?}"),
            };
            return pieces.map(|piece| STANDARD.decode(piece).unwrap());
        }
        "deflate" => {
            let encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            let (encoder, at) = flushed(encoder, texts, |it| it.get_ref().len());
            (encoder.finish().unwrap(), at)
        }
        "raw deflate" => {
            let encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            let (encoder, at) = flushed(encoder, texts, |it| it.get_ref().len());
            (encoder.finish().unwrap(), at)
        }
        "zstd" => {
            let encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            let (encoder, at) = flushed(encoder, texts, |it| it.get_ref().len());
            (encoder.finish().unwrap(), at)
        }
        _ => {
            let encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            let (encoder, at) = flushed(encoder, texts, |it| it.get_ref().len());
            (encoder.finish().unwrap(), at)
        }
    };
    let rest = bytes.split_off(at);
    [bytes, rest]
}

fn whole(coding: &str, text: &str) -> [Vec<u8>; 2] {
    [coded(coding, [text, ""]).concat(), Vec::new()]
}

#[kit::test]
async fn a_coded_stream_flows_event_by_event() {
    for coding in CODINGS {
        let pieces = coded(coding, [FIRST, SECOND]);
        let provider = RawProvider::start(200, &header(coding), pieces).await;
        let proxy = provider.proxy().await;
        let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
        // The rest is not sent before this has come.
        reply.read_until("first ").await;
        provider.go_on.notify_one();
        let stream = reply.read_to_end().await.stream();
        assert_eq!(stream.text(), "first second", "{coding}");
        let request = provider.requests.lock().unwrap().pop().unwrap();
        assert!(request.contains("accept-encoding: identity"), "{request}");
    }
    // The header is lost, or was left on a body that is decoded.
    for (headers, pieces) in [
        (String::new(), coded("gzip", [FIRST, SECOND])),
        (String::new(), coded("zstd", [FIRST, SECOND])),
        (header("gzip"), [FIRST, SECOND].map(Into::into)),
        (header("zstd"), [FIRST, SECOND].map(Into::into)),
        (header("compress"), [FIRST, SECOND].map(Into::into)),
    ] {
        let provider = RawProvider::start(200, &headers, pieces).await;
        provider.go_on.notify_one();
        let stream = provider.proxy().await.stream(&body()).await;
        assert_eq!(stream.text(), "first second", "{headers}");
    }
}

/// Promise: No coding is asked for, and a gzip, deflate, brotli or zstd body that comes all the
/// same is decoded as it arrives, for answers and errors.
#[kit::test]
async fn coded_documents_and_errors_are_read() {
    for coding in CODINGS {
        if coding != "br" {
            let pieces = whole(coding, DOCUMENT);
            let provider = RawProvider::start(200, &header(coding), pieces).await;
            let response = provider.proxy().await.response(&body()).await;
            let text = &response["output"][0]["content"][0]["text"];
            assert_eq!(text, "first second", "{coding}");
        }
        let pieces = whole(coding, OVERFLOW);
        let provider = RawProvider::start(400, &header(coding), pieces).await;
        let error = provider.proxy().await.post(&body()).await.error(400);
        assert_eq!(error["code"], "context_length_exceeded", "{coding}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("length is 8192"), "{coding}: {message}");
    }
}

#[kit::test]
async fn what_cannot_be_decoded_names_its_coding() {
    let not_gzip = [
        vec![
            0x1f, 0x8b, 8, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff,
        ],
        vec![],
    ];
    for (coding, pieces, why) in [
        (
            "compress",
            [b"\x1f\x9d\x90\x00".to_vec(), vec![]],
            "it is not known",
        ),
        (
            "gzip, br",
            [vec![0x8b, 0x1e, 0, 0, 4], vec![]],
            "it is not known",
        ),
        ("gzip", not_gzip, "the data is broken"),
        (
            "br",
            [vec![0x11, 0xff, 0xff, 0xff], vec![]],
            "the data is broken",
        ),
        (
            "deflate",
            [vec![0x78, 0x9c, 0xff, 0xff], vec![]],
            "the data is broken",
        ),
    ] {
        for status in [200, 400] {
            let provider = RawProvider::start(status, &header(coding), pieces.clone()).await;
            let reply = provider.proxy().await.post(&body()).await;
            let expected = if status == 200 { 502 } else { 400 };
            let error = reply.error(expected);
            let message = error["message"].as_str().unwrap();
            let said = format!("its content coding is '{coding}', and {why}");
            assert!(message.contains(&said), "{message}");
        }
    }
}

/// Promise: What cannot be decoded names its coding, and a small body that becomes a large one is
/// refused.
#[kit::test]
async fn a_small_body_that_becomes_a_large_one_is_refused() {
    let blanks = " ".repeat(64 << 20);
    let mut bombs: Vec<(&str, Vec<u8>)> = ["gzip", "deflate", "zstd"]
        .map(|coding| (coding, whole(coding, &blanks).concat()))
        .into();
    bombs.push(("br", STANDARD.decode(BROTLI_BOMB).unwrap()));
    for (coding, bomb) in bombs {
        for status in [200, 400] {
            let pieces = [bomb.clone(), Vec::new()];
            let provider = RawProvider::start(status, &header(coding), pieces).await;
            let proxy = provider.proxy().await;
            let before = proxy.memory().peak;
            let reply = proxy.post(&body()).await;
            assert!(reply.status >= 400, "{coding}: {reply:?}");
            let grown = proxy.memory().peak.saturating_sub(before);
            assert!(grown < 48 << 10, "{coding} {status}: {grown} KiB");
            assert!(!proxy.whole_log().await.contains("panicked"));
        }
    }
}
