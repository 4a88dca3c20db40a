//! Sends a recorded request to a real provider.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::env::LastTurn;
use super::error::ReplayError;
use super::{client_request, run_in_own_runtime};
use crate::artifacts::Artifacts;
use crate::clock::System;
use crate::config::{CaptureMode, Config};
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::capture::{MemoryBudget, Recorder};
use crate::metrics::Metrics;
use crate::turn::{Service, TurnEnvironment, TurnEnvironmentFactory, respond};

/// Sends the recorded request to `model`, named in full as `provider/model`, with the
/// user's own configuration, and returns the recording of that turn. The state before
/// the recorded turn is not restored. Blocks as long as the provider takes.
///
/// Redacted texts stay redacted: the provider gets the marks.
pub fn live(turn: &BundleTurn, config: &Config, model: &str) -> Result<BundleTurn, ReplayError> {
    if let Some(omitted) = turn
        .omitted
        .iter()
        .find(|omitted| omitted.what == "request")
    {
        return Err(ReplayError::Incomplete(omitted.what.clone()));
    }
    config
        .registry
        .resolve(model, false)
        .map_err(|unresolved| ReplayError::NoModel(unresolved.on_command_line()))?;
    let mut config = config.clone();
    config.capture.mode = CaptureMode::default();
    config.capture.memory = usize::MAX;
    let mut turn = turn.clone();
    turn.request.body = with_model(&turn.request.body, model)?;
    run_in_own_runtime(|builder| builder, || run(turn, config))
}

async fn run(recorded: BundleTurn, config: Config) -> Result<BundleTurn, ReplayError> {
    let recorder = LiveRecorder::default();
    let service = Arc::new(Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        CancellationToken::new(),
        Arc::new(recorder.clone()),
        Artifacts::without_store(
            recorded.state_before.retention,
            recorded.state_before.unkept.clone(),
        ),
        recorded.state_before.recorded_responses(),
    ));
    let (request, body) = client_request(&recorded)?;
    let mut answer = respond(&service, request, body).await.into_body();
    while let Some(Ok(_)) = answer.frame().await {}
    drop(answer);
    recorder.finished_turn().ok_or(ReplayError::NoTurn)
}

fn with_model(body: &[u8], model: &str) -> Result<Vec<u8>, ReplayError> {
    let damaged = |_| ReplayError::Damaged("the request is not a JSON object");
    let mut body: serde_json::Map<String, Value> = serde_json::from_slice(body).map_err(damaged)?;
    body.insert("model".to_owned(), Value::String(model.to_owned()));
    serde_json::to_vec(&body).map_err(damaged)
}

/// Runs turns with the clock and randomness of the system and keeps the recording of
/// the last one.
#[derive(Clone, Default)]
pub(super) struct LiveRecorder(Arc<LastTurn>);

impl LiveRecorder {
    /// Takes out the last finished turn.
    pub(super) fn finished_turn(&self) -> Option<BundleTurn> {
        self.0.take_bundle_turn()
    }
}

impl TurnEnvironmentFactory for LiveRecorder {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let live = System.create(request_id, config);
        let finished: Arc<LastTurn> = Arc::clone(&self.0);
        let budget = Arc::new(MemoryBudget::default());
        Recorder::environment(request_id, config, live, &budget, finished)
    }
}
