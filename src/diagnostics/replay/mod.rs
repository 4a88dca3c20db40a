//! Runs a recorded turn once more.
//!
//! | module | noun |
//! |---|---|
//! | `stage` | clock, randomness and taps of the replayed turn |
//! | `upstream` | the provider, on loopback |
//! | `drive` | the lock-step of the two |
//! | `live` | the same request to a real provider |
//! | `error` | why a turn cannot be run again |
//!
//! The engine is that of the server; it talks HTTP to a loopback address. Its
//! time is a clock that moves when the recording says so. What a loopback cannot
//! show, such as a name that does not resolve, the recording tells the engine.
//!
//! What is fed to the replay is in the replayed turn as it was in the recorded
//! one: addresses, headers of the upstream's answers, when the turn began. The
//! text of a broken connection in [`Fault::cause`](adapters::fault::Fault::cause)
//! comes from the network library and depends on how exactly it broke; where the
//! replay breaks as well, the recorded text is kept. Times of the replayed turn
//! are those of its own clock.

mod drive;
mod error;
mod live;
mod stage;
#[cfg(test)]
mod tests;
mod upstream;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use arc_swap::ArcSwap;
use http::request::Parts;
use http_body_util::BodyExt as _;
use registry::{RouteSettings, Settings};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::bundle::Turn;
use crate::artifacts::Artifacts;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::secrets::{Redactor, Secret};
use crate::serve::RequestId;
use crate::turn::{PREFIX_HEADER, Service, respond};

pub use error::ReplayError;
pub use live::live;

use drive::Drive;
use stage::{OnStage, Stage};
use upstream::Upstream;

/// Runs the recorded request through this program's engine, against the recorded
/// answers of its providers, and tells how the turn went. The same turn gives the
/// same bytes wherever and however fast it runs. It blocks, for a moment as a
/// rule: time is not waited for.
pub fn replay(turn: &Turn) -> Result<Turn, ReplayError> {
    check(turn)?;
    let recorded = Arc::new(turn.clone());
    let mut replayed = alone(
        |builder| builder.start_paused(true),
        || run(Arc::clone(&recorded)),
    )?;
    put_back(&recorded, &mut replayed);
    Ok(replayed)
}

/// Whether the turn has what it takes.
fn check(turn: &Turn) -> Result<(), ReplayError> {
    if let Some(omitted) = turn.omitted.first() {
        return Err(ReplayError::NotWhole(omitted.what.clone()));
    }
    let fits = |attempt: &super::bundle::Attempt| {
        let lengths = attempt.pieces.iter().map(|piece| piece.length);
        lengths.fold(0, usize::saturating_add) == attempt.answer.len()
    };
    if turn.attempts.iter().all(fits) {
        Ok(())
    } else {
        Err(ReplayError::Damaged(
            "an answer is not as long as its pieces",
        ))
    }
}

/// Runs a future in a thread and a runtime of its own, without a word in the log.
fn alone<F: Future<Output = Result<Turn, ReplayError>>>(
    set: impl FnOnce(&mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder + Send,
    future: impl FnOnce() -> F + Send,
) -> Result<Turn, ReplayError> {
    // Another part of the program may have done it.
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
        thread.join().unwrap_or(Err(ReplayError::Lost))
    })
}

async fn run(recorded: Arc<Turn>) -> Result<Turn, ReplayError> {
    let upstream = Upstream::bind().await?;
    let stage = Stage::new(&recorded);
    let ending = CancellationToken::new();
    let service = Arc::new(Service::new(
        Arc::new(ArcSwap::from_pointee(config(&recorded, &upstream.origin()))),
        Arc::new(Metrics::new()),
        ending.clone(),
        Arc::new(OnStage(Arc::clone(&stage))),
        Artifacts::pretend(recorded.given.keeping),
    ));
    let (head, body) = request(&recorded)?;
    // A request that makes no sense has no memory to go with it.
    let _ = service.remember(&recorded.given, &head, &Arc::new(body.clone()));
    stage.arm();
    let streams = Streams::of(&body) && !head.uri.path().ends_with("/compact");
    let origin = upstream.origin();
    let client = tokio::spawn(async move {
        let response = respond(&service, &head, body).await;
        let mut body = response.into_body();
        while let Some(Ok(_)) = body.frame().await {}
    });
    Drive::new(&recorded, &stage, upstream, ending, client, streams)
        .run()
        .await?;
    let mut turn = stage.taped().ok_or(ReplayError::Lost)?;
    for (index, attempt) in turn.attempts.iter_mut().enumerate() {
        readdress(
            attempt,
            recorded.attempts.get(index),
            &recorded.settings,
            &origin,
        );
    }
    Ok(turn)
}

/// The head and the body of the client's request.
fn request(turn: &Turn) -> Result<(Parts, String), ReplayError> {
    let mut request = http::Request::post(turn.request.path.as_str());
    for (name, value) in &turn.request.headers {
        request = request.header(name, value);
    }
    let request = request
        .body(())
        .map_err(|_| ReplayError::Damaged("the head of the request is none"))?;
    let mut head = request.into_parts().0;
    head.extensions
        .insert(RequestId(turn.request_id.as_str().into()));
    let body = String::from_utf8(turn.request.body.clone())
        .map_err(|_| ReplayError::Damaged("the request is not UTF-8"))?;
    Ok((head, body))
}

/// Whether a request asks for a stream.
#[derive(Deserialize)]
struct Streams {
    #[serde(default)]
    stream: Option<bool>,
}

impl Streams {
    fn of(body: &str) -> bool {
        serde_json::from_str::<Self>(body).is_ok_and(|asked| asked.stream == Some(true))
    }
}

/// The configuration that the turn ran with, its providers at `origin` with keys
/// that stand for theirs.
fn config(turn: &Turn, origin: &str) -> Config {
    let mut settings = turn.settings.clone();
    let mut keys = HashMap::new();
    for route in &mut settings.routes {
        route.base_url = format!("{origin}{}", split(&route.base_url).1);
        let states = turn.given.providers.iter();
        let state = states
            .clone()
            .find(|state| state.provider == route.provider);
        let count = state.map_or(0, |state| state.keys_rest_ms.len());
        if !route.key_weights.is_empty() {
            route.key_weights = weights(turn, route, count);
        }
        let stand_ins =
            (0..count).filter_map(|index| Secret::new(&format!("replayed-key-{index}")));
        keys.insert(route.provider.clone(), stand_ins.collect());
    }
    // The engine hides them where it hid the secrets that they stand for.
    let hidden = turn.given.stand_ins.iter();
    let hidden: Vec<Secret> = hidden.filter_map(|text| Secret::new(text)).collect();
    let mut config = Config::for_replay(
        settings.registry(),
        keys,
        Duration::from_millis(turn.heartbeat_ms),
        Duration::from_millis(turn.commit_after_ms),
    );
    config.context.outputs = turn.given.outputs;
    config.with_redactor(Redactor::new(&hidden))
}

/// Weights with which the keys come in the recorded order: without the keys
/// themselves the order that they came in cannot be found.
fn weights(turn: &Turn, route: &RouteSettings, count: usize) -> Vec<u32> {
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

/// The address of an attempt as if it had gone where the recorded one went.
fn readdress(
    attempt: &mut super::bundle::Attempt,
    recorded: Option<&super::bundle::Attempt>,
    settings: &Settings,
    loopback: &str,
) {
    let Some(rest) = attempt.url.strip_prefix(loopback) else {
        return;
    };
    let same = recorded.filter(|recorded| recorded.route == attempt.route);
    let mut routes = settings.routes.iter();
    let mut route = || routes.find(|route| route.full_name() == attempt.route);
    let there = same.map(|recorded| &recorded.url);
    let there = there.or_else(|| route().map(|route| &route.base_url));
    let origin = there.map_or("", |url| split(url).0);
    attempt.url = format!("{origin}{rest}");
}

/// An address cut before its path.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let tail = url.get(host..).unwrap_or_default();
    let path = tail.find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    url.split_at_checked(path).unwrap_or((url, ""))
}

/// Puts what the replay was fed with in its place again.
fn put_back(recorded: &Turn, replayed: &mut Turn) {
    replayed.began_ms = recorded.began_ms;
    replayed.config_digest.clone_from(&recorded.config_digest);
    prefix(&recorded.answer.headers, &mut replayed.answer.headers);
    let stand_ins = &recorded.given.stand_ins;
    replayed.given.stand_ins.clone_from(stand_ins);
    let routes = replayed.settings.routes.iter_mut();
    for (replayed, recorded) in routes.zip(&recorded.settings.routes) {
        if replayed.full_name() == recorded.full_name() {
            replayed.base_url.clone_from(&recorded.base_url);
            replayed.key_weights.clone_from(&recorded.key_weights);
        }
    }
    for (replayed, recorded) in replayed.attempts.iter_mut().zip(&recorded.attempts) {
        if let (Some(replayed), Some(recorded)) = (&mut replayed.head, &recorded.head)
            && replayed.status == recorded.status
        {
            replayed.headers.clone_from(&recorded.headers);
        }
        cause(recorded.fault.as_ref(), replayed.fault.as_mut());
    }
    cause(recorded.fault.as_ref(), replayed.fault.as_mut());
}

/// What a turn has in common with the one before is not seen without that one.
fn prefix(recorded: &[(String, String)], replayed: &mut Vec<(String, String)>) {
    let is_prefix = |header: &&(String, String)| header.0 == PREFIX_HEADER.as_str();
    let told = recorded.iter().find(is_prefix);
    match (
        replayed.iter_mut().find(|header| is_prefix(&&**header)),
        told,
    ) {
        (Some(header), Some(told)) => header.clone_from(told),
        (Some(_), None) => replayed.retain(|header| !is_prefix(&header)),
        (None, _) => {}
    }
}

fn cause(recorded: Option<&Fault>, replayed: Option<&mut Fault>) {
    if let (Some(recorded), Some(replayed)) = (recorded, replayed)
        && replayed.kind == Kind::Cut
        && recorded.kind == Kind::Cut
    {
        replayed.cause.clone_from(&recorded.cause);
    }
}
