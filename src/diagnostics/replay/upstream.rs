//! The upstream of a replay: a server on loopback that takes the place of the providers and sends
//! recorded bytes when the driver asks for them. Every connection serves one request.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::diagnostics::bundle::BundleResponseHead;

/// Recorded headers that are not sent, because they describe a connection, a framing or a coding
/// that is not the recorded one: bodies are recorded decoded.
const CONNECTION_HEADERS: [&str; 9] = [
    "connection",
    "content-encoding",
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

/// A response whose body comes over a channel.
type ChannelResponse = Response<Channel<Bytes, io::Error>>;

/// The listening socket of the server that takes the place of the providers of a replayed turn.
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
            let (socket, _) = self.listener.accept().await?;
            socket.set_nodelay(true)?;
            let (requests, mut received) = mpsc::channel(1);
            let service = service_fn(move |request: Request<Incoming>| {
                let requests = requests.clone();
                async move {
                    request
                        .into_body()
                        .collect()
                        .await
                        .map_err(io::Error::other)?;
                    let (respond, response) = oneshot::channel::<ChannelResponse>();
                    let _ = requests.send(respond).await;
                    response.await.map_err(io::Error::other)
                }
            });
            let mut server = http1::Builder::new();
            server.keep_alive(false).auto_date_header(false);
            tokio::spawn(server.serve_connection(TokioIo::new(socket), service));
            // There is none if the peer closed the connection without sending any.
            if let Some(respond) = received.recv().await {
                let (body, head) = (None, Some(respond));
                return Ok(UpstreamConnection { head, body });
            }
        }
    }
}

/// The connection of one request. Errors while sending are ignored: the engine no
/// longer needs what it does not read.
pub(super) struct UpstreamConnection {
    /// Takes the head of the response, once.
    head: Option<oneshot::Sender<ChannelResponse>>,
    /// Takes the body after the head, until it ends.
    body: Option<Sender<Bytes, io::Error>>,
}

impl UpstreamConnection {
    pub(super) fn send_head(&mut self, head: &BundleResponseHead) {
        let (sender, body) = Channel::new(1);
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in &head.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
                && !CONNECTION_HEADERS.contains(&name.as_str())
            {
                response.headers_mut().append(name, value);
            }
        }
        if let Some(waiting) = self.head.take() {
            let _ = waiting.send(response);
        }
        self.body = Some(sender);
    }

    pub(super) async fn send_chunk(&mut self, bytes: &[u8]) {
        if let Some(body) = self.body.as_mut().filter(|_| !bytes.is_empty()) {
            let _ = body.send_data(Bytes::copy_from_slice(bytes)).await;
        }
    }

    /// Ends the body properly.
    pub(super) fn end_body(&mut self) {
        self.body = None;
    }

    /// Closes the connection in the middle of the body.
    pub(super) fn cut_off(&mut self) {
        if let Some(body) = self.body.take() {
            body.abort(io::ErrorKind::ConnectionAborted.into());
        }
    }
}
