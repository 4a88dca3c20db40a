//! Tracks whether a provider is worth asking. After several failures in a row, or when all
//! keys are at their limits, the provider is down: turns go to another one for a while.

use std::time::Duration;

use adapters::fault::{Fault, Kind, Retry};
use parking_lot::Mutex;
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
/// How long other turns avoid the provider while one turn probes it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The health of one provider, a circuit breaker.
///
/// It is closed at first. Three failures in a row, or a limit, open it for a
/// while: [`Self::admit`] refuses. After that time one turn is admitted as a probe; its
/// success closes the breaker, its failure opens it again.
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
    /// Whether one turn is probing the provider.
    probing: bool,
}

impl ProviderHealth {
    /// How much longer the provider is down; `None` if it may be asked.
    pub fn down_for(&self, now: Instant) -> Option<Duration> {
        let left = self.0.lock().down_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Whether a turn that could also go to another provider may be sent to this one; the
    /// error is the time for which the provider is still down. After that time one turn is
    /// admitted; the others are refused until it has failed or succeeded, for at most ten
    /// seconds.
    pub fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.0.lock();
        match state.down_until {
            None => Ok(()),
            Some(until) if now < until => Err(until.saturating_duration_since(now)),
            Some(_) => {
                state.down_until = Some(now + PROBE_TIMEOUT);
                state.probing = true;
                Ok(())
            }
        }
    }

    /// Records that the provider answered.
    pub fn record_success(&self) {
        *self.0.lock() = HealthState::default();
    }

    /// Records that the provider failed. Faults that are not signs of an outage do not count.
    pub fn record_failure(&self, fault: &Fault) {
        match fault.kind {
            Kind::Unreachable | Kind::Unavailable | Kind::Overloaded | Kind::Timeout => {}
            Kind::InvalidRequest
            | Kind::ModelNotFound
            | Kind::ContextLength
            | Kind::Authentication
            | Kind::Permission
            | Kind::Refused
            | Kind::ContentFilter
            | Kind::RateLimit
            | Kind::Quota
            | Kind::Cut
            | Kind::BadReply
            | Kind::TurnTimeout
            | Kind::Busy
            | Kind::ClientLimit
            | Kind::Storage
            | Kind::Draining
            | Kind::Internal => return,
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

    fn admitted(health: &ProviderHealth) -> bool {
        health.admit(Instant::now()).is_ok()
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
    async fn a_success_resets_the_count_of_failures() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Timeout, 2);
        health.record_success();
        fail(&health, Kind::Timeout, 2);
        assert!(admitted(&health));
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
    async fn one_turn_probes_a_provider_and_its_success_admits_all() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unreachable, 3);
        advance(Duration::from_secs(9)).await;
        assert_eq!(
            health.admit(Instant::now()),
            Err(Duration::from_secs(1)),
            "too early"
        );
        advance(Duration::from_secs(1)).await;
        assert_eq!(seconds_down(&health), None);
        assert!(admitted(&health));
        assert!(!admitted(&health), "one at a time");
        health.record_success();
        assert!(admitted(&health) && admitted(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_without_a_result_expires() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unreachable, 3);
        advance(Duration::from_secs(10)).await;
        assert!(admitted(&health));
        advance(PROBE_TIMEOUT).await;
        assert!(admitted(&health));
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
            assert!(admitted(&health));
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
        assert!(admitted(&health));
        health.record_limit(Duration::from_secs(5));
        assert_eq!(seconds_down(&health), Some(5), "a probe that failed");
        assert!(!admitted(&health));
        health.record_limit(Duration::MAX);
        assert_eq!(seconds_down(&health), Some(3_600));
    }
}
