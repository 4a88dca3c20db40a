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
        .unwrap_or(500);
    fault(status, said)
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
}
