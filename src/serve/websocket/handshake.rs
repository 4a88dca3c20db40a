//! The handshake: the answer to a request that asks for a WebSocket, and the way of the connection
//! from the listener to the code that serves it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use parking_lot::Mutex;
use sha1::{Digest as _, Sha1};

use super::WebSocket;
use crate::serve::BodyLimits;
use crate::serve::error::{close, internal, invalid_request};

/// What the accept header is made with (RFC 6455, 1.3).
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The length of a key: 16 bytes in base64.
const KEY_LENGTH: usize = 24;
/// The only version.
const VERSION: &str = "13";

/// Limits on one WebSocket.
#[derive(Debug, Clone)]
pub struct WebSocketLimits {
    /// Limits on each message.
    pub messages: BodyLimits,
    /// How long a client may be silent before it gets a ping.
    pub ping_interval: Duration,
}

/// Serves a WebSocket until it ends.
type SocketHandler = Box<dyn FnOnce(WebSocket) -> SocketFuture + Send>;
/// A WebSocket that is being served.
type SocketFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes a connection over when its handshake was answered. The listener puts one into the
/// extensions of each request, and looks into it when the connection speaks HTTP no more.
#[derive(Clone, Default)]
pub struct UpgradeSlot(Arc<Mutex<Option<AcceptedUpgrade>>>);

/// An upgrade that was granted.
pub(in crate::serve) struct AcceptedUpgrade {
    pub(in crate::serve) limits: WebSocketLimits,
    pub(in crate::serve) serve: SocketHandler,
}

impl UpgradeSlot {
    /// The upgrade, if one was granted.
    pub(in crate::serve) fn take(&self) -> Option<AcceptedUpgrade> {
        self.0.lock().take()
    }
}

/// Whether a request asks for a WebSocket.
pub fn is_handshake(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::GET && has_token(headers, &UPGRADE, "websocket")
}

/// Answers a request that asks for a WebSocket. If it is granted, `serve` gets the connection when
/// the answer was sent.
pub fn upgrade<F>(
    head: &Parts,
    limits: WebSocketLimits,
    serve: impl FnOnce(WebSocket) -> F + Send + 'static,
) -> Response<Body>
where
    F: Future<Output = ()> + Send + 'static,
{
    let key = match key(head) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    let Some(slot) = head.extensions.get::<UpgradeSlot>() else {
        return internal();
    };
    *slot.0.lock() = Some(AcceptedUpgrade {
        limits,
        serve: Box::new(move |socket| Box::pin(serve(socket))),
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept(key)) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// The key of a handshake. An error is the answer to one that is contrary to RFC 6455.
fn key(head: &Parts) -> Result<&HeaderValue, Box<Response<Body>>> {
    let refuse = |what: &str| {
        let message = format!("The WebSocket handshake {what}.");
        let status = StatusCode::BAD_REQUEST;
        Box::new(close(invalid_request(
            status,
            "invalid_handshake",
            &message,
        )))
    };
    if head.version != Version::HTTP_11 || !has_token(&head.headers, &CONNECTION, "upgrade") {
        return Err(refuse("needs HTTP/1.1 and the header Connection: Upgrade"));
    }
    let length = head.headers.get(CONTENT_LENGTH);
    if head.headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != "0") {
        return Err(refuse("must have no body"));
    }
    let version = head.headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != VERSION) {
        let mut response = refuse("must ask for version 13 (Sec-WebSocket-Version)");
        let version = HeaderValue::from_static(VERSION);
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_VERSION, version);
        return Err(response);
    }
    let key = head.headers.get(SEC_WEBSOCKET_KEY);
    let key = key.filter(|key| {
        key.len() == KEY_LENGTH
            && STANDARD
                .decode(key.as_bytes())
                .is_ok_and(|key| key.len() == 16)
    });
    key.ok_or_else(|| refuse("needs a Sec-WebSocket-Key of 16 bytes in base64"))
}

/// The answer to a key.
fn accept(key: &HeaderValue) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(ACCEPT_GUID);
    STANDARD.encode(hash.finalize())
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_rfc() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
