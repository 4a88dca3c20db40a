//! The upstream of a replay: a server on loopback that stands in for the providers and
//! sends recorded bytes when the driver asks for them. Every connection serves one request.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use http::{HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::diagnostics::bundle::BundleResponseHead;

/// The maximum bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Recorded headers that are not sent, because they describe a connection or framing
/// that is not the recorded one.
const CONNECTION_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "te",
    "upgrade",
];

/// The response body for an attempt that the recorded turn did not make.
pub(super) const EXTRA_ATTEMPT_BODY: &str =
    r#"{"error":{"message":"The recorded turn made no further attempt."}}"#;

/// A listening socket that stands in for the providers of a replayed turn.
pub(super) struct ReplayUpstream {
    listener: TcpListener,
    address: SocketAddr,
}

impl ReplayUpstream {
    pub(super) async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Scheme, host and port of the listener.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Accepts the next connection and reads its request to the end.
    pub(super) async fn accept_request(&self) -> io::Result<UpstreamConnection> {
        loop {
            let (mut socket, _) = self.listener.accept().await?;
            socket.set_nodelay(true)?;
            if read_request(&mut socket).await? {
                return Ok(UpstreamConnection {
                    socket,
                    bodiless: false,
                });
            }
        }
    }
}

/// The connection of one request. Errors while sending are ignored: the engine no
/// longer needs what it does not read.
pub(super) struct UpstreamConnection {
    socket: TcpStream,
    /// Whether the status allows no body.
    bodiless: bool,
}

impl UpstreamConnection {
    pub(super) async fn send_head(&mut self, head: &BundleResponseHead) {
        let status = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
        self.bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let mut text = format!("HTTP/1.1 {} \r\n", head.status);
        for (name, value) in &head.headers {
            let is_valid =
                HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
            if is_valid && !CONNECTION_HEADERS.contains(&name.as_str()) {
                // Writing to a String cannot fail.
                let _ = write!(text, "{name}: {value}\r\n");
            }
        }
        text.push_str("connection: close\r\n");
        if !self.bodiless {
            text.push_str("transfer-encoding: chunked\r\n");
        }
        text.push_str("\r\n");
        self.send(text.as_bytes()).await;
    }

    pub(super) async fn send_chunk(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.bodiless {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            self.send(&chunk).await;
        }
    }

    /// Ends the body properly.
    pub(super) async fn end_body(&mut self) {
        if !self.bodiless {
            self.send(b"0\r\n\r\n").await;
        }
    }

    /// Closes the connection in the middle of the body.
    pub(super) async fn cut_off(&mut self) {
        let _ = self.socket.shutdown().await;
    }

    async fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes).await;
    }
}

/// Reads one request to its end and drops it; `false` if the peer closed the connection
/// without sending any. The peer is our own client, which always sends a `content-length`.
async fn read_request(socket: &mut TcpStream) -> io::Result<bool> {
    let mut buffer = Vec::new();
    let mut missing = loop {
        if socket.read_buf(&mut buffer).await? == 0 {
            return if buffer.is_empty() {
                Ok(false)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        if let Some(length) = request_length(&buffer)? {
            break length.saturating_sub(buffer.len());
        }
        if buffer.len() > MAX_HEAD_BYTES {
            return Err(invalid("the head is too large"));
        }
    };
    while missing > 0 {
        buffer.clear();
        match socket.read_buf(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => missing = missing.saturating_sub(read),
        }
    }
    Ok(true)
}

/// Bytes of head and body; `None` while the head is not complete.
fn request_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(bytes);
    let httparse::Status::Complete(head) = parsed.map_err(|error| invalid(&error.to_string()))?
    else {
        return Ok(None);
    };
    let mut headers = request.headers.iter();
    let length = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let body: usize = match length {
        None => 0,
        Some(header) => std::str::from_utf8(header.value)
            .ok()
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| invalid("content-length"))?,
    };
    Ok(Some(head.saturating_add(body)))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
