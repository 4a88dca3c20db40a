//! The rounds of a turn are made from its [`RoutedHistory`].

use adapters::fault::{Fault, Kind};
use adapters::purpose::Purpose;
use adapters::responses::assembler::{Assembler, AssemblerSettings};
use adapters::responses::request::TurnSource;
use adapters::turn::Turn;
use registry::Route;
use tokio::time::Instant;

use super::context::TurnContext;
use super::engine::Round;
use super::failover::{Failover, PreparedAttempt};
use super::observer::TurnEvent;
use super::routed_history::RoutedHistory;
use super::shared::SharedState;
use crate::config::Config;

impl RoutedHistory {
    /// Prepares a round with this history for another purpose, and an assembler for it in case
    /// the client does not see its answer.
    pub(super) fn prepare(
        &self,
        ctx: &TurnContext,
        purpose: Purpose,
    ) -> Result<(Round, Box<Assembler>), Fault> {
        let source = self.source.with_purpose(purpose);
        self.first_round(ctx, source, |turn, attempt| {
            let (id, now) = (ctx.new_id("resp"), ctx.environment.clock.unix());
            let params = attempt.answer_params.clone();
            let settings = AssemblerSettings::for_turn(turn, false, params);
            Box::new(Assembler::for_turn(turn, &id, now, settings))
        })
    }

    /// Prepares the next round of the answer to this history.
    pub(super) fn further_round(&self, ctx: &TurnContext) -> Result<Round, Fault> {
        let (round, ()) = self.first_round(ctx, self.source.clone(), |_, _| ())?;
        Ok(round)
    }

    /// Prepares a round with this source, and what else is made of its turn.
    fn first_round<T>(
        &self,
        ctx: &TurnContext,
        source: TurnSource,
        more: impl FnOnce(&Turn<'_>, &PreparedAttempt) -> T,
    ) -> Result<(Round, T), Fault> {
        ctx.run_work(source.size(), || {
            let turn = source.turn()?;
            let mut failover = Failover::new(ctx, self);
            let attempt = first_attempt(&mut failover, &turn)?;
            let more = more(&turn, &attempt);
            drop(turn);
            failover.keep_source(source);
            let round = Round::new(attempt, failover, self.session.affinity());
            Ok((round, more))
        })
    }
}

/// Takes the first route, and notes it if the model name was unknown and the default model answers.
pub(super) fn first_attempt(
    failover: &mut Failover,
    turn: &Turn<'_>,
) -> Result<PreparedAttempt, Fault> {
    let mut attempt = failover.first_attempt(turn)?;
    if attempt.route.resolved_by == registry::ResolvedBy::Default {
        attempt
            .notes
            .add("default_model", format!("nobody knows '{}'", turn.model));
    }
    Ok(attempt)
}

/// Looks up the model name: the first choice, then its fallbacks.
pub(super) fn resolve_routes(
    ctx: &TurnContext,
    config: &Config,
    shared: &SharedState,
    turn: &Turn<'_>,
) -> Result<Vec<Route>, Fault> {
    let began = Instant::now();
    let observe = |routes: &[Route], near: &[String]| {
        ctx.observe(TurnEvent::Routes {
            asked: &turn.model,
            routes,
            near,
        });
    };
    let first = helper_route(ctx, config, shared, &turn.model)
        .map_or_else(
            || config.registry.resolve(&turn.model, ctx.caller.codex),
            Ok,
        )
        .map_err(|unresolved| {
            observe(&[], &unresolved.suggestions);
            Fault {
                param: Some("model".into()),
                ..Fault::new(Kind::ModelNotFound, unresolved.to_string())
            }
        })?;
    let mut routes = config.registry.fallbacks(&turn.model, &first);
    routes.insert(0, first);
    observe(&routes, &[]);
    ctx.log_stage("route", began);
    Ok(routes)
}

/// The route of a helper that asks for a model that no provider has: for a sub-agent the default
/// one of these, else the model of the session that it works for, else the default one, else the
/// one that its owner used last, else the first one.
fn helper_route(
    ctx: &TurnContext,
    config: &Config,
    shared: &SharedState,
    model: &str,
) -> Option<Route> {
    let registry = &config.registry;
    if !ctx.caller.helper || registry.serves(model) {
        return None;
    }
    let memory = &shared.memory;
    let resolve = |name: String| registry.resolve(&name, false).ok();
    let first = || {
        let (provider, model) = registry.models().next()?;
        Some(provider.prefixed_name(&model.id))
    };
    let of_agents = config.codex.default_agent();
    let of_agents = of_agents.filter(|_| ctx.caller.agent.is_some());
    let of_session = || memory.last_route(&ctx.owner, ctx.caller.sessions());
    let route = of_agents
        .and_then(|name| resolve(name.to_owned()))
        .or_else(|| resolve(of_session()?))
        .or_else(|| resolve(registry.default_model.clone()?))
        .or_else(|| resolve(memory.newest_route(&ctx.owner)?))
        .or_else(|| resolve(first()?))?;
    // The name leads to this route already, because its provider passes unknown names on.
    let own = resolve(model.to_owned());
    if own.is_some_and(|own| own.full_name() == route.full_name()) {
        return None;
    }
    Some(Route {
        resolved_by: registry::ResolvedBy::Default,
        ..route
    })
}
