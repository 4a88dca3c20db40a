//! How many requests a prompt may cost a provider that fails, ours and those that a client repeats
//! together.

/// The most requests that may fail for one prompt.
pub(super) const MAX_FAILED_REQUESTS: u32 = 8;

/// How often the request may be sent again in this turn, after `failed` requests for the same
/// prompt. Codex repeats a failed turn until it is told to stop, so one turn may take what is left.
/// Other clients cannot be told; most repeat it twice, so that each turn takes half of what is
/// left.
pub(super) fn max_retries(failed: u32, codex: bool) -> u32 {
    let left = MAX_FAILED_REQUESTS.saturating_sub(failed);
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
            failed += 1 + retries.min(max_retries(failed, codex));
            if codex && failed >= MAX_FAILED_REQUESTS {
                break;
            }
        }
        failed
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
