//! What a provider says when it refuses: an HTTP error reply, or an error in
//! the middle of a stream.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::{Fault, Kind, Retry};

/// The longest text of a provider that is passed on.
const MESSAGE_LIMIT: usize = 2000;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

/// The error object. llama.cpp gives `code` as a number.
#[derive(Default, Deserialize)]
struct Error<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    param: Option<&'a RawValue>,
}

/// The fault of an HTTP error reply. `retry_after` is the reply's header.
pub fn reply(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Fault {
    let text = String::from_utf8_lossy(body);
    let outer = serde_json::from_str::<Body<'_>>(&text).ok();
    let raw = outer
        .as_ref()
        .and_then(|body| body.error.or(body.message).or(body.detail));
    let said = match raw {
        Some(raw) => Said::read(raw),
        None => Said {
            message: plain(&text),
            ..Said::default()
        },
    };
    let mut fault = fault(status, said);
    if let (Some(pause), Retry::Soon) = (retry_after, fault.retry) {
        fault.retry = Retry::After(pause);
    }
    fault
}

/// The fault of an error object inside a stream.
pub(super) fn in_stream(error: &RawValue) -> Fault {
    let said = Said::read(error);
    let status = said
        .code
        .parse()
        .ok()
        .filter(|code| (400..600).contains(code))
        .or_else(|| status_of(&said.code))
        .or_else(|| status_of(&said.kind))
        .unwrap_or(500);
    fault(status, said)
}

/// The status that OpenAI gives with this code or type.
fn status_of(word: &str) -> Option<u16> {
    match word {
        "invalid_request_error" | "BadRequestError" => Some(400),
        "authentication_error" | "invalid_api_key" => Some(401),
        "permission_error" => Some(403),
        "model_not_found" => Some(404),
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => Some(429),
        "overloaded_error" | "server_is_overloaded" => Some(503),
        _ => None,
    }
}

/// The words of a provider.
#[derive(Default)]
struct Said {
    message: String,
    kind: String,
    code: String,
    param: Option<String>,
}

impl Said {
    fn read(raw: &RawValue) -> Self {
        if let Ok(message) = serde_json::from_str::<String>(raw.get()) {
            return Self {
                message: limited(&message),
                ..Self::default()
            };
        }
        let error: Error<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let scalar = |raw: Option<&RawValue>| {
            raw.map(|raw| raw.get().trim_matches('"').to_owned())
                .unwrap_or_default()
        };
        Self {
            message: error
                .message
                .as_deref()
                .map_or_else(|| limited(raw.get()), limited),
            kind: scalar(error.kind),
            code: scalar(error.code),
            param: error
                .param
                .and_then(|raw| serde_json::from_str(raw.get()).ok()),
        }
    }
}

/// A body that is no JSON: text as it is, a page without its markup.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars().take(MESSAGE_LIMIT * 4) {
        match c {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                out.push(' ');
            }
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    limited(&out.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn limited(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_LIMIT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

fn fault(status: u16, said: Said) -> Fault {
    let kind = kind(status, &said);
    let message = match said.message.as_str() {
        "" => format!("The provider answered with status {status} and said nothing more."),
        message => message.to_owned(),
    };
    let code = (kind == Kind::Refused
        && !said.code.is_empty()
        && said.code != "null"
        && said.code.parse::<u16>().is_err())
    .then_some(said.code);
    Fault {
        param: said.param.map(Cow::Owned),
        code: code.map(Cow::Owned),
        upstream_status: Some(status),
        ..Fault::new(kind, message)
    }
}

fn kind(status: u16, said: &Said) -> Kind {
    if is_overflow(said) {
        return Kind::ContextLength;
    }
    match status {
        401 => Kind::Authentication,
        402 => Kind::Quota,
        403 => Kind::Permission,
        404 if said.code == "model_not_found" || said.message.to_lowercase().contains("model") => {
            Kind::ModelNotFound
        }
        408 => Kind::Timeout,
        429 if said.code == "insufficient_quota" || said.kind == "insufficient_quota" => {
            Kind::Quota
        }
        429 => Kind::RateLimit,
        400..=499 => Kind::Refused,
        503 | 529 => Kind::Overloaded,
        _ => Kind::Unavailable,
    }
}

/// OpenAI and vLLM tell an overflow by code or text, llama.cpp by type.
fn is_overflow(said: &Said) -> bool {
    let message = said.message.to_lowercase();
    said.code == "context_length_exceeded"
        || said.kind == "exceed_context_size_error"
        || message.contains("maximum context length")
        || message.contains("exceeds the available context size")
        || message.contains("exceeds the context window")
        || message.contains("longer than the maximum model length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, code and status of a reply, and its message.
    fn told(status: u16, body: &str) -> (Kind, Option<String>, u16, String) {
        let fault = reply(status, None, body.as_bytes());
        let code = fault.code().map(str::to_owned);
        (fault.kind, code, fault.status(false), fault.message)
    }

    #[test]
    fn every_reply_has_its_kind_code_and_status() {
        for (status, body, kind, code, answered, message) in [
            (
                400,
                r#"{"error":{"message":"bad","type":"invalid_request_error","param":"tools","code":null}}"#,
                Kind::Refused,
                None,
                400,
                "bad",
            ),
            (
                400,
                r#"{"error":{"message":"bad","code":"unsupported_value"}}"#,
                Kind::Refused,
                Some("unsupported_value"),
                400,
                "bad",
            ),
            (
                400,
                r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
                Kind::ContextLength,
                Some("context_length_exceeded"),
                400,
                "too long",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
                Kind::ContextLength,
                Some("context_length_exceeded"),
                400,
                "the request exceeds the available context size, try increasing it",
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#,
                Kind::ContextLength,
                Some("context_length_exceeded"),
                400,
                "This model's maximum context length is 4096 tokens.",
            ),
            (
                400,
                r#"{"error":{"message":"The decoder prompt (length 9) is longer than the maximum model length of 8.","type":"BadRequestError","code":400}}"#,
                Kind::ContextLength,
                Some("context_length_exceeded"),
                400,
                "The decoder prompt (length 9) is longer than the maximum model length of 8.",
            ),
            (
                401,
                r#"{"error":{"message":"no key","code":"invalid_api_key"}}"#,
                Kind::Authentication,
                Some("invalid_api_key"),
                401,
                "no key",
            ),
            (
                402,
                r#"{"error":"pay"}"#,
                Kind::Quota,
                Some("insufficient_quota"),
                429,
                "pay",
            ),
            (
                403,
                r#"{"detail":"not yours"}"#,
                Kind::Permission,
                Some("permission_denied"),
                403,
                "not yours",
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                Kind::ModelNotFound,
                Some("model_not_found"),
                404,
                "The model `x` does not exist",
            ),
            (
                404,
                r#"{"detail":"Not Found"}"#,
                Kind::Refused,
                None,
                404,
                "Not Found",
            ),
            (
                408,
                "",
                Kind::Timeout,
                Some("upstream_timeout"),
                504,
                "The provider answered with status 408 and said nothing more.",
            ),
            (
                413,
                "<html><head><title>413</title></head><body>Too\n large</body></html>",
                Kind::Refused,
                None,
                413,
                "413 Too large",
            ),
            (
                422,
                r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
                Kind::Refused,
                None,
                422,
                r#"[{"loc":["body"],"msg":"field required"}]"#,
            ),
            (
                429,
                r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
                Kind::RateLimit,
                Some("rate_limit_exceeded"),
                429,
                "slow down",
            ),
            (
                429,
                r#"{"error":{"message":"empty","type":"insufficient_quota"}}"#,
                Kind::Quota,
                Some("insufficient_quota"),
                429,
                "empty",
            ),
            (
                500,
                r#"{"error":{"message":null}}"#,
                Kind::Unavailable,
                Some("upstream_error"),
                500,
                r#"{"message":null}"#,
            ),
            (
                502,
                "bad gateway",
                Kind::Unavailable,
                Some("upstream_error"),
                502,
                "bad gateway",
            ),
            (
                503,
                r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
                Kind::Overloaded,
                Some("server_is_overloaded"),
                503,
                "Loading model",
            ),
            (
                529,
                r#"{"message":"busy"}"#,
                Kind::Overloaded,
                Some("server_is_overloaded"),
                503,
                "busy",
            ),
        ] {
            let wanted = (kind, code.map(str::to_owned), answered, message.to_owned());
            assert_eq!(told(status, body), wanted, "{status} {body}");
        }
    }

    #[test]
    fn an_error_in_a_stream_is_placed_by_its_words() {
        for (error, kind) in [
            (r#"{"message":"x","code":429}"#, Kind::RateLimit),
            (
                r#"{"message":"x","code":"rate_limit_exceeded"}"#,
                Kind::RateLimit,
            ),
            (
                r#"{"message":"x","type":"insufficient_quota","code":null}"#,
                Kind::Quota,
            ),
            (
                r#"{"message":"x","type":"invalid_request_error"}"#,
                Kind::Refused,
            ),
            (
                r#"{"message":"x","type":"overloaded_error"}"#,
                Kind::Overloaded,
            ),
            (
                r#"{"message":"x","type":"server_error"}"#,
                Kind::Unavailable,
            ),
            (r#"{"message":"x","code":7}"#, Kind::Unavailable),
            (r#""the server is gone""#, Kind::Unavailable),
        ] {
            let raw: &RawValue = serde_json::from_str(error).unwrap();
            assert_eq!(in_stream(raw).kind, kind, "{error}");
        }
    }

    #[test]
    fn a_pause_is_passed_on_only_where_trying_again_helps() {
        let pause = Some(Duration::from_secs(3));
        assert_eq!(reply(429, pause, b"").retry_after(), Some(3));
        assert_eq!(reply(503, pause, b"").retry_after(), Some(3));
        assert_eq!(reply(400, pause, b"").retry_after(), None);
        assert_eq!(reply(429, None, b"").retry_after(), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = reply(500, None, "漢".repeat(30_000).as_bytes()).message;
        assert_eq!(message.chars().count(), MESSAGE_LIMIT + 1);
    }
}
