//! The HTTP client of pages and search engines: HTTP/1.1, a connection for each request, limits on
//! everything. It follows no redirect and keeps no cookie.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use strum::IntoStaticStr;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use url::Url;

use super::dialler::{Connection, DialError, WebDialler};
use crate::net::content_coding::{CODED_PIECE, CodingError, ContentCoding, ContentDecoder};
use crate::net::memory::{MemoryKind, MemoryShare, ProcessMemory, SharedMemory};

/// The largest head of an answer, in bytes.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// A request. Its `Debug` output has neither the query nor the headers nor the body: one search
/// engine takes its key in the query.
#[derive(Clone)]
pub struct WebRequest {
    /// GET or POST.
    pub method: Method,
    /// The address with its query.
    pub url: Url,
    /// The headers, besides those that each request has.
    pub headers: HeaderMap,
    /// The body; empty for GET.
    pub body: Vec<u8>,
}

impl fmt::Debug for WebRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        write!(f, "{} {host}{}", self.method, self.url.path())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct WebResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body without its content coding.
    pub body: Vec<u8>,
    /// The memory of the body.
    pub memory: SharedMemory,
}

/// What an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// The largest body after decoding, in bytes.
    pub bytes: usize,
    /// The time until the head of the answer is there.
    pub head: Duration,
    /// The time of everything.
    pub total: Duration,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WebError {
    /// It cannot be sent.
    #[error("the address cannot be used: {0}")]
    BadUrl(&'static str),
    /// The address leads to this machine, its network or another place that is not public.
    #[error("{0} is not an address of the public network")]
    NotPublic(String),
    /// No connection, or it broke.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no answer within {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// The body is too large.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer is no HTTP, or its coding is broken.
    #[error("the answer cannot be read: {0}")]
    BadReply(String),
    /// The budget of the process has no room for the answer.
    #[error("there is not enough memory for the answer now")]
    NoMemory,
}

/// A body of unknown size is given this much memory before it is read, at most, and a coded one
/// this many times its size.
const FIRST_BYTES: usize = 256 << 10;
const USUAL_RATIO: usize = 4;

/// Sends requests.
#[derive(Clone)]
pub struct WebClient {
    dialler: WebDialler,
    tls: TlsConnector,
    memory: ProcessMemory,
}

impl WebClient {
    /// A client that trusts these certificates. Its answers count in no budget.
    pub fn new(dialler: WebDialler, tls: Arc<ClientConfig>) -> Self {
        Self {
            dialler,
            tls: TlsConnector::from(tls),
            memory: ProcessMemory::unlimited(),
        }
    }

    /// The client with a budget that its answers take from.
    #[must_use]
    pub fn with_memory(self, memory: ProcessMemory) -> Self {
        Self { memory, ..self }
    }

    /// Whether its dialler may reach a server. Says nothing of whether it answers.
    pub async fn check(&self, url: &Url) -> Result<(), WebError> {
        let host = url.host().ok_or(WebError::BadUrl("it has no host"))?;
        let addresses = self.dialler.addresses(&host).await;
        addresses.map(drop).map_err(dial_error)
    }

    /// Sends a request and reads its answer. Dropping the future ends the connection.
    pub async fn send(
        &self,
        request: WebRequest,
        limits: WebLimits,
    ) -> Result<WebResponse, WebError> {
        let deadline = Instant::now() + limits.total;
        let head_deadline = deadline.min(Instant::now() + limits.head);
        let exchange = self.exchange(request, limits, head_deadline);
        let answered = timeout_at(deadline, exchange).await;
        answered.map_err(|_| WebError::Timeout(limits.total))?
    }

    async fn exchange(
        &self,
        request: WebRequest,
        limits: WebLimits,
        head_deadline: Instant,
    ) -> Result<WebResponse, WebError> {
        let late = |_| WebError::Timeout(limits.head);
        let connected = timeout_at(head_deadline, self.connect(&request.url)).await;
        let connection = connected.map_err(late)??;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let handshake = builder.handshake(TokioIo::new(connection)).await;
        let (mut sender, connection) = handshake.map_err(broken)?;
        let answer = async {
            let sent = sender.send_request(http_request(request)?);
            let response = timeout_at(head_deadline, sent).await.map_err(late)?;
            let share = self.memory.share(MemoryKind::Requests);
            read(response.map_err(broken)?, limits.bytes, share).await
        };
        // What has arrived is read to its end after the server has closed the connection.
        let driven = async {
            connection.await.ok();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            answer = driven => answer,
        }
    }

    pub(super) async fn connect(&self, url: &Url) -> Result<Box<dyn Connection>, WebError> {
        let host = url.host().ok_or(WebError::BadUrl("it has no host"))?;
        let port = url.port_or_known_default();
        let port = port.ok_or(WebError::BadUrl("it has no port"))?;
        let connected = self.dialler.connect(&host, port).await;
        let connection = connected.map_err(dial_error)?;
        if url.scheme() == "http" {
            return Ok(connection);
        }
        let name = url.host_str().unwrap_or_default();
        let name = name.trim_matches(['[', ']']).trim_end_matches('.');
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| WebError::BadUrl("its host is no name for TLS"))?;
        let secured = self.tls.connect(name, connection).await;
        let secured = secured.map_err(|error| WebError::Unreachable(error.to_string()))?;
        Ok(Box::new(secured))
    }
}

pub(super) fn http_request(request: WebRequest) -> Result<Request<Full<Bytes>>, WebError> {
    let url = &request.url;
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let host = format!("{}{port}", url.host_str().unwrap_or_default());
    let mut target = url.path().to_owned();
    if let Some(query) = url.query() {
        target.push('?');
        target.push_str(query);
    }
    let unusable = || WebError::BadUrl("it cannot be sent");
    let mut made = Request::builder()
        .method(request.method)
        .uri(target)
        .header(HOST, host)
        .header(
            USER_AGENT,
            concat!("respondent/", env!("CARGO_PKG_VERSION")),
        )
        .body(Full::from(request.body))
        .map_err(|_| unusable())?;
    let codings = HeaderValue::from_static("gzip, br, zstd, deflate");
    made.headers_mut().insert(ACCEPT_ENCODING, codings);
    made.headers_mut().extend(request.headers);
    Ok(made)
}

async fn read(
    response: Response<Incoming>,
    limit: usize,
    mut share: MemoryShare,
) -> Result<WebResponse, WebError> {
    let unreadable = |error| match error {
        CodingError::Full => WebError::TooLarge(limit),
        CodingError::Unknown | CodingError::Broken => {
            WebError::BadReply(format!("its content coding: {error}"))
        }
    };
    let (head, mut body) = response.into_parts();
    let coding = ContentCoding::of(&head.headers).map_err(unreadable)?;
    let announced = body.size_hint().exact();
    let announced = announced.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    if coding == ContentCoding::Identity && announced.is_some_and(|size| size > limit) {
        return Err(WebError::TooLarge(limit));
    }
    let likely = announced.map_or(FIRST_BYTES, |size| size.saturating_mul(USUAL_RATIO));
    let full = |_| WebError::NoMemory;
    share.request(likely.min(limit)).await.map_err(full)?;
    let mut decoder = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else {
            continue;
        };
        let decoder = if let Some(decoder) = &mut decoder {
            decoder
        } else {
            let made = ContentDecoder::new(coding.as_begun(&data), limit, None);
            decoder.insert(made.map_err(unreadable)?)
        };
        for piece in data.chunks(CODED_PIECE) {
            decoder.push(piece).map_err(unreadable)?;
            // What a piece becomes is at most the limit of the body.
            share.grow(decoder.memory()).map_err(full)?;
        }
    }
    let body = match decoder {
        Some(decoder) => decoder.finish().map_err(unreadable)?,
        None => Vec::new(),
    };
    share.grow(body.capacity()).map_err(full)?;
    share.set(body.capacity());
    Ok(WebResponse {
        status: head.status,
        headers: head.headers,
        body,
        memory: SharedMemory::new(share),
    })
}

fn dial_error(error: DialError) -> WebError {
    match error {
        DialError::NotPublic(host) => WebError::NotPublic(host),
        DialError::Unreachable(error) => WebError::Unreachable(error.to_string()),
        DialError::Unknown(_) => WebError::Unreachable(error.to_string()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
pub(super) fn broken(error: hyper::Error) -> WebError {
    if error.is_parse() {
        WebError::BadReply(error.to_string())
    } else {
        WebError::Unreachable(error.to_string())
    }
}
