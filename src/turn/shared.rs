//! The state that all turns share: connections to providers, what was learned about them, and the
//! caches of sessions. Part of it can be written to a [`TurnState`] and restored from one.

use std::sync::Arc;
use std::time::Duration;

use adapters::hidden_rounds::HiddenRounds;
use adapters::plan::UnshortenedFrom;
use parking_lot::Mutex;
use registry::Route;
use tokio::time::Instant;

use super::background::ResponseIdentity;
use super::calibration::TokenRatios;
use super::image_texts::KnownImages;
use super::logged_sessions::LoggedSessions;
use super::output_cache::OutputCache;
use super::prefix::RequestFingerprint;
use super::session_changes::SessionChanges;
use super::session_memory::SessionMemory;
use super::state::{ModelPatches, ProviderState, TurnState};
use super::stored_prompts::StoredPrompts;
use super::stored_rounds::StoredRounds;
use super::whole_sessions::WholeSessions;
use crate::artifacts::Artifacts;
use crate::clock::{Clock, System};
use crate::config::Config;
use crate::responses::ResponseStore;
use crate::upstream::{PatchesOf, RatioKey, Upstreams};

/// The state that all turns share. Lives as long as the process; everything in it is bounded.
pub(super) struct SharedState {
    pub(super) upstreams: Upstreams,
    pub(super) memory: SessionMemory,
    pub(super) outputs: OutputCache,
    pub(super) artifacts: Artifacts,
    pub(super) whole_sessions: WholeSessions,
    pub(super) session_changes: SessionChanges,
    /// Where turns are stored.
    pub(super) responses: ResponseStore,
    /// The recorded background response that is replayed.
    pub(super) recorded_identity: Mutex<Option<ResponseIdentity>>,
    pub(super) prompts: StoredPrompts,
    pub(super) rounds: StoredRounds,
    pub(super) images: KnownImages,
    pub(super) token_ratios: TokenRatios,
    pub(super) logged: Arc<LoggedSessions>,
}

impl SharedState {
    pub(super) fn new(artifacts: Artifacts, responses: ResponseStore) -> Self {
        Self {
            upstreams: Upstreams::default(),
            memory: SessionMemory::default(),
            outputs: OutputCache::default(),
            artifacts,
            whole_sessions: WholeSessions::default(),
            session_changes: SessionChanges::default(),
            responses,
            recorded_identity: Mutex::default(),
            prompts: StoredPrompts::default(),
            rounds: StoredRounds::default(),
            images: KnownImages::default(),
            token_ratios: TokenRatios::default(),
            logged: Arc::default(),
        }
    }

    /// The state that decides about a turn of this session on these routes. Items, baggage, tools,
    /// hidden rounds and calibration are left empty: only the turn itself shows which of them it
    /// needs.
    pub(super) fn snapshot(
        &self,
        config: &Config,
        owner: &Arc<str>,
        session: &str,
        prompt: u64,
        routes: &[Route],
        has_history: bool,
    ) -> TurnState {
        let now = Instant::now();
        let unix = System.unix();
        let mut state = TurnState {
            moved_to: self.memory.moved_to(owner, session),
            failed_requests: self.memory.failed_requests(owner, session, prompt),
            outputs: config.context.outputs,
            retention: self.artifacts.retention(),
            unshortened_from: self.whole_session(owner, session),
            ..TurnState::default()
        };
        for route in routes {
            if let Some(ratio) = self.bytes_per_token(owner, session, route) {
                state.bytes_per_token.insert(route.full_name(), ratio);
            }
            let changed = self.session_changes.get(owner, session, &route.full_name());
            if !changed.is_empty() {
                state.session_changes.insert(route.full_name(), changed);
            }
            let (provider, model) = (&route.provider.id, &route.upstream_model);
            let learned = self.upstreams.learned_quirks();
            let of = self.patches_of(owner, session, route, has_history, unix);
            let patches = learned.patches(route, of);
            let tried_again = learned.tried_again(route, of);
            let answered = learned.largest_answer(provider, model);
            if !patches.is_empty() || !tried_again.is_empty() || !answered.is_none() {
                state.model_patches.push(ModelPatches {
                    provider: provider.clone(),
                    model: model.clone(),
                    patches,
                    tried_again,
                    answered,
                });
            }
            let is_listed = state
                .providers
                .iter()
                .any(|state| state.provider == *provider);
            if is_listed {
                continue;
            }
            if let Ok(upstream) = self.upstreams.get(config, &route.provider) {
                state.providers.push(ProviderState {
                    provider: provider.clone(),
                    keys_rest_ms: upstream
                        .keys()
                        .cooldowns()
                        .into_iter()
                        .map(rounded_up_ms)
                        .collect(),
                    answered_lately: upstream.health().answered_lately(now),
                    down_ms: upstream.health().down_for(now).map_or(0, rounded_up_ms),
                    key_origin: upstream.key_origin().cloned(),
                });
            }
        }
        state
    }

    /// Which learned patches a turn gets on a route. One that begins a session does without old
    /// ones, to see whether they are still needed, and gets the limits of the model. For any other
    /// nothing changes, so that its prompt keeps its beginning. After a restart only the history of
    /// a turn shows that its session has begun.
    pub(super) fn patches_of<'o>(
        &self,
        owner: &'o Arc<str>,
        session: &'o str,
        route: &Route,
        has_history: bool,
        now: u64,
    ) -> PatchesOf<'o> {
        let memory = &self.memory;
        let is_on_route = memory.has_request_on(owner, session, &route.full_name());
        PatchesOf {
            owner,
            session: Some(session),
            begins: is_on_route.map_or(!has_history, |is_on_route| !is_on_route),
            now,
            tries_again: is_on_route.is_none() && !has_history,
        }
    }

    /// The bytes per token with which a session began on a route, or would begin. `None` if they
    /// are listed, or nothing was learned of the model.
    pub(super) fn bytes_per_token(
        &self,
        owner: &Arc<str>,
        session: &str,
        route: &Route,
    ) -> Option<f32> {
        let key = RatioKey::new(owner, session, route)?;
        self.upstreams.learned_ratios().get(&key, System.unix())
    }

    /// The point from which on the outputs of a session are sent whole, if they are.
    pub(super) fn whole_session(&self, owner: &Arc<str>, session: &str) -> Option<UnshortenedFrom> {
        // The time does not change what a turn does, only how long the session is remembered.
        self.whole_sessions.get(owner, session, System.unix())
    }

    /// From here on the outputs of a session are sent whole.
    pub(super) fn send_whole(&self, owner: &Arc<str>, session: &str, from: UnshortenedFrom) {
        self.whole_sessions.put(owner, session, from, System.unix());
    }

    /// Keeps what the client did not see of an answer so far, for its next request. Returns the
    /// length of what is stored of it; `replaces` is what this returned for the same answer before,
    /// or 0.
    pub(super) fn keep_hidden_rounds(
        &self,
        owner: &Arc<str>,
        session: &str,
        rounds: &Arc<HiddenRounds>,
        replaces: usize,
    ) -> usize {
        let are_first = !self.rounds.has(owner, session);
        self.memory
            .keep_hidden_rounds(owner, session, rounds, are_first);
        let now = System.unix();
        self.rounds.put(owner, session, rounds, replaces, now)
    }

    /// Stores the prompt of a request that was answered.
    pub(super) fn store_prompt(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &Arc<RequestFingerprint>,
    ) {
        if self.prompts.is_kept()
            && let Some(prompt) = self.memory.stored_prompt(owner, session, request)
        {
            self.prompts.put(owner, session, prompt, System.unix());
        }
    }

    /// Restores a recorded state, so that the turn runs again as it ran then.
    pub(super) fn restore(
        &self,
        state: &TurnState,
        config: &Config,
        owner: &Arc<str>,
        session: &str,
        prompt: u64,
        routes: &[Route],
    ) {
        for route in routes {
            let ratio = state.bytes_per_token.get(&route.full_name());
            if let Some((ratio, key)) = ratio.zip(RatioKey::new(owner, session, route)) {
                let ratios = self.upstreams.learned_ratios();
                ratios.begin(key, *ratio, u64::MAX, System.unix());
            }
            self.restore_route(state, config, (owner, session), route);
        }
        let memory = &self.memory;
        memory.add_failed_requests(owner, session, prompt, state.failed_requests);
        if let Some(route) = &state.moved_to {
            memory.set_route(owner, session, route.clone());
        }
        let items = state.items.iter();
        let items = items.map(|(id, json)| (id.as_str(), json.as_bytes()));
        memory.keep_items(owner, session, items);
        let baggage = state.baggage.iter();
        let baggage = baggage.map(|(call, blobs)| (call.clone(), blobs.clone()));
        memory.put_reasoning(owner, session, baggage);
        if let Some(tools) = &state.tools {
            memory.put_tools(owner, session, tools);
        }
        if let Some(calibration) = &state.calibration {
            memory.calibrate(owner, session, calibration.clone());
        }
        if let Some(recorded) = state.cache_diagnostics {
            memory.set_cache_diagnostics(owner, session, recorded);
        }
        if let Some(from) = &state.unshortened_from {
            self.send_whole(owner, session, from.clone());
        }
        for (route, changed) in &state.session_changes {
            self.session_changes.put(owner, session, route, changed, 0);
        }
        self.recorded_identity.lock().clone_from(&state.identity);
        self.images.restore(owner, &state.image_texts);
        for rounds in &state.hidden_rounds {
            memory.keep_hidden_rounds(owner, session, &Arc::new(rounds.clone()), true);
        }
    }

    /// Restores what was learned about the route's model, and the health of its provider.
    fn restore_route(
        &self,
        state: &TurnState,
        config: &Config,
        (owner, session): (&str, &str),
        route: &Route,
    ) {
        for learned in &state.model_patches {
            if (&learned.provider, &learned.model) == (&route.provider.id, &route.upstream_model) {
                let quirks = self.upstreams.learned_quirks();
                // None of the former is old, and all of the latter are.
                for (patches, now) in [(&learned.patches, u64::MAX), (&learned.tried_again, 0)] {
                    let of = PatchesOf {
                        session: Some(session),
                        now,
                        ..PatchesOf::owner(owner)
                    };
                    for patch in patches {
                        quirks.learn(route, of, *patch, "");
                    }
                }
                quirks.restore_answer(route, learned.answered);
            }
        }
        let provider = state
            .providers
            .iter()
            .find(|provider| provider.provider == route.provider.id);
        if let (Some(provider), Ok(upstream)) =
            (provider, self.upstreams.get(config, &route.provider))
        {
            for (key, rest) in upstream.keys().indexes().zip(&provider.keys_rest_ms) {
                if *rest > 0 {
                    upstream.keys().cool_down(key, Duration::from_millis(*rest));
                }
            }
            if provider.answered_lately {
                upstream.health().record_success();
            }
            if provider.down_ms > 0 {
                upstream
                    .health()
                    .record_limit(Duration::from_millis(provider.down_ms));
            }
        }
    }
}

/// Rounded up, so that a remaining time never becomes 0.
fn rounded_up_ms(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
