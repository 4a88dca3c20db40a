//! How a turn went: one log line and the metrics, whatever way it ended.

use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::responses::assembler;
use tokio::time::Instant;

use crate::config::Config;
use crate::diagnostics::line::Line;
use crate::metrics::{Metrics, OpenStream, Outcome, Tokens, TurnFigures};
use crate::secrets::Redactor;

/// What is told of a turn. It tells it when it is dropped: a client that goes
/// away drops the turn.
pub(super) struct Record {
    pub(super) metrics: Arc<Metrics>,
    config: Arc<Config>,
    pub(super) request_id: Arc<str>,
    pub(super) codex: bool,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) session: String,
    pub(super) notes: Notes,
    pub(super) retries: u32,
    pub(super) usage: Option<Usage>,
    started: Instant,
    first_event: Option<Duration>,
    outcome: Option<Outcome>,
    fault: Option<Fault>,
    _open: OpenStream,
}

impl Record {
    pub(super) fn new(
        metrics: &Arc<Metrics>,
        config: &Arc<Config>,
        request_id: Arc<str>,
        codex: bool,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            config: Arc::clone(config),
            request_id,
            codex,
            provider: String::new(),
            model: String::new(),
            session: String::new(),
            notes: Notes::default(),
            retries: 0,
            usage: None,
            started: Instant::now(),
            first_event: None,
            outcome: None,
            fault: None,
            _open: metrics.open_stream(),
        }
    }

    /// An event is about to go out.
    pub(super) fn event(&mut self) {
        if self.first_event.is_none() {
            self.first_event = Some(self.started.elapsed());
        }
    }

    /// The turn will be tried again.
    pub(super) fn retry(&mut self, fault: &Fault) {
        self.retries += 1;
        self.notes.add("retried", fault.kind.name());
        self.metrics.retry(&self.provider);
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// The answer ended.
    pub(super) fn ended(&mut self, outcome: assembler::Outcome) {
        self.outcome = Some(match outcome {
            assembler::Outcome::Completed => Outcome::Completed,
            assembler::Outcome::Incomplete => Outcome::Incomplete,
            assembler::Outcome::Failed => Outcome::Failed,
        });
    }

    /// The turn failed for good. The fault's texts lose every secret: they go
    /// to the client and into the log.
    pub(super) fn failed(&mut self, fault: &mut Fault, redactor: &Redactor) {
        let redact = |text: &str| redactor.redact(text).into_owned();
        fault.message = redact(&fault.message);
        fault.cause = fault.cause.take().map(|cause| redact(&cause));
        fault.param = fault.param.take().map(|param| redact(&param).into());
        fault.code = fault.code.take().map(|code| redact(&code).into());
        self.metrics.fault(fault.kind.name(), fault.side().name());
        self.outcome = Some(match fault.kind {
            adapters::fault::Kind::InvalidRequest | adapters::fault::Kind::ModelNotFound => {
                Outcome::Refused
            }
            _ => Outcome::Failed,
        });
        self.fault = Some(fault.clone());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or(Outcome::Disconnected);
        let usage = self.usage.unwrap_or_default();
        let duration = self.started.elapsed();
        self.metrics.turn(&TurnFigures {
            provider: &self.provider,
            model: &self.model,
            outcome,
            duration,
            first_event: self.first_event,
            tokens: Tokens {
                input: usage.input,
                cached: usage.cached,
                output: usage.output,
                reasoning: usage.reasoning,
            },
        });
        let cached = (usage.cached * 100).checked_div(usage.input).unwrap_or(0);
        let route = format!("{}/{}", self.provider, self.model);
        let notes: Vec<String> = self
            .notes
            .iter()
            .map(|note| format!("{}({})", note.code, note.detail))
            .collect();
        let mut notes = notes.join(" ");
        if !notes.is_empty() {
            // They quote the client and the provider.
            notes = self.config.redactor().redact(&notes).into_owned();
        }
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "respondent::turn",
            request = %self.request_id,
            outcome = outcome.label(),
            route = %Line::new(&route),
            codex = self.codex,
            session = %Line::up_to(&self.session, 64),
            input = usage.input,
            cached_percent = cached,
            output = usage.output,
            reasoning = usage.reasoning,
            first_event_ms = self.first_event.map(milliseconds),
            ms = milliseconds(duration),
            retries = self.retries,
            notes = %Line::up_to(&notes, 1000),
            fault = self.fault.as_ref().map(|fault| fault.kind.name()),
            message = self.fault.as_ref().map(|fault| Line::up_to(&fault.message, 500).to_string()),
            cause = self.fault.as_ref().and_then(|fault| fault.cause.as_deref()).map(|cause| Line::up_to(cause, 500).to_string()),
        );
    }
}
