//! Encodes the upstream requests of a turn again, from the redacted client request.
//!
//! An excerpt can cut a secret in half; the half is not recognised. So: redact the
//! client's request, encode it again the same way, and store that as the upstream
//! request. A replay does the same and sends the same bytes.
//!
//! How a request was encoded is not recorded. It is found by trying the possible
//! quirk sets and purposes on the original client request until the result equals the
//! recorded upstream request to the byte.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::encoded::Encoded;
use adapters::plan::{Bounds, NoCache, Plan, SequenceEntry, plan};
use adapters::purpose::{Purpose, SummaryMode};
use adapters::quirk_patch::QuirkPatch;
use adapters::responses::request::TurnSource;
use adapters::wire;
use registry::RouteSnapshot;

use super::ids::ChangedArtifactIds;
use super::opaque;
use crate::diagnostics::bundle::{BundleAttempt, BundleTurn};
use crate::turn::{Spelling, TurnState, first_retained_item};

/// Encodes the requests of a recorded turn again, state the turn with and without its
/// secrets.
pub(super) struct Reencoder<'t> {
    old: TurnSide<'t>,
    new: TurnSide<'t>,
}

/// The result of encoding one upstream request again.
pub(super) enum Reencoded {
    /// The encoded redacted request, and its estimated size in tokens.
    Body(Vec<u8>, u64),
    /// The encoding was not found, but nothing in the request was shortened.
    Whole,
    /// The encoding was not found; the request may contain a part of a secret.
    Unknown,
}

/// A turn, original or redacted, and its client request.
struct TurnSide<'t> {
    turn: &'t BundleTurn,
    source: TurnSource,
}

/// A set of quirk patches with which a request may have been encoded.
struct RequestVariant {
    /// Index of the route in the settings of the turn.
    route: usize,
    /// The quirk patches that were known for the model, in order.
    patches: Vec<QuirkPatch>,
}

impl<'t> Reencoder<'t> {
    /// `None` if the client's request is not valid UTF-8.
    pub(super) fn of(old: &'t BundleTurn, new: &'t BundleTurn) -> Option<Self> {
        Some(Self {
            old: TurnSide::of(old)?,
            new: TurnSide::of(new)?,
        })
    }

    /// Artifact ids that changed because the redacted text hashes differently: old -> new.
    pub(super) fn ids(&self) -> Option<ChangedArtifactIds> {
        let (old, new) = (self.old.source.turn().ok()?, self.new.source.turn().ok()?);
        Some(ChangedArtifactIds::between(&old, &new))
    }

    /// The plan of the redacted request as JSON; `None` if the recorded plan could not be
    /// reproduced.
    pub(super) fn plan(&self) -> Option<Vec<u8>> {
        let attempt = self.old.turn.attempts.first()?;
        [true, false].into_iter().find_map(|reasoning| {
            let old = self.old.plan(attempt, reasoning)?;
            if old != self.old.turn.plan {
                return None;
            }
            self.new.plan(attempt, reasoning)
        })
    }

    /// Encodes the request of an attempt again.
    pub(super) fn request(&self, index: usize) -> Reencoded {
        let attempts = &self.old.turn.attempts;
        let Some(attempt) = attempts.get(index) else {
            return Reencoded::Unknown;
        };
        let mut whole = true;
        for variant in self.variants(attempts, index) {
            for (old, new) in self.purposes() {
                let Some((plan, sent)) = self.old.request(&variant, old) else {
                    continue;
                };
                whole &= !shortens(&plan);
                // A prefix is enough: the recorded body may have been cut.
                if !sent.body.starts_with(&attempt.body) {
                    continue;
                }
                let Some((_, made)) = self.new.request(&variant, new) else {
                    continue;
                };
                let mut body = made.body;
                if attempt.body.len() < sent.body.len() {
                    body.truncate(attempt.body.len());
                }
                return Reencoded::Body(body, made.estimated_tokens);
            }
        }
        if whole {
            Reencoded::Whole
        } else {
            Reencoded::Unknown
        }
    }

    /// The possible quirk sets of an attempt, likeliest first. The patches that the earlier
    /// attempts suggested are applied in order, except the last ones, which are rolled back
    /// if they did not help.
    fn variants(&self, attempts: &[BundleAttempt], index: usize) -> Vec<RequestVariant> {
        let Some(attempt) = attempts.get(index) else {
            return Vec::new();
        };
        let mut routes = self.old.turn.settings.routes.iter();
        let Some(route) = routes.position(|route| route.full_name() == attempt.route) else {
            return Vec::new();
        };
        let Some(settings) = self.old.turn.settings.routes.get(route) else {
            return Vec::new();
        };
        let known = self
            .old
            .turn
            .state_before
            .model_patches
            .iter()
            .filter(|learned| {
                learned.provider == settings.provider && learned.model == settings.upstream_model
            });
        let known: Vec<QuirkPatch> = known.flat_map(|learned| learned.patches.clone()).collect();
        let before = attempts.iter().take(index);
        let learned_before = before.filter(|before| before.route == attempt.route);
        let learned_before = learned_before.filter_map(|before| before.fault.as_ref()?.patch);
        let mut learned_before: Vec<QuirkPatch> = learned_before.collect();
        learned_before.dedup();
        let counts = (0..=learned_before.len()).rev();
        counts
            .map(|count| RequestVariant {
                route,
                patches: known
                    .iter()
                    .chain(learned_before.iter().take(count))
                    .copied()
                    .collect(),
            })
            .collect()
    }

    /// Possible purposes of a request, likeliest first, as pairs for the original and the
    /// redacted turn.
    fn purposes(&self) -> Vec<(Purpose, Purpose)> {
        let (old, new) = (&self.old, &self.new);
        let mut purposes = vec![(Purpose::Answer, Purpose::Answer)];
        if let (Some(old), Some(new)) = (old.compacted(), new.compacted()) {
            purposes.push((old, new));
        }
        for mode in [SummaryMode::NextTurn, SummaryMode::FitWindow] {
            purposes.push((Purpose::summary(mode), Purpose::summary(mode)));
            purposes.push((old.prompted(mode), new.prompted(mode)));
        }
        purposes
    }
}

impl<'t> TurnSide<'t> {
    fn of(turn: &'t BundleTurn) -> Option<Self> {
        let body = String::from_utf8(turn.request.body.clone()).ok()?;
        let items = turn.state_before.items.iter();
        let items: HashMap<String, Arc<str>> = items
            .map(|(id, json)| (id.clone(), json.as_str().into()))
            .collect();
        let hidden_rounds = turn.state_before.hidden_rounds.iter();
        Some(Self {
            turn,
            source: TurnSource::new(body)
                .with_items(items)
                .with_hidden_rounds(hidden_rounds.cloned().map(Arc::new).collect())
                .with_proxy_tools(turn.state_before.proxy_tools.clone()),
        })
    }

    fn request(&self, variant: &RequestVariant, purpose: Purpose) -> Option<(Plan, Encoded)> {
        let TurnState {
            outputs,
            retention,
            baggage,
            ..
        } = &self.turn.state_before;
        let route: &RouteSnapshot = self.turn.settings.routes.get(variant.route)?;
        let (mut dialect, mut model) = (route.dialect.clone(), route.model.clone());
        for patch in &variant.patches {
            wire::apply_patch(*patch, &mut dialect.quirks, &mut model);
        }
        let known_baggage = if dialect.quirks.wants_baggage() {
            baggage.clone().into_iter().collect()
        } else {
            HashMap::new()
        };
        let spelling = Spelling {
            dialect: &dialect,
            model: &model,
            upstream_model: &route.upstream_model,
            origin: &route.full_name(),
            outputs: *outputs,
            retention: *retention,
            known_baggage: &known_baggage,
        };
        let source = self.source.with_purpose(purpose);
        let (plan, request) = spelling.request(&source.turn().ok()?, &NoCache).ok()?;
        Some((plan, request.encoded))
    }

    fn plan(&self, attempt: &BundleAttempt, reasoning: bool) -> Option<Vec<u8>> {
        let state = &self.turn.state_before;
        let bounds = Bounds {
            window: attempt.window?,
            bytes_per_token: attempt.bytes_per_token,
            replays_reasoning: reasoning,
            outputs: state.outputs,
            retention: state.retention,
        };
        serde_json::to_vec_pretty(&plan(&self.source.turn().ok()?, &bounds)).ok()
    }

    /// The purpose of a request that follows a compaction within the turn: its summary is
    /// found in the response to the client.
    fn compacted(&self) -> Option<Purpose> {
        let answer = &self.turn.answer.body;
        let blob = opaque::blobs(answer).into_iter().find_map(|part| {
            let blob = std::str::from_utf8(answer.get(part)?).ok()?;
            blob.starts_with("rsc1.").then_some(blob)
        })?;
        Some(Purpose::Compacted {
            blob: blob.into(),
            from: first_retained_item(&self.source.turn().ok()?),
        })
    }

    /// The purpose of a request for a summary with the client's own prompt.
    fn prompted(&self, mode: SummaryMode) -> Purpose {
        Purpose::Summary {
            mode,
            prompted: true,
            tools: self.turn.state_before.tools.as_deref().map(Arc::from),
        }
    }
}

fn shortens(plan: &Plan) -> bool {
    use adapters::plan::ReplacementKind;
    let shown = plan.replacements.values().any(|shown| match shown.kind {
        ReplacementKind::Excerpt
        | ReplacementKind::Notice
        | ReplacementKind::Page
        | ReplacementKind::Shortened => true,
        ReplacementKind::Summary => false,
    });
    let omitted = |placed: &SequenceEntry| match placed {
        SequenceEntry::Omitted(_) => true,
        SequenceEntry::Message(_)
        | SequenceEntry::Answer(_)
        | SequenceEntry::Result(_)
        | SequenceEntry::Interrupted(_)
        | SequenceEntry::Stray(_) => false,
    };
    shown || plan.instructions.is_some() || plan.sequence.iter().any(omitted)
}
