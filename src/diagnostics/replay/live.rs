//! A recorded request once more, to a real provider.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::error::ReplayError;
use super::stage::Taped;
use super::{alone, request};
use crate::artifacts::Artifacts;
use crate::clock::System;
use crate::config::{CaptureMode, Config};
use crate::diagnostics::bundle::Turn;
use crate::diagnostics::capture::{Room, Tape};
use crate::metrics::Metrics;
use crate::turn::{Service, TurnEnvironment, TurnEnvironmentFactory, respond};

/// Sends the recorded request to `model`, named in full as `provider/model`, with
/// the user's own configuration, and tells how that turn went. Nothing of what
/// was known before the recorded turn is known to this one. It blocks as long as
/// the provider takes.
///
/// What was redacted in the recording stays so: the provider gets the fillers.
pub fn live(turn: &Turn, config: &Config, model: &str) -> Result<Turn, ReplayError> {
    if let Some(omitted) = turn
        .omitted
        .iter()
        .find(|omitted| omitted.what == "request")
    {
        return Err(ReplayError::NotWhole(omitted.what.clone()));
    }
    config
        .registry
        .resolve(model, false)
        .map_err(|unresolved| ReplayError::NoModel(unresolved.to_string()))?;
    let mut config = config.clone();
    config.capture.mode = CaptureMode::default();
    config.capture.memory = usize::MAX;
    let mut turn = turn.clone();
    turn.request.body = ask(&turn.request.body, model)?;
    alone(|builder| builder, || run(turn, config))
}

async fn run(recorded: Turn, config: Config) -> Result<Turn, ReplayError> {
    let onlooker = Onlooker::default();
    let service = Arc::new(Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        CancellationToken::new(),
        Arc::new(onlooker.clone()),
        Artifacts::without_store(recorded.given.keeping),
    ));
    let (head, body) = request(&recorded)?;
    let mut answer = respond(&service, &head, body).await.into_body();
    while let Some(Ok(_)) = answer.frame().await {}
    drop(answer);
    onlooker.taped().ok_or(ReplayError::Lost)
}

/// The request with another model.
fn ask(body: &[u8], model: &str) -> Result<Vec<u8>, ReplayError> {
    let damaged = |_| ReplayError::Damaged("the request is no JSON object");
    let mut body: serde_json::Map<String, Value> = serde_json::from_slice(body).map_err(damaged)?;
    body.insert("model".to_owned(), Value::String(model.to_owned()));
    serde_json::to_vec(&body).map_err(damaged)
}

/// The system's environments with a tape.
#[derive(Clone, Default)]
pub(super) struct Onlooker(Arc<Taped>);

impl Onlooker {
    /// The last turn that is over.
    pub(super) fn taped(&self) -> Option<Turn> {
        self.0.take()
    }
}

impl TurnEnvironmentFactory for Onlooker {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let live = System.create(request_id, config);
        let taped: Arc<Taped> = Arc::clone(&self.0);
        let tape = Arc::new(Tape::new(
            request_id,
            config,
            (live.clock, live.random),
            &Arc::new(Room::default()),
            taped,
        ));
        TurnEnvironment {
            clock: Arc::clone(&tape) as _,
            random: Arc::clone(&tape) as _,
            observer: Some(tape),
        }
    }
}
