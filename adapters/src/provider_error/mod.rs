//! Reads the error of a provider: an HTTP error reply, an error in the middle of a
//! stream, or an error in place of an answer. No provider is asked for by name; the
//! shapes of all are tried.
//!
//! | module | contents |
//! |---|---|
//! | `error` | `ProviderError`: an error in any shape as one struct |
//! | `kind` | the kind of fault, by numbers, codes, phrases and status |
//! | `overflow` | requests that are too long, and the size of the window |
//! | [`delay`] | how long to wait |
//! | `patches` | the quirk patches that known refusals lead to, whatever the wire |
//! | `markup` | the words of a web page |
//! | `quoted` | whether a limit is stated or quoted from the request |
//! | `refusal_text` | all that a refusal says and names |
//! | `find` | numbers and names in a text |

use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;

use self::error::ProviderError;
use crate::fault::{Fault, FaultDetail, Kind, Patience, Retry};
use crate::quirk_patch::{ModelPatch, QuirkPatch};

pub mod delay;
pub(crate) mod error;
pub(crate) mod find;
mod kind;
mod markup;
mod overflow;
pub(crate) mod patches;
mod quoted;
mod refusal_text;
#[cfg(test)]
mod tests;

pub use find::find_word;
pub use quoted::quotes_limit;

/// The rules of a wire: the quirk patch that a refusal leads to. They get the error and its text
/// in lower case.
pub(crate) type PatchRules = fn(&ProviderError, &str) -> Option<QuirkPatch>;

/// The fault of an HTTP error reply. Its message is what the provider said, which may be
/// nothing. `wait` is the pause that its headers ask for,
/// see [`delay::from_headers`].
pub(crate) fn from_reply(
    rules: PatchRules,
    status: u16,
    wait: Option<Duration>,
    body: &[u8],
) -> Fault {
    let text = String::from_utf8_lossy(body);
    to_fault(rules, status, wait, ProviderError::from_body(&text), &text)
}

/// The fault of an error object or text inside a stream.
pub(crate) fn from_stream_error(rules: PatchRules, raw: &RawValue) -> Fault {
    let error = ProviderError::from_error(raw);
    to_fault(rules, guess_status(&error), None, error, raw.get())
}

/// The fault of a body with a 2xx status that is an error, in any shape of an error
/// reply; `None` if it is an answer.
pub(crate) fn from_failed_answer(rules: PatchRules, body: &str) -> Option<Fault> {
    let error = ProviderError::from_failed_answer(body)?;
    Some(to_fault(rules, guess_status(&error), None, error, body))
}

/// The status of an error that came without one.
fn guess_status(error: &ProviderError) -> u16 {
    error
        .status
        .or_else(|| {
            [&error.code, &error.kind]
                .into_iter()
                .chain(&error.keywords)
                .find_map(|word| status_of_code(word))
        })
        .unwrap_or(500)
}

/// The status that OpenAI or Google sends with this code, type or status name.
fn status_of_code(word: &str) -> Option<u16> {
    const CODES: [(u16, &str); 8] = [
        (
            400,
            "invalid_request_error bad_request_error BadRequestError",
        ),
        (400, "INVALID_ARGUMENT FAILED_PRECONDITION"),
        (401, "authentication_error invalid_api_key UNAUTHENTICATED"),
        (403, "permission_error PERMISSION_DENIED"),
        (404, "model_not_found NOT_FOUND"),
        (429, "rate_limit_error rate_limit_exceeded"),
        (429, "insufficient_quota RESOURCE_EXHAUSTED"),
        (503, "overloaded_error server_is_overloaded UNAVAILABLE"),
    ];
    let has_word = |(_, codes): &&(u16, &str)| codes.split(' ').any(|code| code == word);
    CODES.iter().find(has_word).map(|(status, _)| *status)
}

fn to_fault(
    rules: PatchRules,
    status: u16,
    wait: Option<Duration>,
    error: ProviderError,
    reply: &str,
) -> Fault {
    let lower = error.own_text();
    let overflow = overflow::detect(status, &error, &lower);
    let mut kind = match overflow {
        Some(_) => Kind::ContextLength,
        None => kind::kind(status, &error, &lower),
    };
    let patch = match overflow {
        Some(overflow) => overflow
            .window
            .map(|window| ModelPatch::Window(window).into()),
        // At some servers a chat template that refuses a history results in a 500.
        None if matches!(kind, Kind::Refused | Kind::Unavailable)
            || is_routing_failure(status, kind) =>
        {
            rules(&error, &lower)
        }
        None => None,
    };
    if patch.is_some() && overflow.is_none() {
        kind = Kind::Refused;
    }
    let wait = wait.or(error.wait).or_else(|| delay::from_text(&lower));
    let retry = retry(status, kind, wait, &error);
    let mut message = error.message.clone();
    if let Some(hint) = hint(&lower) {
        message.push(' ');
        message.push_str(hint);
    }
    let code =
        (kind == Kind::Refused && !error.code.is_empty() && error.code.parse::<u16>().is_err())
            .then_some(error.code);
    let refusal = matches!(
        kind,
        Kind::Refused | Kind::Unavailable | Kind::Overloaded | Kind::ModelNotFound
    );
    let refusal = refusal.then(|| refusal_text::of_reply(reply, &error.message));
    let is_loading = kind == Kind::Overloaded && kind::is_loading(status, &lower);
    Fault {
        retry,
        patience: if is_loading {
            Patience::UntilReady
        } else {
            Patience::Usual
        },
        detail: refusal.map(|refusal| Box::new(FaultDetail::Refusal(refusal))),
        param: error.param.map(Cow::Owned),
        code: code.map(Into::into),
        upstream_status: Some(status),
        patch,
        ..Fault::new(kind, message)
    }
}

/// Whether a gateway found no provider that supports what the request asks for,
/// which it answers with 404.
fn is_routing_failure(status: u16, kind: Kind) -> bool {
    status == 404 && kind == Kind::ModelNotFound
}

fn retry(status: u16, kind: Kind, wait: Option<Duration>, error: &ProviderError) -> Retry {
    // Groq: the model's call did not match the tool's schema, or a required call is
    // missing. The next attempt gets another answer.
    if error.code == "tool_use_failed" {
        return Retry::Soon;
    }
    // A 408 of the provider means that the request arrived too slowly, not that the
    // answer took too long.
    let usual = match status {
        408 if kind == Kind::Timeout => Retry::Soon,
        // A feature that the server lacks will still be missing on a retry.
        501 | 505 if kind == Kind::Unavailable => Retry::Never,
        _ => Fault::new(kind, "").retry,
    };
    match (usual, wait) {
        (Retry::Soon, Some(wait)) => Retry::After(wait),
        (usual, _) => usual,
    }
}

/// Advice for the people who run the model server or chose the model.
fn hint(lower: &str) -> Option<&'static str> {
    if lower.contains("--enable-auto-tool-choice") || lower.contains("requires --jinja") {
        return Some(
            "(The model server was started without support for tools: start it with these options.)",
        );
    }
    find::contains_any(lower, &["does not support tools", "that support tool use"])
        .then_some("(Choose a model that can call tools.)")
}
