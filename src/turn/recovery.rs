//! Decides what follows a fault while the client has no content yet.

use std::time::Duration;

use adapters::fault::{Fault, FaultClass, FaultSide, Kind, Patience, Retry};

use crate::upstream::SHORT_COOLDOWN;

/// The longest pause before a retry that a provider may ask for. Whether a longer one is worth
/// waiting for is the client's decision.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Our own pause before the first retry. It doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The longest of these pauses.
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// The shortest pause that a server can ask for while it loads its model.
const MIN_LOADING_PAUSE: Duration = Duration::from_millis(250);

/// How often a model that is loading is asked for.
const LOADING_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecoveryAction {
    /// Send the same request again after this pause.
    Retry(Duration),
    FailOver,
    /// Return the fault to the client.
    GiveUp,
}

/// The attempts so far and the options that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveryState {
    /// Retries on this route.
    pub(super) retries: u32,
    /// How many retries this route may have.
    pub(super) max_retries: u32,
    /// How many requests of earlier turns have failed for the same prompt.
    pub(super) failed_before: u32,
    /// The fault was about the API key, and another key is usable.
    pub(super) has_another_key: bool,
    /// This route is a fallback: another one failed before.
    pub(super) is_fallback: bool,
    /// Another route could answer.
    pub(super) has_fallback: bool,
    /// A random number from 0 to 1.
    pub(super) jitter: f64,
}

/// Decides what to do after this fault. If there is a fallback, a provider gets one retry at most.
pub(super) fn decide(fault: &Fault, state: RecoveryState) -> RecoveryAction {
    let max_retries = if state.has_fallback {
        state.max_retries.min(1)
    } else {
        state.max_retries
    };
    let pause = if state.has_another_key {
        Some(Duration::ZERO)
    } else {
        retry_pause(fault, state)
    };
    match pause {
        Some(pause) if state.retries < max_retries => RecoveryAction::Retry(pause),
        _ if state.has_fallback && another_provider_may_answer(fault.kind, state.is_fallback) => {
            RecoveryAction::FailOver
        }
        _ => RecoveryAction::GiveUp,
    }
}

/// The pause before the next request to a provider that is loading its model, if it is waited for.
/// It was for `waited` already, and may be for as long as for the first byte of an answer: other
/// servers load their model then. A fallback answers at once.
pub(super) fn loading_pause(
    fault: &Fault,
    waited: Duration,
    first_byte: Duration,
    has_fallback: bool,
) -> Option<Duration> {
    let pause = match fault.retry {
        Retry::After(pause) => pause.clamp(MIN_LOADING_PAUSE, MAX_PAUSE),
        Retry::Never | Retry::Soon => LOADING_PAUSE,
    };
    let is_loading = fault.patience == Patience::UntilReady;
    let is_waited_for = is_loading && !has_fallback && waited + pause <= first_byte;
    is_waited_for.then_some(pause)
}

/// The fault that the client gets when no provider answered: of all faults, the one that lets it
/// retry soonest. A last fault of the proxy itself takes precedence.
pub(super) fn soonest_retry(earlier: Option<Box<Fault>>, last: Fault) -> Fault {
    let wait = |fault: &Fault| match fault.retry {
        Retry::Soon => Duration::ZERO,
        Retry::After(pause) => pause,
        Retry::Never => Duration::MAX,
    };
    match earlier {
        Some(earlier) if last.side() != FaultSide::Proxy && wait(&earlier) < wait(&last) => {
            *earlier
        }
        _ => last,
    }
}

/// How long to wait before a retry on the same route; `None` if a retry is pointless.
fn retry_pause(fault: &Fault, state: RecoveryState) -> Option<Duration> {
    let max_pause = if state.has_fallback {
        SHORT_COOLDOWN
    } else {
        MAX_PAUSE
    };
    match fault.retry {
        Retry::Never => None,
        // It will hardly be reachable a moment later, and the fallback may be.
        Retry::Soon if state.has_fallback && fault.kind == Kind::Unreachable => None,
        Retry::Soon => {
            let failed = state.retries.saturating_add(state.failed_before);
            let backoff = FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(failed));
            Some(backoff.min(MAX_BACKOFF).mul_f64(0.75 + state.jitter / 2.0))
        }
        Retry::After(pause) => (pause <= max_pause).then_some(pause),
    }
}

/// Whether the fault is the provider's own, so that another provider may do better. A fallback may
/// have a smaller window than the client expects, or may not be available to this account; then
/// the next fallback is tried.
fn another_provider_may_answer(kind: Kind, is_fallback: bool) -> bool {
    match kind.class() {
        FaultClass::Access => is_fallback || kind != Kind::Permission,
        FaultClass::RateLimit | FaultClass::Outage | FaultClass::Answer => true,
        FaultClass::Model => is_fallback,
        FaultClass::Request | FaultClass::Server => false,
    }
}

/// Whether a smaller request without tools may succeed after this fault.
pub(super) fn a_smaller_request_may_succeed(kind: Kind) -> bool {
    match kind.class() {
        FaultClass::Request | FaultClass::RateLimit | FaultClass::Answer => true,
        FaultClass::Model => kind == Kind::ContextLength,
        FaultClass::Outage => kind != Kind::Unreachable,
        FaultClass::Access => false,
        FaultClass::Server => kind == Kind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: RecoveryState = RecoveryState {
        retries: 0,
        max_retries: 3,
        failed_before: 0,
        has_another_key: false,
        is_fallback: false,
        has_fallback: false,
        jitter: 0.5,
    };

    fn after(seconds: u64) -> Fault {
        Fault {
            retry: Retry::After(Duration::from_secs(seconds)),
            ..Fault::new(Kind::RateLimit, "slow down")
        }
    }

    /// When another provider may answer after each kind, and whether a smaller request of a summary
    /// may succeed.
    const DECISIONS: &str = "\
invalid_request never smaller
model_not_found from-fallback -
context_length from-fallback smaller
authentication always -
permission from-fallback -
refused never smaller
content_filter never smaller
rate_limit always smaller
quota always -
overloaded always smaller
unavailable always smaller
unreachable always -
timeout always smaller
turn_timeout never -
cut always smaller
bad_reply always smaller
busy never -
client_limit never -
storage never -
draining never -
internal never smaller";

    #[test]
    fn each_kind_has_its_decisions() {
        assert_eq!(DECISIONS.lines().count(), 21);
        for line in DECISIONS.lines() {
            let (name, expected) = line.split_once(' ').unwrap();
            let kind: Kind = serde_json::from_value(name.into()).unwrap();
            let another = |is_fallback| another_provider_may_answer(kind, is_fallback);
            let failover = match (another(false), another(true)) {
                (true, true) => "always",
                (false, true) => "from-fallback",
                (false, false) => "never",
                (true, false) => unreachable!("a fallback is followed by others"),
            };
            let may_succeed = a_smaller_request_may_succeed(kind);
            let smaller = if may_succeed { "smaller" } else { "-" };
            assert_eq!(format!("{failover} {smaller}"), expected, "{name}");
        }
    }

    #[test]
    fn without_a_fallback_a_provider_is_retried_while_it_makes_sense() {
        let unavailable = Fault::new(Kind::Unavailable, "x");
        for (fault, state, expected) in [
            (
                unavailable.clone(),
                FIRST,
                RecoveryAction::Retry(FIRST_BACKOFF),
            ),
            (
                unavailable.clone(),
                RecoveryState {
                    retries: 2,
                    ..FIRST
                },
                RecoveryAction::Retry(FIRST_BACKOFF * 4),
            ),
            (
                unavailable.clone(),
                RecoveryState {
                    retries: 3,
                    ..FIRST
                },
                RecoveryAction::GiveUp,
            ),
            (
                unavailable.clone(),
                RecoveryState {
                    failed_before: 4,
                    ..FIRST
                },
                RecoveryAction::Retry(MAX_BACKOFF),
            ),
            (
                after(7),
                FIRST,
                RecoveryAction::Retry(Duration::from_secs(7)),
            ),
            (after(31), FIRST, RecoveryAction::GiveUp),
            (
                after(31),
                RecoveryState {
                    has_another_key: true,
                    ..FIRST
                },
                RecoveryAction::Retry(Duration::ZERO),
            ),
            (Fault::new(Kind::Quota, "x"), FIRST, RecoveryAction::GiveUp),
            (
                Fault::new(Kind::Refused, "x"),
                FIRST,
                RecoveryAction::GiveUp,
            ),
        ] {
            assert_eq!(decide(&fault, state), expected, "{fault:?} {state:?}");
        }
    }

    #[test]
    fn a_model_that_is_loading_is_waited_for_as_long_as_for_a_first_byte() {
        let loading = Fault {
            patience: Patience::UntilReady,
            ..Fault::new(Kind::Overloaded, "Loading model")
        };
        let asked = |seconds| Fault {
            retry: Retry::After(Duration::from_secs(seconds)),
            ..loading.clone()
        };
        let overloaded = Fault::new(Kind::Overloaded, "x");
        for (fault, waited, has_fallback, expected) in [
            (&loading, 0, false, Some(2)),
            (&loading, 58, false, Some(2)),
            (&loading, 59, false, None),
            (&loading, 0, true, None),
            (&asked(20), 0, false, Some(20)),
            (&asked(90), 0, false, Some(30)),
            (&overloaded, 0, false, None),
        ] {
            let [waited, first_byte] = [waited, 60].map(Duration::from_secs);
            let pause = loading_pause(fault, waited, first_byte, has_fallback);
            let expected = expected.map(Duration::from_secs);
            assert_eq!(pause, expected, "{fault:?} {waited:?}");
        }
    }

    #[test]
    fn the_client_gets_the_fault_with_the_soonest_retry() {
        let retry = |earlier: Option<Fault>, last| soonest_retry(earlier.map(Box::new), last).retry;
        let (quota, limited) = (Fault::new(Kind::Quota, "x"), after(20));
        assert_eq!(retry(None, quota.clone()), quota.retry);
        assert_eq!(retry(Some(limited.clone()), quota.clone()), limited.retry);
        assert_eq!(retry(Some(quota), limited.clone()), limited.retry);
        assert_eq!(retry(Some(after(60)), limited.clone()), limited.retry);
        let draining = Fault::new(Kind::Draining, "x");
        assert_eq!(
            soonest_retry(Some(Box::new(limited)), draining).kind,
            Kind::Draining
        );
    }

    #[test]
    fn with_a_fallback_a_provider_gets_one_retry_at_most() {
        let first = RecoveryState {
            has_fallback: true,
            ..FIRST
        };
        let second = RecoveryState {
            retries: 1,
            ..first
        };
        let fallback = RecoveryState {
            is_fallback: true,
            ..first
        };
        let fault = |kind| Fault::new(kind, "x");
        for (fault, state, expected) in [
            (
                fault(Kind::Unavailable),
                first,
                RecoveryAction::Retry(FIRST_BACKOFF),
            ),
            (fault(Kind::Unavailable), second, RecoveryAction::FailOver),
            (fault(Kind::Unreachable), first, RecoveryAction::FailOver),
            (fault(Kind::Timeout), first, RecoveryAction::FailOver),
            (fault(Kind::Quota), first, RecoveryAction::FailOver),
            (fault(Kind::Authentication), first, RecoveryAction::FailOver),
            (
                after(2),
                first,
                RecoveryAction::Retry(Duration::from_secs(2)),
            ),
            (after(3), first, RecoveryAction::FailOver),
            (fault(Kind::Refused), first, RecoveryAction::GiveUp),
            (fault(Kind::ContextLength), first, RecoveryAction::GiveUp),
            (
                fault(Kind::ContextLength),
                fallback,
                RecoveryAction::FailOver,
            ),
            (
                fault(Kind::ModelNotFound),
                fallback,
                RecoveryAction::FailOver,
            ),
            (fault(Kind::Refused), fallback, RecoveryAction::GiveUp),
            (fault(Kind::Draining), first, RecoveryAction::GiveUp),
        ] {
            assert_eq!(decide(&fault, state), expected, "{fault:?} {state:?}");
        }
    }
}
