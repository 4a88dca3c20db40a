//! Tracks whether a provider is worth asking. After several failures in a row, or when all
//! keys are at their limits, the provider is down: turns go to another one for a while.

use std::time::Duration;

use adapters::fault::{Fault, FaultClass, Kind, Retry};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// This many failures in a row are an outage.
const OUTAGE_FAILURES: u32 = 3;
/// How long a provider is down after its first outage. Each further outage lasts twice as
/// long.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest time a provider is down after an outage.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// The longest time a provider is down because of a limit, whatever it asks for.
const MAX_LIMIT_PAUSE: Duration = Duration::from_hours(1);
/// How long other turns avoid the provider while one request probes it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer shows that a provider is worth waiting for when nobody is there any more: an
/// agent may be busy with its tools for that long between two requests.
const ANSWER_LIFETIME: Duration = Duration::from_hours(1);

/// The health of one provider, a circuit breaker.
///
/// It is closed at first. Three failures in a row, or a limit, open it for a
/// while: [`Self::down_for`] says for how long. The first request that is sent after that time is a
/// probe ([`Self::begin_request`]); its success closes the breaker, its failure opens it again.
#[derive(Debug, Default)]
pub struct ProviderHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    /// Failures since the last success.
    failures: u32,
    /// Outages since the last success.
    outages: u32,
    /// The provider is down until this time.
    down_until: Option<Instant>,
    /// Whether one request is probing the provider.
    probing: bool,
    /// When it last answered, unless it was given up since.
    answered: Option<Instant>,
    /// When the last request ended or had its first content, and why it failed if it did.
    last: Option<(Instant, Option<String>)>,
}

/// How the last request to a provider went. Made for the status of the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LastRequestReport {
    /// How long ago it failed or had its first content, in milliseconds.
    pub ago_ms: u64,
    /// Why it failed, as a clause in our own words; `None` if the provider answered.
    pub failure: Option<String>,
}

impl ProviderHealth {
    /// How much longer turns that could also go to another provider avoid this one; `None` if it
    /// may be asked.
    pub fn down_for(&self, now: Instant) -> Option<Duration> {
        let left = self.0.lock().down_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Notes that a request is about to be sent. If it is the first one after an outage, the
    /// provider counts as down for the others until it has failed or succeeded, for at most ten
    /// seconds.
    pub fn begin_request(&self, now: Instant) {
        let mut state = self.0.lock();
        if state.down_until.is_some_and(|until| until <= now) {
            state.down_until = Some(now + PROBE_TIMEOUT);
            state.probing = true;
        }
    }

    /// How the last request went; `None` if none has ended yet.
    pub fn last_request(&self, now: Instant) -> Option<LastRequestReport> {
        let (at, failure) = self.0.lock().last.clone()?;
        let ago = now.saturating_duration_since(at).as_millis();
        Some(LastRequestReport {
            ago_ms: u64::try_from(ago).unwrap_or(u64::MAX),
            failure,
        })
    }

    /// Whether the provider answered within the last hour and was not given up since, so that one
    /// that is gone is probably gone for a moment only.
    pub fn answered_lately(&self, now: Instant) -> bool {
        let answered = self.0.lock().answered;
        answered.is_some_and(|at| now.saturating_duration_since(at) < ANSWER_LIFETIME)
    }

    /// Records that a prompt was given up after all the requests that it may cost.
    pub fn give_up(&self) {
        self.0.lock().answered = None;
    }

    /// Records that the provider answered.
    pub fn record_success(&self) {
        let now = Instant::now();
        *self.0.lock() = HealthState {
            answered: Some(now),
            last: Some((now, None)),
            ..HealthState::default()
        };
    }

    /// Records why a request failed, for [`Self::last_request`] alone.
    pub fn note_failure(&self, fault: &Fault) {
        if let Some(reason) = failure_reason(fault) {
            self.0.lock().last = Some((Instant::now(), Some(reason)));
        }
    }

    /// Records that the provider failed. Faults that are not signs of an outage do not count.
    pub fn record_failure(&self, fault: &Fault) {
        if fault.kind.class() != FaultClass::Outage {
            return;
        }
        let now = Instant::now();
        let mut state = self.0.lock();
        if state.down_until.is_some_and(|until| now < until) && !state.probing {
            // Already down: this request began before the outage, or had no other provider.
            return;
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures < OUTAGE_FAILURES {
            return;
        }
        let own = FIRST_PAUSE * 2_u32.saturating_pow(state.outages.min(16));
        let asked = match fault.retry {
            Retry::After(pause) => pause,
            Retry::Never | Retry::Soon => Duration::ZERO,
        };
        state.outages = state.outages.saturating_add(1);
        state.down_until = Some(now + own.max(asked).min(MAX_PAUSE));
        state.probing = false;
    }

    /// Records that every key is at its limit, so that the provider is down for `pause`. The
    /// latest call counts.
    pub fn record_limit(&self, pause: Duration) {
        let mut state = self.0.lock();
        state.down_until = Some(Instant::now() + pause.min(MAX_LIMIT_PAUSE));
        state.probing = false;
    }
}

/// Why a request failed, as a clause without anything that the provider or the client said; `None`
/// if the provider had no part in it.
pub fn failure_reason(fault: &Fault) -> Option<String> {
    let by_status = || match fault.upstream_status {
        Some(status) => format!("it answered with status {status}"),
        None => "it refused the request".to_owned(),
    };
    let kind = fault.kind;
    let reason = match kind.class() {
        FaultClass::Server => return None,
        FaultClass::Request if kind == Kind::ContentFilter => {
            "its content filter blocked the request"
        }
        FaultClass::Model if kind == Kind::ContextLength => "the input was too long",
        FaultClass::Model => "it has no such model",
        FaultClass::Access if kind == Kind::Authentication => "it does not accept the key",
        FaultClass::Access if kind == Kind::Permission => "it refuses access with this key",
        FaultClass::Access => "no credit or quota is left",
        FaultClass::RateLimit => "it limits the rate of requests",
        FaultClass::Outage if kind == Kind::Unreachable => {
            // The messages about connections are ours and name the server alone.
            let cause = fault.message.split_once("cannot be reached: ");
            let cause = cause.and_then(|(_, cause)| cause.split_once(". "));
            cause.map_or("it cannot be reached", |(cause, _)| cause)
        }
        FaultClass::Outage if kind == Kind::Timeout => "it did not answer in time",
        FaultClass::Outage if kind == Kind::Overloaded => "it is overloaded",
        FaultClass::Request | FaultClass::Outage => return Some(by_status()),
        FaultClass::Answer if kind == Kind::Cut => "its answer broke off",
        FaultClass::Answer => "its answer could not be read",
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn fail(health: &ProviderHealth, kind: Kind, times: u32) {
        for _ in 0..times {
            health.record_failure(&Fault::new(kind, "x"));
        }
    }

    fn seconds_down(health: &ProviderHealth) -> Option<u64> {
        health.down_for(Instant::now()).map(|left| left.as_secs())
    }

    /// Sends a request, unless the provider is down.
    fn asked(health: &ProviderHealth) -> bool {
        let now = Instant::now();
        let is_up = health.down_for(now).is_none();
        if is_up {
            health.begin_request(now);
        }
        is_up
    }

    #[tokio::test(start_paused = true)]
    async fn three_failures_in_a_row_are_an_outage() {
        for kind in [
            Kind::Unreachable,
            Kind::Unavailable,
            Kind::Overloaded,
            Kind::Timeout,
        ] {
            let health = ProviderHealth::default();
            fail(&health, kind, 2);
            assert_eq!(seconds_down(&health), None);
            fail(&health, kind, 1);
            assert_eq!(seconds_down(&health), Some(10), "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_request_is_known_with_the_reason_of_its_failure() {
        let health = ProviderHealth::default();
        let last = || health.last_request(Instant::now());
        assert_eq!(last(), None);
        let message = "The provider 'up' cannot be reached: 127.0.0.1:9 refused the connection. \
            Check whether the server runs, and its base_url.";
        health.note_failure(&Fault::new(Kind::Unreachable, message));
        advance(Duration::from_secs(14)).await;
        let refused = LastRequestReport {
            ago_ms: 14_000,
            failure: Some("127.0.0.1:9 refused the connection".to_owned()),
        };
        assert_eq!(last(), Some(refused.clone()));
        health.note_failure(&Fault::new(Kind::Draining, "x"));
        assert_eq!(last(), Some(refused));
        health.note_failure(&Fault {
            upstream_status: Some(503),
            ..Fault::new(Kind::Unavailable, "words of the provider")
        });
        let failure = last().and_then(|last| last.failure);
        assert_eq!(failure.as_deref(), Some("it answered with status 503"));
        health.record_success();
        let answered = LastRequestReport {
            ago_ms: 0,
            failure: None,
        };
        assert_eq!(last(), Some(answered));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_resets_the_count_of_failures() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Timeout, 2);
        health.record_success();
        fail(&health, Kind::Timeout, 2);
        assert!(asked(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn faults_of_the_request_or_its_key_are_no_outage() {
        let health = ProviderHealth::default();
        for kind in [
            Kind::InvalidRequest,
            Kind::ContextLength,
            Kind::Authentication,
            Kind::Refused,
            Kind::RateLimit,
            Kind::Quota,
            Kind::Cut,
            Kind::Internal,
        ] {
            fail(&health, kind, 5);
            assert_eq!(seconds_down(&health), None, "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_probes_a_provider_and_its_success_admits_all() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unreachable, 3);
        advance(Duration::from_secs(9)).await;
        assert_eq!(seconds_down(&health), Some(1), "too early");
        advance(Duration::from_secs(1)).await;
        assert_eq!(seconds_down(&health), None);
        assert!(asked(&health));
        assert!(!asked(&health), "one at a time");
        health.record_success();
        assert!(asked(&health) && asked(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_without_a_result_expires() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unreachable, 3);
        advance(Duration::from_secs(10)).await;
        assert!(asked(&health));
        advance(PROBE_TIMEOUT).await;
        assert!(asked(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn each_outage_lasts_twice_as_long_up_to_a_maximum() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unavailable, 3);
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(seconds_down(&health), Some(seconds));
            fail(&health, Kind::Unavailable, 3);
            assert_eq!(
                seconds_down(&health),
                Some(seconds),
                "late failures add nothing"
            );
            advance(Duration::from_secs(seconds)).await;
            assert!(asked(&health));
            fail(&health, Kind::Unavailable, 1);
        }
        health.record_success();
        fail(&health, Kind::Unavailable, 3);
        assert_eq!(seconds_down(&health), Some(10));
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_provider_may_ask_for_a_longer_pause() {
        let health = ProviderHealth::default();
        for _ in 0..3 {
            health.record_failure(&Fault {
                retry: Retry::After(Duration::from_mins(1)),
                ..Fault::new(Kind::Overloaded, "x")
            });
        }
        assert_eq!(seconds_down(&health), Some(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_lasts_as_long_as_the_provider_says() {
        let health = ProviderHealth::default();
        health.record_limit(Duration::from_secs(40));
        assert_eq!(seconds_down(&health), Some(40));
        advance(Duration::from_secs(40)).await;
        assert!(asked(&health));
        health.record_limit(Duration::from_secs(5));
        assert_eq!(seconds_down(&health), Some(5), "a probe that failed");
        assert!(!asked(&health));
        health.record_limit(Duration::MAX);
        assert_eq!(seconds_down(&health), Some(3_600));
    }
}
