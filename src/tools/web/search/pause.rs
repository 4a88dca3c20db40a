//! When a search engine that fails is asked again: a circuit breaker.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::SearchError;
use super::cascade::SearchFailure;

/// This many failures in a row pause a search engine.
const FAILURES: u32 = 3;
/// How long it is paused then.
const PAUSE: Duration = Duration::from_mins(1);
/// How long it is paused where it takes the proxy for a robot or does not accept the key: asking
/// again makes the first worse, and the second needs its user.
const LONG_PAUSE: Duration = Duration::from_mins(10);
/// The longest pause that a search engine can ask for.
const MAX_PAUSE: Duration = Duration::from_hours(1);

/// The failures of one search engine.
#[derive(Debug, Default)]
pub(super) struct EnginePause(Mutex<PauseState>);

#[derive(Debug, Default)]
struct PauseState {
    /// Failures since the last success.
    failures: u32,
    until: Option<Instant>,
}

impl EnginePause {
    /// How much longer the search engine is not asked.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.0.lock().until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Notes how a request went.
    pub(super) fn note(&self, failure: Option<&SearchFailure>, now: Instant) {
        let mut state = self.0.lock();
        let Some(failure) = failure else {
            *state = PauseState::default();
            return;
        };
        let pause = match failure {
            SearchFailure::Refused(error) => match error {
                // The search engine works.
                SearchError::Empty => {
                    *state = PauseState::default();
                    return;
                }
                SearchError::RateLimit { retry_after } => {
                    let asked = retry_after.filter(|seconds| *seconds > 0);
                    Some(asked.map_or(PAUSE, Duration::from_secs).min(MAX_PAUSE))
                }
                SearchError::Key(_) | SearchError::Challenge => Some(LONG_PAUSE),
                SearchError::Refused { .. } | SearchError::BadReply => None,
            },
            SearchFailure::NoAnswer(_) => None,
            SearchFailure::Paused(_) | SearchFailure::OtherDomains => return,
        };
        state.failures += 1;
        // A search engine that fails once more after its pause is paused again.
        let pause = pause.or((state.failures >= FAILURES).then_some(PAUSE));
        if let Some(pause) = pause {
            state.until = Some(now + pause);
        }
    }
}
