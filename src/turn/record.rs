//! How a turn went: one log line and the metrics, whatever way it ended.

use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::mend::Mend;
use adapters::notes::Notes;
use adapters::responses::assembler;
use registry::{Price, Route};
use tokio::time::Instant;

use super::caller::Caller;
use super::prefix::{Reason, Telling};
use super::way::Way;
use crate::config::Config;
use crate::diagnostics::line::Line;
use crate::diagnostics::log;
use crate::metrics::{Metrics, OpenStream, Outcome, PrefixFigures, Tokens, TurnFigures};
use crate::secrets::Redactor;
use crate::tap::{Seen, Tap};

/// What is told of a turn. It tells it when it is dropped: a client that goes
/// away drops the turn.
pub(super) struct Record {
    pub(super) metrics: Arc<Metrics>,
    config: Arc<Config>,
    pub(super) request_id: Arc<str>,
    pub(super) caller: Caller,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) session: String,
    pub(super) notes: Notes,
    pub(super) retries: u32,
    pub(super) usage: Option<Usage>,
    /// What earlier requests of the turn used.
    pub(super) spent: Usage,
    /// What the last request that was sent has in common with the one before.
    pub(super) prefix: Option<Telling>,
    /// Our estimate of the input's tokens.
    pub(super) estimated: u64,
    /// What the model costs, if that is known.
    pub(super) price: Option<Price>,
    started: Instant,
    first_event: Option<Duration>,
    outcome: Option<Outcome>,
    fault: Option<Fault>,
    /// The same with the secrets in it, for the tap.
    raw_fault: Option<Fault>,
    tap: Option<Arc<dyn Tap>>,
    _open: OpenStream,
}

impl Record {
    pub(super) fn new(
        metrics: &Arc<Metrics>,
        config: &Arc<Config>,
        request_id: Arc<str>,
        caller: Caller,
        tap: Option<Arc<dyn Tap>>,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            config: Arc::clone(config),
            request_id,
            caller,
            provider: String::new(),
            model: String::new(),
            session: String::new(),
            notes: Notes::default(),
            retries: 0,
            usage: None,
            spent: Usage::default(),
            prefix: None,
            estimated: 0,
            price: None,
            started: Instant::now(),
            first_event: None,
            outcome: None,
            fault: None,
            raw_fault: None,
            tap,
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

    /// The turn will be sent again in other words.
    pub(super) fn healed(&mut self, fault: &Fault, mend: Mend) {
        self.notes.add("healed", mend.to_string());
        self.metrics.healed(&self.provider, &self.model);
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// Another provider gets the turn.
    pub(super) fn failover(&mut self, fault: &Fault, to: &Route) {
        let detail = format!("{}: {}", self.provider, fault.kind.name());
        self.notes.add("failover", detail);
        self.metrics.failover(
            (&self.provider, &self.model),
            (&to.provider.id, &to.model.id),
        );
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// Another provider gets the turn than the session's, which is left alone.
    pub(super) fn passed_over(&mut self, home: &Route, to: &Route) {
        let home = (home.provider.id.as_str(), home.model.id.as_str());
        self.notes
            .add("failover", format!("{}: left alone", home.0));
        let to = (to.provider.id.as_str(), to.model.id.as_str());
        self.metrics.failover(home, to);
    }

    /// Whether the provider is left alone now.
    pub(super) fn down(&self, down: bool) {
        self.metrics.provider_down(&self.provider, down);
    }

    /// The turn takes a way.
    pub(super) fn way(&mut self, way: &Way, prefix: Telling) {
        self.prefix = Some(prefix);
        self.estimated = way.terms.estimated_input;
        self.provider.clone_from(&way.route.provider.id);
        self.model.clone_from(&way.route.model.id);
        self.price.clone_from(&way.route.model.price);
        self.notes.extend(&way.notes);
    }

    /// The answer of a request within the turn came to its end, or failed: the turn
    /// goes on. Tells what it used.
    pub(super) fn goes_on(&mut self) -> Option<Usage> {
        (self.outcome, self.fault, self.raw_fault) = (None, None, None);
        let usage = self.usage.take()?;
        self.spent = sum(self.spent, usage);
        Some(usage)
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
        self.raw_fault = self.tap.is_some().then(|| fault.clone());
        redact(fault, redactor);
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

/// Takes the secrets out of a fault's texts.
pub(super) fn redact(fault: &mut Fault, redactor: &Redactor) {
    let redact = |text: &str| redactor.redact(text).into_owned();
    fault.message = redact(&fault.message);
    fault.cause = fault.cause.take().map(|cause| redact(&cause).into());
    fault.param = fault.param.take().map(|param| redact(&param).into());
    fault.code = fault.code.take().map(|code| redact(&code).into());
}

impl Record {
    /// US dollars, where the price is known and the provider or an estimate has
    /// told the tokens.
    fn cost(&self) -> Option<f64> {
        let (usage, price) = (self.used()?, self.price.as_ref()?);
        Some(price.cost(usage.input, usage.cached, usage.cache_write, usage.output))
    }

    /// What all requests of the turn used, if anything is known of it.
    fn used(&self) -> Option<Usage> {
        let known = self.usage.is_some() || self.spent != Usage::default();
        known.then(|| sum(self.spent, self.usage.unwrap_or_default()))
    }
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input.saturating_add(other.input),
        cached: one.cached.saturating_add(other.cached),
        cache_write: one.cache_write.saturating_add(other.cache_write),
        output: one.output.saturating_add(other.output),
        reasoning: one.reasoning.saturating_add(other.reasoning),
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or(Outcome::Disconnected);
        let used = self.used();
        let usage = used.unwrap_or_default();
        let duration = self.started.elapsed();
        let cost = self.cost();
        let counted =
            self.usage.is_some() && self.notes.iter().all(|note| note.code != "usage_estimated");
        let estimated =
            (counted && usage.input > 0 && self.estimated > 0).then_some(self.estimated);
        if let Some(tap) = &self.tap {
            tap.saw(Seen::Ended {
                outcome,
                notes: &self.notes,
                usage: used,
                fault: self.raw_fault.as_ref(),
            });
        }
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
            cost,
            estimated,
            prefix: self.prefix.map(|prefix| PrefixFigures {
                sent: prefix.sent,
                shared: prefix.shared,
                reason: prefix.reason,
            }),
        });
        let prefix = self.prefix.filter(|prefix| prefix.reason != Reason::First);
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
            // They quote the client and the provider.
            notes = self.config.redactor().redact(&notes).into_owned();
        }
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: log::TURN,
            request = %self.request_id,
            outcome = outcome.label(),
            route = %Line::new(if self.provider.is_empty() { "" } else { &route }),
            caller = self.caller.name(),
            kind = self.caller.kind.name(),
            session = %Line::up_to(&self.session, 64),
            input = usage.input,
            cached_percent = cached,
            estimated_input = estimated,
            shared_percent = prefix.map(|prefix| prefix.percent()),
            prefix = prefix.map(|prefix| prefix.reason.name()),
            prefix_differs_at = prefix.and_then(|prefix| prefix.place).map(|place| place.to_string()),
            output = usage.output,
            reasoning = usage.reasoning,
            cost,
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

#[cfg(test)]
mod tests {
    use adapters::fault::Kind;
    use serde_json::{Value, json};

    use std::collections::HashMap;

    use super::*;
    use crate::config::{Flags, Inputs, UserDirs};
    use crate::diagnostics::log::{Format, spoken};
    use crate::turn::TurnKind;
    use crate::turn::prefix::Place;

    fn record() -> Record {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            flags: Flags::default(),
            environment: Box::new(HashMap::<String, String>::new()),
            dirs: UserDirs::under(folder.path()),
        };
        let config = Arc::new(crate::config::load(&inputs).unwrap());
        Record::new(
            &Arc::new(Metrics::new()),
            &config,
            "req_1".into(),
            Caller::default(),
            None,
        )
    }

    fn completed() {
        let mut record = record();
        record.caller.codex = true;
        record.caller.kind = TurnKind::Compaction;
        record.provider = "acme".into();
        record.model = "m-1".into();
        record.session = "s1".into();
        record.retries = 1;
        record.price = Some(Price {
            input: 2.0,
            cached_input: Some(0.5),
            cache_write: None,
            output: 10.0,
            tiers: Vec::new(),
        });
        record.usage = Some(Usage {
            input: 1000,
            cached: 875,
            output: 50,
            reasoning: 20,
            ..Usage::default()
        });
        record.estimated = 1201;
        record.prefix = Some(Telling {
            sent: 4000,
            last: 3000,
            shared: 2999,
            reason: Reason::Epoch,
            place: Some(Place::Item(7)),
        });
        record.notes.add("tool_dropped", "web_search");
        record.notes.add("effort_mapped", "max to high");
        record.ended(assembler::Outcome::Completed);
    }

    /// A turn of which there is no news.
    fn going_on() {
        let mut record = record();
        record.estimated = 1200;
        record.usage = Some(Usage {
            input: 1000,
            ..Usage::default()
        });
        record.prefix = Some(Telling {
            sent: 4000,
            last: 3000,
            shared: 3000,
            reason: Reason::NewTurn,
            place: None,
        });
    }

    fn refused() {
        let mut fault = Fault::new(Kind::ModelNotFound, "No model 'a\nb'.");
        record().failed(&mut fault, &Redactor::default());
    }

    /// A record for a person, without its time and its duration.
    fn sentence(speak: fn()) -> String {
        let line = spoken(Format::Human, speak);
        let (_, sentence) = line.trim_end().split_once("INFO ").unwrap();
        let (before, rest) = sentence.split_once(" after ").unwrap();
        let (_, after) = rest.split_once(" ms").unwrap();
        format!("{before}{after}")
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_reads_a_sentence() {
        assert_eq!(
            sentence(completed),
            "acme/m-1 completed, 1000 tokens in (87% cached, 1201 estimated), \
             PREFIX BROKEN (epoch at item 7, 99.9% shared), 50 out (20 reasoning), $0.0012, 1 retry; tool_dropped (web_search), effort_mapped (max to high); \
             codex compaction req_1"
        );
        assert_eq!(
            sentence(refused),
            r"refused: model_not_found: No model 'a\nb'; req_1"
        );
        assert_eq!(sentence(|| drop(record())), "disconnected; req_1");
        assert_eq!(
            sentence(going_on),
            "disconnected, 1000 tokens in, prefix kept; req_1"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_reads_every_field() {
        let read = |speak: fn()| -> Value {
            let mut value: Value = serde_json::from_str(&spoken(Format::Json, speak)).unwrap();
            value.as_object_mut().unwrap().remove("timestamp");
            value
        };
        assert_eq!(
            read(completed),
            json!({
                "level": "INFO", "target": "respondent::turn", "request": "req_1",
                "outcome": "completed", "route": "acme/m-1", "caller": "codex",
                "kind": "compaction",
                "session": "s1", "input": 1000, "cached_percent": 87, "output": 50,
                "estimated_input": 1201, "shared_percent": "99.9", "prefix": "epoch",
                "prefix_differs_at": "item 7",
                "reasoning": 20, "cost": 0.001_187_5, "ms": 0, "retries": 1,
                "notes": "tool_dropped (web_search), effort_mapped (max to high)",
            })
        );
        let refused = read(refused);
        assert_eq!(refused["fault"], "model_not_found");
        assert_eq!(refused["message"], r"No model 'a\nb'.");
    }
}
