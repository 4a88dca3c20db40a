//! Bodies that are too large, or that contradict their framing or coding.
use std::io::Write;

use respondent::serve::{BodyLimits, EdgeSettings, ListenLimits};
use tokio::io::AsyncWriteExt;

use super::server::{Server, read_to_close};

const LIMIT: usize = 1 << 20;
const JSON: &str = "Content-Type: application/json\r\n";

async fn limited() -> Server {
    let body = BodyLimits {
        max: LIMIT,
        ..BodyLimits::default()
    };
    let settings = EdgeSettings {
        body,
        ..EdgeSettings::default()
    };
    Server::with(settings, ListenLimits::default()).await
}

#[kit::test]
async fn a_truthful_length_over_the_limit_is_refused_unread() {
    let server = limited().await;
    for length in [
        (LIMIT + 1).to_string(),
        u64::MAX.to_string(),
        (u64::MAX - 2).to_string(),
    ] {
        // No byte of the body is sent.
        let headers = format!("{JSON}Content-Length: {length}\r\n");
        let reply = server.request("POST /v1/responses", &headers, b"").await;
        // For a length near its own limit hyper reports a head that is too large.
        assert!([413, 431].contains(&reply.status()), "{length}: {reply:?}");
    }
    let headers = format!(
        "{JSON}Expect: 100-continue\r\nContent-Length: {}\r\n",
        LIMIT + 1
    );
    let reply = server.request("POST /v1/responses", &headers, b"").await;
    reply.assert_error(413, "request_too_large");
    let limit = "The request body is too large: it has more than 1 MiB, the limit that body_limit in \
        [server] sets.";
    assert!(format!("{reply:?}").contains(limit), "{reply:?}");
    server
        .post_turn(&vec![b' '; LIMIT], "")
        .await
        .assert_ok("1048576 bytes");
}

/// Promise: A body over the limit is refused with 413 as soon as the limit is reached, whether its
/// length is declared or chunked; of what the client goes on sending, at most 64 MiB are taken and
/// thrown away, so that it can read the refusal.
#[kit::test]
async fn a_chunked_body_is_refused_at_the_limit() {
    let server = limited().await;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    );
    stream
        .write_all(&server.fill(head.as_bytes()))
        .await
        .unwrap();
    stream
        .write_all(format!("{:x}\r\n", LIMIT * 64).as_bytes())
        .await
        .unwrap();
    stream.write_all(&vec![b'x'; LIMIT + 1]).await.unwrap();
    // The response arrives before the end of the chunk.
    read_to_close(&mut stream)
        .await
        .assert_error(413, "request_too_large");
    assert_eq!(server.turns(), 0);
}

#[kit::test]
async fn a_body_that_goes_on_after_its_refusal_is_cut_off() {
    let server = limited().await;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\n{JSON}Content-Length: {}\r\n\r\n",
        1_u64 << 40
    );
    stream
        .write_all(&server.fill(head.as_bytes()))
        .await
        .unwrap();
    let (piece, mut sent) = (vec![b'x'; 1 << 20], 0);
    while stream.write_all(&piece).await.is_ok() {
        sent += 1;
        assert!(
            sent < 128,
            "128 MiB were taken although the body was refused"
        );
    }
}

#[kit::test]
async fn a_wrong_length_does_no_harm() {
    let server = limited().await;
    // More than announced: the rest is not taken as a request.
    let headers = format!("{JSON}Content-Length: 2\r\n");
    let reply = server
        .request("POST /v1/responses", &headers, b"{}{}{}")
        .await;
    reply.assert_ok("2 bytes");
    // Less than announced, then the end of the stream.
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\n{JSON}Content-Length: 9\r\n\r\n{{}}"
    );
    stream
        .write_all(&server.fill(head.as_bytes()))
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let reply = read_to_close(&mut stream).await;
    assert!([0, 400].contains(&reply.status()), "{reply:?}");
    assert_eq!(server.turns(), 1);
}

#[kit::test]
async fn the_error_response_arrives_although_the_whole_body_is_sent() {
    let server = limited().await;
    // More than the buffers of the sockets hold. Every write must succeed, because a
    // client whose write fails does not read the response.
    let length = 32 * LIMIT;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\n{JSON}Content-Length: {length}\r\n\r\n"
    );
    stream
        .write_all(&server.fill(head.as_bytes()))
        .await
        .unwrap();
    stream.write_all(&vec![b'x'; length]).await.unwrap();
    read_to_close(&mut stream)
        .await
        .assert_error(413, "request_too_large");
}

/// A skippable frame, which decodes to nothing.
fn zstd_skipped(length: u32) -> Vec<u8> {
    let mut frame = vec![0x50, 0x2a, 0x4d, 0x18];
    frame.extend_from_slice(&length.to_le_bytes());
    frame.resize(frame.len() + length as usize, 0);
    frame
}

#[kit::test]
async fn the_size_on_the_wire_is_limited_for_coded_bodies_too() {
    let server = limited().await;
    let headers = format!("{JSON}Content-Encoding: zstd\r\nTransfer-Encoding: chunked\r\n");
    for (length, status) in [(1000, 200), (2 << 20, 413)] {
        let frames = [
            zstd_skipped(length),
            zstd::encode_all(b"{}".as_slice(), 0).unwrap(),
        ]
        .concat();
        let chunk = [
            format!("{:x}\r\n", frames.len()).as_bytes(),
            &frames,
            b"\r\n0\r\n\r\n",
        ]
        .concat();
        let reply = server.request("POST /v1/responses", &headers, &chunk).await;
        assert_eq!(reply.status(), status, "{reply:?}");
    }
}

#[kit::test]
async fn the_observer_can_change_the_status_of_a_refusal() {
    let server = limited().await;
    let body = vec![b'x'; LIMIT + 1];
    server
        .post_turn(&body, "X-Impatient: 1\r\n")
        .await
        .assert_error(400, "request_too_large");
    server
        .post_turn(b"{}", "X-Impatient: 1\r\nOrigin: null\r\n")
        .await
        .assert_error(400, "origin_not_allowed");
    server
        .post_turn(&body, "")
        .await
        .assert_error(413, "request_too_large");
}

/// A zstd frame of run-length blocks: 4 bytes for each 128 KiB of zeros.
fn zstd_bomb(blocks: u32) -> Vec<u8> {
    const BLOCK: u32 = 128 * 1024;
    const RUN: u32 = 1 << 1;
    let window = 7 << 3;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    for block in 1..=blocks {
        let last = u32::from(block == blocks);
        frame.extend_from_slice(&(last | RUN | BLOCK << 3).to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[kit::test]
async fn bombs_are_refused_at_the_decoded_limit() {
    let server = limited().await;
    let zeros = vec![b' '; 10 << 20];
    // 32 KB for a gigabyte, 10 KB for ten megabytes, and many gzip members.
    let gigabyte = zstd_bomb(8192);
    assert_eq!(gigabyte.len(), 6 + 4 * 8192);
    let members = gzip(&zeros).repeat(20);
    for (coding, bomb) in [
        ("zstd", gigabyte),
        ("gzip", gzip(&zeros)),
        ("gzip", members),
        ("deflate", deflate(&zeros)),
    ] {
        let header = format!("Content-Encoding: {coding}\r\n");
        server
            .post_turn(&bomb, &header)
            .await
            .assert_error(413, "request_too_large");
    }
    // A smaller frame of the same kind is accepted.
    let allowed = server
        .post_turn(&zstd_bomb(8), "Content-Encoding: zstd\r\n")
        .await;
    allowed.assert_ok("1048576 bytes");
    assert_eq!(*server.log.refused.lock().unwrap(), ["too_large"; 4]);
}

/// Promise: Decompression bombs and truncated or unknown content codings are refused, and joined
/// members are read, all in bounded memory.
#[kit::test]
async fn codings_members_are_joined_truncated_and_unknown_ones_refused() {
    let server = limited().await;
    let text = br#"{"input":"hello hello hello hello"}"#;
    let zstd = zstd::encode_all(text.as_slice(), 3).unwrap();
    for (coding, body) in [
        ("gzip", gzip(text)),
        ("deflate", deflate(text)),
        ("zstd", zstd),
        ("identity", text.to_vec()),
    ] {
        let header = format!("Content-Encoding: {coding}\r\n");
        server.post_turn(&body, &header).await.assert_ok("35 bytes");
        if coding == "identity" {
            continue;
        }
        server
            .post_turn(&body[..body.len() - 1], &header)
            .await
            .assert_error(400, "invalid_body");
        server
            .post_turn(b"", &header)
            .await
            .assert_error(400, "invalid_body");
        server
            .post_turn(b"{\"input\":1}", &header)
            .await
            .assert_error(400, "invalid_body");
        if coding != "deflate" {
            server
                .post_turn(&body.repeat(2), &header)
                .await
                .assert_ok("70 bytes");
        }
    }
    for coding in [
        "br",
        "compress",
        "gzip, zstd",
        "gzip\r\nContent-Encoding: gzip",
        "x",
    ] {
        let reply = server
            .post_turn(b"{}", &format!("Content-Encoding: {coding}\r\n"))
            .await;
        reply.assert_error(415, "unsupported_content_encoding");
    }
}

#[kit::test]
async fn bytes_that_are_not_utf_8_are_refused() {
    let server = limited().await;
    for bytes in [
        b"\"\xff\"".as_slice(),
        b"\"\xc3",
        b"\"\xed\xa0\x80\"",
        b"\"\xf8\x88\x80\x80\x80\"",
    ] {
        server
            .post_turn(bytes, "")
            .await
            .assert_error(400, "invalid_utf8");
    }
    server
        .post_turn("\"ä\"".as_bytes(), "")
        .await
        .assert_ok("4 bytes");
}
