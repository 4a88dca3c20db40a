//! What happens after a fault, while nothing of an answer was sent yet.

use std::time::Duration;

use adapters::fault::{Fault, Kind, Retry, Side};

use crate::upstream::SHORT_COOLDOWN;

/// The longest pause that a provider may ask for before a turn is tried
/// again; a longer one is the client's decision.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The first pause of our own; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send the same again after a pause.
    Again(Duration),
    /// Go to the next provider.
    Elsewhere,
    /// Tell the client.
    GiveUp,
}

/// What was done already, and what is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// Repetitions at this provider.
    pub(super) repeats: u32,
    /// The most of them.
    pub(super) most_repeats: u32,
    /// The key was at fault and another one is awake.
    pub(super) another_key: bool,
    /// Another provider failed before, and this one stands in for it.
    pub(super) stands_in: bool,
    /// A further provider could answer.
    pub(super) fallback: bool,
    /// From 0 to 1.
    pub(super) jitter: f64,
}

/// Decides.
pub(super) fn next(fault: &Fault, tried: Tried) -> Next {
    let most_repeats = if tried.fallback {
        tried.most_repeats.min(1)
    } else {
        tried.most_repeats
    };
    let pause = if tried.another_key {
        Some(Duration::ZERO)
    } else {
        pause(fault, tried)
    };
    match pause {
        Some(pause) if tried.repeats < most_repeats => Next::Again(pause),
        _ if tried.fallback && another_may_answer(fault.kind, tried.stands_in) => Next::Elsewhere,
        _ => Next::GiveUp,
    }
}

/// What the client is told when no provider answered: of the faults so far and
/// the last one the one after which it may come back soonest.
pub(super) fn sooner(before: Option<Box<Fault>>, last: Fault) -> Fault {
    let wait = |fault: &Fault| match fault.retry {
        Retry::Soon => Duration::ZERO,
        Retry::After(pause) => pause,
        Retry::Never => Duration::MAX,
    };
    match before {
        Some(before) if last.side() != Side::Proxy && wait(&before) < wait(&last) => *before,
        _ => last,
    }
}

/// How long to wait before the next try; `None` when there is no point.
fn pause(fault: &Fault, tried: Tried) -> Option<Duration> {
    let longest = if tried.fallback {
        SHORT_COOLDOWN
    } else {
        LONGEST_PAUSE
    };
    match fault.retry {
        Retry::Never => None,
        // It would not be there a moment later.
        Retry::Soon if tried.fallback && fault.kind == Kind::Unreachable => None,
        Retry::Soon => {
            let own = FIRST_PAUSE * 2_u32.saturating_pow(tried.repeats);
            Some(own.mul_f64(0.75 + tried.jitter / 2.0))
        }
        Retry::After(pause) => (pause <= longest).then_some(pause),
    }
}

/// Whether the fault is the provider's own, so that another one can do better. What
/// stands in may be smaller than what the client reckons with, or not to be had.
fn another_may_answer(kind: Kind, stands_in: bool) -> bool {
    match kind {
        Kind::Authentication
        | Kind::RateLimit
        | Kind::Quota
        | Kind::Overloaded
        | Kind::Unavailable
        | Kind::Unreachable
        | Kind::Timeout
        | Kind::Cut
        | Kind::BadReply => true,
        Kind::ModelNotFound | Kind::ContextLength | Kind::Permission => stands_in,
        Kind::InvalidRequest
        | Kind::Refused
        | Kind::ContentFilter
        | Kind::Draining
        | Kind::Internal => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Tried = Tried {
        repeats: 0,
        most_repeats: 3,
        another_key: false,
        stands_in: false,
        fallback: false,
        jitter: 0.5,
    };

    fn after(seconds: u64) -> Fault {
        Fault {
            retry: Retry::After(Duration::from_secs(seconds)),
            ..Fault::new(Kind::RateLimit, "slow down")
        }
    }

    #[test]
    fn alone_a_provider_is_asked_again_as_long_as_it_helps() {
        let unavailable = Fault::new(Kind::Unavailable, "x");
        for (fault, tried, wanted) in [
            (unavailable.clone(), FIRST, Next::Again(FIRST_PAUSE)),
            (
                unavailable.clone(),
                Tried {
                    repeats: 2,
                    ..FIRST
                },
                Next::Again(FIRST_PAUSE * 4),
            ),
            (
                unavailable.clone(),
                Tried {
                    repeats: 3,
                    ..FIRST
                },
                Next::GiveUp,
            ),
            (after(7), FIRST, Next::Again(Duration::from_secs(7))),
            (after(31), FIRST, Next::GiveUp),
            (
                after(31),
                Tried {
                    another_key: true,
                    ..FIRST
                },
                Next::Again(Duration::ZERO),
            ),
            (Fault::new(Kind::Quota, "x"), FIRST, Next::GiveUp),
            (Fault::new(Kind::Refused, "x"), FIRST, Next::GiveUp),
        ] {
            assert_eq!(next(&fault, tried), wanted, "{fault:?} {tried:?}");
        }
    }

    #[test]
    fn a_client_may_come_back_when_the_first_provider_can_answer() {
        let told = |before: Option<Fault>, last| sooner(before.map(Box::new), last).retry;
        let (quota, full) = (Fault::new(Kind::Quota, "x"), after(20));
        assert_eq!(told(None, quota.clone()), quota.retry);
        assert_eq!(told(Some(full.clone()), quota.clone()), full.retry);
        assert_eq!(told(Some(quota), full.clone()), full.retry);
        assert_eq!(told(Some(after(60)), full.clone()), full.retry);
        let draining = Fault::new(Kind::Draining, "x");
        assert_eq!(sooner(Some(Box::new(full)), draining).kind, Kind::Draining);
    }

    #[test]
    fn beside_a_fallback_a_provider_gets_one_more_chance_at_most() {
        let first = Tried {
            fallback: true,
            ..FIRST
        };
        let second = Tried {
            repeats: 1,
            ..first
        };
        let stand_in = Tried {
            stands_in: true,
            ..first
        };
        let fault = |kind| Fault::new(kind, "x");
        for (fault, tried, wanted) in [
            (fault(Kind::Unavailable), first, Next::Again(FIRST_PAUSE)),
            (fault(Kind::Unavailable), second, Next::Elsewhere),
            (fault(Kind::Unreachable), first, Next::Elsewhere),
            (fault(Kind::Timeout), first, Next::Elsewhere),
            (fault(Kind::Quota), first, Next::Elsewhere),
            (fault(Kind::Authentication), first, Next::Elsewhere),
            (after(2), first, Next::Again(Duration::from_secs(2))),
            (after(3), first, Next::Elsewhere),
            (fault(Kind::Refused), first, Next::GiveUp),
            (fault(Kind::ContextLength), first, Next::GiveUp),
            (fault(Kind::ContextLength), stand_in, Next::Elsewhere),
            (fault(Kind::ModelNotFound), stand_in, Next::Elsewhere),
            (fault(Kind::Refused), stand_in, Next::GiveUp),
            (fault(Kind::Draining), first, Next::GiveUp),
        ] {
            assert_eq!(next(&fault, tried), wanted, "{fault:?} {tried:?}");
        }
    }
}
