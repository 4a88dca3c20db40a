//! Errors in the form of `OpenAI`'s API: `{"error":{message,type,param,code}}`, always
//! with all four keys, because strict clients require each of them.
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::json;

use crate::net::memory::MemoryFull;
use axum::body::Body;
use axum::response::IntoResponse;

/// The type of errors that the client can correct.
pub const INVALID_REQUEST: &str = "invalid_request_error";
/// The type of errors of this server.
pub const SERVER_ERROR: &str = "server_error";

/// The content of an error response.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ErrorBody<'a> {
    /// A description for people.
    pub message: &'a str,
    /// The family, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// The parameter that caused it.
    pub param: Option<&'a str>,
    /// The reason, for programs.
    pub code: Option<&'a str>,
}

impl ErrorBody<'_> {
    /// The JSON response with this status.
    pub fn respond(&self, status: StatusCode) -> Response<Body> {
        let body = json!({ "error": self }).to_string();
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

/// An error that the client can correct and that no parameter caused.
pub fn invalid_request(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    ErrorBody {
        message,
        kind: INVALID_REQUEST,
        param: None,
        code: Some(code),
    }
    .respond(status)
}

/// 404 for a path that no route has.
pub fn not_found(message: &str) -> Response<Body> {
    invalid_request(StatusCode::NOT_FOUND, "unknown_url", message)
}

/// 405 with the methods that the path does have, such as `"GET, HEAD"`.
pub fn method_not_allowed(allow: &str) -> Response<Body> {
    let mut response = invalid_request(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        &format!("This path answers {allow}."),
    );
    if let Ok(allow) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// 426: Codex falls back to plain HTTP at once on this status. RFC 9110, 15.5.22
/// requires `Upgrade` to name the protocol to use.
pub fn upgrade_required() -> Response<Body> {
    let response = invalid_request(
        StatusCode::UPGRADE_REQUIRED,
        "websocket_not_supported",
        "WebSockets are switched off (websocket in [server]); use POST.",
    );
    close(with(response, UPGRADE, "HTTP/1.1"))
}

/// 401 for a missing or wrong token; the response is the same for both.
pub fn unauthorized() -> Response<Body> {
    let response = invalid_request(
        StatusCode::UNAUTHORIZED,
        "invalid_api_key",
        "A valid token is needed in the header Authorization (Bearer), x-api-key or api-key.",
    );
    with(response, WWW_AUTHENTICATE, "Bearer")
}

/// 401 for a request with the tokens of several owners.
pub fn several_owners() -> Response<Body> {
    let response = invalid_request(
        StatusCode::UNAUTHORIZED,
        "several_api_keys",
        "The headers Authorization, x-api-key and api-key of this request hold the tokens of different clients: send only one of them.",
    );
    with(response, WWW_AUTHENTICATE, "Bearer")
}

/// 403 for a client that asks for something of the whole server.
pub fn operators_only() -> Response<Body> {
    invalid_request(
        StatusCode::FORBIDDEN,
        "operator_only",
        "This is about the whole server: only whoever runs it may use it, with the token of the server instead of that of a client.",
    )
}

/// 503 for a request that there is no memory for now, with a `Retry-After`.
pub fn memory_full(full: &MemoryFull) -> Response<Body> {
    let response = ErrorBody {
        message: &full.to_string(),
        kind: SERVER_ERROR,
        param: None,
        code: Some("server_memory_full"),
    }
    .respond(StatusCode::SERVICE_UNAVAILABLE);
    with(response, RETRY_AFTER, "5")
}

/// 503 for a connection of an owner who has as many as others leave, with a `Retry-After`.
pub fn too_many_connections(owner: &str) -> Response<Body> {
    let message = format!(
        "The client '{owner}' has as many connections open as the others leave (max_connections in [server]): close some of them, or send this request again on one of them."
    );
    let response = ErrorBody {
        message: &message,
        kind: SERVER_ERROR,
        param: None,
        code: Some("too_many_connections"),
    }
    .respond(StatusCode::SERVICE_UNAVAILABLE);
    with(response, RETRY_AFTER, "5")
}

/// 500 that does not reveal its cause.
pub fn internal() -> Response<Body> {
    ErrorBody {
        message: "The request failed inside the server.",
        kind: SERVER_ERROR,
        param: None,
        code: Some("server_error"),
    }
    .respond(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The same response, after which the connection is closed.
pub fn close<B>(response: Response<B>) -> Response<B> {
    with(response, CONNECTION, "close")
}

fn with<B>(mut response: Response<B>, name: HeaderName, value: &'static str) -> Response<B> {
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
    response
}

#[cfg(test)]
mod tests {
    use super::ErrorBody;

    #[test]
    fn all_four_keys_are_present() {
        let body = ErrorBody {
            message: "m",
            kind: "t",
            param: None,
            code: None,
        };
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"message":"m","type":"t","param":null,"code":null}"#
        );
    }
}
