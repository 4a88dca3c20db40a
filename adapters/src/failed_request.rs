//! Says in words which provider failed or refused, where, why, and what to do about it.
//!
//! A message has up to three parts: what happened, the request with the provider's own words, and
//! the remedy. It is made of the provider's settings, the origin of its keys and the fault alone,
//! so that a replay makes the same message.

use std::borrow::Cow;
use std::path::Path;

use registry::Provider;

use crate::fault::{Fault, FaultClass, FaultDetail, Kind, Patience, Statement};

/// Up to this number of failed requests for a prompt are not told.
const TOLD_FAILURES: u32 = 2;

/// What a message tells of a request to a provider that failed. Made for each failed attempt of a
/// turn.
#[derive(Clone, Debug)]
pub struct FailedRequest<'a> {
    /// The provider.
    pub provider: &'a Provider,
    /// The path below the base URL.
    pub path: &'a str,
    /// The provider's name of the model.
    pub model: &'a str,
    /// Where the key that was sent came from; `None` without a key.
    pub key: Option<KeySource<'a>>,
    /// The provider had begun to answer, with a status of success.
    pub is_answered: bool,
    /// How many requests have failed for the prompt, this one included.
    pub failed: u32,
}

/// Where a key came from.
#[derive(Clone, Debug)]
pub enum KeySource<'a> {
    /// An environment variable.
    Variable(Cow<'a, str>),
    /// A file.
    File(&'a Path),
    /// A command.
    Command,
    /// The configuration file itself.
    Literal,
}

impl FailedRequest<'_> {
    /// Completes the message of a fault that a provider caused. The message was what the provider
    /// said, or states what was wrong with its answer; faults of a connection that was never made
    /// have a whole message, and stay as they are.
    pub fn explain(&self, fault: &mut Fault) {
        let detail = fault.detail.take().map(|detail| *detail);
        match (fault.upstream_status, detail) {
            (Some(status), _) => fault.message = self.reply(fault, status),
            (None, Some(FaultDetail::Statement(statement))) => {
                fault.message = self.answer(fault.kind, &statement);
            }
            (None, Some(FaultDetail::Refusal(_)) | None) => {}
        }
        if fault.gave_up && self.failed > TOLD_FAILURES {
            let failed = format!(" {} requests have failed for this prompt.", self.failed);
            fault.message.push_str(&failed);
        }
    }

    /// The message of a reply that is an error.
    fn reply(&self, fault: &Fault, status: u16) -> String {
        let address = post(self.provider, self.path);
        let words = fault.message.trim();
        let request = match (self.is_answered && status != 200, words) {
            (false, "") => format!("{address} answered {status} without a message."),
            (false, words) => format!("{address} answered {status}: {}", quoted(words)),
            (true, "") => format!("The answer of {address} ended with an error."),
            (true, words) => {
                format!(
                    "The answer of {address} ended with an error: {}",
                    quoted(words)
                )
            }
        };
        join([
            &self.event(fault, status),
            &request,
            &self.remedy(fault, status),
        ])
    }

    /// The message of an answer that broke off or cannot be read.
    fn answer(&self, kind: Kind, statement: &Statement) -> String {
        let request = format!("The request was {}.", post(self.provider, self.path));
        let remedy = if kind == Kind::Timeout {
            "If its model needs longer, raise timeouts.idle."
        } else {
            ""
        };
        join([&statement.naming(&self.provider.id), &request, remedy])
    }

    /// What happened.
    fn event(&self, fault: &Fault, status: u16) -> String {
        let id = &self.provider.id;
        let model = self.model;
        let key = self.key_phrase();
        let kind = fault.kind;
        match kind.class() {
            FaultClass::Access if kind == Kind::Authentication => match &key {
                Some(key) => format!("The provider '{id}' does not accept the key from {key}."),
                None => format!("The provider '{id}' asks for a key, and none is configured."),
            },
            FaultClass::Access if kind == Kind::Permission => match &key {
                Some(key) => format!("The provider '{id}' refuses access with the key from {key}."),
                None => format!("The provider '{id}' refuses access, and no key is configured."),
            },
            FaultClass::Access => match &key {
                Some(key) => format!(
                    "The account of the provider '{id}' has no credit or quota left (key from {key})."
                ),
                None => format!("The provider '{id}' has no quota left for you."),
            },
            FaultClass::RateLimit => format!("The provider '{id}' limits the rate of requests."),
            FaultClass::Model if kind == Kind::ContextLength => {
                format!("The input is too long for the model '{model}' of the provider '{id}'.")
            }
            FaultClass::Model => format!("The provider '{id}' has no model '{model}'."),
            FaultClass::Request if kind == Kind::ContentFilter => {
                format!("The content filter of the provider '{id}' blocked the request.")
            }
            FaultClass::Request
                if kind == Kind::Refused && is_wrong_address(status, &fault.message) =>
            {
                format!("The provider '{id}' has no such address.")
            }
            FaultClass::Request => format!("The provider '{id}' refused the request."),
            FaultClass::Outage if fault.patience == Patience::UntilReady => {
                format!("The provider '{id}' is still loading the model '{model}'.")
            }
            FaultClass::Outage if kind == Kind::Overloaded => {
                format!("The provider '{id}' is overloaded.")
            }
            FaultClass::Outage if kind == Kind::Timeout => {
                format!("The provider '{id}' gave up on the request.")
            }
            FaultClass::Answer if kind == Kind::BadReply => {
                format!("The provider '{id}' sent a web page in place of an answer.")
            }
            FaultClass::Outage | FaultClass::Answer | FaultClass::Server => {
                format!("The provider '{id}' failed.")
            }
        }
    }

    /// What to do.
    fn remedy(&self, fault: &Fault, status: u16) -> String {
        let kind = fault.kind;
        let remedy = match kind.class() {
            FaultClass::Access if kind == Kind::Authentication => {
                return self.key_remedy();
            }
            FaultClass::Access if kind == Kind::Permission => {
                "Check what this key may do at the provider, or give another one."
            }
            FaultClass::Access => {
                "Check your plan and billing at the provider, or give another key."
            }
            FaultClass::Model if kind == Kind::ContextLength => {
                "Shorten the input, or use a model with a larger window."
            }
            FaultClass::Model => "Check the name of the model, and whether your key may use it.",
            FaultClass::Request if kind == Kind::Refused && wants_tls(&fault.message) => {
                "Write https:// in its base_url."
            }
            FaultClass::Request
                if kind == Kind::Refused && is_wrong_address(status, &fault.message) =>
            {
                return address_remedy(self.path);
            }
            FaultClass::Outage if fault.patience == Patience::UntilReady => {
                "Try again when it has; what the server prints says how far it is."
            }
            FaultClass::Outage if kind == Kind::Overloaded => {
                "Try again later, or use another model."
            }
            FaultClass::Outage if kind == Kind::Unavailable && status == 501 => {
                return address_remedy(self.path);
            }
            FaultClass::Outage if kind == Kind::Unavailable => {
                "The fault is the provider's: try again later."
            }
            FaultClass::Answer if kind == Kind::BadReply => return address_remedy(self.path),
            // The pause of a limit is told when it is known, see `Fault::client_message`.
            FaultClass::RateLimit
            | FaultClass::Request
            | FaultClass::Outage
            | FaultClass::Answer
            | FaultClass::Server => "",
        };
        remedy.to_owned()
    }

    /// Where the key came from, as the end of a phrase: `MY_API_KEY`.
    fn key_phrase(&self) -> Option<String> {
        Some(match self.key.as_ref()? {
            KeySource::Variable(name) => name.to_string(),
            KeySource::File(path) => format!("the file {}", path.display()),
            KeySource::Command => "its api_key_command".to_owned(),
            KeySource::Literal => "api_key in the configuration".to_owned(),
        })
    }

    /// What to do about a key that is not accepted.
    fn key_remedy(&self) -> String {
        let Provider { id, key_env, .. } = self.provider;
        match &self.key {
            Some(KeySource::Variable(name)) => {
                format!("Set {name} to a valid key and restart Respondent.")
            }
            Some(KeySource::File(path)) => format!("Put a valid key into {}.", path.display()),
            Some(KeySource::Command) => "Check what its api_key_command prints.".to_owned(),
            Some(KeySource::Literal) => {
                format!("Correct api_key in the section [providers.{id}].")
            }
            None => match key_env.first() {
                Some(name) => format!("Set {name} and restart Respondent."),
                None => format!("Give one with api_key_env in the section [providers.{id}]."),
            },
        }
    }
}

/// The request as a person writes it, without the query, which may contain secrets.
pub fn post(provider: &Provider, path: &str) -> String {
    address("POST", &provider.base_url, path)
}

/// A request to the address `base` as a person writes it.
pub fn address(method: &str, base: &str, path: &str) -> String {
    format!("{method} {}{path}", base.trim_end_matches('/'))
}

/// What a provider said, as the end of a sentence.
fn quoted(words: &str) -> String {
    let end = if words.ends_with(['.', '!', '?', '…']) {
        ""
    } else {
        "."
    };
    format!("\"{words}\"{end}")
}

/// What to do about an address that does not belong to the API.
fn address_remedy(path: &str) -> String {
    format!("Check its base_url: {path} is appended to it, and most end in /v1.")
}

/// Whether a server says that it does not offer the API at this address: without a word, or with
/// one of an address. What no provider behind a gateway supports, or an item that is gone, is no
/// address, and a model that does not exist has a kind of its own.
fn is_wrong_address(status: u16, words: &str) -> bool {
    const ADDRESS: [&str; 12] = [
        "url",
        "route",
        "path",
        "page",
        "resource",
        "endpoint",
        "cannot post",
        "method",
        "404",
        "405",
        "not implemented",
        "/v1/",
    ];
    if !matches!(status, 404 | 405 | 410 | 501) {
        return false;
    }
    let lower = words.trim().trim_end_matches('.').to_lowercase();
    let is_bare = ["", "not found", "file not found", "gone"].contains(&lower.as_str());
    let names_address = || ADDRESS.iter().any(|word| lower.contains(word));
    is_bare || (names_address() && !lower.contains("no endpoints"))
}

/// Whether a server says that it got plain HTTP where it expects TLS: nginx, Go.
fn wants_tls(words: &str) -> bool {
    ["sent to HTTPS port", "to an HTTPS server"]
        .into_iter()
        .any(|phrase| words.contains(phrase))
}

fn join(parts: [&str; 3]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::is_wrong_address;

    #[test]
    fn only_a_reply_about_an_address_blames_it() {
        for words in [
            "",
            "Not Found",
            "404 page not found",
            "Cannot POST /v1/v1/responses",
            "Invalid URL (POST /v1/chat)",
            "no Route matched with those values",
            "File Not Found",
            "Unexpected endpoint or method. (POST /v1/x)",
        ] {
            assert!(is_wrong_address(404, words), "{words}");
        }
        for words in [
            "No endpoints found that support tool use.",
            "No endpoints found that support image input",
            "No endpoints found matching your data policy",
            "No allowed providers are available for the selected model.",
            "Item with id 'rs_1' not found.",
            "Live search is deprecated. Please switch to the Agent Tools API.",
        ] {
            assert!(!is_wrong_address(404, words), "{words}");
        }
        assert!(!is_wrong_address(400, ""));
    }
}
