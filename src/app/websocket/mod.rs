//! The Responses API over a WebSocket: each message of the client is a request, each event of an
//! answer a message. `lanes` decides which turns run.

mod lanes;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use adapters::fault::{Fault, Kind, Retry};
use adapters::responses::client_event::{ClientEvent, SteerEvent};
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::{CONNECTION, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, UPGRADE};
use http::header::{SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION};
use http::request::Parts;
use http::{Request, Response};
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep_until};

use self::lanes::{Lanes, WaitingTurn};
use super::AppState;
use super::owner::RequestOwner;
use super::responses::turn_request;
use crate::metrics::OpenStream;
use crate::net::blocking::block_in_place_if_large;
use crate::net::memory::{CountedValue, SharedMemory};
use crate::net::websocket_frame::FrameKind;
use crate::net::{Owner, RequestId};
use crate::responses::ConnectionResponses;
use crate::serve::BodyLimits;
use crate::serve::error::upgrade_required;
use crate::serve::websocket::{SocketEnd, TextMessage, WebSocket, WebSocketLimits, upgrade};
use crate::turn::{Caller, MessageRequest, TurnEndpoint, TurnRequest, error_message, message_turn};

/// With this many errors that the client has not taken, its messages have to wait.
const MAX_ERRORS: usize = 64;

/// `GET /v1/responses` that asks for a WebSocket.
pub(super) async fn connect(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: Request<Body>,
) -> Response<Body> {
    let config = app.service.config.load_full();
    if !config.server.websocket {
        return upgrade_required();
    }
    let (head, _) = request.into_parts();
    let messages: BodyLimits = head.extensions.get().cloned().unwrap_or_default();
    let responses = ConnectionResponses::new(messages.max, messages.memory.clone());
    let limits = WebSocketLimits {
        messages,
        ping_interval: config.server.heartbeat,
    };
    let request = message_request(Arc::clone(&owner), head.clone());
    let expires = Instant::now() + config.server.websocket_lifetime;
    upgrade(&head, limits, move |socket| async move {
        let session = WebSocketSession {
            codex: Caller::from_headers(&request.headers).codex,
            request,
            responses: Arc::new(responses),
            lanes: Lanes::new(&app.service.metrics),
            errors: VecDeque::new(),
            drain: Box::pin(socket.drain().clone().cancelled_owned()),
            expiry: Box::pin(sleep_until(expires)),
            closing: None,
            _open: app.service.metrics.open_websocket(),
            app,
            socket,
        };
        session.serve().await;
    })
}

/// What each message would be as a request of its own.
fn message_request(owner: Arc<str>, head: Parts) -> TurnRequest {
    let mut request = turn_request(TurnEndpoint::Responses, owner, head);
    for name in [
        CONNECTION,
        UPGRADE,
        SEC_WEBSOCKET_EXTENSIONS,
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION,
    ] {
        request.headers.remove(name);
    }
    request
}

/// A connection that is being served. Lives as long as it; dropping it ends its turns.
struct WebSocketSession {
    app: AppState,
    /// What each message would be as a request of its own, let in by the token of the handshake.
    request: TurnRequest,
    codex: bool,
    socket: WebSocket,
    responses: Arc<ConnectionResponses>,
    lanes: Lanes,
    /// Frames of errors that are not about a running turn.
    errors: VecDeque<Bytes>,
    drain: Pin<Box<dyn Future<Output = ()> + Send>>,
    expiry: Pin<Box<Sleep>>,
    /// Why no further turns begin; the connection ends when those that run have ended.
    closing: Option<SocketEnd>,
    _open: OpenStream,
}

/// What a connection does next.
enum SessionStep {
    Receive(TextMessage),
    Send(Bytes),
    /// Let no further turns begin.
    Close(SocketEnd),
    End(SocketEnd),
}

impl WebSocketSession {
    async fn serve(mut self) {
        let end = loop {
            match poll_fn(|cx| self.poll_step(cx)).await {
                SessionStep::Receive(message) => self.receive(message),
                SessionStep::Send(frames) => self.socket.send(frames),
                SessionStep::Close(end) => self.close(end),
                SessionStep::End(end) => break end,
            }
            self.socket.set_write_deadline(self.lanes.last_deadline());
        };
        if let Some(reason) = end.refusal() {
            self.app.service.metrics.refused(reason.label());
        }
        // The turns end, and with them the requests to providers.
        drop(self.lanes);
        if end == SocketEnd::Expired {
            let frame = error_message(&closing_fault(end), self.codex, None);
            self.socket.send(frame.into());
        }
        self.socket.close(end).await;
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<SessionStep> {
        let is_flushed = match self.socket.poll_flush(cx) {
            Poll::Ready(Err(end)) => return Poll::Ready(SessionStep::End(end)),
            Poll::Ready(Ok(())) => true,
            Poll::Pending => false,
        };
        if self.errors.len() < MAX_ERRORS
            && let Poll::Ready(received) = self.socket.poll_message(cx)
        {
            let step = received.map_or_else(SessionStep::End, SessionStep::Receive);
            return Poll::Ready(step);
        }
        if self.closing.is_none() {
            if self.lanes.has_waiting() && !self.is_admitted() {
                return Poll::Ready(SessionStep::Close(SocketEnd::Revoked));
            }
            if self.drain.as_mut().poll(cx).is_ready() {
                return Poll::Ready(SessionStep::Close(SocketEnd::Restart));
            }
            if self.expiry.as_mut().poll(cx).is_ready() {
                return Poll::Ready(SessionStep::Close(SocketEnd::Expired));
            }
        }
        // While the client takes nothing, no turn goes on.
        if !is_flushed {
            return Poll::Pending;
        }
        if let Some(frames) = self.errors.pop_front() {
            return Poll::Ready(SessionStep::Send(frames));
        }
        if let Poll::Ready(frames) = self.poll_lanes(cx) {
            return Poll::Ready(SessionStep::Send(frames));
        }
        match self.closing {
            Some(end) if self.lanes.is_idle() => Poll::Ready(SessionStep::End(end)),
            _ => Poll::Pending,
        }
    }

    fn poll_lanes(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let (app, request, responses) = (&self.app, &self.request, &self.responses);
        self.lanes.poll_frames(cx, |waiting| {
            let message = MessageRequest {
                request: TurnRequest {
                    id: RequestId::random().0,
                    ..request.clone()
                },
                event: waiting.event,
                memory: waiting.memory,
                connection: Arc::clone(responses),
            };
            let limit = app.service.config.load().server.turn_timeout;
            (message_turn(&app.service, message), Instant::now() + limit)
        })
    }

    /// Lets no further turns begin, not even those that wait.
    fn close(&mut self, end: SocketEnd) {
        self.closing = Some(end);
        for waiting in self.lanes.take_waiting() {
            self.refuse(&closing_fault(end), waiting.event.stream_id.as_deref());
        }
    }

    fn receive(&mut self, message: TextMessage) {
        if self.closing.is_none() && !self.is_admitted() {
            self.close(SocketEnd::Revoked);
        }
        let TextMessage { text, memory } = message;
        let read = block_in_place_if_large(text.len(), || ClientEvent::read(&text));
        match read {
            Ok(ClientEvent::Create(event)) => {
                let lane = event.stream_id.clone();
                let waiting = WaitingTurn {
                    event: *event,
                    memory,
                };
                let taken = match self.closing {
                    Some(end) => Err(closing_fault(end)),
                    None => self.lanes.add(waiting),
                };
                if let Err(fault) = taken {
                    self.refuse(&fault, lane.as_deref());
                }
            }
            Ok(ClientEvent::Steer(_)) if self.closing == Some(SocketEnd::Revoked) => {
                self.refuse(&closing_fault(SocketEnd::Revoked), None);
            }
            Ok(ClientEvent::Steer(steer)) => {
                let frame = FrameKind::Text.with(steer_failed(&steer).as_bytes());
                // The answer repeats the input.
                let memory = SharedMemory::new(memory);
                memory.set(frame.len());
                self.errors
                    .push_back(CountedValue::new(frame, memory).into_bytes());
            }
            Err(refused) => self.refuse(&refused.fault, refused.stream_id.as_deref()),
        }
    }

    /// Whether the handshake would be let in now.
    fn is_admitted(&self) -> bool {
        let (config, request) = (self.app.service.config.load(), &self.request);
        config.admits(&request.owner, request.by)
    }

    fn refuse(&mut self, fault: &Fault, stream_id: Option<&str>) {
        let frame = error_message(fault, self.codex, stream_id);
        self.errors.push_back(frame.into());
    }
}

/// The fault of a request that a connection does not take any more.
fn closing_fault(end: SocketEnd) -> Fault {
    if end == SocketEnd::Revoked {
        let message = "The token that opened this WebSocket is not valid any more: open another one with a token that this server knows.";
        return Fault::new(Kind::Authentication, message);
    }
    if end == SocketEnd::Expired {
        let message = "This WebSocket has lasted as long as it may (websocket_lifetime in [server]): open another one to continue.";
        let fault = Fault::new(Kind::InvalidRequest, message);
        return fault.with_code("websocket_connection_limit_reached");
    }
    let message = "The server is shutting down: send the request again on another connection in a few seconds.";
    Fault {
        retry: Retry::Soon,
        ..Fault::new(Kind::Draining, message)
    }
}

/// The answer to `response.steer`.
fn steer_failed(steer: &SteerEvent) -> String {
    let error = json!({
        "code": "steering_not_supported",
        "message": "A response that is being made takes no further input: send it with the next response.create.",
        "type": "invalid_request_error",
    });
    format!(
        r#"{{"type":"response.steer.failed","sequence_number":0,"error":{error},"steer":{{"previous_response_id":{},"input":{}}}}}"#,
        steer.previous_response_id, steer.input
    )
}
