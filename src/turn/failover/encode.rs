//! Plans a turn for one route and encodes the upstream request.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::plan::{self, Bounds, Plan};
use adapters::responses::assembler::AnswerParams;
use adapters::turn::{ItemKind, Turn};
use adapters::wire::{self, EncodeOptions, WireRequest};
use registry::Route;

use super::{Failover, PlannedRequest, PreparedAttempt};
use crate::artifacts::ArtifactCommit;
use crate::store::NewArtifact;
use crate::turn::observer::TurnEvent;
use crate::turn::prefix::{FingerprintContext, RequestFingerprint};
use crate::upstream::UpstreamRequest;

impl Failover {
    /// Encodes the turn for a route and begins to store the outputs that the plan shortens.
    pub(super) fn prepare_attempt(
        &self,
        turn: &Turn<'_>,
        route: &Route,
    ) -> Result<PreparedAttempt, Fault> {
        let PlannedRequest {
            route,
            plan,
            request,
        } = self.plan_and_encode(turn, route)?;
        let WireRequest {
            path,
            headers,
            encoded,
        } = request;
        let upstream = self.shared.upstreams.get(&self.config, &route.provider)?;
        let artifact_commit = self.store_outputs(turn, &plan);
        let wants_baggage = route.dialect.quirks.wants_baggage();
        let answer_params = AnswerParams {
            seal_reasoning: wants_baggage || turn.controls.encrypted_reasoning,
            origin: route.full_name(),
            estimated_input_tokens: encoded.estimated_tokens,
            bytes_per_token: route.model.bytes_per_token(),
        };
        let context = FingerprintContext {
            route: answer_params.origin.clone(),
            epochs: plan.epochs,
            asks_for_summary: self.asks_for_summary || turn.purpose.summary_mode().is_some(),
            summaries: count_summaries(turn),
        };
        let fingerprint = Arc::new(RequestFingerprint::new(&encoded, context));
        // The buffer was allocated with room to grow, and the body may live as long as the turn.
        let mut body = encoded.body;
        body.shrink_to_fit();
        Ok(PreparedAttempt {
            upstream,
            request: UpstreamRequest {
                path,
                headers,
                body: body.into(),
            },
            fingerprint,
            answer_params,
            notes: encoded.notes,
            artifact_commit,
            route,
        })
    }

    /// Plans the turn and encodes its request. Stores nothing.
    pub(super) fn plan_and_encode(
        &self,
        turn: &Turn<'_>,
        route: &Route,
    ) -> Result<PlannedRequest, Fault> {
        let mut route = route.clone();
        let shared = &self.shared;
        shared.upstreams.learned_quirks().apply(&mut route);
        let (dialect, model) = (&route.dialect, &route.model);
        let known_baggage = if dialect.quirks.wants_baggage() {
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
        let origin = route.full_name();
        let (outputs, retention) = (self.config.context.outputs, shared.artifacts.retention());
        let bounds = Bounds::for_model(model, outputs, retention).for_dialect(dialect);
        let plan = plan::plan_with_cache(turn, &bounds, &shared.outputs);
        let options = EncodeOptions {
            dialect,
            model,
            upstream_model: &route.upstream_model,
            origin: &origin,
            known_baggage: Some(&known_baggage),
        };
        let request = wire::encode(turn, &plan, &options)?;
        Ok(PlannedRequest {
            route,
            plan,
            request,
        })
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
        (!new.is_empty()).then(|| artifacts.keep(&self.owner, &self.session, new))
    }
}

/// Counts the compaction items in the history.
fn count_summaries(turn: &Turn<'_>) -> usize {
    let items = turn.items.iter();
    items
        .filter(|item| item.kind == ItemKind::Compaction)
        .count()
}
