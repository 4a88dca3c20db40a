//! Measures how a provider differs from what is known of it, with a few small turns: a tool loop
//! that has everything in it which providers refuse, then parameters and limits. The proxy adapts
//! to a refusal as it does in any other turn; what it has learned at the end is the measurement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adapters::fault::{Kind, Retry};
use adapters::quirk_patch::{EffortLevels, SharedPatch};
use adapters::sse::{SseDecoder, SseEvent};
use adapters::wire;
use arc_swap::ArcSwap;
use axum::body::Body;
use http_body_util::BodyExt as _;
use registry::{Dialect, Model, Provider, Route, WireQuirks};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::prompts;
use super::report::DoctorCheck;
use super::summary::dialect_checks;
use super::watch::{MAX_BODY, MAX_TIME, Seen, Used, Watching, estimated_tokens};
use crate::artifacts::Artifacts;
use crate::config::{CaptureMode, Config};
use crate::metrics::Metrics;
use crate::net::LOCAL_OWNER;
use crate::responses::ResponseStore;
use crate::turn::{Service, TurnRequest, respond};
use crate::upstream::PatchesOf;

/// The limit of output tokens of most requests.
pub(super) const MAX_OUTPUT: u64 = 2_000;

/// What was measured of a model.
pub(super) struct Measurement {
    pub(super) checks: Vec<DoctorCheck>,
    /// What was known before, and what is known now.
    pub(super) before: Known,
    pub(super) after: Known,
    /// What was used in all wires so far.
    pub(super) used: Used,
    /// Nothing answers at the address of the wire: it may speak another one.
    pub(super) is_wrong_wire: bool,
    /// In that case: the requests were refused, so that the address may be right.
    pub(super) is_refused: bool,
    /// The turns that were answered.
    pub(super) answers: usize,
    /// The first request was refused because of the key.
    pub(super) is_unauthorized: bool,
}

impl Measurement {
    /// Whether this place of the provider is worth more than another one.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        if (self.is_unauthorized, self.is_wrong_wire)
            == (other.is_unauthorized, other.is_wrong_wire)
        {
            return self.is_refused && !other.is_refused;
        }
        !other.is_refused || !self.is_wrong_wire
    }
}

/// What is known of a model.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) dialect: Dialect,
    pub(super) model: Model,
}

impl Known {
    pub(super) fn of(route: &Route) -> Self {
        Self {
            dialect: Dialect::clone(&route.dialect),
            model: Model::clone(&route.model),
        }
    }
}

/// Measures a model, `provider/model`. `used` is what was used for it already. `with_overflow`
/// sends a prompt that does not fit. `is_sure` says that this is the place of the provider, so that
/// a refusal of all requests is looked into. The error says why there is no such model.
pub(super) async fn measure(
    mut config: Config,
    name: &str,
    used: Used,
    with_overflow: bool,
    is_sure: bool,
) -> anyhow::Result<Measurement> {
    config.capture.mode = CaptureMode::Off;
    config.registry.fallbacks.clear();
    for provider in &mut config.registry.providers {
        // A failure is told at once, and costs one request.
        Arc::make_mut(provider).max_retries = 0;
    }
    let route = config
        .registry
        .resolve(name, false)
        .map_err(|error| anyhow::anyhow!(error.on_command_line()))?;
    let seen = Arc::new(Mutex::new(Seen::new(used)));
    let service = Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        CancellationToken::new(),
        Arc::new(Watching(Arc::clone(&seen))),
        Artifacts::memory(MAX_BODY),
        ResponseStore::default(),
    );
    let mut turns = MeasuringTurns {
        service: Arc::new(service),
        seen,
        name: route.full_name(),
        checks: Vec::new(),
        is_sure,
        proven: None,
        refuses_reasoning: false,
        reasoned: Vec::new(),
        effort_levels: None,
    };
    // Boxed because it is large.
    let running = Box::pin(turns.run(with_overflow));
    if tokio::time::timeout_at(used.deadline, running)
        .await
        .is_err()
    {
        if let Some(proven) = turns.proven.take() {
            turns.set_known(&proven);
        }
        let found = format!("It took longer than {} s.", MAX_TIME.as_secs());
        let remedy = "What was not measured by then is left as it is; a faster model shows more.";
        turns
            .checks
            .push(DoctorCheck::warning("time", found, remedy));
        // What the turn that was ended has cost is not known.
        let mut seen = turns.lock_seen();
        let prompt = seen.prompt;
        seen.count_tokens(prompt, 0);
    }
    let after = turns.known();
    turns.checks.extend(dialect_checks(&after, &turns.checks));
    let seen = turns.seen();
    let first_refusal = seen.refusal.filter(|_| seen.answers == 0);
    Ok(Measurement {
        before: Known::of(&route),
        after,
        used: seen.used,
        is_refused: seen.answers == 0 && seen.is_refusal(),
        answers: seen.answers,
        is_wrong_wire: first_refusal.is_some_and(|(kind, _)| is_elsewhere(kind)),
        is_unauthorized: matches!(
            first_refusal,
            Some((Kind::Authentication | Kind::Permission, _))
        ),
        checks: turns.checks,
    })
}

/// Whether such a failure of the first request may mean that the server speaks another wire.
fn is_elsewhere(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Refused | Kind::ModelNotFound | Kind::BadReply | Kind::Unavailable
    )
}

/// The turns of a measurement.
pub(super) struct MeasuringTurns {
    service: Arc<Service>,
    seen: Arc<Mutex<Seen>>,
    /// `provider/model`
    name: String,
    pub(super) checks: Vec<DoctorCheck>,
    /// Whether the provider is known to be at this place.
    pub(super) is_sure: bool,
    /// What is known without the quirk that is being tried.
    pub(super) proven: Option<Known>,
    /// A refusal has said that reasoning must not be sent back.
    refuses_reasoning: bool,
    /// Whether each answer so far had reasoning.
    pub(super) reasoned: Vec<bool>,
    /// The effort levels that a refusal has listed.
    pub(super) effort_levels: Option<EffortLevels>,
}

/// How a turn ended.
pub(super) enum MeasuringTurnEnd {
    /// With this response.
    Answered(Value),
    /// The provider refused or failed, and this says why.
    Failed(String),
    /// It was ended, because the answer was much longer than the request allowed.
    Endless,
    /// A limit of the measurement does not allow it.
    Limited,
}

impl MeasuringTurns {
    async fn run(&mut self, with_overflow: bool) {
        if self.run_tool_loop().await {
            self.check_limits().await;
            // Before the parameters, whose further fields may use up the requests that are left.
            self.check_reasoning_control().await;
            self.check_parameters().await;
            self.check_files().await;
            if with_overflow {
                self.check_overflow().await;
            }
        }
    }

    /// Runs a turn of the tool loop, which quirks are tried for if it is refused. Returns the
    /// response if it is complete; otherwise a check tells why not.
    pub(super) async fn turn(
        &mut self,
        subject: &'static str,
        input: &[Value],
        choice: Value,
    ) -> Option<Value> {
        let more = tool_parameters(&choice);
        let end = self.ask_again(input, MAX_OUTPUT, &more).await;
        if matches!(end, MeasuringTurnEnd::Failed(_)) && self.seen().is_refusal() {
            let repaired = self.try_to_repair(input, MAX_OUTPUT, &more).await;
            if repaired.is_some() {
                return repaired;
            }
        }
        self.response_of(subject, end)
    }

    /// The response of a turn that is complete; otherwise a check tells why not.
    pub(super) fn response_of(
        &mut self,
        subject: &'static str,
        end: MeasuringTurnEnd,
    ) -> Option<Value> {
        let check = match end {
            MeasuringTurnEnd::Answered(response) => return Some(response),
            MeasuringTurnEnd::Limited => limited(subject),
            MeasuringTurnEnd::Failed(message) => DoctorCheck::failed(subject, message, None),
            MeasuringTurnEnd::Endless => {
                let found = "The answer was stopped: it was much longer than the request allowed.";
                DoctorCheck::failed(subject, found, Some("Try another model with --model."))
            }
        };
        self.checks.push(check);
        None
    }

    /// Asks, and asks again as long as a refusal has taught something: a turn adapts to four
    /// refusals only.
    pub(super) async fn ask_again(
        &mut self,
        input: &[Value],
        max_output: u64,
        more: &Value,
    ) -> MeasuringTurnEnd {
        loop {
            let before = self.known();
            let end = self.ask(input, max_output, more.clone()).await;
            let after = self.known();
            let has_learned = before.dialect != after.dialect || before.model != after.model;
            // The limit of requests ends this if nothing else does.
            if !matches!(end, MeasuringTurnEnd::Failed(_)) || !has_learned {
                return end;
            }
            self.set_known(&after);
        }
    }

    /// Asks the model, again after each pause that a rate limit asks for. See [`Self::ask_once`].
    pub(super) async fn ask(
        &mut self,
        input: &[Value],
        max_output: u64,
        more: Value,
    ) -> MeasuringTurnEnd {
        loop {
            let end = self.ask_once(input, max_output, &more).await;
            let seen = self.seen();
            let pause = match seen.limit {
                Some(Retry::After(pause)) => Some(pause),
                Some(Retry::Soon | Retry::Never) => None,
                None => return end,
            };
            let is_failed = matches!(end, MeasuringTurnEnd::Failed(_));
            if !is_failed || !seen.used.wait_out(pause).await {
                return end;
            }
        }
    }

    /// Asks the model. `more` are the parameters besides those of every request. Nothing is sent if
    /// a limit of the measurement does not allow it.
    async fn ask_once(
        &mut self,
        input: &[Value],
        max_output: u64,
        more: &Value,
    ) -> MeasuringTurnEnd {
        let mut body = json!({
            "model": self.name, "input": input, "instructions": "You look around.",
            "include": ["reasoning.encrypted_content"], "store": false, "stream": true,
            "max_output_tokens": max_output, "prompt_cache_key": "doctor",
        });
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            for (name, value) in more {
                body.insert(name.clone(), value.clone());
            }
        }
        let allowed = max_output.min(MAX_OUTPUT);
        self.lock_seen().max_output = allowed;
        let request = TurnRequest::default();
        let reply = respond(&self.service, request, body.to_string()).await;
        // Estimates differ, so that twice as much is no fault.
        let read = read_response(reply.into_body(), 2 * allowed).await;
        let mut seen = self.lock_seen();
        if seen.is_limited {
            return MeasuringTurnEnd::Limited;
        }
        let Some(response) = read else {
            let prompt = seen.prompt;
            seen.count_tokens(prompt, 2 * allowed);
            return MeasuringTurnEnd::Endless;
        };
        let count = |at: &str| {
            response
                .pointer(at)
                .and_then(Value::as_u64)
                .unwrap_or_default()
        };
        seen.count_tokens(count("/usage/input_tokens"), count("/usage/output_tokens"));
        if let Some(message) = response.pointer("/error/message").and_then(Value::as_str) {
            return MeasuringTurnEnd::Failed(message.to_owned());
        }
        seen.answers += 1;
        drop(seen);
        let output = response.get("output").and_then(Value::as_array);
        let is_thought = |item: &Value| item.get("type").is_some_and(|kind| kind == "reasoning");
        let has_item = output.is_some_and(|items| items.iter().any(is_thought));
        let thought = response.pointer("/usage/output_tokens_details/reasoning_tokens");
        let has_tokens = thought.and_then(Value::as_u64) > Some(0);
        self.reasoned.push(has_item || has_tokens);
        MeasuringTurnEnd::Answered(response)
    }

    /// What is known of the model now.
    pub(super) fn known(&self) -> Known {
        let config = self.service.config.load();
        let Ok(mut route) = config.registry.resolve(&self.name, false) else {
            return Known {
                dialect: Dialect::default(),
                model: Model::unlisted(&self.name),
            };
        };
        let of = PatchesOf::owner(LOCAL_OWNER);
        self.service.learned_quirks().apply(&mut route, of);
        Known::of(&route)
    }

    /// Makes what was learned, and what the last answer shows, the settings of the provider.
    pub(super) fn adopt(&mut self) {
        let mut known = self.known();
        let config = self.service.config.load();
        let before = config.registry.resolve(&self.name, false);
        let was_sent = before.is_ok_and(|route| route.dialect.quirks.replays_reasoning());
        self.refuses_reasoning |= was_sent && !known.dialect.quirks.replays_reasoning();
        let Known { dialect, model } = &mut known;
        wire::observe_answer(&mut dialect.quirks, &self.seen().body);
        if self.refuses_reasoning {
            // Answers have it anyway.
            wire::apply_patch(SharedPatch::NoReasoning.into(), &mut dialect.quirks, model);
        }
        self.set_known(&known);
    }

    /// The quirks that are known now.
    pub(super) fn quirks(&self) -> WireQuirks {
        self.known().dialect.quirks
    }

    /// Changes the quirks that are known.
    pub(super) fn change_quirks(&self, change: impl FnOnce(&mut WireQuirks)) {
        let mut known = self.known();
        change(&mut known.dialect.quirks);
        self.set_known(&known);
    }

    /// Makes this the settings of the provider.
    pub(super) fn set_known(&self, known: &Known) {
        self.service.config.rcu(|config| {
            let mut config = Config::clone(config);
            let id = self.name.split('/').next().unwrap_or_default();
            if let Some(provider) = config.registry.provider(id) {
                let provider = with_known(provider, known);
                config.registry.replace_provider(&Arc::new(provider));
            }
            config
        });
    }

    pub(super) fn seen(&self) -> Seen {
        self.lock_seen().clone()
    }

    pub(super) fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The provider with what is known of one model.
pub(super) fn with_known(provider: &Provider, known: &Known) -> Provider {
    let mut provider = provider.clone();
    provider.dialect = Arc::new(known.dialect.clone());
    provider.families.clear();
    provider.models.retain(|model| model.id != known.model.id);
    provider.models.push(Arc::new(known.model.clone()));
    provider
}

/// The parameters of a turn of the tool loop.
pub(super) fn tool_parameters(choice: &Value) -> Value {
    json!({"tools": prompts::tools(), "tool_choice": choice, "temperature": 0.3,
        "parallel_tool_calls": true})
}

/// Reads a reply to its end: the final response of a stream, or the document of an error. `None` if
/// the text of the stream has more tokens than are allowed; dropping the body ends the request.
async fn read_response(mut body: Body, allowed: u64) -> Option<Value> {
    let mut events = SseDecoder::new(MAX_BODY);
    let mut document = Vec::new();
    let (mut said, mut read) = (0, 0);
    let mut response = Value::Null;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(bytes) = frame.into_data() else {
            continue;
        };
        read += bytes.len();
        let mut keep = |event: SseEvent<'_>| {
            let event: Value = serde_json::from_str(&event.data).unwrap_or_default();
            let delta = event.get("delta").and_then(Value::as_str);
            said += delta.map_or(0, str::len);
            if let Some(latest) = event.get("response") {
                response = latest.clone();
            }
        };
        events.feed(&bytes, &mut keep).ok()?;
        if response.is_null() {
            document.extend_from_slice(&bytes);
        }
        if estimated_tokens(said) > allowed || read > MAX_BODY {
            return None;
        }
    }
    if response.is_null() {
        response = serde_json::from_slice(&document).unwrap_or_default();
    }
    Some(response)
}

/// A check that was not made because a limit is reached.
pub(super) fn limited(subject: &'static str) -> DoctorCheck {
    let found = "Not measured: the limits of requests, tokens or time for one model were used up.";
    let remedy = "Write what was found with --write, and run this again.";
    DoctorCheck::warning(subject, found, remedy)
}
