//! The handlers of `/v1/responses`.
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::Response;
use http::request::Parts;

use super::AppState;
use super::owner::RequestOwner;
use crate::net::{Owner, RequestId};
use crate::serve::DecodedRequest;
use crate::turn::{self, ReceivedBody, TurnEndpoint, TurnRequest};

/// `POST /v1/responses`. Dropped when the client goes away, which ends the upstream request too.
pub(super) async fn create(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Response<Body> {
    let (request, body) = taken(TurnEndpoint::Responses, owner, request);
    turn::respond(&app.service, request, body).await
}

/// `POST /v1/responses/compact`. Dropped when the client goes away, like [`create`].
pub(super) async fn compact(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Response<Body> {
    let (request, body) = taken(TurnEndpoint::Compact, owner, request);
    turn::respond(&app.service, request, body).await
}

/// `POST /v1/responses/input_tokens`.
pub(super) async fn count_input_tokens(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Response<Body> {
    let (request, body) = taken(TurnEndpoint::Responses, owner, request);
    turn::input_tokens(&app.service, request, body).await
}

/// A request and its body, as the engine takes them.
fn taken(
    endpoint: TurnEndpoint,
    owner: Arc<str>,
    request: DecodedRequest,
) -> (TurnRequest, ReceivedBody) {
    let body = ReceivedBody {
        text: request.body,
        memory: request.memory,
    };
    (turn_request(endpoint, owner, request.head), body)
}

/// A request of this owner with this head.
pub(super) fn turn_request(endpoint: TurnEndpoint, owner: Arc<str>, head: Parts) -> TurnRequest {
    let id = head.extensions.get::<RequestId>();
    TurnRequest {
        endpoint,
        id: id.map_or_else(|| "".into(), |id| Arc::clone(&id.0)),
        owner,
        by: head.extensions.get().copied().unwrap_or_default(),
        uri: head.uri,
        client: head.extensions.get().cloned(),
        headers: head.headers,
        is_part_of_turn: false,
    }
}
