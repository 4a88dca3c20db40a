//! The ways that a turn can take: which provider gets it, and in which words.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use adapters::chat::encode::{self, Options};
use adapters::fault::{Fault, Kind};
use adapters::mend::Mend;
use adapters::notes::Notes;
use adapters::plan;
use adapters::responses::assembler::Terms;
use adapters::responses::request::Source;
use adapters::turn::Turn;
use bytes::Bytes;
use registry::{CallExtra, Quirks, ReasoningReplay, Route, Wire};
use tokio::time::Instant;

use super::caller::Session;
use super::ctx::Ctx;
use super::kept::Kept;
use super::recent::Recent;
use super::sessions::Sessions;
use crate::config::Config;
use crate::upstream::{Upstream, Upstreams};

/// What all turns share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) upstreams: Upstreams,
    pub(super) recent: Arc<Recent>,
    pub(super) kept: Kept,
    pub(super) sessions: Sessions,
}

/// A turn as it goes to one provider.
pub(super) struct Way {
    pub(super) route: Route,
    pub(super) upstream: Arc<Upstream>,
    /// How the model speaks, lessons included.
    pub(super) quirks: Quirks,
    /// The upstream request.
    pub(super) body: Bytes,
    /// What the answer's writer must know of the provider.
    pub(super) terms: Terms,
    pub(super) notes: Notes,
}

/// What is needed to send a turn once more, in other words or elsewhere.
pub(super) struct Ways {
    config: Arc<Config>,
    shared: Arc<Shared>,
    owner: Arc<str>,
    session: String,
    /// The routes that were not taken yet, the next one first.
    left: VecDeque<Route>,
    /// The turn. It is gone once an answer has begun.
    source: Option<Source>,
}

impl Ways {
    /// The routes in the order in which they are tried: the one that the session
    /// is on comes first, those that are down come last.
    pub(super) fn new(
        ctx: &Ctx,
        config: &Arc<Config>,
        shared: &Arc<Shared>,
        session: &Session,
        mut routes: Vec<Route>,
    ) -> Self {
        let mut ways = Self {
            config: Arc::clone(config),
            shared: Arc::clone(shared),
            owner: Arc::clone(&ctx.owner),
            session: session.id.clone(),
            left: VecDeque::new(),
            source: None,
        };
        if routes.len() > 1 {
            let on = shared.sessions.moved_to(&ctx.owner, &session.id);
            routes.sort_by_key(|route| {
                let is_on = on.as_ref().is_some_and(|on| *on == route.full_name());
                (ways.is_down(route), !is_on)
            });
            if let (Some(on), Some(route)) = (on, routes.first())
                && on != route.full_name()
            {
                shared
                    .sessions
                    .moves(&ctx.owner, &session.id, route.full_name());
            }
        }
        ways.left = routes.into();
        ways
    }

    /// Takes the first way.
    pub(super) fn first(&mut self, turn: &Turn<'_>) -> Result<Way, Fault> {
        match self.left.pop_front() {
            Some(route) => self.encode(turn, &route),
            None => Err(Fault::new(Kind::Internal, "There is no route.")),
        }
    }

    /// Keeps the turn for further ways.
    pub(super) fn keep(&mut self, source: Source) {
        self.source = Some(source);
    }

    /// No further way will be taken.
    pub(super) fn close(&mut self) {
        self.source = None;
        self.left.clear();
    }

    /// Whether another provider could answer.
    pub(super) fn has_more(&self) -> bool {
        self.source.is_some() && self.left.iter().any(|route| !self.is_down(route))
    }

    /// The same route in the words that were learned meanwhile.
    pub(super) fn again(&self, route: &Route) -> Result<Way, Fault> {
        match &self.source {
            Some(source) => self.encode(&source.turn()?, route),
            None => Err(Fault::new(Kind::Internal, "The request is gone already.")),
        }
    }

    /// The next route. The session goes over to it.
    pub(super) fn next(&mut self) -> Option<Result<Way, Fault>> {
        let place = self.left.iter().position(|route| !self.is_down(route))?;
        let route = self.left.remove(place)?;
        self.shared
            .sessions
            .moves(&self.owner, &self.session, route.full_name());
        Some(self.again(&route))
    }

    /// Remembers what a fault teaches about a model.
    pub(super) fn learn(&self, route: &Route, mend: Mend) {
        self.shared.upstreams.lessons().learn(route, mend);
    }

    /// Keeps what the provider wants back with the calls of an answer.
    pub(super) fn keep_baggage<'i>(&self, items: impl Iterator<Item = (&'i str, &'i [u8])>) {
        self.shared.kept.keep(&self.owner, &self.session, items);
    }

    fn is_down(&self, route: &Route) -> bool {
        self.shared
            .upstreams
            .get(&self.config, &route.provider)
            .map_or(true, |upstream| {
                upstream.health().is_down(Instant::now()).is_some()
            })
    }

    fn encode(&self, turn: &Turn<'_>, route: &Route) -> Result<Way, Fault> {
        let mut route = route.clone();
        let shared = &self.shared;
        let upstream = shared.upstreams.get(&self.config, &route.provider)?;
        shared.upstreams.lessons().apply(&mut route);
        let (dialect, model) = (&route.dialect, &route.model);
        let quirks = dialect.quirks;
        let wants_baggage = quirks.reasoning_replay != ReasoningReplay::None
            || quirks.call_extra != CallExtra::None;
        let known_baggage = if wants_baggage {
            shared
                .kept
                .find(&self.owner, &self.session, || turn.call_ids())
        } else {
            HashMap::new()
        };
        let origin = route.full_name();
        let encoded = match route.provider.wire {
            Wire::Chat => {
                let options = Options {
                    dialect,
                    model,
                    upstream_model: &route.upstream_model,
                    origin: &origin,
                    known_baggage: Some(&known_baggage),
                };
                encode::encode(turn, &plan::plan(turn), &options)?
            }
        };
        let terms = Terms {
            seal_reasoning: wants_baggage || turn.controls.encrypted_reasoning,
            origin,
            estimated_input: encoded.estimated_tokens,
            bytes_per_token: model.bytes_per_token(),
        };
        Ok(Way {
            upstream,
            quirks,
            body: encoded.body.into(),
            terms,
            notes: encoded.notes,
            route,
        })
    }
}
