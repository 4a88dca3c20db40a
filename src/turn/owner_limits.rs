//! The limits of clients: how many turns run at once, and what they use in a day.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::{Fault, Kind, Retry};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::http_date;
use crate::config::ClientLimits;
use crate::metrics::spent::{DAY_SECONDS, Spending};

/// How soon a client should send a request again that found too many running.
const CONCURRENCY_PAUSE: Duration = Duration::from_secs(2);

/// The turns that run, by owner. Lives as long as the service.
#[derive(Debug, Default)]
pub struct OwnerSlots {
    running: Mutex<BTreeMap<Arc<str>, usize>>,
    freed: Notify,
}

/// One running turn of an owner, counted until this is dropped.
#[derive(Debug)]
pub struct OwnerSlot {
    slots: Arc<OwnerSlots>,
    owner: Arc<str>,
}

impl OwnerSlots {
    /// Counts a turn of this owner, unless as many run as the limit allows.
    pub fn take(self: &Arc<Self>, owner: &Arc<str>, limits: ClientLimits) -> Option<OwnerSlot> {
        let mut running = self.running.lock();
        let count = running.get(owner).copied().unwrap_or(0);
        if limits.concurrent_requests.is_some_and(|most| count >= most) {
            return None;
        }
        running.insert(Arc::clone(owner), count + 1);
        Some(OwnerSlot {
            slots: Arc::clone(self),
            owner: Arc::clone(owner),
        })
    }

    /// Returns when a turn has ended, or when limits may have changed, since this was called last.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Limits may have changed.
    pub fn limits_changed(&self) {
        self.freed.notify_one();
    }
}

impl Drop for OwnerSlot {
    fn drop(&mut self) {
        let mut running = self.slots.running.lock();
        if let Some(count) = running.get_mut(&self.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                running.remove(&self.owner);
            }
        }
        drop(running);
        self.slots.freed.notify_one();
    }
}

/// The fault of a request that finds as many turns running as its owner may have.
pub(super) fn too_many_at_once(owner: &str, limits: ClientLimits) -> Fault {
    let most = limits.concurrent_requests.unwrap_or_default();
    let message = format!(
        "The client '{owner}' has {most} requests running, as many as it may have at once (max_concurrent_requests); send this one again when one of them has ended."
    );
    Fault {
        retry: Retry::After(CONCURRENCY_PAUSE),
        ..Fault::new(Kind::ClientLimit, message)
    }
}

/// Refuses a request of an owner who has used up a limit of the day, with what running turns are
/// about to use. `now` is in seconds since 1970. No client should send it again by itself: it would
/// be refused until midnight.
pub(super) fn check_day(
    owner: &str,
    limits: ClientLimits,
    spent: Spending,
    now: u64,
) -> Result<(), Fault> {
    let used = if let Some(most) = limits.tokens_per_day.filter(|most| spent.tokens >= *most) {
        let tokens = spent.tokens;
        format!("{tokens} of its {most} tokens of today (max_tokens_per_day)")
    } else if let Some(most) = limits.cost_per_day.filter(|most| spent.cost >= *most) {
        let cost = spent.cost;
        format!("${cost:.2} of its ${most:.2} of today (max_cost_per_day)")
    } else {
        return Ok(());
    };
    let reset = (now / DAY_SECONDS + 1) * DAY_SECONDS;
    let message = format!(
        "The client '{owner}' has used {used}. The limit is reset at {}.",
        http_date(reset.saturating_mul(1000))
    );
    Err(Fault {
        retry: Retry::After(Duration::from_secs(reset - now)),
        gave_up: true,
        ..Fault::new(Kind::ClientLimit, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_by_owner() {
        let slots = Arc::<OwnerSlots>::default();
        let limits = ClientLimits {
            concurrent_requests: Some(1),
            ..ClientLimits::default()
        };
        let (alice, bob) = ("alice".into(), "bob".into());
        let first = slots.take(&alice, limits);
        assert!(first.is_some() && slots.take(&alice, limits).is_none());
        let other = slots.take(&bob, limits);
        assert!(other.is_some());
        assert!(slots.take(&alice, ClientLimits::default()).is_some());
        drop(first);
        assert!(slots.take(&alice, limits).is_some());
        drop(other);
        assert!(slots.running.lock().is_empty());
    }

    #[test]
    fn a_limit_of_a_day_names_itself_and_ends_at_midnight() {
        let limits = ClientLimits {
            tokens_per_day: Some(1_000),
            cost_per_day: Some(0.5),
            ..ClientLimits::default()
        };
        // An hour before midnight.
        let now = 784_166_400 - 3_600;
        let check = |tokens, cost| check_day("alice", limits, Spending { tokens, cost }, now);
        assert_eq!(check(999, 0.49), Ok(()));
        let fault = check(1_000, 0.0).unwrap_err();
        assert_eq!(
            fault.client_message(),
            "The client 'alice' has used 1000 of its 1000 tokens of today (max_tokens_per_day). The limit is reset at Mon, 07 Nov 1994 00:00:00 GMT."
        );
        assert_eq!((fault.status(false), fault.status(true)), (429, 400));
        assert_eq!(fault.retry_after(), Some(3_600));
        assert_eq!(fault.code(), Some("rate_limit_exceeded"));
        assert_eq!(fault.response_code(true), "invalid_prompt");
        let fault = check(0, 0.5).unwrap_err();
        assert!(
            fault
                .message
                .contains("$0.50 of its $0.50 of today (max_cost_per_day)")
        );
    }

    #[test]
    fn codex_is_told_when_to_send_a_request_again() {
        let limits = ClientLimits {
            concurrent_requests: Some(2),
            ..ClientLimits::default()
        };
        let fault = too_many_at_once("alice", limits);
        assert!(
            fault
                .client_message()
                .ends_with("Please try again in 2.0s.")
        );
        assert_eq!(fault.response_code(true), "rate_limit_exceeded");
        assert_eq!((fault.status(false), fault.retry_after()), (429, Some(2)));
        assert!(!fault.is_final());
    }
}
