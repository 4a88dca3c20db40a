//! The record of one turn, for its log line, the metrics and the observer. `report` writes these
//! when the record is dropped.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::fault::{Fault, FaultSide};
use adapters::notes::Notes;
use adapters::refusal::change::Change;
use adapters::responses::assembler;
use registry::{Price, Route};
use tokio::time::Instant;

use super::caller::{Caller, Session};
use super::failover::PreparedAttempt;
use super::logged_sessions::LoggedSessions;
use super::observer::TurnObserver;
use super::outcome::Outcome;
use super::owner_limits::{OwnerSlot, check_day};
use super::prefix::{BillForecast, PrefixReport};
use super::route::{cost_of, redacted_route_name};
use super::running::{RunningTurn, RunningTurns};
use super::session_memory::MAX_LOST_TURNS;
use crate::config::Config;
use crate::log::SafeText;
use crate::metrics::spent::{Spending, spent_row};
use crate::metrics::{Metrics, OpenStream, UnshortenedBill};
use crate::secrets::Redactor;
use crate::store::SpentRow;

mod changes;
mod report;

/// What to do about an answer that was cut off at its limit.
const LIMIT_ADVICE: &str = "The answer was cut off at its limit of tokens: raise \
    max_output_tokens in the request or, if it has none, max_output of the model in the \
    configuration.";

/// Who stores what a turn has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpentStorage {
    /// It was counted only, and is stored some seconds later.
    Counted,
    /// It is stored with the response.
    WithResponse,
}

/// The record of one turn. Created with the turn. It reports when it is dropped, because a client
/// that disconnects drops the turn at any point.
pub(super) struct Record {
    pub(super) metrics: Arc<Metrics>,
    config: Arc<Config>,
    pub(super) request_id: Arc<str>,
    owner: Arc<str>,
    pub(super) caller: Caller,
    /// The provider that the turn was sent to last; empty if it was not sent.
    pub(super) provider: String,
    pub(super) model: String,
    /// The session, once the request has been read.
    pub(super) session: Session,
    /// The short name of the session in logs.
    tag: String,
    logged: Option<Arc<LoggedSessions>>,
    pub(super) notes: Notes,
    pub(super) retries: u32,
    /// The usage of the last upstream request.
    pub(super) usage: Option<Usage>,
    /// What that has used so far, until its usage is known: it counts if the answer is cut off.
    pub(super) usage_so_far: Option<Usage>,
    /// The usage of the turn's earlier upstream requests.
    earlier_usage: Usage,
    /// Our estimate of the input tokens of these requests.
    earlier_estimate: u64,
    /// The cost of these requests in US dollars; `None` if the price of one is unknown.
    earlier_cost: Option<f64>,
    /// What they would have cost with nothing shortened.
    earlier_unshortened: Option<f64>,
    /// Whether all of them would have fitted their windows then.
    earlier_fits: bool,
    /// Whether the provider counted the usage of all of them.
    earlier_is_counted: bool,
    /// How the last upstream request compares with the previous one of the session.
    pub(super) prefix: Option<PrefixReport>,
    /// Our estimate of the last request's input tokens.
    pub(super) estimated_input: u64,
    /// What the provider was expected to count for it.
    pub(super) forecast: BillForecast,
    /// Whether the provider counted its usage; else that is an estimate.
    pub(super) usage_is_counted: bool,
    /// The model's price, if the registry has it.
    pub(super) price: Option<Price>,
    /// What the tools of the turn have cost, in US dollars.
    pub(super) tool_cost: f64,
    /// The rounds in which the model called tools of the proxy.
    tool_rounds: u32,
    /// The calls of these tools that were run, and how long they took together.
    tool_calls: u32,
    tool_time: Duration,
    started: Instant,
    /// When the last round began.
    pub(super) round_began: Instant,
    first_event: Option<Duration>,
    outcome: Option<Outcome>,
    /// What its user can do about an answer that is not complete.
    advice: Option<&'static str>,
    /// The final fault, redacted.
    fault: Option<Fault>,
    /// The final fault with its secrets, for the observer.
    raw_fault: Option<Fault>,
    observer: Option<Arc<dyn TurnObserver>>,
    running: RunningTurn,
    /// Counts it among the turns of its owner that run at once.
    pub(super) slot: Option<OwnerSlot>,
    /// Who stores what the turn has used.
    pub(super) spent_storage: SpentStorage,
    _open: OpenStream,
}

impl Record {
    pub(super) fn new(
        metrics: &Arc<Metrics>,
        running: &Arc<RunningTurns>,
        config: &Arc<Config>,
        request_id: Arc<str>,
        owner: Arc<str>,
        caller: Caller,
        observer: Option<Arc<dyn TurnObserver>>,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            config: Arc::clone(config),
            running: running.begin(&request_id, &owner),
            slot: None,
            request_id,
            owner,
            caller,
            provider: String::new(),
            model: String::new(),
            session: Session::default(),
            tag: String::new(),
            logged: None,
            notes: Notes::default(),
            retries: 0,
            usage: None,
            usage_so_far: None,
            earlier_usage: Usage::default(),
            earlier_estimate: 0,
            earlier_cost: Some(0.0),
            tool_cost: 0.0,
            tool_rounds: 0,
            tool_calls: 0,
            tool_time: Duration::ZERO,
            earlier_unshortened: Some(0.0),
            earlier_fits: true,
            earlier_is_counted: true,
            prefix: None,
            estimated_input: 0,
            forecast: BillForecast::default(),
            usage_is_counted: false,
            price: None,
            started: Instant::now(),
            round_began: Instant::now(),
            first_event: None,
            outcome: None,
            advice: None,
            fault: None,
            raw_fault: None,
            observer,
            spent_storage: SpentStorage::Counted,
            _open: metrics.open_stream(),
        }
    }

    /// The request was read, and belongs to this session.
    pub(super) fn set_session(&mut self, session: &Session, logged: &Arc<LoggedSessions>) {
        self.session.clone_from(session);
        self.tag = logged.tag(session);
        if let Some(agent) = self.agent_name() {
            let name = agent.rsplit('/').next().unwrap_or_default();
            self.tag = format!("{}/{}", self.tag, SafeText::up_to(name, 32));
        }
        self.tag = self.config.redactor().redact_known(&self.tag).into_owned();
        self.logged = Some(Arc::clone(logged));
    }

    /// The name of the model for people: without the provider if no other one lists it.
    fn shown_model(&self) -> String {
        let mut providers = self.config.registry.providers.iter();
        let is_elsewhere = providers
            .any(|provider| provider.id != self.provider && provider.model(&self.model).is_some());
        if is_elsewhere {
            format!("{}/{}", self.provider, self.model)
        } else {
            self.model.clone()
        }
    }

    /// The session's id for people. A client may choose any text.
    fn session_name(&self) -> Cow<'_, str> {
        let Session { id, derived, .. } = &self.session;
        if *derived {
            Cow::Borrowed(id)
        } else {
            self.config.redactor().redact_known(id)
        }
    }

    /// The sub-agent's name for people. A client may choose any text.
    fn agent_name(&self) -> Option<Cow<'_, str>> {
        let agent = self.caller.agent.as_deref()?;
        Some(self.config.redactor().redact_known(agent))
    }

    /// The full name of a route for people: [`Route::full_name`] without secrets.
    pub(super) fn route_name(&self, route: &Route) -> String {
        redacted_route_name(&self.config, route)
    }

    /// The name of a route's model for people. A client may name a model that is not listed, by
    /// any text.
    fn model_name<'r>(&self, route: &'r Route) -> Cow<'r, str> {
        if route.model.unlisted {
            self.config.redactor().redact_known(&route.model.id)
        } else {
            Cow::Borrowed(&route.model.id)
        }
    }

    /// Notes the time of the first event. Called before each one is sent.
    pub(super) fn mark_event(&mut self) {
        if self.first_event.is_none() {
            self.first_event = Some(self.started.elapsed());
        }
    }

    /// The provider has sent this many more bytes.
    pub(super) fn received(&self, bytes: usize) {
        self.running.add_received(bytes);
    }

    /// The same request will be sent again.
    pub(super) fn retry(&mut self, fault: &Fault) {
        self.begin_round();
        self.retries += 1;
        self.notes.add("retried", fault.kind.name());
        self.metrics.retry(&self.provider);
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// The turn was encoded again with a change and will be sent again.
    pub(super) fn adapted(&mut self, fault: &Fault, change: &Change) {
        self.begin_round();
        self.notes.add("healed", change.to_string());
        self.metrics.adapted(&self.provider, &self.model);
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// An answer has shown that so many changes of its request help.
    pub(super) fn learned(&self, changes: usize) {
        if changes > 0 {
            self.metrics
                .learned(&self.provider, &self.model, changes as u64);
        }
    }

    /// The turn goes to another route after a fault.
    pub(super) fn failover(&mut self, fault: &Fault, to: &Route) {
        self.begin_round();
        let detail = format!("{}: {}", self.provider, fault.kind.name());
        self.notes.add("failover", detail);
        self.metrics.failover(
            (&self.provider, &self.model),
            (&to.provider.id, &self.model_name(to)),
        );
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// The turn begins on another route than the session's, because that provider is down.
    pub(super) fn skipped_route(&mut self, skipped: &Route, to: &Route) {
        let provider = skipped.provider.id.as_str();
        self.notes
            .add("failover", format!("{provider}: left alone"));
        self.metrics.failover(
            (provider, &self.model_name(skipped)),
            (&to.provider.id, &self.model_name(to)),
        );
    }

    /// Sets the gauge that shows whether the provider counts as down.
    pub(super) fn provider_down(&self, down: bool) {
        self.metrics.provider_down(&self.provider, down);
    }

    /// Counts what the turn is about to use against the limits of its owner's day, before anything
    /// of it is sent. An error is the fault of an owner whose turns have used up a limit, with
    /// those that run. `now` is in seconds since 1970.
    pub(super) fn reserve(&mut self, attempt: &PreparedAttempt, now: u64) -> Result<(), Fault> {
        let limits = self.config.clients.limits(&self.owner);
        if !limits.has_day() {
            return Ok(());
        }
        let input = attempt.answer_params.estimated_input_tokens;
        let asked = Usage {
            input,
            ..Usage::default()
        };
        let price = attempt.route.model.price.as_ref();
        let spending = Spending::of(asked, price.map(|price| cost_of(price, asked)));
        let ended = || self.metrics.spent().of(now, &self.owner);
        self.running.reserve(spending, |others| {
            check_day(&self.owner, limits, ended().and(others), now)
        })
    }

    /// The turn is about to be sent to this attempt's route.
    pub(super) fn start_attempt(
        &mut self,
        attempt: &PreparedAttempt,
        prefix: PrefixReport,
        forecast: BillForecast,
    ) {
        self.prefix = Some(prefix);
        self.forecast = forecast;
        self.usage_is_counted = false;
        self.estimated_input = attempt.answer_params.estimated_input_tokens;
        self.provider.clone_from(&attempt.route.provider.id);
        self.model = self.model_name(&attempt.route).into_owned();
        self.running.set_route(
            format!("{}/{}", self.provider, self.model),
            self.shown_model(),
            &self.tag,
        );
        self.price.clone_from(&attempt.route.model.price);
        self.running.set_spending(self.expected_spending());
        self.notes.extend(&attempt.notes);
    }

    /// What the turn has used, and what the request that is about to be sent costs at least.
    fn expected_spending(&self) -> Spending {
        let asked = Usage {
            input: self.estimated_input,
            cached: self.forecast.cached().min(self.estimated_input),
            ..Usage::default()
        };
        let price = self.price.as_ref();
        let cost = price.map_or(0.0, |price| cost_of(price, asked));
        let used = add_usage(self.earlier_usage, asked);
        Spending {
            tokens: used.input.saturating_add(used.output),
            cost: self.earlier_cost.unwrap_or_default() + cost,
            ..Spending::default()
        }
    }

    /// What the turn has used, as it is stored for its owner. `now` is in seconds since 1970.
    pub(super) fn spent(&self, now: u64) -> Option<SpentRow> {
        let used = Spending::of(self.total_usage().unwrap_or_default(), self.cost());
        spent_row(now, &self.owner, used)
    }

    /// A further upstream answer is asked for. What the one before it used stays counted.
    pub(super) fn begin_round(&mut self) {
        self.round_began = Instant::now();
        if let Some(usage) = self.last_usage() {
            self.earlier_cost = self.cost();
            self.earlier_unshortened = self.unshortened_cost();
            self.earlier_fits &= self.fits_unshortened();
            self.earlier_is_counted &= self.usage_is_counted;
            self.usage = None;
            self.usage_so_far = None;
            self.earlier_usage = add_usage(self.earlier_usage, usage);
            self.earlier_estimate = self.earlier_estimate.saturating_add(self.estimated_input);
        }
    }

    /// The outputs of the session are sent whole after this turn.
    pub(super) fn whole_session_begins(&self) {
        tracing::info!(
            "shortening has cost session {} more than it saved in {MAX_LOST_TURNS} turns in a row; from now on its outputs are sent whole, as far as the window allows; {}",
            SafeText::up_to(&self.session_name(), 64),
            self.request_id
        );
    }

    /// A round has ended in which the model called tools of the proxy.
    pub(super) fn tool_round(&mut self) {
        self.tool_rounds = self.tool_rounds.saturating_add(1);
        self.metrics.tool_round();
    }

    /// A call of a tool of the proxy has ended, which counts under this name.
    pub(super) fn tool_called(&mut self, name: &str, failed: bool, took: Duration) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        self.tool_time = self.tool_time.saturating_add(took);
        self.metrics.tool_called(&self.owner, name, failed, took);
    }

    /// A request for a summary failed, which does not end the turn.
    pub(super) fn summary_failed(&self, fault: &Fault) {
        self.metrics.fault(fault.kind.name(), fault.side().name());
    }

    /// The answer ended with a terminal event.
    pub(super) fn answer_ended(&mut self, outcome: assembler::ResponseStatus) {
        self.outcome = Some(match outcome {
            assembler::ResponseStatus::Completed => Outcome::Completed,
            assembler::ResponseStatus::Incomplete => Outcome::Incomplete,
            assembler::ResponseStatus::Failed => Outcome::Failed,
            assembler::ResponseStatus::Cancelled => Outcome::Cancelled,
        });
    }

    /// The answer was cut off at its limit of tokens.
    pub(super) fn cut_at_limit(&mut self) {
        self.advice = Some(LIMIT_ADVICE);
    }

    /// The turn failed for good. Redacts the fault's texts, which go to the client and the log.
    pub(super) fn failed(&mut self, fault: &mut Fault) {
        self.raw_fault = self.observer.is_some().then(|| fault.clone());
        redact(fault, self.config.redactor());
        self.metrics.fault(fault.kind.name(), fault.side().name());
        let is_refused = fault.side() == FaultSide::Client && self.provider.is_empty();
        self.outcome = Some(if is_refused {
            Outcome::Refused
        } else {
            Outcome::Failed
        });
        self.fault = Some(fault.clone());
    }

    /// The usage of the last upstream request; for an answer that was cut off, what it had used
    /// until then.
    fn last_usage(&self) -> Option<Usage> {
        self.usage.or(self.usage_so_far)
    }

    /// The usage of all upstream requests of the turn, if any of it is known.
    fn total_usage(&self) -> Option<Usage> {
        let last = self.last_usage();
        let is_known = last.is_some() || self.earlier_usage != Usage::default();
        is_known.then(|| add_usage(self.earlier_usage, last.unwrap_or_default()))
    }

    /// The cost of all upstream requests in US dollars, if prices and usage are known. The usage
    /// may be an estimate.
    fn cost(&self) -> Option<f64> {
        self.total_usage()?;
        match self.last_usage() {
            Some(usage) => Some(self.earlier_cost? + cost_of(self.price.as_ref()?, usage)),
            None => self.earlier_cost,
        }
    }

    /// What the upstream requests of the turn would have cost with nothing shortened, in US
    /// dollars. A request that would not have fitted the window, or whose tokens were not counted,
    /// counts as what it cost.
    fn unshortened_cost(&self) -> Option<f64> {
        self.total_usage()?;
        let Some(usage) = self.last_usage() else {
            return self.earlier_unshortened;
        };
        let unshortened = self.forecast.unshortened_usage(usage);
        let unshortened = unshortened.filter(|_| self.usage_is_counted);
        let price = self.price.as_ref()?;
        Some(self.earlier_unshortened? + cost_of(price, unshortened.unwrap_or(usage)))
    }

    /// What is known of that cost; `None` if the turn used nothing.
    fn unshortened_bill(&self) -> Option<UnshortenedBill> {
        self.total_usage()?;
        let is_counted =
            self.earlier_is_counted && (self.last_usage().is_none() || self.usage_is_counted);
        Some(if !self.fits_unshortened() {
            UnshortenedBill::TooLong
        } else if is_counted && self.unshortened_cost().is_some() {
            UnshortenedBill::Reckoned
        } else {
            UnshortenedBill::Unknown
        })
    }

    /// Whether the requests of the turn would have fitted their windows with nothing shortened.
    fn fits_unshortened(&self) -> bool {
        self.earlier_fits && (self.last_usage().is_none() || self.forecast.fits_unshortened())
    }
}

/// Redacts the secrets in a fault's texts.
pub(super) fn redact(fault: &mut Fault, redactor: &Redactor) {
    let redact = |text: &str| redactor.redact(text).into_owned();
    fault.message = redact(&fault.message);
    fault.cause = fault.cause.take().map(|cause| redact(&cause).into());
    fault.param = fault.param.take().map(|param| redact(&param).into());
    fault.code = fault.code.take().map(|code| redact(&code).into());
}

fn add_usage(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input.saturating_add(other.input),
        cached: one.cached.saturating_add(other.cached),
        cache_write: one.cache_write.saturating_add(other.cache_write),
        output: one.output.saturating_add(other.output),
        reasoning: one.reasoning.saturating_add(other.reasoning),
    }
}

#[cfg(test)]
mod tests {

    use adapters::fault::Kind;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Inputs, LoadPurpose};
    use crate::log::{RecordFormat, captured_lines};
    use crate::turn::TurnKind;
    use crate::turn::prefix::{PrefixReason, RequestPart};

    fn record() -> Record {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs::under(folder.path());
        let config = Arc::new(crate::config::load(&inputs, LoadPurpose::Serve).unwrap());
        Record::new(
            &Arc::new(Metrics::new()),
            &Arc::default(),
            &config,
            "req_1".into(),
            "local".into(),
            Caller::default(),
            None,
        )
    }

    fn price() -> Price {
        Price {
            input: 2.0,
            cached_input: Some(0.5),
            cache_write: None,
            output: 10.0,
            tiers: Vec::new(),
        }
    }

    fn completed() {
        let mut record = record();
        record.caller.codex = true;
        record.caller.kind = TurnKind::Compaction;
        record.caller.agent = Some("/root/scout".into());
        record.provider = "acme".into();
        record.model = "m-1".into();
        let session = Session {
            id: "s1".into(),
            folder: Some("proj".into()),
            ..Session::default()
        };
        record.set_session(&session, &Arc::default());
        record.retries = 1;
        record.price = Some(price());
        record.usage = Some(Usage {
            input: 1000,
            cached: 875,
            output: 50,
            reasoning: 20,
            ..Usage::default()
        });
        record.estimated_input = 1201;
        record.usage_is_counted = true;
        // With nothing shortened the request would be five times as long, and as much cached.
        record.forecast = BillForecast::sample(1200, 900, Some((6000, 5000)));
        record.prefix = Some(PrefixReport {
            request_bytes: 4000,
            previous_bytes: 3000,
            shared_bytes: 2999,
            reason: PrefixReason::Epoch,
            differs_at: Some(RequestPart::Item(7)),
        });
        record.tool_round();
        record.tool_called("look", false, Duration::from_millis(30));
        record.tool_called("look", true, Duration::from_millis(12));
        record.notes.add("tool_dropped", "web_search");
        record.notes.add("effort_mapped", "max to high");
        record.answer_ended(assembler::ResponseStatus::Completed);
    }

    /// A turn that would not have fitted the window with nothing shortened.
    fn too_long_unshortened() {
        let mut record = record();
        record.price = Some(price());
        record.usage = Some(Usage {
            input: 1000,
            ..Usage::default()
        });
        record.usage_is_counted = true;
        record.forecast = BillForecast::sample(1000, 0, None);
    }

    fn refused() {
        let mut fault = Fault::new(Kind::ModelNotFound, "No model 'a\nb'.");
        record().failed(&mut fault);
    }

    /// A human-readable log line without its date and time.
    fn line(log: fn()) -> String {
        let line = captured_lines(RecordFormat::Human, log).pop().unwrap();
        line.splitn(3, ' ').last().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_used_before_an_answer_was_cut_off_counts() {
        let mut record = record();
        let used = |input, output| {
            Some(Usage {
                input,
                output,
                ..Usage::default()
            })
        };
        record.price = Some(price());
        record.owner = "alice".into();
        record.provider = "acme".into();
        assert_eq!((record.total_usage(), record.spent(0)), (None, None));
        record.usage_so_far = used(1_000, 10);
        assert_eq!(record.total_usage(), used(1_000, 10));
        assert_eq!(record.spent(0).unwrap().tokens, 1_010);
        // The same request is sent again, and its answer ends.
        record.retry(&Fault::new(Kind::Cut, "cut"));
        record.usage_so_far = used(1_000, 30);
        record.usage = used(1_001, 40);
        assert_eq!(record.total_usage(), used(2_001, 50));
        let cost = record.cost().unwrap();
        assert!((cost - 0.004_502).abs() < 1e-9, "{cost}");
        let metrics = Arc::clone(&record.metrics);
        drop(record);
        let now = crate::clock::Clock::unix(&crate::clock::System);
        assert_eq!(metrics.spent().of(now, "alice").tokens, 2_051);
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_reads_a_line() {
        assert_eq!(
            line(completed),
            "m-1 \u{2713} 0.0s 1000 in 50 out $0.0012 proj/scout (compaction)"
        );
        assert_eq!(line(refused), "\u{2717} refused 0.0s: No model 'a\\nb'.");
        assert_eq!(
            line(too_long_unshortened),
            "\u{2026} disconnected 0.0s 1000 in (0% cached) $0.0020"
        );
        assert_eq!(line(|| drop(record())), "\u{2026} disconnected 0.0s");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_changed_for_the_provider_is_told_once_in_a_session() {
        let sessions = Arc::<LoggedSessions>::default();
        let turn = |session: &str, effort: &str| {
            captured_lines(RecordFormat::Human, || {
                let mut record = record();
                record.provider = "acme".into();
                record.model = "m-1".into();
                let session = Session {
                    id: session.to_owned(),
                    folder: Some("proj".into()),
                    ..Session::default()
                };
                record.set_session(&session, &sessions);
                record.notes.add("effort_mapped", effort);
                record.notes.add("retried", "overloaded");
                record.answer_ended(assembler::ResponseStatus::Completed);
            })
        };
        let told = turn("s1", "none to low");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].ends_with(
                "INFO changed for m-1 in proj: the reasoning effort is changed from none to low"
            ),
            "{told:?}"
        );
        assert_eq!(turn("s1", "none to low").len(), 1);
        assert_eq!(turn("s1", "max to high").len(), 2);
        assert_eq!(turn("s2", "none to low").len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_prewarmed_connection_is_no_line_for_people() {
        let prewarm = || {
            let mut record = record();
            record.caller.kind = TurnKind::Prewarm;
            record.answer_ended(assembler::ResponseStatus::Completed);
        };
        assert_eq!(captured_lines(RecordFormat::Human, prewarm).len(), 0);
        assert_eq!(captured_lines(RecordFormat::Json, prewarm).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_reads_every_field() {
        let read = |log: fn()| -> Value {
            let line = captured_lines(RecordFormat::Json, log).pop().unwrap();
            let mut value: Value = serde_json::from_str(&line).unwrap();
            value.as_object_mut().unwrap().remove("timestamp");
            value
        };
        assert_eq!(
            read(completed),
            json!({
                "level": "INFO", "target": "respondent::turn", "request": "req_1",
                "outcome": "completed", "route": "acme/m-1", "model": "m-1", "tag": "proj/scout",
                "caller": "codex",
                "kind": "compaction", "agent": "/root/scout",
                "session": "s1", "input": 1000, "cached_percent": 87, "output": 50,
                "estimated_input": 1201, "shared_percent": "99.9", "prefix": "epoch",
                "prefix_differs_at": "item 7",
                "reasoning": 20, "cost": 0.001_187_5, "unshortened_cost": 0.003_208_5, "expected_cached": 900, "ms": 0, "retries": 1,
                "tool_rounds": 1, "tool_calls": 2, "tool_ms": 42,
                "notes": "tool_dropped (web_search), effort_mapped (max to high)",
            })
        );
        let refused = read(refused);
        assert_eq!(refused["level"], "WARN");
        assert_eq!(refused["fault"], "model_not_found");
        assert_eq!(refused["message"], r"No model 'a\nb'.");
    }
}
