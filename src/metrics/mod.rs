//! The metrics of the process, as `GET /metrics` shows them in the Prometheus text format.

mod artifact_counts;
mod figures;
mod labels;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::log::SafeText;
use labels::{
    CompactionLabels, FailoverLabels, FaultLabels, ProviderLabel, ReasonLabel, RouteLabels,
    TokenLabels, TurnLabels,
};

pub use artifact_counts::ArtifactCounts;
pub use figures::{PrefixFigures, Tokens, TurnFigures};

/// The counters of the process.
pub struct Metrics {
    registry: Registry,
    routes: Mutex<HashSet<(String, String)>>,
    turns: Family<TurnLabels, Counter>,
    duration: Family<ProviderLabel, Histogram>,
    first_event: Family<ProviderLabel, Histogram>,
    tokens: Family<TokenLabels, Counter>,
    cost: Family<RouteLabels, Counter<f64, AtomicU64>>,
    estimates: Family<TokenLabels, Counter>,
    prompt_bytes: Family<TokenLabels, Counter>,
    prefixes: Family<ReasonLabel, Counter>,
    faults: Family<FaultLabels, Counter>,
    retries: Family<ProviderLabel, Counter>,
    down: Family<ProviderLabel, Gauge>,
    failovers: Family<FailoverLabels, Counter>,
    adapted: Family<RouteLabels, Counter>,
    compactions: Family<CompactionLabels, Counter>,
    open_streams: Gauge,
    refused: Family<ReasonLabel, Counter>,
    artifacts: ArtifactCounts,
}

/// An open stream, counted until this is dropped. Made by [`Metrics::open_stream`].
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
    /// All counters at zero.
    pub fn new() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.05, 2.0, 15));
        let mut metrics = Self {
            registry: Registry::with_prefix("respondent"),
            routes: Mutex::default(),
            turns: Family::default(),
            duration: Family::new_with_constructor(seconds),
            first_event: Family::new_with_constructor(seconds),
            tokens: Family::default(),
            cost: Family::default(),
            estimates: Family::default(),
            prompt_bytes: Family::default(),
            prefixes: Family::default(),
            faults: Family::default(),
            retries: Family::default(),
            down: Family::default(),
            failovers: Family::default(),
            adapted: Family::default(),
            compactions: Family::default(),
            open_streams: Gauge::default(),
            refused: Family::default(),
            artifacts: ArtifactCounts::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("turns", "Turns by how they ended", self.turns.clone());
        registry.register_with_unit(
            "turn_duration",
            "From the request's head to the last event",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register_with_unit(
            "first_event",
            "From the request's head to the first event",
            Unit::Seconds,
            self.first_event.clone(),
        );
        registry.register(
            "tokens",
            "Tokens; cached is part of input, reasoning of output",
            self.tokens.clone(),
        );
        registry.register(
            "cost_dollars",
            "US dollars by the listed prices",
            self.cost.clone(),
        );
        registry.register(
            "input_estimates",
            "Input tokens of turns that a provider counted, as estimated and as counted",
            self.estimates.clone(),
        );
        registry.register(
            "prompt_bytes",
            "Bytes of requests; shared is what they begin with like the last one of the session",
            self.prompt_bytes.clone(),
        );
        registry.register(
            "prefixes",
            "Requests by why they do not begin like the last one of the session",
            self.prefixes.clone(),
        );
        registry.register("faults", "Faults by kind and side", self.faults.clone());
        registry.register(
            "upstream_retries",
            "Requests sent to an upstream again",
            self.retries.clone(),
        );
        registry.register(
            "provider_down",
            "1 from when a provider is left alone until it answers again",
            self.down.clone(),
        );
        registry.register(
            "failovers",
            "Turns that went to another model than the one chosen first",
            self.failovers.clone(),
        );
        registry.register(
            "healed",
            "Turns that were sent again in another form after a refusal",
            self.adapted.clone(),
        );
        registry.register(
            "compactions",
            "Histories that became a summary, by where it was asked for and what came of it",
            self.compactions.clone(),
        );
        registry.register(
            "open_streams",
            "Streams being sent now",
            self.open_streams.clone(),
        );
        registry.register(
            "refused_requests",
            "Requests that the guard or a limit refused",
            self.refused.clone(),
        );
        self.artifacts.register(registry);
    }

    /// The counts of artifacts.
    pub fn artifacts(&self) -> ArtifactCounts {
        self.artifacts.clone()
    }

    /// Counts a turn that ended.
    pub fn turn(&self, turn: &TurnFigures<'_>) {
        let (provider, model) = self.route(turn.provider, turn.model);
        let by_provider = ProviderLabel {
            provider: provider.clone(),
        };
        self.duration
            .get_or_create(&by_provider)
            .observe(turn.duration.as_secs_f64());
        if let Some(first_event) = turn.first_event {
            self.first_event
                .get_or_create(&by_provider)
                .observe(first_event.as_secs_f64());
        }
        let Tokens {
            input,
            cached,
            output,
            reasoning,
        } = turn.tokens;
        for (kind, count) in [
            ("input", input),
            ("cached", cached),
            ("output", output),
            ("reasoning", reasoning),
        ] {
            let labels = TokenLabels {
                provider: provider.clone(),
                model: model.clone(),
                kind,
            };
            self.tokens.get_or_create(&labels).inc_by(count);
        }
        if let Some(prefix) = &turn.prefix {
            let reason = prefix.reason;
            self.prefixes.get_or_create(&ReasonLabel { reason }).inc();
        }
        let prefix = turn.prefix.iter().flat_map(|prefix| {
            [
                (&self.prompt_bytes, "sent", prefix.sent),
                (&self.prompt_bytes, "shared", prefix.shared),
            ]
        });
        let estimates = turn.estimated.into_iter().flat_map(|estimated| {
            [
                (&self.estimates, "estimated", estimated),
                (&self.estimates, "counted", input),
            ]
        });
        for (family, kind, count) in prefix.chain(estimates) {
            let labels = TokenLabels {
                provider: provider.clone(),
                model: model.clone(),
                kind,
            };
            family.get_or_create(&labels).inc_by(count);
        }
        if let Some(cost) = turn.cost {
            let labels = RouteLabels {
                provider: provider.clone(),
                model: model.clone(),
            };
            self.cost.get_or_create(&labels).inc_by(cost);
        }
        let labels = TurnLabels {
            provider,
            model,
            outcome: turn.outcome,
        };
        self.turns.get_or_create(&labels).inc();
    }

    /// Counts a fault under the labels of its kind and side.
    pub fn fault(&self, kind: &'static str, side: &'static str) {
        self.faults.get_or_create(&FaultLabels { kind, side }).inc();
    }

    /// Counts a compaction under the labels of its trigger and result.
    pub fn compaction(&self, door: &'static str, result: &'static str) {
        self.compactions
            .get_or_create(&CompactionLabels { door, result })
            .inc();
    }

    /// Counts a request that is sent to an upstream again.
    pub fn retry(&self, provider: &str) {
        let (provider, _) = self.route(provider, "");
        self.retries
            .get_or_create(&ProviderLabel { provider })
            .inc();
    }

    /// Sets whether a provider is skipped because it is down.
    pub fn provider_down(&self, provider: &str, down: bool) {
        let (provider, _) = self.route(provider, "");
        self.down
            .get_or_create(&ProviderLabel { provider })
            .set(i64::from(down));
    }

    /// Counts a turn that went from one provider and its model to another.
    pub fn failover(&self, from: (&str, &str), to: (&str, &str)) {
        let name = |(provider, model)| {
            let (provider, model) = self.route(provider, model);
            format!("{provider}/{model}")
        };
        let (from, to) = (name(from), name(to));
        self.failovers
            .get_or_create(&FailoverLabels { from, to })
            .inc();
    }

    /// Counts a turn that was adapted: encoded again after a refusal and sent once more.
    pub fn adapted(&self, provider: &str, model: &str) {
        let (provider, model) = self.route(provider, model);
        self.adapted
            .get_or_create(&RouteLabels { provider, model })
            .inc();
    }

    /// Counts a stream as open until the returned value is dropped.
    pub fn open_stream(&self) -> OpenStream {
        self.open_streams.inc();
        OpenStream(self.open_streams.clone())
    }

    /// Counts a request that was refused before it reached a handler.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
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
    fn route(&self, provider: &str, model: &str) -> (String, String) {
        let route = (provider.to_owned(), SafeText::new(model).to_string());
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes.contains(&route) {
            return route;
        }
        if routes.len() >= MAX_ROUTES {
            return (OTHER.to_owned(), OTHER.to_owned());
        }
        routes.insert(route.clone());
        route
    }
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

    use super::{MAX_ROUTES, Metrics, PrefixFigures, Tokens, TurnFigures};

    fn turn<'a>(provider: &'a str, model: &'a str) -> TurnFigures<'a> {
        TurnFigures {
            provider,
            model,
            outcome: "completed",
            duration: Duration::from_secs(3),
            first_event: Some(Duration::from_millis(300)),
            tokens: Tokens {
                input: 100,
                cached: 60,
                output: 20,
                reasoning: 5,
            },
            cost: Some(0.25),
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
        metrics.refused("host");
        metrics.artifacts().kept(2, 5000);
        metrics.artifacts().failed("ARTIFACT_STORE_WRITE_FAILED");
        let stream = metrics.open_stream();
        let text = metrics.render();
        for line in [
            r#"respondent_turns_total{provider="p",model="m",outcome="completed"} 1"#,
            r#"respondent_tokens_total{provider="p",model="m",kind="cached"} 60"#,
            r#"respondent_cost_dollars_total{provider="p",model="m"} 0.25"#,
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
