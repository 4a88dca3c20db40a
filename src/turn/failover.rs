//! Route order and failover of one turn.
//!
//! [`Failover`] has the routes that can answer a turn and hands out one [`PreparedAttempt`] at a
//! time, the best one first. `encode` builds these: it plans the turn for a route and encodes the
//! upstream request. `adapting` answers refusals with another one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use adapters::event::Usage;
use adapters::experiments::Experiments;
use adapters::fault::{Fault, Kind};
use adapters::notes::Notes;
use adapters::plan::{Bounds, OutputPolicy, Plan, UnshortenedFrom};
use adapters::provider_error;
use adapters::quirk_patch::QuirkPatch;
use adapters::refusal::change::LeftOut;
use adapters::responses::assembler::AnswerParams;
use adapters::responses::prompt_cache::{PromptCacheDiagnostics, RemovedReasoning};
use adapters::responses::request::TurnSource;
use adapters::token_count;
use adapters::turn::Turn;
use registry::Route;
use tokio::time::Instant;

use super::calibration::TokenCalibration;
use super::caller::TurnKind;
use super::context::TurnContext;
use super::observer::TurnObserver;
use super::prefix::{BillForecast, PrefixReport, RequestFingerprint};
use super::route::{cost_of, redacted_route_name};
use super::routed_history::RoutedHistory;
use super::session_changes::ChangedSession;
use super::shared::SharedState;
use super::stored_prompts::PendingComparison;
use super::whole_sessions::is_lost;
use crate::artifacts::ArtifactCommit;
use crate::clock::{Clock as _, System};
use crate::config::Config;
use crate::log::SafeText;
use crate::upstream::{LIMIT_LIFETIME, PatchesOf, RatioKey, Upstream, UpstreamRequest, is_limit};

mod adapting;
mod encode;

/// The id of the warning that a window or an output limit was learned from a refusal.
const LIMIT_LEARNED: &str = "MODEL_LIMIT_LEARNED";
/// The id of the warning that a refusal named a limit which cannot be true.
const LIMIT_NOT_BELIEVED: &str = "MODEL_LIMIT_NOT_BELIEVED";

/// The routes of one turn that have not been tried, and what is needed to encode the turn for
/// them. Created with the turn; once content has arrived, [`commit_route`](Self::commit_route)
/// ends failover.
pub(super) struct Failover {
    config: Arc<Config>,
    shared: Arc<SharedState>,
    owner: Arc<str>,
    session: String,
    /// See [`RoutedHistory::prompt`].
    prompt: u64,
    /// Codex marked the request as a compaction.
    asks_for_summary: bool,
    /// Full name of the route that the session used so far, or of the first choice in a new
    /// session. Empty if there is only one route.
    preferred_route: String,
    /// The preferred route, if its provider is down and another route is tried first.
    skipped_route: Option<Route>,
    observer: Option<Arc<dyn TurnObserver>>,
    /// The routes that were not tried yet, in order.
    remaining: VecDeque<Route>,
    /// The client's request. Dropped once the answer has content.
    source: Option<TurnSource>,
    /// The ids of the artifacts that could not be kept, neither on disk nor in memory.
    unkept: BTreeSet<String>,
    /// The point from which on the outputs of the session are sent whole, if they are.
    unshortened_from: Option<UnshortenedFrom>,
    /// What the session does otherwise on each route, by its full name.
    changed: BTreeMap<String, ChangedSession>,
    /// When the turn began, in seconds since 1970.
    now: u64,
    /// Old patches are left out, see [`PatchesOf::tries_again`].
    tries_again: bool,
    /// The turn has a history.
    has_history: bool,
    /// Hashes of the bodies that were refused in this round.
    refused: HashSet<u64>,
}

/// How a prompt compares with that of the response that the client named.
pub(super) enum PromptComparison {
    Known(PromptCacheDiagnostics),
    Pending(PendingComparison),
}

/// A turn encoded for one route, ready to be sent. Replaced when the turn is encoded again with a
/// quirk patch or goes to another route.
pub(super) struct PreparedAttempt {
    /// The route, with the learned quirk patches applied.
    pub(super) route: Route,
    /// The route without them.
    pub(super) unpatched: Route,
    /// Those of the patches that are limits.
    pub(super) limits: Vec<QuirkPatch>,
    /// Old patches that would change the request and are left out of it.
    pub(super) tried_again: Vec<QuirkPatch>,
    pub(super) upstream: Arc<Upstream>,
    /// The upstream request. Its body is emptied once content has arrived.
    pub(super) request: UpstreamRequest,
    pub(super) fingerprint: Arc<RequestFingerprint>,
    /// The facts about the provider that the assembler needs.
    pub(super) answer_params: AnswerParams,
    /// Whether it offers tools that run in the proxy, and those among them that read artifacts.
    pub(super) has_proxy_tools: bool,
    pub(super) has_artifact_tools: bool,
    /// The neutral estimate of its input tokens, if it is compared with what is counted.
    pub(super) neutral_tokens: Option<u64>,
    /// The bytes of its body, 0 if it has images and the like.
    pub(super) text_bytes: usize,
    /// The changes that this route requires.
    pub(super) notes: Notes,
    /// The reasoning that this route does not get.
    pub(super) removed_reasoning: Vec<RemovedReasoning>,
    /// See [`Turn::cache_comparison`].
    pub(super) cache_comparison: Option<String>,
    /// Storing of the outputs that the request shows as excerpts. It has to be done before the
    /// request is sent, because the request names their artifact ids.
    pub(super) artifact_commit: Option<ArtifactCommit>,
}

/// A turn planned for one route.
struct PlannedTurn {
    /// The route, with the learned quirk patches applied.
    route: Route,
    /// Those of the patches that are limits.
    limits: Vec<QuirkPatch>,
    /// The contents that are left out.
    left_out: LeftOut,
    /// The reasoning state that the provider wants back: blobs by call id.
    known_baggage: HashMap<String, String>,
    bounds: Bounds,
    /// The ids of the artifacts that cannot be kept, so that the plan names none of them.
    unkept: BTreeSet<String>,
    plan: Plan,
}

/// Remembers a quirk patch for the route's model. False if it was known. A limit is logged, because
/// it changes what other sessions get from the model, too.
pub(super) fn learn_patch(
    shared: &SharedState,
    config: &Config,
    route: &Route,
    of: PatchesOf<'_>,
    (patch, evidence): (QuirkPatch, &str),
) -> bool {
    let learned = shared.upstreams.learned_quirks();
    let is_new = learned.learn(route, of, patch, evidence);
    if is_new && is_limit(patch) {
        tracing::warn!(
            "{} refused a request: {patch}; this session, and those that begin within {} minutes, are fitted to it until an answer shows that the model does more [{LIMIT_LEARNED}]",
            SafeText::new(&redacted_route_name(config, route)),
            LIMIT_LIFETIME.as_secs() / 60,
        );
    }
    is_new
}

impl Failover {
    /// Puts the routes in the order in which they are tried: first the route that the session
    /// switched to, then the first choice, then its fallbacks. A route whose provider is down is
    /// not tried first unless all are down.
    pub(super) fn new(ctx: &TurnContext, history: &RoutedHistory) -> Self {
        let mut failover = Self::without_health_check(ctx, history);
        if failover.remaining.len() > 1 {
            let preferred = failover.remaining.front().cloned();
            failover.preferred_route = preferred.as_ref().map(Route::full_name).unwrap_or_default();
            if failover
                .move_to_front(|failover, route| !failover.is_down(route))
                .is_some_and(|index| index > 0)
            {
                failover.skipped_route = preferred;
            }
        }
        failover
    }

    /// The same order, whether or not providers are down.
    fn without_health_check(ctx: &TurnContext, history: &RoutedHistory) -> Self {
        let unshortened_from = history
            .shared
            .whole_session(&ctx.owner, &history.session.id);
        let shared = &history.shared;
        let now = ctx.environment.clock.unix();
        let session = &history.session.id;
        let mut failover = Self {
            changed: history
                .routes
                .iter()
                .map(Route::full_name)
                .map(|name| {
                    let mut changed = shared.session_changes.get(&ctx.owner, session, &name);
                    if changed.prompt != history.prompt {
                        changed.experiments = Experiments::default();
                        changed.prompt = history.prompt;
                    }
                    (name, changed)
                })
                .collect(),
            now,
            tries_again: shared
                .memory
                .last_route(&ctx.owner, [session.into()])
                .is_none(),
            has_history: false,
            config: Arc::clone(&history.config),
            shared: Arc::clone(&history.shared),
            owner: Arc::clone(&ctx.owner),
            session: history.session.id.clone(),
            prompt: history.prompt,
            asks_for_summary: ctx.caller.kind == TurnKind::Compaction,
            preferred_route: String::new(),
            skipped_route: None,
            observer: ctx.environment.observer.clone(),
            remaining: history.routes.clone().into(),
            source: None,
            unkept: BTreeSet::new(),
            unshortened_from,
            refused: HashSet::new(),
        };
        if failover.remaining.len() > 1
            && let Some(current) = failover
                .shared
                .memory
                .moved_to(&ctx.owner, &failover.session)
        {
            failover.move_to_front(|_, route| route.full_name() == current);
        }
        failover
    }

    /// Estimates the input tokens of the turn on the route that would be tried first. Sends and
    /// stores nothing.
    pub(super) fn estimate_tokens(
        ctx: &TurnContext,
        history: &RoutedHistory,
        turn: &Turn<'_>,
    ) -> Result<u64, Fault> {
        let mut failover = Self::without_health_check(ctx, history);
        failover.has_history = turn.has_history();
        let route = failover.remaining.front().ok_or_else(no_route)?;
        let planned = failover.plan(turn, route);
        // What cannot be sent cannot be counted.
        planned.encode(turn)?;
        let estimate = token_count::input_tokens(turn, &planned.plan);
        let ratios = &failover.shared.token_ratios;
        Ok(ratios.correct(&route.full_name(), estimate))
    }

    /// Takes the first route and encodes the turn for it.
    pub(super) fn first_attempt(&mut self, turn: &Turn<'_>) -> Result<PreparedAttempt, Fault> {
        self.has_history = turn.has_history();
        self.tries_again &= !self.has_history;
        match self.remaining.pop_front() {
            Some(route) => self.prepare_attempt(turn, &route),
            None => Err(no_route()),
        }
    }

    /// Keeps the client's request, to encode it again for further attempts.
    pub(super) fn keep_source(&mut self, source: TurnSource) {
        self.source = Some(source);
    }

    /// The session's preferred route if another one is tried first. Returned once.
    pub(super) fn take_skipped_route(&mut self) -> Option<Route> {
        self.skipped_route.take()
    }

    /// Ends failover, because content has arrived on this route: remembers the request's
    /// fingerprint, and the route for the session if it is not the preferred one. Returns how many
    /// changes were learned.
    pub(super) fn commit_route(&mut self, attempt: &PreparedAttempt, response_id: &str) -> usize {
        let learned = self.learn_what_helped(attempt);
        let (shared, route) = (&self.shared, &attempt.route);
        let (owner, session) = (&self.owner, &self.session);
        let (memory, quirks) = (&shared.memory, shared.upstreams.learned_quirks());
        let unpatched = &attempt.unpatched;
        quirks.begin_session(unpatched, self.patches_of(unpatched), &attempt.limits);
        memory.put_request(owner, session, &attempt.fingerprint, response_id);
        if let Some(key) = RatioKey::new(owner, session, route) {
            let (params, ratios) = (&attempt.answer_params, shared.upstreams.learned_ratios());
            let tokens = params.estimated_input_tokens;
            ratios.begin(key, params.bytes_per_token, tokens, System.unix());
        }
        self.source = None;
        self.remaining = VecDeque::new();
        let preferred = std::mem::take(&mut self.preferred_route);
        if !preferred.is_empty() && preferred != route.full_name() {
            let memory = &shared.memory;
            memory.set_route(&self.owner, &self.session, route.full_name());
        }
        learned
    }

    /// Compares the attempt's request with the previous one of the session.
    pub(super) fn prefix_report(&self, attempt: &PreparedAttempt) -> PrefixReport {
        let memory = &self.shared.memory;
        memory.prefix_report(&self.owner, &self.session, &attempt.fingerprint)
    }

    /// Compares the attempt's prompt with that of the response that the client named, if it did. A
    /// response that is not in memory is looked for in the store.
    pub(super) fn compare_prompt(&self, attempt: &PreparedAttempt) -> Option<PromptComparison> {
        let compared = attempt.cache_comparison.as_ref()?;
        let (owner, session) = (&self.owner, &self.session);
        let (shared, request) = (&self.shared, &attempt.fingerprint);
        let known = shared
            .memory
            .cache_diagnostics(owner, session, request, compared);
        if let Some(known) = known {
            return Some(PromptComparison::Known(known));
        }
        let pending = shared.prompts.compare(owner, compared, request);
        Some(pending.map_or(
            PromptComparison::Known(PromptCacheDiagnostics::ComparisonResponseNotFound),
            PromptComparison::Pending,
        ))
    }

    /// Stores the prompt of an attempt that was answered, in the background.
    pub(super) fn store_prompt(&self, attempt: &PreparedAttempt) {
        let (owner, session) = (&self.owner, &self.session);
        self.shared
            .store_prompt(owner, session, &attempt.fingerprint);
    }

    /// Estimates what the provider will count for the attempt's request.
    pub(super) fn bill_forecast(&self, attempt: &PreparedAttempt) -> BillForecast {
        let memory = &self.shared.memory;
        let (owner, session) = (&self.owner, &self.session);
        memory.bill_forecast(owner, session, &attempt.fingerprint, &attempt.route)
    }

    /// Whether another route could answer.
    pub(super) fn has_alternative(&self) -> bool {
        self.source.is_some() && self.remaining.iter().any(|route| !self.is_down(route))
    }

    /// Re-encodes for the same route with the quirk patches learned since.
    pub(super) fn encode_again(
        &self,
        ctx: &TurnContext,
        route: &Route,
    ) -> Result<PreparedAttempt, Fault> {
        match &self.source {
            Some(source) => ctx.run_work(source.size(), || {
                self.prepare_attempt(&source.turn()?, route)
            }),
            None => Err(Fault::new(Kind::Internal, "The request is gone already.")),
        }
    }

    /// Re-encodes for the same route without naming these artifacts, which could not be kept.
    pub(super) fn encode_without(
        &mut self,
        ctx: &TurnContext,
        unkept: BTreeSet<String>,
        route: &Route,
    ) -> Result<PreparedAttempt, Fault> {
        self.unkept.extend(unkept);
        self.encode_again(ctx, route)
    }

    /// Takes the next route whose provider is not down and encodes the turn for it. Routes for
    /// which it cannot be encoded are passed by.
    pub(super) fn next_attempt(&mut self, ctx: &TurnContext) -> Option<PreparedAttempt> {
        loop {
            let index = self
                .remaining
                .iter()
                .position(|route| !self.is_down(route))?;
            let route = self.remaining.remove(index)?;
            if let Ok(attempt) = self.encode_again(ctx, &route) {
                return Some(attempt);
            }
        }
    }

    /// Takes the quirk patch out of an attempt's fault if it names a limit that cannot be true: the
    /// refusal quotes the request, or the model is known to do more. The fault stays as it is
    /// otherwise. Returns whether it did.
    pub(super) fn drop_wrong_limit(&self, attempt: &PreparedAttempt, fault: &mut Fault) -> bool {
        let Some(patch) = fault.patch.filter(|patch| is_limit(*patch)) else {
            return false;
        };
        let learned = self.shared.upstreams.learned_quirks();
        let reason = if provider_error::quotes_limit(&fault.message, patch, &attempt.request.body) {
            "the refusal quotes the request"
        } else if learned.believes(&attempt.route, patch) {
            return false;
        } else {
            "the model has answered more, or is listed with far more"
        };
        fault.patch = None;
        tracing::warn!(
            "{} refused a request as if {patch}; nothing is changed, because {reason} [{LIMIT_NOT_BELIEVED}]",
            SafeText::new(&redacted_route_name(&self.config, &attempt.route)),
        );
        true
    }

    /// How many requests have failed for the client's prompt.
    pub(super) fn failed_requests(&self) -> u32 {
        let memory = &self.shared.memory;
        memory.failed_requests(&self.owner, &self.session, self.prompt)
    }

    /// Counts a request that failed. Returns how many have.
    pub(super) fn count_failed_request(&self) -> u32 {
        let memory = &self.shared.memory;
        memory.add_failed_requests(&self.owner, &self.session, self.prompt, 1)
    }

    /// Forgets the failed requests, because one was answered.
    pub(super) fn forget_failed_requests(&self) {
        let memory = &self.shared.memory;
        memory.forget_failed_requests(&self.owner, &self.session);
    }

    /// Caches the reasoning state that the provider wants back with the calls of an answer.
    pub(super) fn cache_reasoning<'i>(&self, origin: &str, items: impl Iterator<Item = &'i [u8]>) {
        let memory = &self.shared.memory;
        memory.keep_reasoning(&self.owner, &self.session, origin, items);
    }

    /// Remembers the tokens that the provider counted for the attempt's request and its answer.
    pub(super) fn record_answer(
        &self,
        attempt: &PreparedAttempt,
        forecast: &BillForecast,
        usage: Usage,
    ) {
        let (memory, request) = (&self.shared.memory, &attempt.fingerprint);
        memory.count_request(&self.owner, &self.session, request, forecast, usage);
        let route = &attempt.route;
        let learned = self.shared.upstreams.learned_quirks();
        learned.record_answer(&route.provider.id, &route.upstream_model, usage);
        if let Some(key) = RatioKey::new(&self.owner, &self.session, route) {
            let ratios = self.shared.upstreams.learned_ratios();
            ratios.record(&key, attempt.text_bytes, usage, System.unix());
        }
        if let Some(neutral) = attempt.neutral_tokens {
            let (ratios, route) = (&self.shared.token_ratios, &attempt.answer_params.origin);
            ratios.record(route, neutral, usage.input);
        }
    }

    /// Counts whether the attempt's turn lost against what it would have cost with nothing
    /// shortened. True if enough were lost that the outputs of the session are sent whole from now
    /// on. A turn that the window would not have held, or that nothing is known about, does not
    /// count.
    pub(super) fn count_lost(
        &self,
        attempt: &PreparedAttempt,
        forecast: &BillForecast,
        usage: Usage,
    ) -> bool {
        let is_shortened = match self.config.context.outputs {
            OutputPolicy::Adaptive | OutputPolicy::Fixed => self.unshortened_from.is_none(),
            OutputPolicy::Whole => false,
        };
        let (Some(price), true) = (&attempt.route.model.price, is_shortened) else {
            return false;
        };
        let Some(unshortened) = forecast.unshortened_usage(usage) else {
            return false;
        };
        let is_lost = is_lost(cost_of(price, usage), cost_of(price, unshortened));
        let (memory, request) = (&self.shared.memory, &attempt.fingerprint);
        let from = memory.count_lost(&self.owner, &self.session, request, is_lost);
        let Some(from) = from else {
            return false;
        };
        let (owner, session) = (&self.owner, &self.session);
        self.shared.send_whole(owner, session, from);
        true
    }

    /// Remembers how many tokens were counted or estimated for the attempt's request.
    pub(super) fn calibrate(&self, attempt: &PreparedAttempt, counted: u64) {
        let calibration = TokenCalibration {
            route: attempt.answer_params.origin.clone(),
            estimated: attempt.answer_params.estimated_input_tokens,
            counted,
        };
        let memory = &self.shared.memory;
        memory.calibrate(&self.owner, &self.session, calibration);
    }

    fn is_down(&self, route: &Route) -> bool {
        let upstream = self.shared.upstreams.get(&self.config, &route.provider);
        upstream.map_or(true, |upstream| {
            upstream.health().down_for(Instant::now()).is_some()
        })
    }

    /// Moves the first remaining route that matches to the front, and returns its old index.
    fn move_to_front(&mut self, matches: impl Fn(&Self, &Route) -> bool) -> Option<usize> {
        let index = self
            .remaining
            .iter()
            .position(|route| matches(self, route))?;
        let route = self.remaining.remove(index)?;
        self.remaining.push_front(route);
        Some(index)
    }
}

fn no_route() -> Fault {
    Fault::new(Kind::Internal, "There is no route.")
}
