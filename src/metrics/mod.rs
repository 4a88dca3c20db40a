//! The metrics of the process, as `GET /metrics` shows them in the Prometheus text format.

mod artifact_counts;
pub mod spent;
pub mod usage;
mod web_counts;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use adapters::event::Usage;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};
use strum::{IntoEnumIterator as _, IntoStaticStr};

use crate::clock::{Clock, HOUR_SECONDS, System, local_day};
use crate::log::SafeText;
use crate::net::memory::{MemoryKind, ProcessMemory};

pub use artifact_counts::ArtifactCounts;
use spent::{Spending, SpentToday};
use usage::DailyUsage;
pub use web_counts::{FOUND, TriedCount, WebActivity, WebCounts};

/// The labels of one series: names and values.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// Counters that are told apart by `N` labels.
type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// Histograms of seconds by one label.
type Seconds = Family<Labels<1>, Histogram>;

/// Declares [`Metrics`]: a field for each metric, its type, and the name and the help text under
/// which it is shown.
macro_rules! metrics {
    ($($field:ident: $type:ty = $add:ident($name:literal, $help:literal);)*) => {
        /// The counters of the process.
        pub struct Metrics {
            registry: Registry,
            routes: Mutex<HashSet<Labels<2>>>,
            $($field: $type,)*
            artifacts: ArtifactCounts,
            web: WebCounts,
            usage: DailyUsage,
            spent: SpentToday,
        }

        impl Metrics {
            /// The metrics of this process, all zero.
            pub fn new() -> Self {
                let mut registry = Registry::with_prefix("respondent");
                Self {
                    routes: Mutex::default(),
                    $($field: $add(&mut registry, $name, $help),)*
                    artifacts: ArtifactCounts::registered(&mut registry),
                    web: WebCounts::registered(&mut registry),
                    usage: DailyUsage::default(),
                    spent: SpentToday::default(),
                    registry,
                }
            }
        }
    };
}

metrics! {
    turns: Counters<3> = add("turns", "Turns by how they ended");
    duration: Seconds = add_seconds("turn_duration", "From the request's head to the last event");
    first_event: Seconds = add_seconds("first_event", "From the request's head to the first event");
    tokens: Counters<3> = add("tokens", "Tokens; cached is part of input, reasoning of output");
    cost: Family<Labels<2>, Counter<f64, AtomicU64>> =
        add("cost_dollars", "US dollars of models by the listed prices");
    unshortened_cost: Family<Labels<2>, Counter<f64, AtomicU64>> =
        add("unshortened_cost_dollars",
        "US dollars that the same turns would have cost with nothing shortened; a turn that would not have fitted the window counts as what it cost");
    unshortened_bills: Counters<3> = add("unshortened_bills",
        "Turns by what is known of their cost with nothing shortened: reckoned, too_long for the window, or unknown");
    estimates: Counters<3> = add("input_estimates",
        "Input tokens of turns that a provider counted, as estimated and as counted");
    prompt_bytes: Counters<3> = add("prompt_bytes",
        "Bytes of requests; shared is the beginning that a request has in common with the previous one of its session");
    prefixes: Counters<1> = add("prefixes",
        "Requests that do not begin like the previous one of their session, by reason");
    faults: Counters<2> = add("faults", "Faults by kind and side");
    retries: Counters<1> = add("upstream_retries", "Requests sent to an upstream again");
    down: Family<Labels<1>, Gauge> =
        add("provider_down", "1 while a provider is left alone after failures, until it answers again");
    failovers: Counters<2> =
        add("failovers", "Turns that went to another model than the one chosen first");
    adapted: Counters<2> =
        add("healed", "Turns that were sent again in another form after a refusal");
    learned: Counters<2> = add("learned",
        "Changes of requests that were kept, because a request with them was answered after a refusal");
    compactions: Counters<2> = add("compactions",
        "Histories that became a summary, by where that was asked for and by outcome");
    open_streams: Gauge = add("open_streams", "Streams being sent now");
    open_websockets: Gauge = add("open_websockets", "WebSockets that are open");
    websocket_lanes: Gauge =
        add("websocket_lanes", "Lanes of open WebSockets, those without a name included");
    jobs: Family<Labels<1>, Gauge> = add("jobs", "Background responses that have not ended, by state");
    job_viewers: Gauge = add("job_viewers", "Clients that read the events of background responses");
    webhook_attempts: Counters<2> = add("webhook_attempts",
        "Events of background responses that were delivered, are to be retried, or were given up as failed, by webhook");
    waiting_deliveries: Family<Labels<1>, Gauge> =
        add("webhook_deliveries_waiting", "Events that a webhook has not taken yet");
    stored_responses: Counters<1> =
        add("stored_responses", "Responses that were to be stored when they ended, by result");
    memory: Family<Labels<1>, Gauge> =
        add("memory_bytes", "Memory in use that is counted, by purpose");
    memory_limit: Gauge = add("memory_limit_bytes", "The limit of this memory");
    tasks: Gauge = add("tasks", "Tasks of the runtime that have not ended");
    tool_calls: Counters<3> =
        add("tool_calls", "Calls of tools that run in the proxy, by tool, result and client");
    tool_duration: Seconds =
        add_seconds("tool_duration", "How long calls of tools that run in the proxy took, by tool");
    tool_rounds: Counter =
        add("tool_rounds", "Upstream answers in which the model called tools that run in the proxy");
    refused: Counters<1> = add("refused_requests", "Requests that the guard or a limit refused");
}

/// One finished turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnFigures<'a> {
    /// The owner.
    pub owner: &'a str,
    /// The provider's id.
    pub provider: &'a str,
    /// The provider's name of the model.
    pub model: &'a str,
    /// How the turn ended: the label of its outcome.
    pub outcome: &'static str,
    /// The time from the head of the request to the last event.
    pub duration: Duration,
    /// The time from the head of the request to the first event, if there was one.
    pub first_event: Option<Duration>,
    /// The tokens it used.
    pub usage: Usage,
    /// The cost of its upstream requests in US dollars, if the price is known.
    pub cost: Option<f64>,
    /// The cost of its tools in US dollars, which counts for its owner already.
    pub tool_cost: f64,
    /// What it used is stored with its response.
    pub spent_is_stored: bool,
    /// What it would have cost with nothing shortened. A turn that would not have fitted the window
    /// then counts as what it cost.
    pub unshortened_cost: Option<f64>,
    /// What is known of that; `None` of a turn that used nothing.
    pub unshortened_bill: Option<UnshortenedBill>,
    /// Our estimate of the input tokens, if the provider counted them.
    pub estimated: Option<u64>,
    /// How its request compares with the previous one of the session.
    pub prefix: Option<PrefixFigures>,
}

/// What is known of the cost of a turn with nothing shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum UnshortenedBill {
    /// It was reckoned.
    Reckoned,
    /// The turn was impossible with nothing shortened: the window would not have held it.
    TooLong,
    /// Nothing: the price is unknown, or the provider did not count the tokens.
    Unknown,
}

/// What became of an attempt to deliver an event to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WebhookResult {
    /// The webhook has taken it.
    Delivered,
    /// It is tried again.
    Retried,
    /// It was given up.
    Failed,
}

/// How much of a request is a prefix that the previous request of its session had too.
#[derive(Debug, Clone, Copy)]
pub struct PrefixFigures {
    /// The size of the request in bytes.
    pub sent: u64,
    /// The size of the shared prefix in bytes.
    pub shared: u64,
    /// The label of the reason why the prefix is not longer.
    pub reason: &'static str,
}

/// An open stream, WebSocket or lane, counted until this is dropped.
#[derive(Debug)]
pub struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The most pairs of provider and model that have series of their own; later pairs share one.
const MAX_ROUTES: usize = 256;
/// The label of the pairs beyond [`MAX_ROUTES`].
const OTHER: &str = "other";

impl Metrics {
    /// The counters of artifacts, which the rooms that keep artifacts share.
    pub fn artifacts(&self) -> ArtifactCounts {
        self.artifacts.clone()
    }

    /// The counters of web searches and pages.
    pub fn web(&self) -> &WebCounts {
        &self.web
    }

    /// What turns have used, by day.
    pub fn usage(&self) -> DailyUsage {
        self.usage.clone()
    }

    /// What owners have used today.
    pub fn spent(&self) -> &SpentToday {
        &self.spent
    }

    /// Counts a finished turn.
    pub fn turn(&self, turn: &TurnFigures<'_>) {
        // A turn that was not sent used nothing.
        if !turn.provider.is_empty() {
            let route = (turn.provider, turn.model);
            let now = System.unix();
            let hour = i64::try_from(now / HOUR_SECONDS).unwrap_or(i64::MAX);
            let time = (local_day(now), hour);
            let used = Spending::of(turn.usage, turn.cost);
            self.spent.add(now, turn.owner, used, turn.spent_is_stored);
            let costs = turn.cost.zip(turn.unshortened_cost);
            let costs = costs
                .map(|(cost, unshortened)| (cost + turn.tool_cost, unshortened + turn.tool_cost));
            let bill = turn.unshortened_bill;
            self.usage
                .count(time, turn.owner, route, turn.usage, costs, bill);
        }
        let route = self.route(turn.provider, turn.model);
        let [provider, model] = &route;
        let with =
            |name, value: &'static str| [provider.clone(), model.clone(), (name, value.into())];
        let by_provider = [provider.clone()];
        self.duration
            .get_or_create(&by_provider)
            .observe(turn.duration.as_secs_f64());
        if let Some(first_event) = turn.first_event {
            self.first_event
                .get_or_create(&by_provider)
                .observe(first_event.as_secs_f64());
        }
        let mut counts = vec![
            (&self.tokens, "input", turn.usage.input),
            (&self.tokens, "cached", turn.usage.cached),
            (&self.tokens, "output", turn.usage.output),
            (&self.tokens, "reasoning", turn.usage.reasoning),
        ];
        if let Some(prefix) = &turn.prefix {
            count(&self.prefixes, &[("reason", prefix.reason.into())]);
            counts.push((&self.prompt_bytes, "sent", prefix.sent));
            counts.push((&self.prompt_bytes, "shared", prefix.shared));
        }
        if let Some(estimated) = turn.estimated {
            counts.push((&self.estimates, "estimated", estimated));
            counts.push((&self.estimates, "counted", turn.usage.input));
        }
        for (family, kind, count) in counts {
            family.get_or_create(&with("kind", kind)).inc_by(count);
        }
        count(&self.turns, &with("outcome", turn.outcome));
        if let Some(bill) = turn.unshortened_bill {
            count(&self.unshortened_bills, &with("kind", bill.into()));
        }
        if let Some(cost) = turn.cost {
            self.cost.get_or_create(&route).inc_by(cost);
        }
        if let Some(cost) = turn.unshortened_cost {
            self.unshortened_cost.get_or_create(&route).inc_by(cost);
        }
    }

    /// Counts a fault under the labels of its kind and side.
    pub fn fault(&self, kind: &'static str, side: &'static str) {
        count(
            &self.faults,
            &[("kind", kind.into()), ("side", side.into())],
        );
    }

    /// Counts a compaction under the labels of its trigger and result.
    pub fn compaction(&self, door: &'static str, result: &'static str) {
        let labels = [("door", door.into()), ("result", result.into())];
        count(&self.compactions, &labels);
    }

    /// Counts a request that is sent to an upstream again.
    pub fn retry(&self, provider: &str) {
        let [provider, _] = self.route(provider, "");
        count(&self.retries, &[provider]);
    }

    /// Sets whether a provider is skipped because it is down.
    pub fn provider_down(&self, provider: &str, down: bool) {
        let [provider, _] = self.route(provider, "");
        self.down.get_or_create(&[provider]).set(i64::from(down));
    }

    /// Counts a turn that went from one provider and its model to another.
    pub fn failover(&self, from: (&str, &str), to: (&str, &str)) {
        let name = |(provider, model)| {
            let [(_, provider), (_, model)] = self.route(provider, model);
            format!("{provider}/{model}").into()
        };
        count(&self.failovers, &[("from", name(from)), ("to", name(to))]);
    }

    /// Counts a turn that was adapted: encoded again after a refusal and sent once more.
    pub fn adapted(&self, provider: &str, model: &str) {
        count(&self.adapted, &self.route(provider, model));
    }

    /// Counts changes of requests that were learned.
    pub fn learned(&self, provider: &str, model: &str, changes: u64) {
        let route = self.route(provider, model);
        self.learned.get_or_create(&route).inc_by(changes);
    }

    /// Counts a stream as open until the returned value is dropped.
    pub fn open_stream(&self) -> OpenStream {
        self.open_streams.inc();
        OpenStream(self.open_streams.clone())
    }

    /// Counts a WebSocket as open until the returned value is dropped.
    pub fn open_websocket(&self) -> OpenStream {
        self.open_websockets.inc();
        OpenStream(self.open_websockets.clone())
    }

    /// Counts a lane as open until the returned value is dropped.
    pub fn open_lane(&self) -> OpenStream {
        self.websocket_lanes.inc();
        OpenStream(self.websocket_lanes.clone())
    }

    /// Counts a request that was refused before it reached a handler.
    pub fn refused(&self, reason: &'static str) {
        count(&self.refused, &[("reason", reason.into())]);
    }

    /// Shows how much memory is in use.
    pub fn set_memory(&self, memory: &ProcessMemory) {
        let gauge = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        for kind in MemoryKind::iter() {
            let labels = [("kind", kind.label().into())];
            let used = gauge(memory.used_for(kind));
            self.memory.get_or_create(&labels).set(used);
        }
        self.memory_limit.set(gauge(memory.limit()));
    }

    /// Shows how many tasks the runtime has.
    pub fn set_tasks(&self, tasks: usize) {
        self.tasks.set(i64::try_from(tasks).unwrap_or(i64::MAX));
    }

    /// Sets how many background responses there are, and how many clients read their events.
    pub fn set_jobs(&self, queued: usize, running: usize, viewers: usize) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (state, count) in [("queued", queued), ("running", running)] {
            let labels = [("state", state.into())];
            self.jobs.get_or_create(&labels).set(gauge(count));
        }
        self.job_viewers.set(gauge(viewers));
    }

    /// Counts an attempt to deliver an event to a webhook.
    pub fn webhook(&self, webhook: &str, result: WebhookResult) {
        let name = ("webhook", Cow::Owned(webhook.to_owned()));
        let result: &'static str = result.into();
        count(&self.webhook_attempts, &[name, ("result", result.into())]);
    }

    /// Sets how many events a webhook has not taken yet.
    pub fn set_waiting_deliveries(&self, webhook: &str, waiting: u64) {
        let name = ("webhook", Cow::Owned(webhook.to_owned()));
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        self.waiting_deliveries.get_or_create(&[name]).set(waiting);
    }

    /// Counts a call of a tool that runs in the proxy, and how long it took. There are as many
    /// owners as clients in the configuration.
    pub fn tool_called(&self, owner: &str, tool: &str, failed: bool, took: Duration) {
        let result = if failed { "failed" } else { "completed" };
        let labels = [
            ("tool", tool.to_owned().into()),
            ("result", result.into()),
            ("client", owner.to_owned().into()),
        ];
        self.tool_calls.get_or_create(&labels).inc();
        let [tool, _, _] = labels;
        let durations = self.tool_duration.get_or_create(&[tool]);
        durations.observe(took.as_secs_f64());
    }

    /// Counts a round in which the model called tools that run in the proxy.
    pub fn tool_round(&self) {
        self.tool_rounds.inc();
    }

    /// Counts a response that was to be stored.
    pub fn stored_response(&self, is_stored: bool) {
        let result = if is_stored { "stored" } else { "failed" };
        let labels = [("result", result.into())];
        self.stored_responses.get_or_create(&labels).inc();
    }

    /// The text of `GET /metrics`, whose content type is [`CONTENT_TYPE`].
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// The labels of a route, within the cap. A client chooses model names where a
    /// provider takes any, so their number and form must not be the client's choice.
    fn route(&self, provider: &str, model: &str) -> Labels<2> {
        let labels = |provider: String, model: String| {
            [("provider", provider.into()), ("model", model.into())]
        };
        let route = labels(provider.to_owned(), SafeText::new(model).to_string());
        let mut routes = self.routes.lock();
        if routes.contains(&route) {
            return route;
        }
        if routes.len() >= MAX_ROUTES {
            return labels(OTHER.to_owned(), OTHER.to_owned());
        }
        routes.insert(route.clone());
        route
    }
}

/// Counts one in the series with these labels.
fn count<const N: usize>(family: &Counters<N>, labels: &Labels<N>) {
    family.get_or_create(labels).inc();
}

/// Adds a metric to the registry.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Adds a histogram of seconds to the registry.
fn add_seconds(registry: &mut Registry, name: &str, help: &str) -> Seconds {
    let metric = Family::new_with_constructor(
        (|| Histogram::new(exponential_buckets(0.05, 2.0, 15))) as fn() -> Histogram,
    );
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// The media type of the text format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX_ROUTES, Metrics, PrefixFigures, TurnFigures, UnshortenedBill, Usage};

    fn turn<'a>(provider: &'a str, model: &'a str) -> TurnFigures<'a> {
        TurnFigures {
            owner: "local",
            provider,
            model,
            outcome: "completed",
            duration: Duration::from_secs(3),
            first_event: Some(Duration::from_millis(300)),
            usage: Usage {
                input: 100,
                cached: 60,
                cache_write: 0,
                output: 20,
                reasoning: 5,
            },
            cost: Some(0.25),
            tool_cost: 0.0,
            spent_is_stored: false,
            unshortened_cost: Some(0.75),
            unshortened_bill: Some(UnshortenedBill::TooLong),
            estimated: Some(120),
            prefix: Some(PrefixFigures {
                sent: 400,
                shared: 300,
                reason: "epoch",
            }),
        }
    }

    #[test]
    fn a_turn_shows_in_every_series() {
        let metrics = Metrics::new();
        metrics.turn(&turn("p", "m"));
        metrics.fault("rate_limit", "upstream");
        metrics.retry("p");
        metrics.provider_down("p", true);
        metrics.provider_down("q", true);
        metrics.provider_down("q", false);
        metrics.failover(("p", "m"), ("q", "maker/m"));
        metrics.adapted("p", "m");
        metrics.learned("p", "m", 2);
        metrics.refused("host");
        metrics.artifacts().kept(2, 5000);
        metrics.artifacts().failed("ARTIFACT_STORE_WRITE_FAILED");
        let stream = metrics.open_stream();
        let text = metrics.render();
        for line in [
            r#"respondent_turns_total{provider="p",model="m",outcome="completed"} 1"#,
            r#"respondent_tokens_total{provider="p",model="m",kind="cached"} 60"#,
            r#"respondent_cost_dollars_total{provider="p",model="m"} 0.25"#,
            r#"respondent_unshortened_cost_dollars_total{provider="p",model="m"} 0.75"#,
            r#"respondent_unshortened_bills_total{provider="p",model="m",kind="too_long"} 1"#,
            r#"respondent_input_estimates_total{provider="p",model="m",kind="estimated"} 120"#,
            r#"respondent_input_estimates_total{provider="p",model="m",kind="counted"} 100"#,
            r#"respondent_prompt_bytes_total{provider="p",model="m",kind="sent"} 400"#,
            r#"respondent_prompt_bytes_total{provider="p",model="m",kind="shared"} 300"#,
            r#"respondent_prefixes_total{reason="epoch"} 1"#,
            r#"respondent_turn_duration_seconds_sum{provider="p"} 3.0"#,
            r#"respondent_first_event_seconds_count{provider="p"} 1"#,
            r#"respondent_faults_total{kind="rate_limit",side="upstream"} 1"#,
            r#"respondent_upstream_retries_total{provider="p"} 1"#,
            r#"respondent_provider_down{provider="p"} 1"#,
            r#"respondent_provider_down{provider="q"} 0"#,
            r#"respondent_failovers_total{from="p/m",to="q/maker/m"} 1"#,
            r#"respondent_healed_total{provider="p",model="m"} 1"#,
            r#"respondent_learned_total{provider="p",model="m"} 2"#,
            r#"respondent_refused_requests_total{reason="host"} 1"#,
            "respondent_artifacts_kept_total 2",
            "respondent_artifacts_kept_bytes_total 5000",
            r#"respondent_artifact_failures_total{warning="ARTIFACT_STORE_WRITE_FAILED"} 1"#,
            "respondent_open_streams 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nis not in\n{text}"
            );
        }
        drop(stream);
        assert!(metrics.render().contains("respondent_open_streams 0\n"));
    }

    #[test]
    fn series_are_bounded_and_labels_stay_on_their_line() {
        let metrics = Metrics::new();
        metrics.turn(&turn("p", "a\"b\nc"));
        for index in 0..MAX_ROUTES * 2 {
            metrics.turn(&turn("p", &format!("m{index}")));
        }
        let text = metrics.render();
        assert!(text.contains(r#"model="a\"b\\nc""#));
        let series = text
            .lines()
            .filter(|line| line.starts_with("respondent_turns_total"))
            .count();
        assert_eq!(series, MAX_ROUTES + 1);
        assert!(text.contains(r#"model="other",outcome="completed"} 257"#));
    }
}
