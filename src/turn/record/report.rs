//! Reports a turn when its record is dropped: to the observer, the metrics and the log.

use adapters::event::Usage;

use super::{Record, SpentStorage, changes};
use crate::clock::milliseconds;
use crate::log;
use crate::log::SafeText;
use crate::metrics::{PrefixFigures, TurnFigures};
use crate::turn::observer::TurnEvent;
use crate::turn::outcome::Outcome;
use crate::turn::prefix::PrefixReason;

impl Drop for Record {
    fn drop(&mut self) {
        let usage = self.total_usage();
        // A turn without an outcome was dropped by a client that disconnected.
        let outcome = self.outcome.unwrap_or(Outcome::Disconnected);
        let figures = self.figures(outcome, usage.unwrap_or_default());
        if let Some(observer) = &self.observer {
            observer.on_event(TurnEvent::Ended {
                outcome,
                notes: &self.notes,
                usage,
                fault: self.raw_fault.as_ref(),
            });
        }
        self.metrics.turn(&figures);
        self.log(outcome, &figures);
    }
}

impl Record {
    fn figures(&self, outcome: Outcome, usage: Usage) -> TurnFigures<'_> {
        let is_counted =
            self.usage.is_some() && self.notes.iter().all(|note| note.code != "usage_estimated");
        let is_comparable = is_counted && usage.input > 0 && self.estimated_input > 0;
        TurnFigures {
            owner: &self.owner,
            provider: &self.provider,
            model: &self.model,
            outcome: outcome.label(),
            duration: self.started.elapsed(),
            first_event: self.first_event,
            usage,
            cost: self.cost(),
            tool_cost: self.tool_cost,
            unshortened_cost: self.unshortened_cost(),
            unshortened_bill: self.unshortened_bill(),
            spent_is_stored: self.spent_storage == SpentStorage::WithResponse,
            estimated: is_comparable
                .then(|| self.earlier_estimate.saturating_add(self.estimated_input)),
            prefix: self.prefix.map(|prefix| PrefixFigures {
                sent: prefix.request_bytes,
                shared: prefix.shared_bytes,
                reason: prefix.reason.name(),
            }),
        }
    }

    /// Tells what was changed for the provider, once in each session.
    fn tell_changes(&self) {
        let Some(logged) = self.logged.as_ref().filter(|_| !self.provider.is_empty()) else {
            return;
        };
        if self.notes.is_empty() || !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let model = self.shown_model();
        let is_news = |fact: &[&str]| {
            let fact = [fact, &[model.as_str()]].concat();
            logged.is_news(&self.session.id, &fact)
        };
        let changes = changes::in_words(&self.notes, is_news).join("; ");
        if !changes.is_empty() {
            // Notes quote the client and the provider, so they may hold secrets.
            let changes = self.config.redactor().redact(&changes);
            let changes = SafeText::up_to(&changes, 1000);
            let (model, tag) = (SafeText::new(&model), &self.tag);
            tracing::info!("changed for {model} in {tag}: {changes}");
        }
    }

    fn log(&self, outcome: Outcome, figures: &TurnFigures<'_>) {
        let usage = figures.usage;
        self.tell_changes();
        let prefix = self
            .prefix
            .filter(|prefix| prefix.reason != PrefixReason::First);
        let cached = usage
            .cached
            .saturating_mul(100)
            .checked_div(usage.input)
            .unwrap_or(0);
        let route = format!("{}/{}", self.provider, self.model);
        let notes: Vec<String> = self
            .notes
            .iter()
            .map(|note| format!("{} ({})", note.code, note.detail))
            .collect();
        let mut notes = notes.join(", ");
        if !notes.is_empty() {
            // Notes quote the client and the provider, so they may hold secrets.
            notes = self.config.redactor().redact(&notes).into_owned();
        }
        if let Some(prefix) = prefix {
            let sentence = prefix.cache_sentence();
            tracing::debug!("{sentence}; {}", self.request_id);
        }
        let tools = |count: u64| (self.tool_rounds > 0 || self.tool_calls > 0).then_some(count);
        let with_tools = |cost: Option<f64>| cost.map(|cost| cost + figures.tool_cost);
        // The level of a record is a constant.
        macro_rules! log_at {
            ($level:expr) => {
                tracing::event!(
                    target: log::TURN_TARGET,
                    $level,
                    request = %self.request_id,
                    outcome = figures.outcome,
                    route = %SafeText::new(if self.provider.is_empty() { "" } else { &route }),
                    model = %SafeText::new(&self.shown_model()),
                    tag = %SafeText::up_to(&self.tag, 64),
                    caller = self.caller.name(),
                    kind = self.caller.kind.name(),
                    agent = self.agent_name().map(|agent| SafeText::up_to(&agent, 64).to_string()),
                    session = %SafeText::up_to(&self.session_name(), 64),
                    input = usage.input,
                    cached_percent = cached,
                    estimated_input = figures.estimated,
                    shared_percent = prefix.map(|prefix| prefix.percent()),
                    prefix = prefix.map(|prefix| prefix.reason.name()),
                    prefix_differs_at = prefix.and_then(|prefix| prefix.differs_at).map(|part| part.to_string()),
                    output = usage.output,
                    reasoning = usage.reasoning,
                    cost = with_tools(figures.cost),
                    unshortened_cost = with_tools(figures.unshortened_cost),
                    too_long_unshortened = (!self.fits_unshortened()).then_some(true),
                    expected_cached = self.usage.map(|_| self.forecast.cached()),
                    first_event_ms = self.first_event.map(milliseconds),
                    ms = milliseconds(figures.duration),
                    retries = self.retries,
                    tool_rounds = tools(self.tool_rounds.into()),
                    tool_calls = tools(self.tool_calls.into()),
                    tool_ms = tools(milliseconds(self.tool_time)),
                    notes = %SafeText::up_to(&notes, 1000),
                    advice = self.advice,
                    fault = self.fault.as_ref().map(|fault| fault.kind.name()),
                    message = self.fault.as_ref().map(|fault| SafeText::up_to(&fault.message, 500).to_string()),
                    cause = self.fault.as_ref().and_then(|fault| fault.cause.as_deref()).map(|cause| SafeText::up_to(cause, 500).to_string()),
                )
            };
        }
        if outcome.is_failure() {
            log_at!(tracing::Level::WARN);
        } else {
            log_at!(tracing::Level::INFO);
        }
    }
}
