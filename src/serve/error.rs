//! Refusals in the shape of `OpenAI`'s API: `{"error":{message,type,param,code}}`
//! with all four keys, since strict clients read each of them.
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, UPGRADE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::Body;

/// The type of faults that the client can mend.
pub const INVALID_REQUEST: &str = "invalid_request_error";
/// The type of faults on this side.
pub const SERVER_ERROR: &str = "server_error";

/// One refusal, still without a response around it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ErrorBody<'a> {
    /// What went wrong, for a human.
    pub message: &'a str,
    /// The family, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// The parameter at fault.
    pub param: Option<&'a str>,
    /// The machine-readable reason.
    pub code: Option<&'a str>,
}

impl ErrorBody<'_> {
    /// The refusal as a JSON response with this status.
    pub fn respond(&self, status: StatusCode) -> Response<Body> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            error: &'a ErrorBody<'a>,
        }
        // Strings and options alone: this cannot fail to serialize.
        let body = serde_json::to_vec(&Envelope { error: self }).unwrap_or_default();
        let mut response = Response::new(Body::full(body));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// A refusal that the client can mend, without a parameter.
pub fn invalid_request(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    ErrorBody {
        message,
        kind: INVALID_REQUEST,
        param: None,
        code: Some(code),
    }
    .respond(status)
}

/// 404 for a path that no route has. The path is not repeated: it is the client's text.
pub fn not_found() -> Response<Body> {
    invalid_request(
        StatusCode::NOT_FOUND,
        "unknown_url",
        "There is no such path here.",
    )
}

/// 405 with the methods that the path does have, such as `"GET, HEAD"`.
pub fn method_not_allowed(allow: &'static str) -> Response<Body> {
    let message = format!("This path answers {allow}.");
    let response = invalid_request(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        &message,
    );
    with(response, ALLOW, allow)
}

/// 426: Codex falls back to plain HTTP at once on this status. RFC 9110, 15.5.22
/// wants the protocol to use named in `Upgrade`.
pub fn upgrade_required() -> Response<Body> {
    let response = invalid_request(
        StatusCode::UPGRADE_REQUIRED,
        "websocket_not_supported",
        "WebSockets are not served here; use POST.",
    );
    close(with(response, UPGRADE, "HTTP/1.1"))
}

/// 401 for a missing or wrong token, the same for both.
pub fn unauthorized() -> Response<Body> {
    let response = invalid_request(
        StatusCode::UNAUTHORIZED,
        "invalid_api_key",
        "A valid token is needed in the Authorization header (Bearer).",
    );
    with(response, WWW_AUTHENTICATE, "Bearer")
}

/// 500 that says nothing of its cause.
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
pub fn close(response: Response<Body>) -> Response<Body> {
    with(response, CONNECTION, "close")
}

fn with(mut response: Response<Body>, name: HeaderName, value: &'static str) -> Response<Body> {
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
