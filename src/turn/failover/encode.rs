//! Plans a turn for one route and encodes the upstream request.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::plan::{self, Bounds, Plan};
use adapters::quirk_patch::QuirkPatch;
use adapters::refusal::change::Change;
use adapters::responses::assembler::AnswerParams;
use adapters::responses::prompt_cache::removed_reasoning;
use adapters::token_count;
use adapters::turn::{ItemKind, Turn};
use adapters::wire::{self, EncodeOptions, WireRequest};
use registry::Route;

use super::{Failover, PlannedTurn, PreparedAttempt};
use crate::artifacts::ArtifactCommit;
use crate::store::NewArtifact;
use crate::turn::observer::TurnEvent;
use crate::turn::prefix::{CacheSettings, FingerprintContext, Originals, RequestFingerprint};
use crate::turn::session_changes::ChangedSession;
use crate::upstream::{UpstreamRequest, is_limit};

impl Failover {
    /// Encodes the turn for a route and begins to store the outputs that the plan shortens.
    pub(super) fn prepare_attempt(
        &self,
        turn: &Turn<'_>,
        unpatched: &Route,
    ) -> Result<PreparedAttempt, Fault> {
        let mut planned = self.plan(turn, unpatched);
        // A plan whose making was stopped is incomplete.
        turn.stop.check()?;
        let mut artifact_commit = self.store_outputs(turn, &planned.plan);
        if let Some(commit) = &mut artifact_commit {
            let unkept = commit.take_unkept();
            if !unkept.is_empty() {
                planned.unkept.extend(unkept);
                planned.plan = self.plan_within(turn, &planned.bounds, &planned.unkept);
            }
        }
        if !planned.unkept.is_empty()
            && let Some(observer) = &self.observer
        {
            observer.on_event(TurnEvent::Unkept(&planned.unkept));
        }
        let WireRequest {
            path,
            headers,
            encoded,
        } = planned.encode(turn)?;
        let PlannedTurn {
            route,
            limits,
            plan,
            unkept,
            bounds,
            ..
        } = planned;
        let unpatched = unpatched.clone();
        let tried_again = self.tried_again(turn, &unpatched, &encoded.body);
        let upstream = self.shared.upstreams.get(&self.config, &route.provider)?;
        let answer_params = AnswerParams {
            seal_reasoning: turn.controls.encrypted_reasoning
                || route.dialect.quirks.requires_reasoning(),
            origin: route.full_name(),
            estimated_input_tokens: encoded.estimated_tokens,
            bytes_per_token: route.model.bytes_per_token(),
            relayed_tools: wire::relayed_tools(&route.dialect.quirks, turn, &route.model),
        };
        let context = FingerprintContext {
            route: answer_params.origin.clone(),
            epochs: plan.epochs,
            asks_for_summary: self.asks_for_summary || turn.purpose.summary_mode().is_some(),
            summaries: count_summaries(turn),
            settings: CacheSettings::new(&turn.controls),
        };
        let ratios = &self.shared.token_ratios;
        let neutral_tokens = ratios
            .wants(&answer_params.origin, encoded.body.len())
            .then(|| token_count::input_tokens(turn, &plan));
        let originals = Originals::new(turn, &plan, answer_params.bytes_per_token);
        let fingerprint = Arc::new(RequestFingerprint::new(&encoded, context, &originals));
        let removed_reasoning = removed_reasoning(
            turn,
            &encoded.spans,
            &answer_params.origin,
            route.dialect.quirks.replays_reasoning(),
        );
        // The buffer was allocated with room to grow, and the body may live as long as the turn.
        let mut body = encoded.body;
        body.shrink_to_fit();
        let text_bytes = if encoded.has_media { 0 } else { body.len() };
        let mut notes = encoded.notes;
        if !unkept.is_empty() {
            notes.add("output_not_kept", format!("{} outputs", unkept.len()));
        }
        if bounds.unshortened_from.is_some() {
            notes.add("outputs_whole", "shortening cost more than it saved");
        }
        Ok(PreparedAttempt {
            upstream,
            request: UpstreamRequest {
                path,
                headers,
                body: body.into(),
            },
            fingerprint,
            answer_params,
            has_proxy_tools: plan.has_proxy_tools(turn),
            has_artifact_tools: plan.artifact_tools,
            neutral_tokens,
            text_bytes,
            notes,
            removed_reasoning,
            cache_comparison: turn.cache_comparison.clone(),
            artifact_commit,
            route,
            unpatched,
            limits,
            tried_again,
        })
    }

    /// The old patches of a route that this turn does without, and with which its request would be
    /// another one than this.
    fn tried_again(&self, turn: &Turn<'_>, route: &Route, body: &[u8]) -> Vec<QuirkPatch> {
        let learned = self.shared.upstreams.learned_quirks();
        let old = learned
            .tried_again(route, self.patches_of(route))
            .into_iter();
        let is_needless = |patch: &QuirkPatch| {
            let planned = self.plan_with(turn, route, Some(*patch));
            let with = planned.encode(turn);
            with.is_ok_and(|with| with.encoded.body == body)
        };
        old.filter(|patch| !is_needless(patch)).collect()
    }

    /// Plans the turn for a route. Stores nothing.
    pub(super) fn plan(&self, turn: &Turn<'_>, route: &Route) -> PlannedTurn {
        self.plan_with(turn, route, None)
    }

    /// The same with a further patch.
    fn plan_with(
        &self,
        turn: &Turn<'_>,
        route: &Route,
        further: Option<QuirkPatch>,
    ) -> PlannedTurn {
        let mut route = route.clone();
        let shared = &self.shared;
        let ratio = shared.bytes_per_token(&self.owner, &self.session, &route);
        if route.model.learned_bytes_per_token != ratio {
            Arc::make_mut(&mut route.model).learned_bytes_per_token = ratio;
        }
        let learned = shared.upstreams.learned_quirks();
        let of = self.patches_of(&route);
        let mut limits = learned.apply(&mut route, of);
        limits.retain(|patch| is_limit(*patch));
        let unchanged = ChangedSession::default();
        let changed = self.changed.get(&route.full_name());
        let ChangedSession {
            left_out,
            experiments,
            ..
        } = changed.unwrap_or(&unchanged);
        let tried = experiments.changes().filter_map(|change| match change {
            Change::Quirk(patch) => Some(*patch),
            Change::Content(_) => None,
        });
        for patch in tried.chain(further) {
            let dialect = Arc::make_mut(&mut route.dialect);
            let model = Arc::make_mut(&mut route.model);
            wire::apply_patch(patch, &mut dialect.quirks, model);
        }
        let mut left_out = experiments.left_out(left_out);
        if left_out.newest_images.is_some() {
            let images = turn.images().into_iter().map(|image| image.key);
            left_out = left_out.with_old_images(&images.collect::<Vec<_>>());
        }
        let known_baggage = if route.dialect.quirks.wants_baggage() {
            shared
                .memory
                .reasoning(&self.owner, &self.session, || turn.call_ids())
        } else {
            HashMap::new()
        };
        if !known_baggage.is_empty()
            && let Some(observer) = &self.observer
        {
            observer.on_event(TurnEvent::Baggage(&known_baggage));
        }
        let (outputs, retention) = (self.config.context.outputs, shared.artifacts.retention());
        let bounds =
            Bounds::for_model(&route.model, outputs, retention).for_dialect(&route.dialect);
        let bounds = bounds.with_unshortened_from(self.unshortened_from.clone());
        let mut unkept = self.unkept.clone();
        unkept.extend(shared.artifacts.recorded_as_unkept().iter().cloned());
        PlannedTurn {
            plan: self.plan_within(turn, &bounds, &unkept),
            route,
            limits,
            left_out,
            known_baggage,
            bounds,
            unkept,
        }
    }

    fn plan_within(&self, turn: &Turn<'_>, bounds: &Bounds, unkept: &BTreeSet<String>) -> Plan {
        plan::plan_with_unkept(turn, bounds, &self.shared.outputs, unkept)
    }

    /// Begins to store the whole outputs that the plan shortens. `None` if all are stored.
    fn store_outputs(&self, turn: &Turn<'_>, plan: &Plan) -> Option<ArtifactCommit> {
        let artifacts = &self.shared.artifacts;
        let new: Vec<NewArtifact> = plan
            .replacements
            .iter()
            .filter_map(|(index, shown)| {
                let item = turn.items.get(*index)?;
                let artifact = shown.artifact.as_ref()?;
                artifacts.missing_artifact((&self.owner, &self.session), item, artifact)
            })
            .collect();
        if new.is_empty() {
            return None;
        }
        let shown = plan.replacements.values();
        let named = shown.filter_map(|shown| Some(shown.artifact.as_ref()?.id.clone()));
        let named = named.collect();
        Some(artifacts.keep(&self.owner, &self.session, new, named))
    }
}

impl PlannedTurn {
    /// Encodes the request.
    pub(super) fn encode(&self, turn: &Turn<'_>) -> Result<WireRequest, Fault> {
        let options = EncodeOptions {
            dialect: &self.route.dialect,
            model: &self.route.model,
            upstream_model: &self.route.upstream_model,
            origin: &self.route.full_name(),
            known_baggage: Some(&self.known_baggage),
            left_out: Some(&self.left_out).filter(|left_out| !left_out.is_empty()),
        };
        wire::encode(turn, &self.plan, &options)
    }
}

/// Counts the compaction items in the history.
fn count_summaries(turn: &Turn<'_>) -> usize {
    let items = turn.items.iter();
    items
        .filter(|item| item.kind == ItemKind::Compaction)
        .count()
}
