//! The way to the providers: one client and one ring of keys a provider, kept
//! as long as its settings stay the same.

mod attempt;
mod client;
mod keys;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use adapters::fault::Fault;
use registry::Provider;

use crate::config::Config;

pub use attempt::{Answer, open};
pub use keys::{Key, KeyRing};

/// What is needed to talk to one provider.
#[derive(Debug)]
pub struct Upstream {
    provider: Arc<Provider>,
    client: reqwest::Client,
    url: reqwest::Url,
    headers: http::HeaderMap,
    keys: KeyRing,
}

impl Upstream {
    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Its keys.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }
}

/// The providers that were talked to, by id.
#[derive(Debug, Default)]
pub struct Upstreams {
    known: Mutex<HashMap<String, Arc<Upstream>>>,
}

impl Upstreams {
    /// The way to a provider of this configuration. It is made anew when the
    /// configuration gives the provider other settings or keys. Errors name
    /// the setting that cannot be used.
    pub fn get(&self, config: &Config, provider: &Arc<Provider>) -> Result<Arc<Upstream>, Fault> {
        let keys = config
            .keys
            .get(&provider.id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = known.get(&provider.id)
            && (Arc::ptr_eq(&upstream.provider, provider) || upstream.provider == *provider)
            && upstream.keys.holds(keys)
        {
            return Ok(Arc::clone(upstream));
        }
        let upstream = Arc::new(client::build(provider, keys)?);
        known.insert(provider.id.clone(), Arc::clone(&upstream));
        Ok(upstream)
    }
}
