//! Connections to the providers. Each provider has an [`Upstream`]: an HTTP client, its keys,
//! its health and its concurrency limit. It lives as long as the provider's settings and keys
//! stay the same; [`Upstreams`] holds them all.
//!
//! | module | contents |
//! |---|---|
//! | `client` | builds an `Upstream` from a provider's settings |
//! | `attempt` | sends one request and opens its response |
//! | `transport` | requests that were never answered |
//! | `keys` | chooses a key for a session; keys at their limit cool down |
//! | `health` | whether a provider is worth asking |
//! | `concurrency` | the limit of concurrent requests |
//! | [`discovery`] | asks a provider for its models |
//! | `learned_quirks` | quirk patches learned from refusals, and what models have answered |
//! | `learned_ratios` | the bytes per token of models, learned from what providers count |
//! | `learned_report` | both, as they are shown |

mod attempt;
mod client;
mod concurrency;
mod decoded_body;
pub mod discovery;
mod health;
mod keys;
mod learned_quirks;
mod learned_ratios;
mod learned_report;
mod transport;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use adapters::failed_request::KeySource;
use adapters::fault::{Fault, Kind, Retry};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use registry::Provider;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::clock::milliseconds;
use crate::config::{Config, KeyOrigin};

pub use attempt::{AttemptEvent, Observe, UpstreamRequest, UpstreamResponse, send_request};
pub use client::client_builder;
pub use concurrency::RequestPermit;
pub use health::{LastRequestReport, ProviderHealth, failure_reason};
pub use keys::{KeyIndex, KeyRing};
pub use learned_quirks::{
    LIMIT_LIFETIME, LargestAnswer, LearnedPatch, LearnedQuirks, PatchesOf, is_limit,
};
pub use learned_ratios::{LearnedRatio, LearnedRatios, RatioKey};
pub use learned_report::{LearnedChange, LearnedReport, LearnedTokenRatio};

use concurrency::ConcurrencyLimit;

/// How long a key at its rate limit is not used, if the provider does not say.
const RATE_LIMIT_COOLDOWN: Duration = Duration::from_secs(10);
/// How long a key that is out of quota or not accepted is not used.
const BAD_KEY_COOLDOWN: Duration = Duration::from_mins(10);
/// A turn waits for a pause of up to this length instead of trying another provider. A
/// provider that asks for no longer pause is not marked as down.
pub const SHORT_COOLDOWN: Duration = Duration::from_secs(2);
/// The shortest `Retry-After` that a client gets at a rate limit.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(3);

/// The connection to one provider. [`Upstreams::get`] makes it at the first request, and
/// makes another one when the configuration changes the provider's settings or keys; running
/// requests keep the old one until they end.
#[derive(Debug)]
pub struct Upstream {
    provider: Arc<Provider>,
    client: reqwest::Client,
    /// The base URL with the provider's query parameters.
    base_url: reqwest::Url,
    headers: http::HeaderMap,
    key_place: KeyPlace,
    keys: KeyRing,
    /// Where the keys come from; `None` if there are none.
    key_origin: Option<KeyOrigin>,
    health: ProviderHealth,
    concurrency: Arc<ConcurrencyLimit>,
}

/// Where a request has its key.
#[derive(Debug)]
enum KeyPlace {
    /// In this header, with this text in front of it.
    Header(HeaderName, String),
    /// In this query parameter.
    Query(String),
}

impl Upstream {
    /// The provider's settings.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// The URL of a request with this path below the base URL. Its query may contain secrets.
    pub fn url(&self, path: &str) -> reqwest::Url {
        let mut url = self.base_url.clone();
        let base = self.base_url.path().trim_end_matches('/');
        url.set_path(&format!("{base}{path}"));
        url
    }

    /// The URL of a request to its server with this path, beside the API at the base URL.
    fn server_url(&self, path: &str) -> reqwest::Url {
        let mut url = self.base_url.clone();
        let base = discovery::server_address(self.base_url.path()).to_owned();
        url.set_path(&format!("{base}{path}"));
        url
    }

    /// The headers of a request whose wire requires these, without the key. They may contain
    /// secrets. The provider's settings win over the wire.
    pub fn headers(&self, of_wire: &[(&'static str, &'static str)]) -> http::HeaderMap {
        let mut headers = self.headers.clone();
        for (name, value) in of_wire {
            let name = HeaderName::from_static(name);
            headers
                .entry(name)
                .or_insert(HeaderValue::from_static(value));
        }
        headers
    }

    /// The provider's keys.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Where the keys come from; `None` if there are none.
    pub fn key_origin(&self) -> Option<&KeyOrigin> {
        self.key_origin.as_ref()
    }

    /// Where the key that was sent came from; `None` if none was sent.
    pub fn key_source(&self, key: Option<KeyIndex>) -> Option<KeySource<'_>> {
        let key = key?;
        Some(match self.key_origin.as_ref()? {
            // Each of several variables holds one key.
            KeyOrigin::Environment(names) => KeySource::Variable(match names.get(key.index()) {
                Some(name) => name.into(),
                None => names.join(", ").into(),
            }),
            KeyOrigin::File(path) => KeySource::File(path),
            KeyOrigin::Command => KeySource::Command,
            KeyOrigin::Literal => KeySource::Literal,
        })
    }

    /// The host in the base URL, and the host with the port; without path and query, which may
    /// contain secrets.
    fn host_and_port(&self) -> (String, String) {
        let host = self.base_url.host_str().unwrap_or_default();
        let server = match self.base_url.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        (host.to_owned(), server)
    }

    /// Whether the provider is worth asking.
    pub fn health(&self) -> &ProviderHealth {
        &self.health
    }

    /// Waits for permission to send a request, at most `max_wait`, if the provider's
    /// `max_concurrent` requests are running. The request holds the permit until the end of
    /// its response. Dropping the future leaves the queue.
    pub fn acquire_permit(
        &self,
        max_wait: Duration,
    ) -> impl Future<Output = Result<RequestPermit, Fault>> + Send + use<> {
        let (limit, provider) = (Arc::clone(&self.concurrency), Arc::clone(&self.provider));
        async move {
            let permit = tokio::time::timeout(max_wait, limit.acquire()).await;
            permit.map_err(|_| Fault {
                // The request has waited long enough; the client may retry.
                retry: Retry::Never,
                ..Fault::new(
                    Kind::Overloaded,
                    format!(
                        "All {} places of the provider '{}' were taken for {} seconds; its 'max_concurrent' limits them.",
                        provider.max_concurrent.unwrap_or_default(),
                        provider.id,
                        max_wait.as_secs()
                    ),
                )
            })
        }
    }

    /// A permit, if one is free at once.
    #[cfg(test)]
    fn try_acquire_permit(&self) -> Option<RequestPermit> {
        self.concurrency.try_acquire()
    }

    /// Records that a request failed. If its key is at fault or at a limit, the key cools
    /// down; if the provider failed, or no key is left, the provider's health is changed.
    /// Returns whether another key can be tried at once.
    pub fn record_failure(&self, key: Option<KeyIndex>, fault: &Fault) -> bool {
        self.health.note_failure(fault);
        let cooldown = match (fault.kind, fault.retry) {
            (Kind::RateLimit, Retry::After(pause)) => pause,
            (Kind::RateLimit, Retry::Soon | Retry::Never) => RATE_LIMIT_COOLDOWN,
            (Kind::Authentication | Kind::Quota, _) => BAD_KEY_COOLDOWN,
            _ => {
                self.health.record_failure(fault);
                return false;
            }
        };
        if let Some(key) = key
            && self.keys.cool_down(key, cooldown)
        {
            return true;
        }
        let left = self.keys.time_until_available().unwrap_or(cooldown);
        if fault.kind != Kind::Authentication && left > SHORT_COOLDOWN {
            self.health.record_limit(left);
        }
        false
    }

    /// Sets the retry delay of a rate-limit fault without one to the time until a key or the
    /// provider is available again. Codex gives up on a 429 without `Retry-After`.
    pub fn set_retry_after(&self, fault: &mut Fault) {
        if fault.kind == Kind::RateLimit && fault.retry == Retry::Soon {
            let down = || self.health.down_for(Instant::now());
            let left = self
                .keys
                .time_until_available()
                .or_else(down)
                .unwrap_or_default();
            // Rounded up to whole seconds, the unit of the header.
            let left = Duration::from_secs(
                left.as_millis()
                    .div_ceil(1000)
                    .try_into()
                    .unwrap_or(u64::MAX),
            );
            fault.retry = Retry::After(left.max(MIN_RETRY_AFTER));
        }
    }

    /// Puts a key into a request that is about to be sent. Its URL is for nobody else then.
    fn add_key(&self, key: KeyIndex, url: &mut reqwest::Url, headers: &mut http::HeaderMap) {
        match &self.key_place {
            KeyPlace::Header(name, prefix) => {
                if let Some(value) = self.keys.header_value(key, prefix) {
                    headers.insert(name.clone(), value);
                }
            }
            KeyPlace::Query(name) => self.keys.set_in_query(key, name, url),
        }
    }
}

/// A provider that is on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProviderReport {
    /// The provider's id.
    pub id: String,
    /// Whether it was asked since the server started or its settings changed.
    pub asked: bool,
    /// How long turns that can go elsewhere are not sent to it, in milliseconds; 0 if they are.
    pub down_ms: u64,
    /// How its last request went; `None` if none has ended yet.
    #[serde(default)]
    pub last_request: Option<LastRequestReport>,
    /// The number of its keys.
    pub keys: usize,
    /// The number of keys that are not used for a while, because they are at a limit or refused.
    pub resting_keys: usize,
}

/// The connections to all providers that were asked so far, and the quirks learned from them.
/// One for the process.
#[derive(Debug, Default)]
pub struct Upstreams {
    by_id: Mutex<HashMap<String, Arc<Upstream>>>,
    learned_quirks: LearnedQuirks,
    learned_ratios: LearnedRatios,
}

impl Upstreams {
    /// The connection to a provider of this configuration. A new one is made when the
    /// provider's settings or keys have changed; requests that are still running count
    /// towards the new limit. The error names the setting that cannot be used.
    pub fn get(&self, config: &Config, provider: &Arc<Provider>) -> Result<Arc<Upstream>, Fault> {
        let keys = config
            .keys
            .get(&provider.id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut known = self.by_id.lock();
        let old = known.get(&provider.id);
        let is_unchanged = old
            .is_some_and(|old| Arc::ptr_eq(&old.provider, provider) || old.provider == *provider);
        let key_origin = config.key_origins.get(&provider.id);
        if let Some(old) = old
            && is_unchanged
            && old.keys.has_keys(keys)
            && old.key_origin.as_ref() == key_origin
        {
            return Ok(Arc::clone(old));
        }
        let concurrency = old.map_or_else(
            || ConcurrencyLimit::new(provider.max_concurrent),
            |old| Arc::clone(&old.concurrency),
        );
        let upstream = Arc::new(client::build(
            provider,
            (keys, key_origin),
            config.replay_origin.as_deref(),
            Arc::clone(&concurrency),
        )?);
        concurrency.set_limit(provider.max_concurrent);
        if old.is_some() && !is_unchanged {
            self.learned_quirks.forget_provider(&provider.id);
            self.learned_ratios.forget_provider(&provider.id);
        }
        known.insert(provider.id.clone(), Arc::clone(&upstream));
        Ok(upstream)
    }

    /// The state of each provider of this configuration.
    pub fn reports(&self, config: &Config) -> Vec<ProviderReport> {
        let known = self.by_id.lock();
        let now = Instant::now();
        let report = |provider: &Arc<Provider>| {
            let upstream = known.get(&provider.id);
            let down = upstream.and_then(|upstream| upstream.health.down_for(now));
            let cooldowns = upstream.map(|upstream| upstream.keys.cooldowns());
            let resting = cooldowns.unwrap_or_default();
            ProviderReport {
                id: provider.id.clone(),
                asked: upstream.is_some(),
                down_ms: down.map_or(0, milliseconds),
                last_request: upstream.and_then(|upstream| upstream.health.last_request(now)),
                keys: config.keys.get(&provider.id).map_or(0, Vec::len),
                resting_keys: resting.iter().filter(|left| !left.is_zero()).count(),
            }
        };
        config.registry.providers.iter().map(report).collect()
    }

    /// The quirk patches learned from the providers' refusals.
    pub fn learned_quirks(&self) -> &LearnedQuirks {
        &self.learned_quirks
    }

    /// The bytes per token of models, learned from what providers count.
    pub fn learned_ratios(&self) -> &LearnedRatios {
        &self.learned_ratios
    }
}

#[cfg(test)]
mod tests;
