//! A minimal HTTP/1.1 server side: one request at a time on a connection that is kept alive.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const HEAD_LIMIT: usize = 64 * 1024;
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// A request to the player. `http::read_request` makes it from a socket.
#[derive(Debug, Clone, Default)]
pub struct PlayerRequest {
    /// Request line and headers, as sent.
    pub head: String,
    /// The method, in upper case.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
    /// The body as JSON; null if it is none.
    pub json: Value,
    /// Whether the peer sent `connection: close`.
    pub closes: bool,
    /// Its number among the recorded requests of the player: two requests with the same body get
    /// answers with different ids.
    pub number: usize,
}

impl PlayerRequest {
    /// A chat request with this body, without headers.
    pub fn from_body(body: &str) -> Self {
        Self {
            method: "POST".to_owned(),
            path: "/v1/chat/completions".to_owned(),
            body: body.to_owned(),
            json: serde_json::from_str(body).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Whether it is a request of the Responses API.
    pub fn is_responses(&self) -> bool {
        self.path.ends_with("/responses")
    }

    /// Whether it asks for the requests that the player got so far.
    pub(super) fn asks_for_requests(&self) -> bool {
        self.method == "GET" && self.path.ends_with("/requests")
    }

    /// `stream` of the body.
    pub fn streams(&self) -> bool {
        self.json
            .get("stream")
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    /// `stream_options.include_usage` of the body.
    pub fn wants_usage(&self) -> bool {
        self.json
            .pointer("/stream_options/include_usage")
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    /// The chat messages or the items of the input; empty if there are none.
    pub fn messages(&self) -> &[Value] {
        let name = if self.is_responses() {
            "input"
        } else {
            "messages"
        };
        self.json
            .get(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Role of the last message; `tool` for a result.
    pub fn last_role(&self) -> Option<&str> {
        let last = self.messages().last()?;
        let is_result = last.get("output").is_some();
        is_result
            .then_some("tool")
            .or_else(|| last.get("role")?.as_str())
    }

    /// All text of the last message.
    pub fn last_text(&self) -> String {
        self.messages().last().map(message_text).unwrap_or_default()
    }

    /// The offered tool of this name; a tool of a namespace as `namespace__name`.
    pub fn tool(&self, name: &str) -> Option<&Value> {
        let is = |tool: &&Value, name: &str| tool.get("name").and_then(Value::as_str) == Some(name);
        self.tools().find(|tool| is(tool, name)).or_else(|| {
            let (namespace, name) = name.rsplit_once("__")?;
            let group = self.tools().find(|tool| is(tool, namespace))?;
            let inner = group.get("tools")?.as_array()?;
            inner.iter().find(|tool| is(tool, name))
        })
    }

    /// The offered functions and other tools, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Value> {
        let tools = self.json.get("tools").and_then(Value::as_array);
        tools
            .into_iter()
            .flatten()
            .map(|tool| tool.get("function").unwrap_or(tool))
    }
}

/// All text of a chat message, whether its content is a string or a list of parts.
pub(super) fn message_text(message: &Value) -> String {
    match message.get("content").or_else(|| message.get("output")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text").or_else(|| part.get("encrypted_content")))
            .filter_map(Value::as_str)
            .collect(),
        _ => String::new(),
    }
}

/// Reads the next request; `None` if the peer closed the connection between two requests.
pub(crate) async fn read_request<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut S,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<PlayerRequest>> {
    let (mut request, framing) = loop {
        if let Some(parsed) = head(buffer)? {
            break parsed;
        }
        if read_more(socket, buffer).await? == 0 {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        if buffer.len() > HEAD_LIMIT && head(buffer)?.is_none() {
            return Err(invalid("the head is too large"));
        }
    };
    if framing.expects_continue {
        socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let body = match framing.length {
        Some(length) => read_exactly(socket, buffer, length).await?,
        None => read_chunks(socket, buffer).await?,
    };
    request.json = serde_json::from_slice(&body).unwrap_or_default();
    request.body = String::from_utf8(body)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(Some(request))
}

struct BodyFraming {
    /// `None` if the body is chunked.
    length: Option<usize>,
    /// The peer waits for `100 Continue`.
    expects_continue: bool,
}

fn head(buffer: &mut Vec<u8>) -> io::Result<Option<(PlayerRequest, BodyFraming)>> {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(end) = parsed
        .parse(buffer)
        .map_err(|error| invalid(&error.to_string()))?
    else {
        return Ok(None);
    };
    let mut framing = BodyFraming {
        length: Some(0),
        expects_continue: false,
    };
    let mut closes = false;
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value.parse().map_err(|_| invalid("content-length"))?;
                framing.length = framing.length.map(|_| length);
            }
            "transfer-encoding" => framing.length = None,
            "connection" => closes = value.eq_ignore_ascii_case("close"),
            "expect" => framing.expects_continue = true,
            _ => {}
        }
    }
    let request = PlayerRequest {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        closes,
        ..PlayerRequest::default()
    };
    let rest = buffer.split_off(end);
    let head = String::from_utf8_lossy(buffer).into_owned();
    *buffer = rest;
    Ok(Some((PlayerRequest { head, ..request }, framing)))
}

async fn read_chunks<S: AsyncRead + Unpin>(
    socket: &mut S,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        match httparse::parse_chunk_size(buffer).map_err(|_| invalid("chunk size"))? {
            httparse::Status::Partial => {
                if read_more(socket, buffer).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            httparse::Status::Complete((start, size)) => {
                let size = usize::try_from(size).map_err(|_| invalid("chunk size"))?;
                read_exactly(socket, buffer, start).await?;
                let mut chunk = read_exactly(socket, buffer, size.saturating_add(2)).await?;
                chunk.truncate(size);
                if size == 0 {
                    return Ok(body);
                }
                body.append(&mut chunk);
                if body.len() > BODY_LIMIT {
                    return Err(invalid("the body is too large"));
                }
            }
        }
    }
}

async fn read_exactly<S: AsyncRead + Unpin>(
    socket: &mut S,
    buffer: &mut Vec<u8>,
    length: usize,
) -> io::Result<Vec<u8>> {
    if length > BODY_LIMIT {
        return Err(invalid("the body is too large"));
    }
    while buffer.len() < length {
        if read_more(socket, buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let rest = buffer.split_off(length);
    Ok(std::mem::replace(buffer, rest))
}

async fn read_more<S: AsyncRead + Unpin>(
    socket: &mut S,
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    buffer.reserve(16 * 1024);
    socket.read_buf(buffer).await
}

/// The head of a reply. Without a `length` the body is chunked. Given headers replace the default
/// ones.
pub(super) fn reply_head(
    status: u16,
    headers: &BTreeMap<String, String>,
    kind: &str,
    length: Option<usize>,
) -> String {
    let reason = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|code| code.canonical_reason());
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or("Status"));
    let given = |name: &str| headers.keys().any(|key| key.eq_ignore_ascii_case(name));
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    };
    for (name, value) in headers {
        line(name, value);
    }
    if !given("content-type") {
        line("content-type", kind);
    }
    match length {
        _ if given("content-length") => {}
        Some(length) => line("content-length", &length.to_string()),
        None => line("transfer-encoding", "chunked"),
    }
    head.push_str("\r\n");
    head
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
