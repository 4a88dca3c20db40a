//! The clients of a server, each with its own token, its own data and its own limits:
//! `[clients.<name>]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::net::LOCAL_OWNER;
use crate::secrets::{Secret, TokenHash};

/// The most characters of a client's name.
const MAX_NAME_LENGTH: usize = 64;

/// A client, as it is written.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct ClientEntry {
    /// The SHA-256 of the token, in hexadecimal.
    pub token_sha256: String,
    /// The most turns that run at the same time.
    #[serde(default)]
    pub max_concurrent_requests: Option<usize>,
    /// The most tokens of a day, input and output together.
    #[serde(default)]
    pub max_tokens_per_day: Option<u64>,
    /// The most US dollars of a day.
    #[serde(default)]
    pub max_cost_per_day: Option<f64>,
    /// The most searches of the web of a day that are sent to a search engine.
    #[serde(default)]
    pub max_searches_per_day: Option<u64>,
    /// The most pages of the web that are asked for in a day.
    #[serde(default)]
    pub max_pages_per_day: Option<u64>,
}

/// How much a client may use. What is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientLimits {
    /// The most turns that run at the same time, those in the background included.
    pub concurrent_requests: Option<usize>,
    /// The most tokens of a day in UTC, input and output together.
    pub tokens_per_day: Option<u64>,
    /// The most US dollars of a day in UTC.
    pub cost_per_day: Option<f64>,
    /// The most searches of the web of a day in UTC.
    pub searches_per_day: Option<u64>,
    /// The most pages of the web of a day in UTC.
    pub pages_per_day: Option<u64>,
}

impl ClientLimits {
    /// Whether the tokens or the cost of a day are limited.
    pub fn has_day(self) -> bool {
        self.tokens_per_day.is_some() || self.cost_per_day.is_some()
    }
}

/// A client, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// The hash of its token.
    pub token: TokenHash,
    /// Its limits.
    pub limits: ClientLimits,
}

/// The clients by name, and the tokens that are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clients {
    by_name: BTreeMap<Arc<str>, Client>,
    /// The tokens with which clients have sent requests, so that they can be redacted. Only their
    /// hashes are written anywhere.
    seen: Vec<Secret>,
}

/// Whether a client can have this name. It is part of what is stored, shown and logged.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name == LOCAL_OWNER {
        return Err(format!(
            "a client may not be named {LOCAL_OWNER}, which is the name of the operator"
        ));
    }
    if (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.bytes().all(fits) {
        Ok(())
    } else {
        Err(format!(
            "the name of a client is 1 to {MAX_NAME_LENGTH} letters, digits, - and _, which {name:?} is not"
        ))
    }
}

impl Clients {
    /// Whether there is none, so that every request is the operator's.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The names and the clients, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Client)> {
        self.by_name.iter()
    }

    /// Whether an owner may use the server: a client that is configured, or the operator.
    pub fn is_owner(&self, name: &str) -> bool {
        name == LOCAL_OWNER || self.by_name.contains_key(name)
    }

    /// The limits of an owner. The operator has none.
    pub fn limits(&self, name: &str) -> ClientLimits {
        let client = self.by_name.get(name);
        client.map(|client| client.limits).unwrap_or_default()
    }

    /// The tokens that are known, to be redacted.
    pub fn seen_tokens(&self) -> &[Secret] {
        &self.seen
    }

    /// Whether this token of a client is among those that are redacted.
    pub fn has_seen(&self, token: &str) -> bool {
        self.seen
            .iter()
            .any(|known| known.matches(token.as_bytes()))
    }

    /// Takes note of the token of a client.
    pub(super) fn add_seen(&mut self, token: Secret) {
        let hash = TokenHash::of(token.expose().as_bytes());
        let mut clients = self.by_name.values();
        if clients.any(|client| client.token == hash) && !self.has_seen(token.expose()) {
            self.seen.push(token);
        }
    }

    /// Adds a client; the name of the one that has the same token already is an error.
    pub(super) fn add(&mut self, name: &str, client: Client) -> Result<(), Arc<str>> {
        let mut known = self.by_name.iter();
        if let Some((other, _)) = known.find(|(_, known)| known.token == client.token) {
            return Err(Arc::clone(other));
        }
        self.by_name.insert(name.into(), client);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "alice", "Alice-2_b", &"a".repeat(64)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "local", "a b", "a.b", "é", "../x", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
