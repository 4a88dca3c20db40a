//! The service that answers turns: what all of them need.

use std::sync::{Arc, OnceLock, Weak};

use adapters::fault::Fault;
use adapters::responses::request::TurnSource;
use arc_swap::ArcSwap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::background::{BackgroundJob, BackgroundQueue};
use super::caller::{Caller, Session};
use super::context::{TurnContext, TurnEnvironment, TurnEnvironmentFactory};
use super::mcp_request::WaitingSecrets;
use super::owner_limits::{OwnerSlot, OwnerSlots, check_day, too_many_at_once};
use super::prepared::resolve_routes;
use super::request::TurnRequest;
use super::running::RunningTurns;
use super::shared::SharedState;
use super::state::TurnState;
use crate::artifacts::Artifacts;
use crate::artifacts::owner::OwnerArtifacts;
use crate::clock::{Clock as _, System};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::responses::ResponseStore;
use crate::store::Store;
use crate::upstream::{LearnedQuirks, LearnedRatios, LearnedReport, ProviderReport};

/// The state and the settings that all turns share. Made at the start of the process, and for each
/// replay.
pub struct Service {
    /// The current configuration. A turn keeps the one that it began with.
    pub config: Arc<ArcSwap<Config>>,
    /// The counters of all turns.
    pub metrics: Arc<Metrics>,
    /// The turns that are running now.
    pub running: Arc<RunningTurns>,
    /// Cancelled when running turns have to end because the process shuts down.
    pub shutdown: CancellationToken,
    pub(super) slots: Arc<OwnerSlots>,
    pub(super) shared: Arc<SharedState>,
    pub(super) environments: Arc<dyn TurnEnvironmentFactory>,
    pub(super) background: OnceLock<Weak<dyn BackgroundQueue>>,
    pub(super) waiting_secrets: WaitingSecrets,
}

impl Service {
    /// A service with empty caches. Each turn gets an environment from `environments`.
    pub fn new(
        config: Arc<ArcSwap<Config>>,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
        environments: Arc<dyn TurnEnvironmentFactory>,
        artifacts: Artifacts,
        responses: ResponseStore,
    ) -> Self {
        Self {
            config,
            metrics,
            running: Arc::default(),
            slots: Arc::default(),
            shutdown,
            shared: Arc::new(SharedState::new(artifacts, responses)),
            environments,
            background: OnceLock::new(),
            waiting_secrets: WaitingSecrets::default(),
        }
    }

    /// The quirk patches learned from the errors of providers.
    pub fn learned_quirks(&self) -> &LearnedQuirks {
        self.shared.upstreams.learned_quirks()
    }

    /// The state of each provider of this configuration.
    pub fn provider_reports(&self, config: &Config) -> Vec<ProviderReport> {
        self.shared.upstreams.reports(config)
    }

    /// What was learned of models, without the secrets of this configuration.
    pub fn learned_report(&self, config: &Config) -> LearnedReport {
        let upstreams = &self.shared.upstreams;
        let ratios = upstreams.learned_ratios();
        LearnedReport::new(upstreams.learned_quirks(), ratios, config.redactor())
    }

    /// Keeps in the store which sessions have their outputs sent whole, and reads those of earlier
    /// processes.
    pub async fn keep_whole_sessions(&self, store: &Arc<Store>) {
        if let Err(error) = self.shared.whole_sessions.keep_in(store).await {
            tracing::warn!("the sessions whose outputs are sent whole cannot be read: {error}");
        }
    }

    /// Keeps in the store what is learned from refusals, and reads what earlier processes have
    /// learned.
    pub async fn keep_learned(&self, store: &Arc<Store>) {
        let quirks = self.learned_quirks().keep_in(store).await;
        let read = match quirks {
            Ok(()) => self.shared.session_changes.keep_in(store).await,
            Err(error) => Err(error),
        };
        if let Err(error) = read {
            tracing::warn!("what was learned from refusals cannot be read: {error}");
        }
    }

    /// Keeps in the store how many bytes are a token of a model, by session, and reads what earlier
    /// processes have learned.
    pub async fn keep_token_ratios(&self, store: &Arc<Store>) {
        if let Err(error) = self.learned_ratios().keep_in(store).await {
            tracing::warn!("what was learned of the tokens of models cannot be read: {error}");
        }
    }

    /// How many bytes are a token of the models for which that is not listed.
    pub fn learned_ratios(&self) -> &LearnedRatios {
        self.shared.upstreams.learned_ratios()
    }

    /// Background responses go to this queue from now on. Without one they run at once.
    pub fn run_background_in(&self, queue: Weak<dyn BackgroundQueue>) {
        self.background.set(queue).ok();
    }

    /// Where responses and conversations are stored.
    pub fn responses(&self) -> &ResponseStore {
        &self.shared.responses
    }

    /// Keeps in the store what later prompts are compared with.
    pub fn keep_prompts(&self, store: &Arc<Store>) {
        self.shared.prompts.keep_in(store);
    }

    /// Keeps in the store what clients did not see of answers, and reads of which sessions
    /// something is there.
    pub async fn keep_hidden_rounds(&self, store: &Arc<Store>) {
        if let Err(error) = self.shared.rounds.keep_in(store).await {
            tracing::warn!("what tools have returned in earlier sessions cannot be read: {error}");
        }
    }

    /// Keeps descriptions of images in the store.
    pub fn keep_image_texts(&self, store: &Arc<Store>) {
        self.shared.images.keep_in(store);
    }

    /// How many sessions have their outputs sent whole, because shortening cost more than it saved.
    pub fn whole_sessions(&self) -> usize {
        self.shared.whole_sessions.count()
    }

    /// Counts what the service remembers in the memory budget of the process.
    pub fn count_memory(&self, memory: &ProcessMemory) {
        let shared = Arc::clone(&self.shared);
        memory.add_store(MemoryKind::Memories, move || {
            let (outputs, images) = (shared.outputs.bytes(), shared.images.bytes());
            shared.memory.bytes() + outputs + images + shared.artifacts.memory_bytes()
        });
    }

    /// Takes over the limits of what is remembered.
    pub fn apply_limits(&self, config: &Config) {
        self.shared.memory.set_limit(config.session_memory());
    }

    /// The turns that run, by owner.
    pub fn slots(&self) -> &Arc<OwnerSlots> {
        &self.slots
    }

    /// The artifacts of all owners.
    pub fn all_artifacts(&self) -> Artifacts {
        self.shared.artifacts.clone()
    }

    /// The stored tool outputs of the operator, to be read back.
    pub fn artifacts(&self) -> OwnerArtifacts {
        let keep_days = self.config.load().artifacts.keep_days;
        OwnerArtifacts::local(self.shared.artifacts.clone(), keep_days)
    }

    /// Restores the state that a recorded turn began with, so that it runs again as it ran then.
    /// `request` and `body` are the recorded ones; an error is the fault of that request.
    pub fn restore_state(
        &self,
        state: &TurnState,
        request: &TurnRequest,
        body: &Arc<String>,
    ) -> Result<(), Fault> {
        let config = self.config.load_full();
        let ctx = self.turn_context(request, &config);
        let source = TurnSource::from_shared(Arc::clone(body));
        let mut source = source.with_proxy_tools(state.proxy_tools.clone());
        if let Some(listing) = &state.mcp {
            source = source.with_mcp_listing(Arc::new(listing.clone()));
        }
        let turn = source.turn()?;
        let mut session = Session::from_turn(&ctx.caller, &ctx.owner, &turn);
        if let Some(history) = &state.history {
            session.id.clone_from(&history.session);
        }
        let routes = resolve_routes(&ctx, &config, &self.shared, &turn)?;
        let prompt = ctx.caller.prompt(&turn, body.len());
        self.shared
            .restore(state, &config, &ctx.owner, &session.id, prompt, &routes);
        Ok(())
    }

    /// The context of the turn that answers this request.
    pub(super) fn turn_context(&self, request: &TurnRequest, config: &Arc<Config>) -> TurnContext {
        let environment = self.environments.create(&request.id, config);
        self.context_with(request, config, environment)
    }

    /// Refuses a request of an owner who has used up a limit of the day.
    pub(super) fn check_day(&self, owner: &str, config: &Config) -> Result<(), Fault> {
        let limits = config.clients.limits(owner);
        if !limits.has_day() {
            return Ok(());
        }
        let now = System.unix();
        let ended = self.metrics.spent().of(now, owner);
        let spent = ended.and(self.running.spending(owner));
        check_day(owner, limits, spent, now)
    }

    /// Lets a turn or a search begin, within the limits of its owner. It runs until the slot is
    /// dropped.
    pub fn admit(&self, owner: &Arc<str>, config: &Config) -> Result<OwnerSlot, Fault> {
        self.check_day(owner, config)?;
        let limits = config.clients.limits(owner);
        let slot = self.slots.take(owner, limits);
        slot.ok_or_else(|| too_many_at_once(owner, limits))
    }

    pub(super) fn context_with(
        &self,
        request: &TurnRequest,
        config: &Config,
        environment: TurnEnvironment,
    ) -> TurnContext {
        let identity = self.shared.recorded_identity.lock().clone();
        TurnContext {
            request_id: Arc::clone(&request.id),
            owner: Arc::clone(&request.owner),
            caller: Caller::from_headers(&request.headers),
            // A token of its own, so that turns do not wait for each other to look at it.
            shutdown: self.shutdown.child_token(),
            client: request.client.clone(),
            deadline: Instant::now() + config.server.turn_timeout,
            stop: self.environments.stop_flag(),
            job: identity.is_some().then(BackgroundJob::replayed),
            identity,
            connection: None,
            mcp: None,
            environment,
        }
    }
}
