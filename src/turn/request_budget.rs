//! How many requests a prompt may cost a provider that fails, ours and those that a client repeats
//! together.

use adapters::fault::Patience;

/// The most requests that may fail for one prompt.
pub(super) const MAX_FAILED_REQUESTS: u32 = 8;

/// The most requests that may fail for one prompt after a fault. Somebody waits for the first
/// answer of a provider, and a server that was never there will not come by itself. One that has
/// answered lately gets all of them (`is_patient`): a network that is gone for a moment must not
/// end the work of hours. The wait for a model that is loading is not a matter of requests; when it
/// is over, so is the turn.
pub(super) fn max_failed_requests(patience: Patience, is_patient: bool) -> u32 {
    match (patience, is_patient) {
        (Patience::NoMore, false) | (Patience::UntilReady, _) => 1,
        (Patience::OneMore, false) => 2,
        (Patience::Usual, _) | (Patience::OneMore | Patience::NoMore, true) => MAX_FAILED_REQUESTS,
    }
}

/// How often the request may be sent again in this turn, after `failed` requests for the same
/// prompt of which `most` may fail. Codex repeats a failed turn until it is told to stop, so one
/// turn may take what is left. Other clients cannot be told; most repeat it twice, so that each
/// turn takes half of what is left.
pub(super) fn max_retries(failed: u32, most: u32, codex: bool) -> u32 {
    let left = most.saturating_sub(failed);
    let requests = if codex || failed == 0 { left } else { left / 2 };
    requests.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests of a client that repeats its turn as often as `turns` says.
    fn requests(turns: u32, retries: u32, codex: bool) -> u32 {
        let mut failed = 0;
        for _ in 0..turns {
            failed += 1 + retries.min(max_retries(failed, MAX_FAILED_REQUESTS, codex));
            if codex && failed >= MAX_FAILED_REQUESTS {
                break;
            }
        }
        failed
    }

    /// The most requests of a provider that never answered, and of one that has.
    const PATIENCE: [(Patience, u32, u32); 4] = [
        (Patience::Usual, 8, 8),
        (Patience::OneMore, 2, 8),
        (Patience::NoMore, 1, 8),
        (Patience::UntilReady, 1, 1),
    ];

    #[test]
    fn a_provider_that_has_answered_is_waited_for_longer() {
        for (patience, first, later) in PATIENCE {
            let most = |answered| max_failed_requests(patience, answered);
            assert_eq!((most(false), most(true)), (first, later), "{patience:?}");
        }
    }

    #[test]
    fn no_client_sends_more_requests_than_a_prompt_may_cost() {
        for retries in 0..20 {
            assert!(
                requests(6, retries, true) <= MAX_FAILED_REQUESTS,
                "{retries}"
            );
        }
        // A client that ignores `x-should-retry` costs one request for each turn beyond the limit.
        for retries in 0..7 {
            assert!(
                requests(3, retries, false) <= MAX_FAILED_REQUESTS + 1,
                "{retries}"
            );
        }
        assert_eq!(requests(2, 3, true), 8);
        assert_eq!(requests(3, 3, false), 7);
    }
}
