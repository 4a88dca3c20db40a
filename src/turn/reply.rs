//! Makes the HTTP response of a turn.

use std::sync::Arc;

use adapters::fault::Fault;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::observer::{TurnEvent, TurnObserver};
use super::response_headers::ResponseHeaders;
use axum::body::Body;

/// Tells the SDKs of OpenAI whether to repeat a request.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Makes the HTTP response of one turn and shows its head to the observer.
pub(super) struct ReplyBuilder {
    /// See [`Caller::codex`](super::caller::Caller::codex).
    pub(super) codex: bool,
    pub(super) headers: ResponseHeaders,
    pub(super) observer: Option<Arc<dyn TurnObserver>>,
}

impl ReplyBuilder {
    pub(super) fn stream(&self, events: Body) -> Response<Body> {
        self.finish("text/event-stream; charset=utf-8", Response::new(events))
    }

    pub(super) fn json(&self, json: Vec<u8>) -> Response<Body> {
        self.observe(TurnEvent::ClientBody(&json));
        self.finish("application/json", Response::new(Body::from(json)))
    }

    /// A fault, with its HTTP status.
    pub(super) fn fault(&self, fault: &Fault) -> Response<Body> {
        let json = fault.body();
        self.observe(TurnEvent::ClientBody(&json));
        let mut response = Response::new(Body::from(json));
        *response.status_mut() = StatusCode::from_u16(fault.status(self.codex))
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(seconds) = fault.retry_after() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if fault.is_final() {
            // The SDKs of OpenAI repeat a 429 or a 5xx unless this header tells them not to.
            response
                .headers_mut()
                .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        self.finish("application/json", response)
    }

    fn finish(&self, content_type: &'static str, mut response: Response<Body>) -> Response<Body> {
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.headers.write_to(headers);
        self.observe(TurnEvent::ClientHead {
            status: response.status(),
            headers: response.headers(),
        });
        response
    }

    fn observe(&self, event: TurnEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.on_event(event);
        }
    }
}
