//! How many bytes of a request are one token of a model, where that is not listed: learned from
//! what providers count, and the same for all turns of a session.
//!
//! A session keeps the ratio with which it began, because its plan depends on it. A new one begins
//! with what the last sessions of its owner have shown of the model. So nobody's requests change
//! what others get. The sessions of earlier processes are read from the store.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use adapters::event::Usage;
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use registry::Route;
use serde::{Deserialize, Serialize};

use crate::store::{MAX_TOKEN_RATIOS, SessionRow, Store, StoreError, StoredRatio};

/// A smaller request says little: what a provider puts around it weighs too much.
const MIN_BYTES: usize = 4 << 10;
const MIN_TOKENS: u64 = 1_000;
/// The ratios that are used, in bytes per token.
const LEAST: f32 = 1.5;
const MOST: f32 = 6.0;
/// A count that is further off than this factor is about something else than the text.
const MAX_ERROR: f32 = 1.5;
/// The most bytes of the name of a model, which clients may choose.
const MAX_NAME: usize = 256;
/// A new session begins with the ratio of so many sessions.
const SESSIONS: usize = 16;
/// A change by less than this part is not stored.
const STORED_CHANGE: f32 = 0.02;
/// How many seconds pass until the use of a session is stored again.
const STORED_EVERY: u64 = 24 * 60 * 60;

/// The ratios of all sessions, by which those of models are known.
#[derive(Default)]
pub struct LearnedRatios {
    known: Mutex<KnownRatios>,
    store: OnceLock<Arc<Store>>,
}

#[derive(Default)]
struct KnownRatios {
    /// The one that was not used for the longest time first.
    by_key: LinkedHashMap<RatioKey, SessionRatio>,
    /// How many of them each owner has.
    of_owner: HashMap<Arc<str>, usize>,
}

/// A session with a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct RatioKey {
    #[serde(skip)]
    owner: Arc<str>,
    session: String,
    provider: String,
    model: String,
}

impl RatioKey {
    /// The session of an owner on a route. `None` if the ratio of its model is listed.
    pub fn new(owner: &Arc<str>, session: &str, route: &Route) -> Option<Self> {
        route.model.bytes_per_token.is_none().then(|| Self {
            owner: Arc::clone(owner),
            session: session.to_owned(),
            provider: route.provider.id.clone(),
            model: route.upstream_model.clone(),
        })
    }

    fn has_model_of(&self, other: &Self) -> bool {
        self.owner == other.owner && self.model == other.model && self.provider == other.provider
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct SessionRatio {
    /// The ratio with which the session began.
    used: f32,
    /// The one that its requests have shown.
    shown: Option<f32>,
    /// When it began, in seconds since 1970.
    since: u64,
    /// When it was stored, 0 if it was not, and what it had shown then.
    #[serde(skip)]
    stored: (u64, Option<f32>),
}

/// The ratio with which a new session of an owner would begin.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedRatio {
    /// The owner.
    pub owner: Arc<str>,
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// Bytes of request text per token.
    pub bytes_per_token: f32,
    /// When the oldest of the sessions that have shown it began, in seconds since 1970.
    pub since: u64,
}

impl LearnedRatios {
    /// Reads the ratios of earlier processes from the store, and keeps later ones there.
    pub async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        self.read_rows(store.token_ratios().await?);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// Adds what these rows of the store say.
    pub fn read_rows(&self, rows: Vec<StoredRatio>) {
        let mut known = self.known.lock();
        for row in rows {
            let read = serde_json::from_str::<(RatioKey, SessionRatio)>(&row.ratio);
            if let Ok((mut key, mut ratio)) = read {
                key.owner = row.owner.into();
                ratio.stored = (row.accessed, ratio.shown);
                known.insert(key, ratio);
            }
        }
    }

    /// The ratio of a session, or the one with which it would begin, if that is known. Counts as a
    /// use of the session at the time `now`, in seconds since 1970.
    pub fn get(&self, key: &RatioKey, now: u64) -> Option<f32> {
        let mut known = self.known.lock();
        let Some(session) = known.by_key.to_back(key) else {
            return known.learned(key).map(|learned| learned.bytes_per_token);
        };
        if now.saturating_sub(session.stored.0) >= STORED_EVERY {
            self.store(key, session, now);
        }
        Some(session.used)
    }

    /// A session has begun with this ratio, unless it had before. `tokens` are those of its
    /// request: nothing of a small one depends on the ratio.
    pub fn begin(&self, key: RatioKey, used: f32, tokens: u64, now: u64) {
        let mut known = self.known.lock();
        let counts = tokens >= MIN_TOKENS && key.model.len() <= MAX_NAME;
        if counts && !known.by_key.contains_key(&key) {
            let ratio = SessionRatio {
                used,
                shown: None,
                since: now,
                stored: (0, None),
            };
            known.insert(key, ratio);
        }
    }

    /// Learns from what a provider counted for a request of a session, which is this many bytes of
    /// text.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn record(&self, key: &RatioKey, bytes: usize, usage: Usage, now: u64) {
        let new = bytes as f32 / usage.input.max(1) as f32;
        let is_believed = (LEAST / MAX_ERROR..=MOST * MAX_ERROR).contains(&new);
        if bytes < MIN_BYTES || !is_believed || may_lack_cached(usage) {
            return;
        }
        let mut known = self.known.lock();
        let Some(session) = known.by_key.get_mut(key) else {
            return;
        };
        let new = new.clamp(LEAST, MOST);
        let shown = session.shown.map_or(new, |old| f32::midpoint(old, new));
        session.shown = Some(shown);
        let is_stored = |stored: f32| (stored - shown).abs() <= stored * STORED_CHANGE;
        if !session.stored.1.is_some_and(is_stored) {
            self.store(key, session, now);
        }
    }

    /// Forgets what was learned of a provider's models. Sessions keep the ratios that they have.
    pub(super) fn forget_provider(&self, provider: &str) {
        let mut known = self.known.lock();
        for (key, session) in &mut known.by_key {
            if key.provider == provider {
                (session.shown, session.stored.1) = (None, None);
            }
        }
        if let Some(store) = self.store.get() {
            store.forget_shown_ratios(provider);
        }
    }

    /// What is learned of the models of all owners, those that were used last first.
    pub fn list(&self) -> Vec<LearnedRatio> {
        let known = self.known.lock();
        let mut seen = HashSet::new();
        let keys = known.by_key.keys().rev();
        let listed = keys.filter(|key| seen.insert((&key.owner, &key.provider, &key.model)));
        let learned = listed.filter_map(|key| known.learned(key));
        learned.collect()
    }

    /// Stores the ratios of a session. If the store cannot take them now, its next use tries again.
    fn store(&self, key: &RatioKey, session: &mut SessionRatio, now: u64) {
        let Some(store) = self.store.get() else {
            return;
        };
        let row = SessionRow {
            owner: key.owner.to_string(),
            session: format!("{} {}/{}", key.session, key.provider, key.model),
            text: serde_json::to_string(&(key, &*session)).unwrap_or_default(),
            accessed: now,
        };
        if store.put_token_ratio(row) {
            session.stored = (now, session.shown);
        }
    }
}

impl KnownRatios {
    fn insert(&mut self, key: RatioKey, ratio: SessionRatio) {
        let owner = Arc::clone(&key.owner);
        if self.by_key.insert(key, ratio).is_none() {
            *self.of_owner.entry(owner).or_default() += 1;
        }
        if self.by_key.len() > MAX_TOKEN_RATIOS {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest session of the owner who has most.
    fn forget_oldest(&mut self) {
        let Some((most, count)) = self.of_owner.iter_mut().max_by_key(|(_, count)| **count) else {
            return;
        };
        *count -= 1;
        let oldest = self.by_key.keys().find(|key| key.owner == *most).cloned();
        self.of_owner.retain(|_, count| *count > 0);
        if let Some(oldest) = oldest {
            self.by_key.remove(&oldest);
        }
    }

    /// What the last sessions of an owner have shown of a model, each as much as any other. Three
    /// in four had as many bytes per token or more: a text that is estimated too small may not fit.
    fn learned(&self, key: &RatioKey) -> Option<LearnedRatio> {
        let newest = self.by_key.iter().rev();
        let same = newest.filter(|(other, _)| key.has_model_of(other));
        let shown = same.filter_map(|(_, session)| Some((session.shown?, session.since)));
        let mut shown: Vec<(f32, u64)> = shown.take(SESSIONS).collect();
        shown.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (bytes_per_token, _) = *shown.get(shown.len() / 4)?;
        Some(LearnedRatio {
            owner: Arc::clone(&key.owner),
            provider: key.provider.clone(),
            model: key.model.clone(),
            bytes_per_token,
            since: shown.iter().map(|(_, since)| *since).min()?,
        })
    }
}

/// Whether a count may be without its cached tokens. With few of them it is right either way; where
/// they are most of a prompt and counted beside it, the reader of the answer has added them.
fn may_lack_cached(usage: Usage) -> bool {
    let Usage { input, cached, .. } = usage;
    cached > input / 8 && cached <= input / 2 || cached >= input
}

impl fmt::Debug for LearnedRatios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearnedRatios").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
