//! Whether a provider is worth asking: after failures in a row, or when it
//! refuses everything for its limits, it is left alone for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adapters::fault::{Fault, Kind, Retry};
use tokio::time::Instant;

/// So many failures in a row count as an outage.
const OUTAGE_FAILURES: u32 = 3;
/// The first time of being left alone; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest one after failures.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// The longest one that a provider may ask for.
const MAX_LIMIT_PAUSE: Duration = Duration::from_hours(1);
/// How long the others leave it alone while one turn tries it out.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The health of one provider.
#[derive(Debug, Default)]
pub struct ProviderHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    /// Failures since the last success.
    failures: u32,
    /// Outages since the last success.
    outages: u32,
    /// Left alone until then.
    down_until: Option<Instant>,
    /// One turn tries it out.
    probing: bool,
}

impl ProviderHealth {
    /// How much longer the provider is left alone; `None` when it may be asked.
    pub fn down_for(&self, now: Instant) -> Option<Duration> {
        let left = self.lock().down_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Asks for leave to send a turn where another provider could have it, or
    /// tells how long this one is left alone. After that time one turn has
    /// leave, and the others for as long as it takes it to fail or succeed,
    /// ten seconds at most, have not.
    pub fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.lock();
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

    /// The provider answered.
    pub fn record_success(&self) {
        *self.lock() = HealthState::default();
    }

    /// The provider failed. Faults that are not an outage do not count.
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
            | Kind::Draining
            | Kind::Internal => return,
        }
        let now = Instant::now();
        let mut state = self.lock();
        if state.down_until.is_some_and(|until| now < until) && !state.probing {
            // Known already: this one began before, or had nowhere else to go.
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

    /// The provider takes nothing for this long: every key is at its limit. The
    /// latest word counts.
    pub fn record_limit(&self, pause: Duration) {
        let mut state = self.lock();
        state.down_until = Some(Instant::now() + pause.min(MAX_LIMIT_PAUSE));
        state.probing = false;
    }

    fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn left(health: &ProviderHealth) -> Option<u64> {
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
            assert_eq!(left(&health), None);
            fail(&health, kind, 1);
            assert_eq!(left(&health), Some(10), "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_between_failures_starts_the_count_anew() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Timeout, 2);
        health.record_success();
        fail(&health, Kind::Timeout, 2);
        assert!(admitted(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_request_or_its_key_is_to_blame_for_is_no_outage() {
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
            assert_eq!(left(&health), None, "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_turn_tries_a_provider_out_and_its_success_is_everyones() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unreachable, 3);
        advance(Duration::from_secs(9)).await;
        assert_eq!(
            health.admit(Instant::now()),
            Err(Duration::from_secs(1)),
            "too early"
        );
        advance(Duration::from_secs(1)).await;
        assert_eq!(left(&health), None);
        assert!(admitted(&health));
        assert!(!admitted(&health), "one at a time");
        health.record_success();
        assert!(admitted(&health) && admitted(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_nobody_ends_lapses() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unreachable, 3);
        advance(Duration::from_secs(10)).await;
        assert!(admitted(&health));
        advance(PROBE_TIMEOUT).await;
        assert!(admitted(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn each_outage_is_twice_as_long_up_to_a_limit() {
        let health = ProviderHealth::default();
        fail(&health, Kind::Unavailable, 3);
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(left(&health), Some(seconds));
            fail(&health, Kind::Unavailable, 3);
            assert_eq!(left(&health), Some(seconds), "late failures add nothing");
            advance(Duration::from_secs(seconds)).await;
            assert!(admitted(&health));
            fail(&health, Kind::Unavailable, 1);
        }
        health.record_success();
        fail(&health, Kind::Unavailable, 3);
        assert_eq!(left(&health), Some(10));
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_provider_may_ask_for_longer() {
        let health = ProviderHealth::default();
        for _ in 0..3 {
            health.record_failure(&Fault {
                retry: Retry::After(Duration::from_mins(1)),
                ..Fault::new(Kind::Overloaded, "x")
            });
        }
        assert_eq!(left(&health), Some(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_lasts_as_long_as_it_says() {
        let health = ProviderHealth::default();
        health.record_limit(Duration::from_secs(40));
        assert_eq!(left(&health), Some(40));
        advance(Duration::from_secs(40)).await;
        assert!(admitted(&health));
        health.record_limit(Duration::from_secs(5));
        assert_eq!(left(&health), Some(5), "a trial that failed");
        assert!(!admitted(&health));
        health.record_limit(Duration::MAX);
        assert_eq!(left(&health), Some(3_600));
    }
}
