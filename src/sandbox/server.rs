//! The Chat Completions server of the sandbox, on a free loopback port.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::model;
use super::reply::{SandboxReply, events};
use super::request::ChatRequest;

/// A larger request body is refused.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// The running server. `commands::serve::run_server` starts it when the sandbox is on; dropping it
/// ends the listener, and each connection when it is idle.
#[derive(Debug)]
pub struct Sandbox {
    address: SocketAddr,
    _stop: DropGuard,
}

impl Sandbox {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let listener = listener.tap_io(|socket| {
            socket.set_nodelay(true).ok();
        });
        let stop = CancellationToken::new();
        let chat = post(answer).layer(DefaultBodyLimit::max(BODY_LIMIT));
        let serving = axum::serve(listener, Router::new().route("/v1/chat/completions", chat));
        let serving = serving.with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(serving.into_future());
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn answer(body: Bytes) -> Response {
    let request = ChatRequest::parse(&body);
    match model::reply(&request) {
        SandboxReply::Error(status, json) => {
            let headers = [(CONTENT_TYPE, "application/json")];
            (status, headers, json.to_string()).into_response()
        }
        SandboxReply::Steps(steps) => {
            let events = events(&steps, &request).into_iter();
            let body = Body::from_stream(stream::iter(events.map(Ok::<_, Infallible>)));
            ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
        }
    }
}
