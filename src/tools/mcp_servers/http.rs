//! The protocol over HTTP ("streamable HTTP"), with the dialler of the web tools. No redirect is
//! followed, and what a server sends is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp_sse::{Sse, SseStream};
use url::Url;

use super::MAX_MESSAGE;
use crate::net::memory::{MemoryKind, MemoryShare, ProcessMemory};
use crate::tools::web::body_stream::BodyStream;
use crate::tools::web::client::{WebClient, WebError, WebRequest};

/// How long the head of an answer may take. A call has a time of its own, which is shorter or the
/// same.
const HEAD_TIMEOUT: Duration = Duration::from_mins(5);
/// The most bytes of one stream.
const MAX_STREAM: usize = 4 * MAX_MESSAGE;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The error of a request to a server.
pub(super) type HttpError = StreamableHttpError<WebError>;

/// Sends the messages to one server. It ends with its connection.
#[derive(Clone)]
pub(super) struct McpHttp {
    pub(super) client: WebClient,
    pub(super) memory: ProcessMemory,
}

/// The headers that each request has.
struct SentHeaders {
    session: Option<Arc<str>>,
    token: Option<String>,
    custom: HashMap<HeaderName, HeaderValue>,
}

impl McpHttp {
    async fn open(
        &self,
        method: Method,
        uri: &str,
        sent: SentHeaders,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(Parts, BodyStream), HttpError> {
        let bad = |why| StreamableHttpError::Client(WebError::BadUrl(why));
        let url = Url::parse(uri).map_err(|_| bad("it is no URL"))?;
        for (name, value) in sent.custom {
            headers.insert(name, value);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let unusable = |_| bad("a header cannot be sent");
        if let Some(session) = sent.session {
            headers.insert(SESSION, HeaderValue::from_str(&session).map_err(unusable)?);
        }
        if let Some(token) = sent.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            headers.insert(AUTHORIZATION, value.map_err(unusable)?);
        }
        let request = WebRequest {
            method,
            url,
            headers,
            body,
        };
        let opened = self.client.open(request, HEAD_TIMEOUT).await;
        opened.map_err(StreamableHttpError::Client)
    }

    /// The whole body, within the limit for a message.
    async fn read(&self, mut body: BodyStream) -> Result<Vec<u8>, HttpError> {
        let mut share = self.memory.share(MemoryKind::Requests);
        let mut read = Vec::new();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(StreamableHttpError::Client)?;
            let length = read.len().saturating_add(piece.len());
            if length > MAX_MESSAGE {
                let max_size = MAX_MESSAGE;
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size });
            }
            let full = |_| StreamableHttpError::Client(WebError::NoMemory);
            share.grow(length).map_err(full)?;
            read.extend_from_slice(&piece);
        }
        Ok(read)
    }

    /// The events of a body, each within the limit for a message.
    fn events(&self, body: BodyStream) -> BoxStream<'static, Result<Sse, SseError>> {
        let state = BoundedEvents {
            body,
            share: self.memory.share(MemoryKind::Requests),
            total: 0,
            event: 0,
            line: 0,
        };
        let pieces = stream::unfold(Some(state), |state| async {
            let mut state = state?;
            let piece = state.next().await?;
            let next = piece.is_ok().then_some(state);
            Some((piece, next))
        });
        SseStream::from_bytes_stream(pieces.boxed()).boxed()
    }
}

/// The bytes of a stream of events, counted.
struct BoundedEvents {
    body: BodyStream,
    share: MemoryShare,
    total: usize,
    /// The bytes of the event so far, and of its last line.
    event: usize,
    line: usize,
}

impl BoundedEvents {
    async fn next(&mut self) -> Option<Result<Bytes, WebError>> {
        let piece = match self.body.next().await? {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        self.total = self.total.saturating_add(piece.len());
        let mut longest = self.event;
        for byte in &piece {
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => {
                    self.line += 1;
                    self.event += 1;
                    longest = longest.max(self.event);
                }
            }
        }
        if longest > MAX_MESSAGE || self.total > MAX_STREAM {
            return Some(Err(WebError::TooLarge(MAX_MESSAGE)));
        }
        if self.share.grow(longest).is_err() {
            return Some(Err(WebError::NoMemory));
        }
        Some(Ok(piece))
    }
}

/// The fault of an answer with another status than success.
fn refused(status: StatusCode, has_session: bool) -> HttpError {
    if status == StatusCode::NOT_FOUND && has_session {
        return StreamableHttpError::SessionExpired;
    }
    HttpStatusError::new(status.as_u16(), None).into()
}

fn has_type(head: &Parts, expected: &str) -> bool {
    let kind = head.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        kind.get(..expected.len())
            .is_some_and(|kind| kind.eq_ignore_ascii_case(expected))
    })
}

impl StreamableHttpClient for McpHttp {
    type Error = WebError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let body = serde_json::to_vec(&message)?;
        let has_session = session_id.is_some();
        let sent = SentHeaders {
            session: session_id,
            token: auth_header,
            custom: custom_headers,
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        let (head, body) = self.open(Method::POST, &uri, sent, headers, body).await?;
        if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !head.status.is_success() {
            return Err(refused(head.status, has_session));
        }
        let session = head.headers.get(SESSION);
        let session = session.and_then(|value| Some(value.to_str().ok()?.to_owned()));
        if has_type(&head, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(body), session));
        }
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        if !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !has_type(&head, JSON) {
            return Err(StreamableHttpError::UnexpectedContentType(None));
        }
        let body = self.read(body).await?;
        let message: ServerJsonRpcMessage = serde_json::from_slice(&body)?;
        Ok(StreamableHttpPostResponse::Json(message, session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let sent = SentHeaders {
            session: Some(session_id),
            token: auth_header,
            custom: custom_headers,
        };
        let headers = HeaderMap::new();
        self.open(Method::DELETE, &uri, sent, headers, Vec::new())
            .await
            .map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let sent = SentHeaders {
            session: session_id,
            token: auth_header,
            custom: custom_headers,
        };
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENTS));
        if let Some(id) = last_event_id {
            let unusable = |_| WebError::BadUrl("the id of an event cannot be sent");
            let id = HeaderValue::from_str(&id).map_err(unusable);
            headers.insert(LAST_EVENT, id.map_err(StreamableHttpError::Client)?);
        }
        let opened = self.open(Method::GET, &uri, sent, headers, Vec::new());
        let (head, body) = opened.await?;
        if !head.status.is_success() || !has_type(&head, EVENTS) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(self.events(body))
    }
}
