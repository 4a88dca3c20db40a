//! What a provider says when it refuses: an HTTP error reply, an error in the
//! middle of a stream, or one in the place of an answer.
//!
//! | module | what it knows |
//! |---|---|
//! | `said` | the shapes of errors |
//! | `words` | kinds of faults by numbers, codes, words and status |
//! | `overflow` | requests that are too long |
//! | [`delay`] | how long to wait |
//! | `lessons` | what a refusal teaches |
//! | `find` | numbers and names in text |

use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;

use self::error::ProviderError;
use crate::fault::{Fault, Kind, Retry};
use crate::quirk_patch::QuirkPatch;

pub mod delay;
mod error;
mod find;
mod kind;
mod overflow;
mod patches;
#[cfg(test)]
mod tests;

/// The fault of an HTTP error reply. `wait` is what its headers ask for, see
/// [`delay::of_headers`].
pub fn from_reply(status: u16, wait: Option<Duration>, body: &[u8]) -> Fault {
    let text = String::from_utf8_lossy(body);
    to_fault(status, wait, ProviderError::from_body(&text))
}

/// The fault of an error object inside a stream.
pub fn from_stream_error(error: &RawValue) -> Fault {
    let said = ProviderError::from_error(error);
    to_fault(guess_status(&said), None, said)
}

/// The fault of a body with a 2xx status that is an error after all, in any of
/// the shapes of an error reply; `None` for an answer.
pub fn from_failed_answer(body: &str) -> Option<Fault> {
    let said = ProviderError::in_place_of_answer(body)?;
    Some(to_fault(guess_status(&said), None, said))
}

/// The status of an error that came without one.
fn guess_status(said: &ProviderError) -> u16 {
    said.status
        .or_else(|| {
            [&said.code, &said.kind]
                .into_iter()
                .chain(&said.keywords)
                .find_map(|word| status_of_code(word))
        })
        .unwrap_or(500)
}

/// The status that OpenAI or Google gives with this code, type or status.
fn status_of_code(word: &str) -> Option<u16> {
    match word {
        "invalid_request_error"
        | "bad_request_error"
        | "BadRequestError"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION" => Some(400),
        "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => Some(401),
        "permission_error" | "PERMISSION_DENIED" => Some(403),
        "model_not_found" | "NOT_FOUND" => Some(404),
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "insufficient_quota"
        | "RESOURCE_EXHAUSTED" => Some(429),
        "overloaded_error" | "server_is_overloaded" | "UNAVAILABLE" => Some(503),
        _ => None,
    }
}

fn to_fault(status: u16, wait: Option<Duration>, said: ProviderError) -> Fault {
    let lower = said.own_text();
    let overflow = overflow::detect(status, &said, &lower);
    let mut kind = match overflow {
        Some(_) => Kind::ContextLength,
        None => kind::kind(status, &said, &lower),
    };
    let patch = match overflow {
        Some(overflow) => overflow.window.map(QuirkPatch::Window),
        // Templates that refuse a history do so with a 500 at some servers.
        None if matches!(kind, Kind::Refused | Kind::Unavailable)
            || is_routing_failure(status, kind) =>
        {
            patches::find_patch(&said, &lower)
        }
        None => None,
    };
    if patch.is_some() && overflow.is_none() {
        kind = Kind::Refused;
    }
    let wait = wait.or(said.wait).or_else(|| delay::from_text(&lower));
    let retry = retry(status, kind, wait, &said);
    let mut message = match said.message.as_str() {
        "" => format!("The provider answered with status {status} and said nothing more."),
        message => message.to_owned(),
    };
    if let Some(hint) = hint(&lower) {
        message.push(' ');
        message.push_str(hint);
    }
    let code =
        (kind == Kind::Refused && !said.code.is_empty() && said.code.parse::<u16>().is_err())
            .then_some(said.code);
    Fault {
        retry,
        param: said.param.map(Cow::Owned),
        code: code.map(Cow::Owned),
        upstream_status: Some(status),
        patch,
        ..Fault::new(kind, message)
    }
}

/// A gateway that finds no provider for what a request asks for answers 404.
fn is_routing_failure(status: u16, kind: Kind) -> bool {
    status == 404 && kind == Kind::ModelNotFound
}

fn retry(status: u16, kind: Kind, wait: Option<Duration>, said: &ProviderError) -> Retry {
    // Groq: the model's call did not fit the tool's schema, or a call that was
    // asked for did not come. The next try is another answer.
    if said.code == "tool_use_failed" {
        return Retry::Soon;
    }
    // The provider says that the request came too slowly, not that its answer did.
    let usual = match status {
        408 if kind == Kind::Timeout => Retry::Soon,
        _ => Fault::new(kind, "").retry,
    };
    match (usual, wait) {
        (Retry::Soon, Some(wait)) => Retry::After(wait),
        (usual, _) => usual,
    }
}

/// What whoever runs the server or chose the model can do about it.
fn hint(lower: &str) -> Option<&'static str> {
    if lower.contains("--enable-auto-tool-choice") || lower.contains("requires --jinja") {
        return Some(
            "(The model server was started without support for tools: start it with these options.)",
        );
    }
    find::contains_any(lower, &["does not support tools", "that support tool use"])
        .then_some("(Choose a model that can call tools.)")
}
