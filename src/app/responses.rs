//! The handlers of `/v1/responses`.
use axum::extract::State;
use http::Response;

use super::AppState;
use super::owner::RequestOwner;
use crate::net::Owner;
use crate::serve::DecodedRequest;
use crate::turn::{self, ReceivedBody};
use axum::body::Body;

/// `POST /v1/responses` and `POST /v1/responses/compact`. Dropped when the client goes
/// away, which ends the upstream request too.
pub(super) async fn create(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Response<Body> {
    let body = ReceivedBody {
        text: request.body,
        memory: request.memory,
    };
    turn::respond(&app.service, owner, &request.head, body).await
}

/// `POST /v1/responses/input_tokens`.
pub(super) async fn count_input_tokens(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Response<Body> {
    let body = ReceivedBody {
        text: request.body,
        memory: request.memory,
    };
    turn::input_tokens(&app.service, owner, &request.head, body).await
}
