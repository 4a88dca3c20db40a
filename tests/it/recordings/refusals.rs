//! Classifies recorded refusals by their status and their text alone, and compares the result with
//! the fault that the adapters derive.

use adapters::fault::{Fault, Retry};
use adapters::wire;
use registry::WireQuirks;
use serde_json::Value;

use super::body::{Recording, error};

/// The status, code and retry decision that a client must get.
#[derive(Debug, PartialEq)]
struct ExpectedRefusal {
    status: u16,
    code: Option<String>,
    retry: bool,
}

/// A kind of refusal. It is recognised by one of `words` in its text, type or code (compared in
/// lower case), or otherwise by its status. The first pattern that matches counts.
struct RefusalPattern {
    words: &'static [&'static str],
    statuses: &'static [u16],
    status: u16,
    code: &'static str,
    retry: bool,
}

const REFUSAL_PATTERNS: &[RefusalPattern] = &[
    RefusalPattern {
        words: &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "exceeded model token limit",
            "input token length too long",
            "maximum context length",
            "max context length",
            "maximum prompt length",
            "prompt is too long",
            "prompt too long",
            "exceeds the maximum number of tokens",
            "exceeds the available context size",
            "exceeds the context window",
            "longer than the model's context length",
            "range of input length",
            "prompt 超长",
            "context window exceeds limit",
            "request too large",
        ],
        statuses: &[],
        status: 400,
        code: "context_length_exceeded",
        retry: false,
    },
    RefusalPattern {
        words: &[
            "insufficient_quota",
            "exceeded_current_quota",
            "insufficient balance",
            "insufficient_balance",
            "credit balance",
            "out of credits",
            "requires more credits",
            "check your plan and billing",
            "usage limit",
            "余额不足",
            "arrearage",
        ],
        statuses: &[402],
        status: 429,
        code: "insufficient_quota",
        retry: false,
    },
    RefusalPattern {
        words: &[
            "incorrect api key",
            "invalid api key",
            "invalid_api_key",
            "api key not valid",
        ],
        statuses: &[401],
        status: 401,
        code: "invalid_api_key",
        retry: false,
    },
    RefusalPattern {
        words: &[
            "no endpoints found for",
            "model_not_found",
            "model_not_exist",
            "model not exist",
            "模型不存在",
        ],
        statuses: &[],
        status: 404,
        code: "model_not_found",
        retry: false,
    },
    RefusalPattern {
        words: &[
            "content_filter",
            "considered high risk",
            "datainspectionfailed",
            "data_inspection_failed",
            "responsibleaipolicyviolation",
            "敏感内容",
        ],
        statuses: &[],
        status: 400,
        code: "content_filter",
        retry: false,
    },
    RefusalPattern {
        // The model made an invalid call; the next attempt may be valid.
        words: &["tool_use_failed"],
        statuses: &[],
        status: 400,
        code: "tool_use_failed",
        retry: true,
    },
    RefusalPattern {
        words: &[
            "engine_overloaded",
            "overloaded_error",
            "server_is_overloaded",
        ],
        statuses: &[503, 529],
        status: 503,
        code: "server_is_overloaded",
        retry: true,
    },
    RefusalPattern {
        words: &["rate_limit", "ratelimitreached", "rate limit", "throttling"],
        statuses: &[429],
        status: 429,
        code: "rate_limit_exceeded",
        retry: true,
    },
    RefusalPattern {
        words: &[],
        statuses: &[403],
        status: 403,
        code: "permission_denied",
        retry: false,
    },
];

/// Checks a recorded HTTP error.
pub fn check(status: u16, recording: &Recording, report: &mut dyn FnMut(String)) {
    let body: Value = serde_json::from_slice(&recording.body)
        .unwrap_or_else(|_| String::from_utf8_lossy(&recording.body).into());
    let body = body.get(0).unwrap_or(&body);
    // xAI has only a sentence in `error`, and the code beside it.
    let inner = error(body).filter(|error| error.is_object());
    let fault = wire::error(&WireQuirks::default(), status, None, &recording.body);
    let error = inner.unwrap_or(body);
    compare(&expected_refusal(status, error), &fault, report);
    check_message(error, &fault, report);
}

/// Checks an error inside an answer that began with status 200.
pub fn check_stream_error(error: &Value, fault: &Fault, report: &mut dyn FnMut(String)) {
    if error.is_null() {
        return;
    }
    let number = |name: &str| {
        let value = &error[name];
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let status = number("status_code")
        .or_else(|| number("code"))
        .and_then(|number| u16::try_from(number).ok())
        .filter(|status| (400..600).contains(status))
        .unwrap_or(match error["type"].as_str() {
            Some("invalid_request_error") => 400,
            _ if error["status_code"] == 2013 => 400,
            _ => 500,
        });
    compare(&expected_refusal(status, error), fault, report);
    check_message(error, fault, report);
}

/// The error numbers of GLM and MiniMax, and the codes for which they stand.
const NUMBERS: &[(&[&str], &str)] = &[
    (&["1261"], "context_length_exceeded"),
    (
        &["1008", "1113", "1308", "1309", "1310", "2056"],
        "insufficient_quota",
    ),
    (&["1004", "1000", "1001", "1003", "2049"], "invalid_api_key"),
    (&["1211"], "model_not_found"),
    (&["1026", "1027", "1301"], "content_filter"),
    (&["1002", "1039", "1302", "1303"], "rate_limit_exceeded"),
    (&["1305", "1312"], "server_is_overloaded"),
];

fn matching_pattern(status: u16, error: &Value) -> Option<&'static RefusalPattern> {
    let words = error.to_string().to_lowercase();
    let number = [&error["code"], &error["status_code"]].map(|number| {
        number
            .as_str()
            .map_or_else(|| number.to_string(), str::to_owned)
    });
    let numbered = NUMBERS.iter().find(|(numbers, _)| {
        numbers
            .iter()
            .any(|known| number.iter().any(|n| n == known))
    });
    // Google describes a limit per minute in words that other providers use for an empty account.
    let is_google = words.contains("resource_exhausted");
    match numbered {
        Some((_, code)) => REFUSAL_PATTERNS
            .iter()
            .find(|pattern| pattern.code == *code),
        None if is_google => REFUSAL_PATTERNS
            .iter()
            .find(|pattern| pattern.code == "rate_limit_exceeded"),
        None => REFUSAL_PATTERNS
            .iter()
            .find(|pattern| pattern.words.iter().any(|word| words.contains(word)))
            .or_else(|| {
                REFUSAL_PATTERNS
                    .iter()
                    .find(|pattern| pattern.statuses.contains(&status))
            }),
    }
}

fn expected_refusal(status: u16, error: &Value) -> ExpectedRefusal {
    let pattern = matching_pattern(status, error);
    if let Some(pattern) = pattern {
        return ExpectedRefusal {
            status: pattern.status,
            code: Some(pattern.code.to_owned()),
            retry: pattern.retry,
        };
    }
    if status >= 500 {
        return ExpectedRefusal {
            status,
            code: Some("upstream_error".to_owned()),
            retry: true,
        };
    }
    let mentions_model = error.to_string().to_lowercase().contains("model");
    let code = match error["code"].as_str() {
        _ if status == 404 && mentions_model => Some("model_not_found"),
        code => code.filter(|code| code.parse::<u32>().is_err()),
    };
    ExpectedRefusal {
        status,
        code: code.map(str::to_owned),
        retry: false,
    }
}

fn compare(expected: &ExpectedRefusal, fault: &Fault, report: &mut dyn FnMut(String)) {
    let ours = ExpectedRefusal {
        status: fault.status(false),
        code: fault.code().map(str::to_owned),
        retry: !matches!(fault.retry, Retry::Never),
    };
    if *expected != ours {
        report(format!("is {expected:?} and was received as {ours:?}"));
    }
}

/// Checks that the client gets the provider's message.
fn check_message(error: &Value, fault: &Fault, report: &mut dyn FnMut(String)) {
    let message = error["message"]
        .as_str()
        .or_else(|| error["status_msg"].as_str())
        .or_else(|| error["detail"].as_str())
        .or_else(|| error["error"].as_str())
        .or_else(|| error.as_str().filter(|text| !text.contains(['{', '<'])));
    if let Some(message) = message
        && !fault.message.contains(message)
    {
        report(format!("{message:?} became {:?}", fault.message));
    }
}
