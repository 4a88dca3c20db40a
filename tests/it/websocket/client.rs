//! A client of WebSockets: it sends any frame, and takes only what a server may send.

use std::fmt::Write as _;

use kit::strict::{CheckedStream, check_for_codex_or_panic, check_or_panic};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy::Proxy;

/// The first byte of the frames of a client. All but [`PART`] end a message.
pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8A;
/// A text whose message goes on.
pub const PART: u8 = 0x01;
/// The middle and the end of a message.
pub const MIDDLE: u8 = 0x00;
pub const END: u8 = 0x80;

/// The mask of all frames.
const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

/// A frame of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerFrame {
    Text(String),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// The code and the reason.
    Close(u16, String),
    /// The connection was closed.
    End,
}

pub struct Socket {
    pub stream: TcpStream,
    /// Whether streams are those to Codex.
    codex: bool,
}

/// The request of a handshake.
pub fn handshake(host: &str, headers: &str) -> String {
    format!(
        "GET /v1/responses HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
}

impl Socket {
    pub async fn open(proxy: &Proxy) -> Self {
        Self::open_with(proxy, "").await
    }

    /// Opens a socket with these headers in its handshake.
    pub async fn open_with(proxy: &Proxy, headers: &str) -> Self {
        let (socket, head) = Self::shake(proxy, headers).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let lower = head.to_ascii_lowercase();
        assert!(
            lower.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{head}"
        );
        assert!(!lower.contains("sec-websocket-extensions"), "{head}");
        socket
    }

    /// Sends a handshake and returns the head of the answer.
    pub async fn shake(proxy: &Proxy, headers: &str) -> (Self, String) {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let host = proxy.address.to_string();
        let request = handshake(&host, headers);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let codex = headers.contains("originator: codex");
        (Self { stream, codex }, String::from_utf8(head).unwrap())
    }

    /// Sends a frame; false if the server has closed the connection.
    pub async fn send_frame(&mut self, first: u8, payload: &[u8]) -> bool {
        self.stream.write_all(&masked(first, payload)).await.is_ok()
    }

    pub async fn send(&mut self, message: &Value) {
        assert!(self.send_frame(TEXT, message.to_string().as_bytes()).await);
    }

    /// Asks for a response: `response.create` with these fields.
    pub async fn create(&mut self, fields: &Value) {
        let mut message = fields.clone();
        message["type"] = "response.create".into();
        self.send(&message).await;
    }

    pub async fn next(&mut self) -> ServerFrame {
        let Ok(first) = self.stream.read_u8().await else {
            return ServerFrame::End;
        };
        let length = match self.stream.read_u8().await.unwrap() {
            126 => usize::from(self.stream.read_u16().await.unwrap()),
            127 => usize::try_from(self.stream.read_u64().await.unwrap()).unwrap(),
            length => {
                assert!(length < 126, "a server masks nothing");
                usize::from(length)
            }
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match first {
            TEXT => ServerFrame::Text(text(&payload)),
            PING => ServerFrame::Ping(payload),
            PONG => ServerFrame::Pong(payload),
            CLOSE => {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                ServerFrame::Close(code, text(&payload[2..]))
            }
            other => panic!("a frame begins with {other:#x}"),
        }
    }

    /// The next message. Pings before it are answered.
    pub async fn text(&mut self) -> String {
        loop {
            match self.next().await {
                ServerFrame::Text(text) => return text,
                ServerFrame::Ping(payload) => {
                    self.send_frame(PONG, &payload).await;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn event(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// Reads messages up to one of this type, which is returned.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().await;
            assert_ne!(event["type"], "error", "{event}");
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Reads the close frame, messages before it aside.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                ServerFrame::Close(code, reason) => return (code, reason),
                ServerFrame::End => panic!("closed without a close frame"),
                _ => {}
            }
        }
    }

    /// Reads an error message and checks its form. Returns its code.
    pub async fn error(&mut self, status: u16) -> String {
        let event = self.event().await;
        assert_eq!(
            (&event["type"], &event["status"]),
            (&json!("error"), &json!(status)),
            "{event}"
        );
        let error = json!({"error": event["error"]}).to_string();
        kit::strict::check_error(&error).unwrap();
        let code = event["error"]["code"].as_str();
        code.expect("an error of a WebSocket has a code").to_owned()
    }

    /// Asks for a response, reads it to its end and checks the stream.
    pub async fn turn(&mut self, fields: &Value) -> CheckedStream {
        self.create(fields).await;
        self.stream_on(None).await
    }

    /// Reads the answer of a lane to its end and checks it. Other messages are not expected.
    pub async fn stream_on(&mut self, lane: Option<&str>) -> CheckedStream {
        let mut messages = Vec::new();
        while messages.last().is_none_or(|last| !is_terminal(last)) {
            let event = self.event().await;
            assert_ne!(event["type"], "error", "{event}");
            assert_eq!(event["stream_id"].as_str(), lane, "{event}");
            messages.push(event);
        }
        self.check(&messages)
    }

    /// Checks the messages of one answer by all rules of a stream.
    pub fn check(&self, messages: &[Value]) -> CheckedStream {
        let mut body = String::new();
        for event in messages {
            let mut event = event.clone();
            event.as_object_mut().unwrap().remove("stream_id");
            let kind = event["type"].as_str().unwrap();
            let _ = write!(body, "event: {kind}\ndata: {event}\n\n");
        }
        body += "data: [DONE]\n\n";
        if self.codex {
            check_for_codex_or_panic(&body)
        } else {
            check_or_panic(&body)
        }
    }
}

/// Whether no event of its response follows this one.
pub fn is_terminal(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap_or_default();
    [
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    .contains(&kind)
}

/// A frame as a client sends it.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..126 => frame.push(0x80 | u8::try_from(short).unwrap()),
        middle @ 126..65_536 => {
            frame.push(0xFE);
            frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
        }
        long => {
            frame.push(0xFF);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    let masks = MASK.iter().cycle();
    frame.extend(payload.iter().zip(masks).map(|(byte, mask)| byte ^ mask));
    frame
}
