//! Errors of providers, and how they are read.

use std::time::Duration;

use serde_json::json;

use super::error::MAX_MESSAGE;
use super::*;
use crate::chat::refusals::find_patch;

mod kinds;
mod overflow;
mod patches;
mod wordings;

fn fault_of(status: u16, body: &str) -> Fault {
    from_reply(find_patch, status, None, body.as_bytes())
}

/// An error in OpenAI's shape.
fn openai(message: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string()
}

#[test]
fn every_shape_gives_its_message() {
    for (body, message) in [
        (r#"{"error":{"message":"bad","type":"x"}}"#, "bad"),
        (r#"{"error":"bad"}"#, "bad"),
        (r#"{"code":"invalid-argument","error":"bad"}"#, "bad"),
        (
            r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
            "bad",
        ),
        (
            r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
            "bad",
        ),
        (r#"{"detail":"bad"}"#, "bad"),
        (
            r#"{"detail":[{"loc":["body","n"],"msg":"bad"},{"loc":["body"],"msg":"worse"}]}"#,
            "body.n: bad; body: worse",
        ),
        (
            r#"{"object":"error","message":{"detail":[{"loc":["body"],"msg":"bad"}]}}"#,
            "body: bad",
        ),
        (r#"{"errors":[{"message":"bad"}]}"#, "bad"),
        (r#"{"errors":["bad"]}"#, "bad"),
        (r#"{"error":true,"message":"bad"}"#, "bad"),
        (r#"{"errors":{"message":"bad"}}"#, "bad"),
        (
            r#"{"base_resp":{"status_code":2013,"status_msg":"bad"}}"#,
            "bad",
        ),
        (
            r#"{"error":{"message":"{\"error\":{\"message\":\"bad\"}}"}}"#,
            "bad",
        ),
        (
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"bad\"}}","provider_name":"Near"}}}"#,
            "Provider returned error (Near): bad",
        ),
        (
            r#"{"error":{"message":"Provider returned error.","code":400,"metadata":{"raw":"bad","provider_name":"Near"}}}"#,
            "Provider returned error (Near): bad",
        ),
        (r#"{"error":{"message":null}}"#, r#"{"message":null}"#),
        (r#"{"reason":7}"#, r#"{"reason":7}"#),
        (
            "<html><head><title>413</title></head><body>Too\n large</body></html>",
            "Too large",
        ),
        ("bad gateway", "bad gateway"),
        ("", ""),
        ("[]", "[]"),
    ] {
        assert_eq!(fault_of(400, body).message, message, "{body}");
    }
}

/// vLLM quotes the input that it refuses, which may be about anything, including
/// the errors of a proxy.
#[test]
fn quoted_input_is_not_the_providers_own_text() {
    let quoted = "This model's maximum context length is 8192 tokens. Insufficient balance. \
                  System message must be at the beginning.";
    for message in [
        format!(
            "[{{'type': 'missing', 'loc': ('body', 'n'), 'msg': 'Field required', 'input': {{'content': \"{quoted}\"}}}}]"
        ),
        format!(
            "1 validation error for Request\nn\n  Field required [type=missing, input_value={{'content': '{quoted}'}}]"
        ),
        format!("Failed to parse input at pos 12: {quoted}"),
        format!("Invalid JSON. {} {quoted}", "Some words. ".repeat(120)),
    ] {
        let fault = fault_of(400, &openai(&message));
        assert_eq!(
            (fault.kind, fault.patch),
            (Kind::Refused, None),
            "{message}"
        );
        assert!(fault.message.contains(quoted), "{message}");
    }
}

#[test]
fn googles_limits_per_minute_and_per_day_differ() {
    let body = |quota: &str, message: &str| {
        json!([{"error": {
            "code": 429, "message": message, "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
            ],
        }}])
        .to_string()
    };
    let text = "You exceeded your current quota, please check your plan and billing details.";
    let minute = fault_of(429, &body("InputTokensPerModelPerMinute", text));
    assert_eq!(minute.kind, Kind::RateLimit);
    assert_eq!(minute.retry, Retry::After(Duration::from_secs(37)));
    let day = fault_of(
        429,
        &body("RequestsPerDayPerProjectPerModel-FreeTier", text),
    );
    assert_eq!((day.kind, day.retry), (Kind::Quota, Retry::Never));
    let none = fault_of(
        429,
        &body("PerMinute", "Quota exceeded, limit: 0, model: x"),
    );
    assert_eq!(none.kind, Kind::Quota);
}

#[test]
fn an_error_in_a_stream_gets_its_status_from_its_code() {
    for (error, kind, status) in [
        (r#"{"message":"x","code":429}"#, Kind::RateLimit, 429),
        (
            r#"{"message":"x","code":"rate_limit_exceeded"}"#,
            Kind::RateLimit,
            429,
        ),
        (
            r#"{"message":"x","type":"insufficient_quota","code":null}"#,
            Kind::Quota,
            429,
        ),
        (
            r#"{"message":"x","type":"invalid_request_error"}"#,
            Kind::Refused,
            400,
        ),
        (
            r#"{"message":"x","code":"invalid","status_code":400}"#,
            Kind::Refused,
            400,
        ),
        (
            r#"{"code":400,"message":"Token limit reached"}"#,
            Kind::Refused,
            400,
        ),
        (
            r#"{"message":"x","type":"overloaded_error"}"#,
            Kind::Overloaded,
            503,
        ),
        (
            r#"{"message":"x","type":"server_error"}"#,
            Kind::Unavailable,
            500,
        ),
        (
            r#"{"code":500,"message":"The model produced output that does not match the expected format","type":"server_error"}"#,
            Kind::Unavailable,
            500,
        ),
        (r#"{"message":"x","code":7}"#, Kind::Unavailable, 500),
        (r#""the server is gone""#, Kind::Unavailable, 500),
        (
            r#"{"code":403,"message":"x","status":"PERMISSION_DENIED"}"#,
            Kind::Permission,
            403,
        ),
        ("[]", Kind::Unavailable, 500),
        ("7", Kind::Unavailable, 500),
    ] {
        let raw: &RawValue = serde_json::from_str(error).unwrap();
        let fault = from_stream_error(find_patch, raw);
        assert_eq!(
            (fault.kind, fault.upstream_status),
            (kind, Some(status)),
            "{error}"
        );
    }
}

#[test]
fn an_error_in_place_of_an_answer_is_recognized() {
    for (body, kind) in [
        (
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error"}}"#,
            Some(Kind::Refused),
        ),
        (
            r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#,
            Some(Kind::Overloaded),
        ),
        (
            r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"},"choices":null}"#,
            Some(Kind::RateLimit),
        ),
        (
            r#"{"object":"error","message":"x","code":429}"#,
            Some(Kind::RateLimit),
        ),
        (
            r#"{"detail":"Invalid API Key"}"#,
            Some(Kind::Authentication),
        ),
        (
            r#"{"code":500,"msg":"404 NOT_FOUND","success":false}"#,
            Some(Kind::Unavailable),
        ),
        (
            r#"{"id":"1","object":"chat.completion","choices":[],"base_resp":{"status_code":0,"status_msg":""}}"#,
            None,
        ),
        (r#"{"id":"1","choices":[{"index":0}],"error":null}"#, None),
        (r#"{"object":"chat.completion.chunk","choices":[]}"#, None),
        (
            r#"{"model":"m","message":{"role":"assistant","content":"hi"},"done":true}"#,
            None,
        ),
        ("{}", None),
        ("not json", None),
        ("", None),
    ] {
        assert_eq!(
            from_failed_answer(find_patch, body).map(|fault| fault.kind),
            kind,
            "{body}"
        );
    }
}

#[test]
fn a_pause_is_passed_on_only_if_a_retry_helps() {
    let wait = Some(Duration::from_secs(3));
    for (status, wait, body, seconds) in [
        (429, wait, "", Some(3)),
        (503, wait, "", Some(3)),
        (400, wait, "", None),
        (429, None, "", None),
        (429, wait, "Insufficient Balance", None),
        (429, None, "Please retry after 26 seconds.", Some(26)),
        (429, wait, "Please retry after 26 seconds.", Some(3)),
        (429, None, "Please try again in 6m0s.", Some(360)),
    ] {
        let asked = match from_reply(find_patch, status, wait, body.as_bytes()).retry {
            Retry::After(wait) => Some(wait.as_secs()),
            Retry::Soon | Retry::Never => None,
        };
        assert_eq!(asked, seconds, "{status} {body}");
    }
}

#[test]
fn a_request_that_arrived_too_slowly_is_retried() {
    let fault = fault_of(408, "");
    assert_eq!((fault.kind, fault.retry), (Kind::Timeout, Retry::Soon));
}

#[test]
fn a_call_that_did_not_match_its_schema_is_retried() {
    let body = r#"{"error":{"code":"tool_use_failed","failed_generation":"{}","message":"Tool call validation failed","type":"invalid_request_error"}}"#;
    let fault = fault_of(400, body);
    assert_eq!((fault.kind, fault.retry), (Kind::Refused, Retry::Soon));
    assert_eq!(
        (fault.status(true), fault.code()),
        (400, Some("tool_use_failed"))
    );
    assert_eq!(fault.response_code(false), "server_error");
}

#[test]
fn textual_codes_are_passed_on() {
    for (body, code) in [
        (
            r#"{"error":{"message":"bad","code":"unsupported_value"}}"#,
            Some("unsupported_value"),
        ),
        (r#"{"error":{"message":"bad","code":null}}"#, None),
        (r#"{"error":{"message":"bad","code":400}}"#, None),
        (r#"{"error":{"message":"bad","code":"1210"}}"#, None),
    ] {
        assert_eq!(fault_of(400, body).code(), code, "{body}");
    }
}

#[test]
fn hints_are_appended() {
    let server = fault_of(
        400,
        &openai(
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        ),
    );
    assert!(server.message.ends_with("start it with these options.)"));
    for body in [
        r#"{"error":"m does not support tools"}"#,
        r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
    ] {
        let message = fault_of(400, body).message;
        assert!(message.ends_with("(Choose a model that can call tools.)"));
    }
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let message = fault_of(500, &"漢".repeat(30_000)).message;
    assert_eq!(message.chars().count(), MAX_MESSAGE + 1);
    let message = fault_of(500, &openai(&"漢".repeat(30_000))).message;
    assert_eq!(message.chars().count(), MAX_MESSAGE + 1);
}
