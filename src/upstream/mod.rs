//! The way to the providers: one client, one ring of keys and what is known of
//! its health a provider, kept as long as its settings stay the same.

mod attempt;
mod client;
mod concurrency;
mod health;
mod keys;
mod learned_quirks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adapters::fault::{Fault, Kind, Retry};
use http::{HeaderName, HeaderValue};
use registry::Provider;
use tokio::time::Instant;

use crate::config::Config;

pub use attempt::{UpstreamResponse, send_request};
pub use concurrency::RequestPermit;
pub use health::ProviderHealth;
pub use keys::{KeyIndex, KeyRing};
pub use learned_quirks::LearnedQuirks;

use concurrency::ConcurrencyLimit;

/// How long a key rests at its limit when the provider does not say.
const RATE_LIMIT_COOLDOWN: Duration = Duration::from_secs(10);
/// How long a key rests that is used up or not accepted.
const BAD_KEY_COOLDOWN: Duration = Duration::from_mins(10);
/// The longest pause that is waited for where another provider could answer: a
/// provider that asks for no more is not left alone.
pub const SHORT_COOLDOWN: Duration = Duration::from_secs(2);
/// The shortest pause that a client is told of at a limit.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(3);

/// What is needed to talk to one provider.
#[derive(Debug)]
pub struct Upstream {
    provider: Arc<Provider>,
    client: reqwest::Client,
    url: reqwest::Url,
    headers: http::HeaderMap,
    /// Carries the key, with this before it.
    key_header: (HeaderName, &'static str),
    keys: KeyRing,
    health: ProviderHealth,
    concurrency: Arc<ConcurrencyLimit>,
}

impl Upstream {
    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Where requests go. Its query may hold secrets.
    pub fn url(&self) -> &reqwest::Url {
        &self.url
    }

    /// The headers of every request, the key's apart. They may hold secrets.
    pub fn headers(&self) -> &http::HeaderMap {
        &self.headers
    }

    /// Its keys.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Whether it is worth asking.
    pub fn health(&self) -> &ProviderHealth {
        &self.health
    }

    /// Waits for a place among the requests that run at once, no longer than
    /// `patience`. The place belongs to the request until the end of its answer;
    /// to drop the future is to leave the queue.
    pub fn acquire_permit(
        &self,
        patience: Duration,
    ) -> impl Future<Output = Result<RequestPermit, Fault>> + Send + use<> {
        let (places, provider) = (Arc::clone(&self.concurrency), Arc::clone(&self.provider));
        async move {
            let taken = tokio::time::timeout(patience, places.acquire()).await;
            taken.map_err(|_| Fault {
                // It waited long enough; whoever asks may decide to ask again.
                retry: Retry::Never,
                ..Fault::new(
                    Kind::Overloaded,
                    format!(
                        "All {} places of the provider '{}' were taken for {} seconds; its 'max_concurrent' limits them.",
                        provider.max_concurrent.unwrap_or_default(),
                        provider.id,
                        patience.as_secs()
                    ),
                )
            })
        }
    }

    /// A place if one is free now.
    #[cfg(test)]
    fn try_acquire_permit(&self) -> Option<RequestPermit> {
        self.concurrency.try_acquire()
    }

    /// A request failed: its key rests if it is the key's limit or fault, and
    /// the provider is left alone if it is down or no key is left. True when
    /// another key can be tried at once.
    pub fn record_failure(&self, key: Option<KeyIndex>, fault: &Fault) -> bool {
        let rest = match (fault.kind, fault.retry) {
            (Kind::RateLimit, Retry::After(pause)) => pause,
            (Kind::RateLimit, Retry::Soon | Retry::Never) => RATE_LIMIT_COOLDOWN,
            (Kind::Authentication | Kind::Quota, _) => BAD_KEY_COOLDOWN,
            _ => {
                self.health.record_failure(fault);
                return false;
            }
        };
        if let Some(key) = key
            && self.keys.cool_down(key, rest)
        {
            return true;
        }
        let left = self.keys.time_until_available().unwrap_or(rest);
        if fault.kind != Kind::Authentication && left > SHORT_COOLDOWN {
            self.health.record_limit(left);
        }
        false
    }

    /// Tells a client at a bare limit when a key or the provider wakes: Codex
    /// gives up on a 429 that does not say when to come back.
    pub fn set_retry_after(&self, fault: &mut Fault) {
        if fault.kind == Kind::RateLimit && fault.retry == Retry::Soon {
            let down = || self.health.down_for(Instant::now());
            let left = self
                .keys
                .time_until_available()
                .or_else(down)
                .unwrap_or_default();
            // In whole seconds, as the header that tells it.
            let left = Duration::from_secs(
                left.as_millis()
                    .div_ceil(1000)
                    .try_into()
                    .unwrap_or(u64::MAX),
            );
            fault.retry = Retry::After(left.max(MIN_RETRY_AFTER));
        }
    }

    fn credential(&self, key: KeyIndex) -> Option<(HeaderName, HeaderValue)> {
        let (name, before) = &self.key_header;
        Some((name.clone(), self.keys.header_value(key, before)?))
    }
}

/// The providers that were talked to, by id, and what they taught.
#[derive(Debug, Default)]
pub struct Upstreams {
    by_id: Mutex<HashMap<String, Arc<Upstream>>>,
    learned_quirks: LearnedQuirks,
}

impl Upstreams {
    /// The way to a provider of this configuration. It is made anew when the
    /// configuration gives the provider other settings or keys; requests that
    /// run still count towards its limit. Errors name the setting that cannot
    /// be used.
    pub fn get(&self, config: &Config, provider: &Arc<Provider>) -> Result<Arc<Upstream>, Fault> {
        let keys = config
            .keys
            .get(&provider.id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut known = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let old = known.get(&provider.id);
        let same = old
            .is_some_and(|old| Arc::ptr_eq(&old.provider, provider) || old.provider == *provider);
        if let Some(old) = old
            && same
            && old.keys.has_keys(keys)
        {
            return Ok(Arc::clone(old));
        }
        let places = old.map_or_else(
            || ConcurrencyLimit::new(provider.max_concurrent),
            |old| Arc::clone(&old.concurrency),
        );
        let upstream = Arc::new(client::build(provider, keys, Arc::clone(&places))?);
        places.set_limit(provider.max_concurrent);
        if old.is_some() && !same {
            self.learned_quirks.forget_provider(&provider.id);
        }
        known.insert(provider.id.clone(), Arc::clone(&upstream));
        Ok(upstream)
    }

    /// What the providers taught about their models.
    pub fn lessons(&self) -> &LearnedQuirks {
        &self.learned_quirks
    }
}

#[cfg(test)]
mod tests;
