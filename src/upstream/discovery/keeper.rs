//! Keeps the models that providers list up to date while a server runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use registry::{Discovery, ModelSet, Provider};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::{DiscoveryError, ModelDetails, PATIENCE, discover};
use crate::config::{Config, address};
use crate::upstream::Upstreams;

/// After this time a list is asked for again. A server on this machine loads and unloads models
/// more often, and answers at once.
const REFRESH: Duration = Duration::from_mins(5);
const LOCAL_REFRESH: Duration = Duration::from_mins(1);
/// After this time a provider that gave no list is asked again.
const RETRY: Duration = Duration::from_secs(30);
/// When a client or user asks for the models, a list that is older is fetched again.
const SHOWN_AGE: Duration = Duration::from_secs(2);
/// How long the list of a provider that no longer answers is kept.
const LIFETIME: Duration = Duration::from_hours(1);

/// Asks the providers of the current configuration for their models, and puts these into its
/// registry. One for the process.
pub struct DiscoveryKeeper {
    config: Arc<ArcSwap<Config>>,
    /// Connections of its own: what the lists of models do says nothing about turns.
    upstreams: Upstreams,
    states: Mutex<HashMap<String, DiscoveryState>>,
    /// Notified when a list is wanted earlier, or the configuration has changed.
    wanted: Notify,
    /// Notified when a provider was asked.
    asked: Notify,
}

/// What was asked of a provider, and when.
struct DiscoveryState {
    /// The provider as it was asked.
    provider: Arc<Provider>,
    /// When it is asked next.
    next: Instant,
    /// When it was asked last; `None` before the first answer or failure.
    last: Option<Instant>,
    /// When its list arrived.
    arrived: Option<Instant>,
    is_running: bool,
    /// Why there was no list the last time.
    error: Option<DiscoveryError>,
    details: ModelDetails,
}

/// The result of asking a provider.
struct AskedProvider {
    provider: Arc<Provider>,
    details: ModelDetails,
    listed: Result<ModelSet, DiscoveryError>,
}

impl DiscoveryKeeper {
    /// A keeper for the current configuration, which has asked no provider yet.
    pub fn new(config: Arc<ArcSwap<Config>>) -> Self {
        Self {
            config,
            upstreams: Upstreams::default(),
            states: Mutex::default(),
            wanted: Notify::new(),
            asked: Notify::new(),
        }
    }

    /// Asks the providers until the future is dropped.
    pub async fn run(&self) {
        let mut running: JoinSet<AskedProvider> = JoinSet::new();
        loop {
            let wanted = self.wanted.notified();
            let next = self.start_due(&mut running);
            tokio::select! {
                () = wanted => {}
                () = sleep_until(next) => {}
                Some(ended) = running.join_next() => {
                    if let Ok(outcome) = ended {
                        self.take(outcome);
                    }
                }
            }
        }
    }

    /// Looks at the configuration again.
    pub fn config_changed(&self) {
        self.wanted.notify_one();
    }

    /// Called when a client or user asks for the models: lists that are not fresh are fetched
    /// again, in the background. Waits, at most `patience`, only for providers that were never
    /// asked.
    pub async fn shown(&self, patience: Duration) {
        let now = Instant::now();
        let mut is_old = false;
        for state in self.states.lock().values_mut() {
            if state.last.is_some_and(|last| now - last >= SHOWN_AGE) && state.next > now {
                state.next = now;
                is_old = true;
            }
        }
        if is_old {
            self.wanted.notify_one();
        }
        let first = async {
            loop {
                let asked = self.asked.notified();
                if self.were_all_asked() {
                    return;
                }
                asked.await;
            }
        };
        // The list without them is better than none.
        let _ = timeout(patience, first).await;
    }

    /// Why providers gave no list the last time, by id.
    pub fn errors(&self) -> BTreeMap<String, String> {
        let states = self.states.lock();
        let error = |(id, state): (&String, &DiscoveryState)| {
            Some((id.clone(), state.error.as_ref()?.to_string()))
        };
        states.iter().filter_map(error).collect()
    }

    fn were_all_asked(&self) -> bool {
        let config = self.config.load();
        let states = self.states.lock();
        let mut providers = discoverable(&config);
        providers.all(|provider| {
            let state = states.get(&provider.id);
            state.is_some_and(|state| state.last.is_some() && state.is_of(provider))
        })
    }

    /// Asks the providers whose time has come. Returns when the next one is due.
    fn start_due(&self, running: &mut JoinSet<AskedProvider>) -> Instant {
        let config = self.config.load_full();
        let now = Instant::now();
        let mut states = self.states.lock();
        let is_known = |id: &str| discoverable(&config).any(|provider| provider.id == id);
        states.retain(|id, _| is_known(id));
        config.registry.discovered.retain(is_known);
        let mut next = now + REFRESH;
        for provider in discoverable(&config) {
            let state = states
                .entry(provider.id.clone())
                .or_insert_with(|| DiscoveryState::new(provider, now));
            if !state.is_of(provider) && !state.is_running {
                *state = DiscoveryState::new(provider, now);
            }
            if state.is_running {
                continue;
            }
            if state.next > now {
                next = next.min(state.next);
                continue;
            }
            state.is_running = true;
            let mut details = std::mem::take(&mut state.details);
            let provider = Arc::clone(provider);
            let upstream = self.upstreams.get(&config, &provider);
            running.spawn(async move {
                let listed = discover(upstream, PATIENCE, &mut details).await;
                AskedProvider {
                    provider,
                    details,
                    listed,
                }
            });
        }
        next
    }

    /// Puts the list of a provider into the registry.
    fn take(&self, outcome: AskedProvider) {
        let AskedProvider {
            provider,
            details,
            listed,
        } = outcome;
        let config = self.config.load();
        let now = Instant::now();
        {
            let mut states = self.states.lock();
            let Some(state) = states.get_mut(&provider.id) else {
                return;
            };
            state.is_running = false;
            state.last = Some(now);
            state.details = details;
            match listed {
                Ok(models) => {
                    state.arrived = Some(now);
                    state.next = now + refresh_of(&provider);
                    state.error = None;
                    let count = models.models().len();
                    if config.registry.discovered.set(&provider, models) {
                        tracing::info!("provider {}: {count} models are listed", provider.id);
                    }
                }
                Err(error) => {
                    // A provider without such an address will not have it soon.
                    let has_none = matches!(error.status, Some(404 | 405));
                    state.next = now + if has_none { REFRESH } else { RETRY };
                    let is_old = |arrived: Instant| now - arrived >= LIFETIME;
                    if state.arrived.is_some_and(is_old) {
                        state.arrived = None;
                        config.registry.discovered.retain(|id| id != provider.id);
                    }
                    if state.error.as_ref() != Some(&error) {
                        tracing::info!("{}", config.redactor().redact(&error.to_string()));
                    }
                    state.error = Some(error);
                }
            }
        }
        self.asked.notify_waiters();
    }
}

impl DiscoveryState {
    fn new(provider: &Arc<Provider>, now: Instant) -> Self {
        Self {
            provider: Arc::clone(provider),
            next: now,
            last: None,
            arrived: None,
            is_running: false,
            error: None,
            details: ModelDetails::new(),
        }
    }

    /// Whether the provider was asked with these settings.
    fn is_of(&self, provider: &Arc<Provider>) -> bool {
        Arc::ptr_eq(&self.provider, provider) || self.provider == *provider
    }
}

/// The providers that are asked for their models.
pub fn discoverable(config: &Config) -> impl Iterator<Item = &Arc<Provider>> {
    let providers = config.registry.providers.iter();
    providers.filter(|provider| provider.discovery != Discovery::Off)
}

fn refresh_of(provider: &Provider) -> Duration {
    let url = reqwest::Url::parse(&provider.base_url);
    match url {
        Ok(url) if address::is_loopback(&url) => LOCAL_REFRESH,
        _ => REFRESH,
    }
}

/// Asks all providers of a configuration once, at the same time, for at most `patience`, and puts
/// what they list into its registry. Returns why some did not, by id: for a command that shows
/// models.
pub async fn discover_once(config: &Config, patience: Duration) -> BTreeMap<String, String> {
    let upstreams = Upstreams::default();
    let asked = discoverable(config).map(|provider| {
        let upstream = upstreams.get(config, provider);
        async move {
            match discover(upstream, patience, &mut ModelDetails::new()).await {
                Ok(models) => {
                    config.registry.discovered.set(provider, models);
                    None
                }
                Err(error) => Some((provider.id.clone(), error.to_string())),
            }
        }
    });
    let errors = futures_util::future::join_all(asked).await;
    errors.into_iter().flatten().collect()
}
