//! `GET /openapi.json`: what is served, as an OpenAPI document. Tests compare it with the router,
//! and with the requests of the clients.

use axum::body::Body;
use http::Response;

use super::respond_with;

const DOCUMENT: &str = include_str!("openapi.json");

/// Answers with the document, which is the same for everybody.
pub(super) async fn document() -> Response<Body> {
    respond_with("application/json", DOCUMENT)
}
