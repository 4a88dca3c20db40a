//! The ways that a turn can take: which provider gets it, and in which words.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use adapters::encoded::Encoded;
use adapters::fault::{Fault, Kind};
use adapters::mend::Mend;
use adapters::notes::Notes;
use adapters::plan::Plan;
use adapters::responses::assembler::Terms;
use adapters::responses::request::Source;
use adapters::turn::{ItemKind, Turn};
use bytes::Bytes;
use registry::Route;
use tokio::time::Instant;

use super::caller::{Session, TurnKind};
use super::ctx::Ctx;
use super::kept::Kept;
use super::measured::Measured;
use super::prefix::{Print, Situation, Telling, Watch};
use super::recent::Recent;
use super::sessions::Sessions;
use super::spelling::Spelling;
use super::tools::Tools;
use super::weighed::{Weighed, Weighings};
use crate::artifacts::{Artifacts, Commit, New};
use crate::config::Config;
use crate::net::blocking::block_in_place_if_large;
use crate::tap::{Seen, Tap};
use crate::upstream::{Upstream, Upstreams};

/// What all turns share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstreams: Upstreams,
    pub(super) recent: Arc<Recent>,
    pub(super) kept: Kept,
    pub(super) sessions: Sessions,
    pub(super) tools: Tools,
    /// What the plans found out about outputs.
    pub(super) measured: Measured,
    pub(super) weighings: Weighings,
    pub(super) artifacts: Artifacts,
    /// What was sent last in each session.
    pub(super) watch: Watch,
}

impl Shared {
    pub(super) fn new(artifacts: Artifacts) -> Self {
        Self {
            upstreams: Upstreams::default(),
            recent: Arc::default(),
            kept: Kept::default(),
            sessions: Sessions::default(),
            tools: Tools::default(),
            measured: Measured::default(),
            weighings: Weighings::default(),
            artifacts,
            watch: Watch::default(),
        }
    }
}

/// A turn as it goes to one provider.
pub(super) struct Way {
    /// Lessons included.
    pub(super) route: Route,
    pub(super) upstream: Arc<Upstream>,
    /// The upstream request.
    pub(super) body: Bytes,
    /// What is remembered of it.
    pub(super) print: Arc<Print>,
    /// What the answer's writer must know of the provider.
    pub(super) terms: Terms,
    pub(super) notes: Notes,
    /// What must be kept before the request may mention it.
    pub(super) commit: Option<Commit>,
}

/// A turn's request for one provider.
struct Written {
    /// Lessons included.
    route: Route,
    plan: Plan,
    encoded: Encoded,
}

/// What is needed to send a turn once more, in other words or elsewhere.
pub(super) struct Ways {
    config: Arc<Config>,
    shared: Arc<Shared>,
    owner: Arc<str>,
    session: String,
    /// The client asks for a summary.
    compacts: bool,
    /// Where the session was so far, or belongs if it is new; named in full.
    home: String,
    /// The home of the session where another route comes first.
    passed_over: Option<Route>,
    tap: Option<Arc<dyn Tap>>,
    /// The routes that were not taken yet, the next one first.
    left: VecDeque<Route>,
    /// The turn. It is gone once an answer has begun.
    source: Option<Source>,
}

impl Ways {
    /// The routes in the order in which they are tried: the one that the session
    /// is on, then the first choice and what stands in for it. One that is down
    /// does not come first, unless all are.
    pub(super) fn new(
        ctx: &Ctx,
        config: &Arc<Config>,
        shared: &Arc<Shared>,
        session: &Session,
        routes: Vec<Route>,
    ) -> Self {
        let mut ways = Self::untried(ctx, config, shared, session, routes);
        if ways.left.len() > 1 {
            ways.home = ways.left.front().map(Route::full_name).unwrap_or_default();
            let home = ways.left.front().cloned();
            if ways
                .bring_forward(Self::admits)
                .is_some_and(|place| place > 0)
            {
                ways.passed_over = home;
            }
        }
        ways
    }

    /// The same, whether or not a provider is down.
    fn untried(
        ctx: &Ctx,
        config: &Arc<Config>,
        shared: &Arc<Shared>,
        session: &Session,
        routes: Vec<Route>,
    ) -> Self {
        let mut ways = Self {
            config: Arc::clone(config),
            shared: Arc::clone(shared),
            owner: Arc::clone(&ctx.owner),
            session: session.id.clone(),
            compacts: ctx.caller.kind == TurnKind::Compaction,
            home: String::new(),
            passed_over: None,
            tap: ctx.tap.clone(),
            left: routes.into(),
            source: None,
        };
        if ways.left.len() > 1
            && let Some(on) = shared.sessions.moved_to(&ctx.owner, &session.id)
        {
            ways.bring_forward(|_, route| route.full_name() == on);
        }
        ways
    }

    /// About how many tokens the turn's input has on the route that it would take.
    /// Nothing is sent or kept.
    pub(super) fn count(
        ctx: &Ctx,
        config: &Arc<Config>,
        shared: &Arc<Shared>,
        session: &Session,
        routes: Vec<Route>,
        turn: &Turn<'_>,
    ) -> Result<u64, Fault> {
        let ways = Self::untried(ctx, config, shared, session, routes);
        match ways.left.front() {
            Some(route) => Ok(ways.write(turn, route)?.encoded.estimated_tokens),
            None => Err(Fault::new(Kind::Internal, "There is no route.")),
        }
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

    /// The home of the session if the first way leads elsewhere, told once.
    pub(super) fn passed_over(&mut self) -> Option<Route> {
        self.passed_over.take()
    }

    /// An answer begins: no further way will be taken, and the session goes over
    /// to this one.
    pub(super) fn close(&mut self, way: &Way) {
        let (shared, route) = (&self.shared, &way.route);
        shared.watch.put(&self.owner, &self.session, &way.print);
        self.source = None;
        self.left = VecDeque::new();
        let home = std::mem::take(&mut self.home);
        if !home.is_empty() && home != route.full_name() {
            let sessions = &shared.sessions;
            sessions.moves(&self.owner, &self.session, route.full_name());
        }
    }

    /// What the way's request has in common with the last one of the session.
    pub(super) fn telling(&self, way: &Way) -> Telling {
        let watch = &self.shared.watch;
        watch.tell(&self.owner, &self.session, &way.print)
    }

    /// Whether another provider could answer.
    pub(super) fn has_more(&self) -> bool {
        self.source.is_some() && self.left.iter().any(|route| !self.is_down(route))
    }

    /// The same route in the words that were learned meanwhile.
    pub(super) fn again(&self, route: &Route) -> Result<Way, Fault> {
        match &self.source {
            Some(source) => {
                block_in_place_if_large(source.bytes(), || self.encode(&source.turn()?, route))
            }
            None => Err(Fault::new(Kind::Internal, "The request is gone already.")),
        }
    }

    /// The next way.
    pub(super) fn next(&mut self) -> Option<Way> {
        loop {
            let place = self.left.iter().position(|route| self.admits(route))?;
            let route = self.left.remove(place)?;
            if let Ok(way) = self.again(&route) {
                return Some(way);
            }
        }
    }

    /// Remembers what a fault teaches about a model. False when it is known.
    pub(super) fn learn(&self, route: &Route, mend: Mend) -> bool {
        self.shared.upstreams.lessons().learn(route, mend)
    }

    /// Forgets a lesson that did not help.
    pub(super) fn unlearn(&self, route: &Route, mend: Mend) {
        self.shared.upstreams.lessons().unlearn(route, mend);
    }

    /// Keeps what the provider wants back with the calls of an answer.
    pub(super) fn keep_baggage<'i>(&self, items: impl Iterator<Item = (&'i str, &'i [u8])>) {
        self.shared.kept.keep(&self.owner, &self.session, items);
    }

    /// The provider counted the tokens of the way's request.
    pub(super) fn weighed(&self, way: &Way, counted: u64) {
        let weighed = Weighed {
            route: way.terms.origin.clone(),
            estimated: way.terms.estimated_input,
            counted,
        };
        let weighings = &self.shared.weighings;
        weighings.put(&self.owner, &self.session, weighed);
    }

    fn is_down(&self, route: &Route) -> bool {
        let upstream = self.shared.upstreams.get(&self.config, &route.provider);
        upstream.map_or(true, |upstream| {
            upstream.health().down_for(Instant::now()).is_some()
        })
    }

    /// Whether the route may be taken where there is another. Only to be asked if
    /// it will be: after an outage one turn is let through.
    fn admits(&self, route: &Route) -> bool {
        let upstream = self.shared.upstreams.get(&self.config, &route.provider);
        upstream.is_ok_and(|upstream| upstream.health().admit(Instant::now()).is_ok())
    }

    /// Moves the first such route to the front; tells its former place.
    fn bring_forward(&mut self, is_such: impl Fn(&Self, &Route) -> bool) -> Option<usize> {
        let place = self.left.iter().position(|route| is_such(self, route))?;
        let route = self.left.remove(place)?;
        self.left.push_front(route);
        Some(place)
    }

    fn encode(&self, turn: &Turn<'_>, route: &Route) -> Result<Way, Fault> {
        let Written {
            route,
            plan,
            encoded,
        } = self.write(turn, route)?;
        let upstream = self.shared.upstreams.get(&self.config, &route.provider)?;
        let commit = self.keep_whole(turn, &plan);
        let wants_baggage = route.dialect.quirks.wants_baggage();
        let terms = Terms {
            seal_reasoning: wants_baggage || turn.controls.encrypted_reasoning,
            origin: route.full_name(),
            estimated_input: encoded.estimated_tokens,
            bytes_per_token: route.model.bytes_per_token(),
        };
        let situation = Situation {
            route: terms.origin.clone(),
            epochs: plan.epochs,
            compacts: self.compacts || turn.purpose.form().is_some(),
            summaries: summaries(turn),
        };
        let print = Arc::new(Print::new(&encoded, situation));
        // It may be kept for long, and was given room to grow.
        let mut body = encoded.body;
        body.shrink_to_fit();
        Ok(Way {
            upstream,
            body: body.into(),
            print,
            terms,
            notes: encoded.notes,
            commit,
            route,
        })
    }

    /// Plans the turn and writes its request. Nothing is kept of it.
    fn write(&self, turn: &Turn<'_>, route: &Route) -> Result<Written, Fault> {
        let mut route = route.clone();
        let shared = &self.shared;
        shared.upstreams.lessons().apply(&mut route);
        let (dialect, model) = (&route.dialect, &route.model);
        let known_baggage = if dialect.quirks.wants_baggage() {
            shared
                .kept
                .find(&self.owner, &self.session, || turn.call_ids())
        } else {
            HashMap::new()
        };
        if !known_baggage.is_empty()
            && let Some(tap) = &self.tap
        {
            tap.saw(Seen::Baggage(&known_baggage));
        }
        let origin = route.full_name();
        let spelling = Spelling {
            wire: route.provider.wire,
            dialect,
            model,
            upstream_model: &route.upstream_model,
            origin: &origin,
            outputs: self.config.context.outputs,
            keeping: shared.artifacts.keeping(),
            known_baggage: &known_baggage,
        };
        let (plan, encoded) = spelling.request(turn, &shared.measured)?;
        Ok(Written {
            route,
            plan,
            encoded,
        })
    }

    /// Begins to keep what the plan shortens.
    fn keep_whole(&self, turn: &Turn<'_>, plan: &Plan) -> Option<Commit> {
        let artifacts = &self.shared.artifacts;
        let new: Vec<New> = plan
            .shown
            .iter()
            .filter_map(|(index, shown)| {
                let item = turn.items.get(*index)?;
                let artifact = shown.artifact.as_ref()?;
                artifacts.lacks((&self.owner, &self.session), item, artifact)
            })
            .collect();
        (!new.is_empty()).then(|| artifacts.keep(&self.owner, &self.session, new))
    }
}

/// Compactions that the history went through.
fn summaries(turn: &Turn<'_>) -> usize {
    let items = turn.items.iter();
    items
        .filter(|item| item.kind == ItemKind::Compaction)
        .count()
}
