//! Refusals of requests that are too long.

use std::collections::HashSet;
use std::time::Duration;

use super::wordings::{OTHER_LIMITS, OTHER_WORDS, OVERFLOWS};
use super::{fault_of, openai};
use crate::fault::{Kind, Retry};
use crate::quirk_patch::ModelPatch;

/// Promise: A refusal of a request that is too long is recognized in the words of at least 25
/// servers and in others, and refusals because of a rate, the output, an image, a name or a number
/// of tools are not taken for one.
#[test]
fn an_overflow_is_recognized_and_names_its_window() {
    let known = OVERFLOWS.iter().map(|row| (row.1, row.2, row.3));
    let others = OTHER_WORDS.iter().map(|row| (400, row.0, row.1));
    for (status, message, window) in known.chain(others) {
        let fault = fault_of(status, &openai(message));
        assert_eq!(fault.kind, Kind::ContextLength, "{message}");
        assert_eq!(fault.retry, Retry::Never, "{message}");
        assert_eq!(fault.code(), Some("context_length_exceeded"), "{message}");
        assert_eq!(
            fault.patch,
            window.map(|window| ModelPatch::Window(window).into()),
            "{message}"
        );
    }
    let servers: HashSet<_> = OVERFLOWS
        .iter()
        .map(|row| row.0.split([':', ',']).next())
        .collect();
    assert!(OVERFLOWS.len() >= 60 && servers.len() >= 25);
}

#[test]
fn other_limits_are_no_overflows() {
    for (status, message) in OTHER_LIMITS {
        let fault = fault_of(*status, &openai(message));
        assert_ne!(fault.kind, Kind::ContextLength, "{message}");
    }
    // The account's limit for a minute is no window, although the request alone exceeds it.
    for (status, message) in [
        (
            413,
            "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size and try again.",
        ),
        (
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced.",
        ),
    ] {
        let fault = fault_of(status, &openai(message));
        assert_eq!((fault.kind, fault.patch), (Kind::ContextLength, None));
    }
}

#[test]
fn an_overflow_is_told_by_its_code_or_its_status() {
    for (body, window) in [
        (
            r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#,
            Some(8_192),
        ),
        (r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#, None),
        (
            r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for m model. Max size: 8000 tokens."}}"#,
            Some(8_000),
        ),
        (
            r#"{"error":{"code":"OutofContextError","message":"Total tokens of image and text exceed max message tokens.","type":"BadRequest"}}"#,
            None,
        ),
        (
            r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            None,
        ),
        (
            r#"{"error":{"message":"no","code":"model_max_prompt_tokens_exceeded"}}"#,
            None,
        ),
        (
            r#"{"error":{"code":400,"message":"no","status":"CONTEXT_WINDOW_EXCEEDED"}}"#,
            None,
        ),
        (r#"{"detail":"no","type":"prompt_too_long"}"#, None),
    ] {
        let fault = fault_of(400, body);
        assert_eq!(
            (fault.kind, fault.patch),
            (
                Kind::ContextLength,
                window.map(|window| ModelPatch::Window(window).into())
            ),
            "{body}"
        );
    }
    for page in [
        "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx/1.25.3</center>\r\n</body>\r\n</html>",
        "Payload Too Large",
        "",
    ] {
        assert_eq!(fault_of(413, page).kind, Kind::ContextLength, "{page}");
    }
    let limit = fault_of(
        429,
        &openai(
            "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.",
        ),
    );
    assert_eq!(limit.kind, Kind::RateLimit);
    assert_eq!(limit.retry, Retry::After(Duration::from_millis(4_770)));
}
