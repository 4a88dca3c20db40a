//! Measures how a provider differs from what is known of it, with a few small turns: a tool loop
//! that has everything in it which providers refuse. The proxy adapts to a refusal as it does in any
//! other turn; what it has learned at the end is the measurement.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adapters::fault::Kind;
use adapters::wire;
use arc_swap::ArcSwap;
use http_body_util::{BodyExt as _, Limited};
use registry::{Dialect, Model, Provider, Route};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::report::{CheckVerdict, DoctorCheck};
use crate::artifacts::Artifacts;
use crate::clock::System;
use crate::config::{CaptureMode, Config};
use crate::metrics::Metrics;
use crate::net::LOCAL_OWNER;
use crate::responses::ResponseStore;
use crate::turn::{
    Service, TurnEnvironment, TurnEnvironmentFactory, TurnEvent, TurnObserver, respond,
};

/// At most this many requests are sent for one model.
pub(super) const MAX_REQUESTS: usize = 12;
/// At most this many tokens are used for one model in one wire.
pub(super) const MAX_TOKENS: u64 = 20_000;
/// At most this long one model is measured in one wire.
pub(super) const MAX_TIME: Duration = Duration::from_mins(1);
/// The requests of one turn at most: a turn adapts to four refusals.
const REQUESTS_OF_TURN: usize = 5;
/// The tokens of one turn at most. Its prompts are far smaller than what it may answer.
const TOKENS_OF_TURN: u64 = 4_000;
/// The limit of output tokens of each request.
const MAX_OUTPUT: u64 = 2_000;
/// At most so many bytes of an answer are looked at, and of a response read.
const MAX_BODY: usize = 1 << 20;

/// A red square of 64 pixels.
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC";

/// What was measured of a model.
pub(super) struct Measurement {
    pub(super) checks: Vec<DoctorCheck>,
    /// What was known before, and what is known now.
    pub(super) before: Known,
    pub(super) after: Known,
    pub(super) requests: usize,
    pub(super) tokens: u64,
    /// Nothing answers at the address of the wire: it may speak another one.
    pub(super) is_wrong_wire: bool,
}

/// What is known of a model.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) dialect: Dialect,
    pub(super) model: Model,
}

impl Known {
    fn of(route: &Route) -> Self {
        Self {
            dialect: Dialect::clone(&route.dialect),
            model: Model::clone(&route.model),
        }
    }
}

/// Measures a model, `provider/model`, to which `sent` requests were sent already; they count. The
/// error says why there is no such model.
pub(super) async fn measure(
    mut config: Config,
    name: &str,
    sent: usize,
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
    let seen = Arc::new(Mutex::new(Seen {
        requests: sent,
        ..Seen::default()
    }));
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
        tokens: 0,
        checks: Vec::new(),
    };
    if tokio::time::timeout(MAX_TIME, turns.run()).await.is_err() {
        let found = format!("It took longer than {} s.", MAX_TIME.as_secs());
        let remedy = "What was not measured by then is left as it is; a faster model shows more.";
        turns
            .checks
            .push(DoctorCheck::warning("time", found, remedy));
    }
    let after = turns.known();
    turns.checks.extend(dialect_checks(&after, &turns.checks));
    let seen = turns.seen();
    Ok(Measurement {
        before: Known::of(&route),
        after,
        requests: seen.requests,
        tokens: turns.tokens,
        is_wrong_wire: seen.answers == 0
            && matches!(seen.refusal, Some((Kind::Refused, Some(404 | 405)))),
        checks: turns.checks,
    })
}

/// The turns of a measurement.
struct MeasuringTurns {
    service: Arc<Service>,
    seen: Arc<Mutex<Seen>>,
    /// `provider/model`
    name: String,
    tokens: u64,
    checks: Vec<DoctorCheck>,
}

impl MeasuringTurns {
    async fn run(&mut self) {
        let opening = [
            message("developer", "Use the tools."),
            message(
                "user",
                "Call the tool `look` two times at once: for the door and for the window.",
            ),
        ];
        let Some(response) = self.turn("answer", &opening, json!("auto")).await else {
            return;
        };
        self.check_answer(&response);
        self.adopt();
        let output = response.get("output").and_then(Value::as_array);
        let output = output.cloned().unwrap_or_default();
        let is_call = |item: &&Value| item.get("type").is_some_and(|kind| kind == "function_call");
        let calls: Vec<&Value> = output.iter().filter(is_call).collect();
        self.check_calls(&calls);
        let ids = calls.iter().filter_map(|call| call.get("call_id"));
        let results = ids.map(|id| result(id, "closed"));
        let history: Vec<Value> = opening
            .iter()
            .chain(&output)
            .cloned()
            .chain(results)
            .collect();
        if !calls.is_empty()
            && self
                .turn("tool result", &history, json!("auto"))
                .await
                .is_some()
        {
            self.checks
                .push(DoctorCheck::good("tool result", "the model went on"));
        }
        self.adopt();
        // Another model made the call before; its reasoning is not there.
        let foreign = [
            message("user", "Look at the roof."),
            json!({"type": "function_call", "call_id": "call_of_another_model", "name": "look", "arguments": "{\"at\": \"the roof\"}"}),
            result(&json!("call_of_another_model"), "red"),
        ];
        let more = [
            message("developer", "The time is noon."),
            message(
                "user",
                "Answer with one word and without the tools: is it morning?",
            ),
        ];
        let history: Vec<Value> = foreign.into_iter().chain(history).chain(more).collect();
        if self
            .turn("history", &history, json!("none"))
            .await
            .is_some()
        {
            let found = "calls of another model and a later instruction were taken";
            self.checks.push(DoctorCheck::good("history", found));
        }
        self.adopt();
        self.check_image().await;
    }

    /// Whether images are taken.
    async fn check_image(&mut self) {
        if !self.known().model.images {
            let found = "images are not sent, as it is configured";
            return self.checks.push(DoctorCheck::good("image", found));
        }
        let input = json!([{"role": "user", "content": [
            {"type": "input_text", "text": "Answer with one word: which colour is this?"},
            {"type": "input_image", "image_url": IMAGE},
        ]}]);
        let input = input.as_array().cloned().unwrap_or_default();
        let is_taken = self.turn("image", &input, json!("none")).await.is_some();
        // A request without an image was taken, so the image is what is refused.
        let is_refused = !is_taken
            && matches!(self.seen().refusal, Some((_, Some(400 | 404 | 415 | 422))))
            && self
                .checks
                .last()
                .is_some_and(|check| check.verdict == CheckVerdict::Failed);
        if is_refused {
            self.checks.pop();
            let mut known = self.known();
            known.model.images = false;
            self.set_known(&known);
        }
        if is_taken || is_refused {
            let found = if self.known().model.images {
                "images are taken"
            } else {
                "images are refused, and left out from now on"
            };
            self.checks.push(DoctorCheck::good("image", found));
        }
    }

    /// Runs a turn. Returns the response if it is complete; otherwise a check tells why not. Nothing
    /// is sent, and a check says so, if the turn could need more requests or tokens than are left.
    async fn turn(
        &mut self,
        subject: &'static str,
        input: &[Value],
        choice: Value,
    ) -> Option<Value> {
        if self.seen().requests + REQUESTS_OF_TURN > MAX_REQUESTS
            || self.tokens + TOKENS_OF_TURN > MAX_TOKENS
        {
            let found = "Not measured: too many requests were needed before.";
            let remedy = "Write what was found with --write, and run this again.";
            self.checks
                .push(DoctorCheck::warning(subject, found, remedy));
            return None;
        }
        let body = json!({
            "model": self.name, "input": input, "instructions": "You look around.",
            "include": ["reasoning.encrypted_content"], "store": false,
            "max_output_tokens": MAX_OUTPUT, "temperature": 0.3, "parallel_tool_calls": true,
            "prompt_cache_key": "doctor", "tool_choice": choice, "tools": tools(),
        });
        let head = http::Request::post("/v1/responses")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(());
        let (head, ()) = head.ok()?.into_parts();
        let reply = respond(&self.service, LOCAL_OWNER.into(), &head, body.to_string()).await;
        let read = Limited::new(reply.into_body(), MAX_BODY).collect().await;
        let response: Value = read
            .ok()
            .and_then(|body| serde_json::from_slice(&body.to_bytes()).ok())
            .unwrap_or_default();
        let counted = response.pointer("/usage/total_tokens");
        self.tokens += counted.and_then(Value::as_u64).unwrap_or_default();
        if let Some(message) = response.pointer("/error/message").and_then(Value::as_str) {
            self.checks
                .push(DoctorCheck::failed(subject, message, None));
            return None;
        }
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .answers += 1;
        Some(response)
    }

    /// Whether the answer was a stream, and what it counts.
    fn check_answer(&mut self, response: &Value) {
        let body = self.seen().body;
        let is_stream = body.lines().any(|line| line.starts_with("data:"));
        self.checks.push(if is_stream {
            DoctorCheck::good("answer", "it arrives as a stream")
        } else {
            DoctorCheck::warning(
                "answer",
                "It arrives in one piece.",
                "Nothing is shown before its end; this cannot be changed here.",
            )
        });
        let tokens = |at: &str| response.pointer(at).and_then(Value::as_u64);
        let is_counted = has_object(&body, "usage");
        self.checks
            .push(match (is_counted, tokens("/usage/input_tokens")) {
                (true, Some(input)) => {
                    let cached = if body.contains("cache") {
                        "with those from the cache"
                    } else {
                        "without those from the cache"
                    };
                    DoctorCheck::good(
                        "usage",
                        format!("tokens are counted ({input} of input), {cached}"),
                    )
                }
                _ => DoctorCheck::warning(
                    "usage",
                    "Tokens are not counted.",
                    "Costs and limits by tokens are estimates.",
                ),
            });
    }

    fn check_calls(&mut self, calls: &[&Value]) {
        self.checks.push(match calls.len() {
            0 => DoctorCheck::warning(
                "tool call",
                "The model called no tool.",
                "An agent needs tools: try another model with --model.",
            ),
            1 => DoctorCheck::good("tool call", "one call in an answer"),
            many => DoctorCheck::good("tool call", format!("{many} calls in one answer")),
        });
    }

    /// What is known of the model now.
    fn known(&self) -> Known {
        let config = self.service.config.load();
        let Ok(mut route) = config.registry.resolve(&self.name, false) else {
            return Known {
                dialect: Dialect::default(),
                model: Model::unlisted(&self.name),
            };
        };
        self.service.learned_quirks().apply(&mut route);
        Known::of(&route)
    }

    /// Makes what was learned, and what the last answer shows, the settings of the provider.
    fn adopt(&self) {
        let mut known = self.known();
        wire::observe_answer(&mut known.dialect.quirks, &self.seen().body);
        self.set_known(&known);
    }

    /// Makes this the settings of the provider.
    fn set_known(&self, known: &Known) {
        self.service.config.rcu(|config| {
            let mut config = Config::clone(config);
            let id = self.name.split('/').next().unwrap_or_default();
            for provider in &mut config.registry.providers {
                if provider.id == id {
                    *provider = Arc::new(with_known(provider, known));
                }
            }
            config
        });
    }

    fn seen(&self) -> Seen {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The provider with what is known of one model.
fn with_known(provider: &Provider, known: &Known) -> Provider {
    let mut provider = provider.clone();
    provider.dialect = Arc::new(known.dialect.clone());
    provider.families.clear();
    provider.models.retain(|model| model.id != known.model.id);
    provider.models.push(Arc::new(known.model.clone()));
    provider
}

/// What the quirks at the end say, in words. Nothing if no answer was complete.
fn dialect_checks(known: &Known, so_far: &[DoctorCheck]) -> Vec<DoctorCheck> {
    if so_far
        .iter()
        .any(|check| check.verdict == CheckVerdict::Failed)
    {
        return Vec::new();
    }
    let quirks = super::file::quirks(&known.dialect.quirks);
    let text = |key: &str| match quirks.get(key)? {
        toml::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut checks = Vec::new();
    if let (Some(form), Some(required)) = (text("reasoning_replay"), text("reasoning_required")) {
        let found = match (form.as_str(), required.as_str()) {
            ("none", _) => "it is not sent back".to_owned(),
            (form, "never") => format!("it goes back as {form}"),
            (form, required) => format!("it must go back as {form} ({required})"),
        };
        checks.push(DoctorCheck::good("reasoning", found));
    }
    if let Some(role) = text("system_role") {
        checks.push(DoctorCheck::good(
            "roles",
            format!("instructions have the role {role}"),
        ));
    }
    if let Some(schema) = text("schema") {
        let found = if schema == "[]" {
            "schemas are sent as they are".to_owned()
        } else {
            format!("schemas are rewritten: {schema}")
        };
        checks.push(DoctorCheck::good("schema", found));
    }
    checks
}

fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn result(call: &Value, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call, "output": output})
}

/// Two tools. The schema of the first has what the tools of agents have and some provider refuses.
fn tools() -> Value {
    json!([
        {"type": "function", "name": "look", "strict": true, "description": "Looks at a place.", "parameters": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "at": {"$ref": "#/$defs/place", "description": "The place, such as the door"},
                "level": {"enum": ["low", "high"]},
                "size": {"type": ["integer", "null"]},
                "deep": {"type": "object", "anyOf": [{"type": "object"}, {"type": "object", "additionalProperties": false}]},
                "list": {"type": "array"},
                "only": {"const": "this"},
            },
            "required": ["at"],
            "additionalProperties": false,
            "$defs": {"place": {"type": "string"}},
        }},
        {"type": "function", "name": "wait", "description": "Waits.", "parameters": {"type": "object", "properties": {}}},
    ])
}

/// Whether a JSON text has a member of this name whose value is an object.
fn has_object(text: &str, name: &str) -> bool {
    let quoted = format!("\"{name}\"");
    text.match_indices(&quoted).any(|(at, _)| {
        let rest = text.get(at + quoted.len()..).unwrap_or_default();
        let value = rest.trim_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_start().starts_with('{'))
    })
}

/// What was seen of the requests to the provider.
#[derive(Clone, Default)]
struct Seen {
    requests: usize,
    /// The turns that were answered.
    answers: usize,
    /// The body of the last reply, cut to [`MAX_BODY`].
    body: String,
    /// The kind and the status of the last failure.
    refusal: Option<(Kind, Option<u16>)>,
}

/// Watches the turns of a measurement.
struct Watching(Arc<Mutex<Seen>>);

impl TurnEnvironmentFactory for Watching {
    fn create(&self, _: &Arc<str>, _: &Arc<Config>) -> TurnEnvironment {
        TurnEnvironment {
            clock: Arc::new(System),
            random: Arc::new(System),
            observer: Some(Arc::new(Self(Arc::clone(&self.0)))),
            tools: None,
        }
    }
}

impl TurnObserver for Watching {
    fn on_event(&self, event: TurnEvent<'_>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            TurnEvent::UpstreamRequest { .. } => {
                seen.requests += 1;
                seen.body.clear();
            }
            TurnEvent::UpstreamBody(bytes) if seen.body.len() < MAX_BODY => {
                seen.body.push_str(&String::from_utf8_lossy(bytes));
            }
            TurnEvent::AttemptEnd(fault) => {
                seen.refusal = fault.map(|fault| (fault.kind, fault.upstream_status));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_found_in_an_answer_however_it_is_written() {
        assert!(has_object(r#"{"usage" : {"total_tokens": 1}}"#, "usage"));
        assert!(has_object(r#"{"usage":null}{"usage":{}}"#, "usage"));
        assert!(!has_object(r#"{"usage":null,"text":"usage {"}"#, "usage"));
    }
}
