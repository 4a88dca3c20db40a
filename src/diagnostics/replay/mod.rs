//! Runs a recorded turn again.
//!
//! | module | what it does |
//! |---|---|
//! | `env` | clock, randomness, director and observer of the replayed turn |
//! | `upstream` | the provider, on loopback |
//! | `tools` | the tools that ran in the proxy: what they returned |
//! | `driver` | keeps the two in lock-step with the recording |
//! | `live` | sends the recorded request to a real provider instead |
//! | `remake` | makes the results of a redacted turn by replaying it |
//! | `error` | why a replay failed |
//!
//! The engine is the one of the server; it talks HTTP to a loopback address. Its clock
//! moves when the recording says so. Failures that loopback cannot reproduce, such as a
//! name that does not resolve, are injected from the recording.
//!
//! The replayed turn keeps the recorded time and settings. Its attempts have no address
//! before the path, and the headers of the upstream's responses are those of the loopback. The
//! text of [`Fault::cause`](adapters::fault::Fault::cause) for a broken connection comes
//! from the network library and depends on how exactly it broke; if the replayed
//! connection breaks as well, the recorded text is kept. Other times of the replayed
//! turn come from its own clock.

mod driver;
mod env;
mod error;
mod live;
mod remake;
#[cfg(test)]
mod tests;
mod tools;
mod upstream;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use adapters::json;
use adapters::stop_flag::StopFlag;
use arc_swap::ArcSwap;
use http_body_util::BodyExt as _;
use registry::RouteSnapshot;
use tokio_util::sync::CancellationToken;

use super::bundle::{BodyChunk, BundleTurn};
use crate::artifacts::Artifacts;
use crate::config::{Config, address};
use crate::metrics::Metrics;
use crate::secrets::{Redactor, Secret};
use crate::turn::{PREFIX_HEADER, Service, TurnEndpoint, TurnRequest, respond};

pub use error::ReplayError;
pub use live::live;
pub(crate) use remake::remake;

use driver::ReplayDriver;
use env::{ReplayEnv, ReplayEnvFactory};
use upstream::ReplayUpstream;

/// Runs the recorded request through this program's engine, against the recorded
/// responses of its providers, and returns the new recording. The same turn gives the
/// same bytes on every machine. Blocks, usually for a moment only: recorded pauses are
/// skipped.
pub fn replay(turn: &BundleTurn) -> Result<BundleTurn, ReplayError> {
    replay_hiding(turn, &Redactor::default(), &StopFlag::default())
}

/// Like [`replay`], for a turn that is not redacted: faults and errors do not quote what `redactor`
/// finds, as when the turn ran. Ends soon after `stop` is raised.
pub(crate) fn replay_hiding(
    turn: &BundleTurn,
    redactor: &Redactor,
    stop: &StopFlag,
) -> Result<BundleTurn, ReplayError> {
    check_replayable(turn)?;
    let recorded = Arc::new(turn.clone());
    let mut replayed = run_in_own_runtime(
        |builder| builder.start_paused(true),
        || run(Arc::clone(&recorded), redactor.clone(), stop.clone()),
    )?;
    restore_recorded_values(&recorded, &mut replayed);
    Ok(replayed)
}

/// Fails if the inputs of the turn were not recorded whole.
fn check_replayable(turn: &BundleTurn) -> Result<(), ReplayError> {
    if let Some(omitted) = turn.omitted.iter().find(|part| part.is_input()) {
        return Err(ReplayError::Incomplete(omitted.what.clone()));
    }
    let fits = |attempt: &super::bundle::BundleAttempt| {
        BodyChunk::total(&attempt.pieces) == attempt.answer.len()
    };
    if turn.attempts.iter().all(fits) {
        Ok(())
    } else {
        Err(ReplayError::Damaged(
            "an answer is not as long as its pieces",
        ))
    }
}

/// Runs a future in its own thread and runtime, with logging switched off.
fn run_in_own_runtime<F: Future<Output = Result<BundleTurn, ReplayError>>>(
    set: impl FnOnce(&mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder + Send,
    future: impl FnOnce() -> F + Send,
) -> Result<BundleTurn, ReplayError> {
    // Fails if another part of the program has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let run = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = set(builder.enable_all()).build()?;
        let silence = tracing::subscriber::NoSubscriber::new();
        tracing::subscriber::with_default(silence, || runtime.block_on(future()))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("replay".to_owned());
        let thread = thread.spawn_scoped(scope, run)?;
        thread.join().unwrap_or(Err(ReplayError::NoTurn))
    })
}

async fn run(
    recorded: Arc<BundleTurn>,
    redactor: Redactor,
    stop: StopFlag,
) -> Result<BundleTurn, ReplayError> {
    let upstream = ReplayUpstream::bind().await?;
    let env = ReplayEnv::new(&recorded, stop.clone());
    let config = replay_config(&recorded, &upstream.origin()).with_redactor(redactor);
    let ending = CancellationToken::new();
    let service = Arc::new(Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        ending.clone(),
        Arc::new(ReplayEnvFactory(Arc::clone(&env))),
        Artifacts::without_store(
            recorded.state_before.retention,
            recorded.state_before.unkept.clone(),
        ),
        recorded.state_before.recorded_responses(),
    ));
    let (request, body) = client_request(&recorded)?;
    // Fails for an invalid request, which needs no state.
    let _ = service.restore_state(&recorded.state_before, &request, &Arc::new(body.clone()));
    env.arm();
    let streams = json::has_true(&body, "stream") && request.endpoint == TurnEndpoint::Responses;
    let client = tokio::spawn(async move {
        let response = respond(&service, request, body).await;
        let mut body = response.into_body();
        while let Some(Ok(_)) = body.frame().await {}
    });
    let driver = ReplayDriver::new(&recorded, &env, upstream, ending, client, streams);
    // The driver yields at every step, so the flag is looked at as often.
    let stopped = poll_fn(|_| {
        if stop.is_raised() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    tokio::select! {
        biased;
        () = stopped => return Err(ReplayError::Stopped),
        driven = driver.run() => driven?,
    }
    env.finished_turn().ok_or(ReplayError::NoTurn)
}

/// The client's request and its body.
fn client_request(turn: &BundleTurn) -> Result<(TurnRequest, String), ReplayError> {
    let mut request = http::Request::post(turn.request.path.as_str());
    for (name, value) in &turn.request.headers {
        request = request.header(name, value);
    }
    let request = request
        .body(())
        .map_err(|_| ReplayError::Damaged("the head of the request is not valid"))?;
    let head = request.into_parts().0;
    let request = TurnRequest {
        endpoint: TurnEndpoint::of_path(head.uri.path()),
        id: turn.request_id.as_str().into(),
        owner: turn.owner.as_str().into(),
        uri: head.uri,
        headers: head.headers,
        ..TurnRequest::default()
    };
    let body = String::from_utf8(turn.request.body.clone())
        .map_err(|_| ReplayError::Damaged("the request is not UTF-8"))?;
    Ok((request, body))
}

/// The configuration that the turn ran with, but the requests to its providers go to `origin`,
/// with made-up keys.
fn replay_config(turn: &BundleTurn, origin: &str) -> Config {
    let mut settings = turn.settings.clone();
    let mut keys = HashMap::new();
    let mut key_origins = HashMap::new();
    for route in &mut settings.routes {
        let states = turn.state_before.providers.iter();
        let state = states
            .clone()
            .find(|state| state.provider == route.provider);
        let count = state.map_or(0, |state| state.keys_rest_ms.len());
        if !route.key_weights.is_empty() {
            route.key_weights = key_weights(turn, route, count);
        }
        let stand_ins =
            (0..count).filter_map(|index| Secret::new(&format!("replayed-key-{index}")));
        keys.insert(route.provider.clone(), stand_ins.collect());
        if let Some(key_origin) = state.and_then(|state| state.key_origin.clone()) {
            key_origins.insert(route.provider.clone(), key_origin);
        }
    }
    let mut config = Config::for_replay(
        settings.to_registry(),
        keys,
        Duration::from_millis(turn.heartbeat_ms),
        Duration::from_millis(turn.commit_after_ms),
    );
    if let Some(limit) = turn.turn_timeout_ms {
        config.server.turn_timeout = Duration::from_millis(limit);
    }
    config.key_origins = key_origins;
    config.replay_origin = Some(origin.to_owned());
    config.replay_refusal = turn.fault.clone().filter(is_about_prompt);
    config.context.outputs = turn.state_before.outputs;
    config.tools = turn.state_before.tool_limits;
    config.jobs.client_tools = turn.state_before.client_tools;
    config
}

/// Whether a fault is that of a prompt which could not be filled in.
fn is_about_prompt(fault: &Fault) -> bool {
    let param = fault.param.as_deref();
    param.is_some_and(|param| param == "prompt" || param.starts_with("prompt."))
}

/// Weights that select the keys in the recorded order. The original order depends on
/// the keys themselves, which are not recorded.
fn key_weights(turn: &BundleTurn, route: &RouteSnapshot, count: usize) -> Vec<u32> {
    let mut weights = vec![0; count];
    let mut next = u32::MAX;
    let prefix = format!("{}/", route.provider);
    let attempts = turn.attempts.iter();
    for attempt in attempts.filter(|attempt| attempt.route.starts_with(&prefix)) {
        if let Some(weight) = attempt.key.and_then(|key| weights.get_mut(key))
            && *weight == 0
        {
            *weight = next;
            next >>= 10;
        }
    }
    weights
}

/// Restores recorded values that were inputs of the replay.
fn restore_recorded_values(recorded: &BundleTurn, replayed: &mut BundleTurn) {
    replayed.began_ms = recorded.began_ms;
    replayed.config_digest.clone_from(&recorded.config_digest);
    replayed.rerun.clone_from(&recorded.rerun);
    replayed.settings.clone_from(&recorded.settings);
    restore_prefix_header(&recorded.answer.headers, &mut replayed.answer.headers);
    for attempt in &mut replayed.attempts {
        attempt.url = address::split_origin(&attempt.url).1.to_owned();
    }
    for (replayed, recorded) in replayed.attempts.iter_mut().zip(&recorded.attempts) {
        restore_cause(recorded.fault.as_ref(), replayed.fault.as_mut());
    }
    restore_cause(recorded.fault.as_ref(), replayed.fault.as_mut());
}

/// Restores the header about the prefix that the turn shares with the one before: that
/// earlier turn is not part of the recording.
fn restore_prefix_header(recorded: &[(String, String)], replayed: &mut Vec<(String, String)>) {
    let is_prefix = |header: &&(String, String)| header.0 == PREFIX_HEADER.as_str();
    let recorded = recorded.iter().find(is_prefix);
    match (
        replayed.iter_mut().find(|header| is_prefix(&&**header)),
        recorded,
    ) {
        (Some(header), Some(recorded)) => header.clone_from(recorded),
        (Some(_), None) => replayed.retain(|header| !is_prefix(&header)),
        (None, _) => {}
    }
}

fn restore_cause(recorded: Option<&Fault>, replayed: Option<&mut Fault>) {
    if let (Some(recorded), Some(replayed)) = (recorded, replayed)
        && replayed.kind == Kind::Cut
        && recorded.kind == Kind::Cut
    {
        replayed.cause.clone_from(&recorded.cause);
    }
}
