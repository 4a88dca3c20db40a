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
    let used = used_up(limits.tokens_per_day, spent.tokens, "tokens");
    match used.or_else(|| cost_used_up(limits, spent)) {
        Some(used) => Err(day_is_over(owner, &used, now)),
        None => Ok(()),
    }
}

/// Refuses searches and pages of an owner who has used up the limit of the day for them, or a
/// search if the cost of the day is. `now` is in seconds since 1970.
pub fn check_web_day(
    owner: &str,
    limits: ClientLimits,
    spent: Spending,
    asked: Spending,
    now: u64,
) -> Result<(), Fault> {
    let used = if asked.searches > 0 {
        used_up(limits.searches_per_day, spent.searches, "searches")
            .or_else(|| cost_used_up(limits, spent))
    } else if asked.pages > 0 {
        used_up(limits.pages_per_day, spent.pages, "pages")
    } else {
        None
    };
    match used {
        Some(used) => Err(day_is_over(owner, &used, now)),
        None => Ok(()),
    }
}

/// What is used up of a limit, in words; `None` if there is some left.
fn used_up(most: Option<u64>, used: u64, what: &str) -> Option<String> {
    let most = most.filter(|most| used >= *most)?;
    Some(format!(
        "{used} of its {most} {what} of today (max_{what}_per_day)"
    ))
}

fn cost_used_up(limits: ClientLimits, spent: Spending) -> Option<String> {
    let cost = spent.cost;
    let most = limits.cost_per_day.filter(|most| cost >= *most)?;
    Some(format!(
        "${cost:.2} of its ${most:.2} of today (max_cost_per_day)"
    ))
}

fn day_is_over(owner: &str, used: &str, now: u64) -> Fault {
    let reset = (now / DAY_SECONDS + 1) * DAY_SECONDS;
    let message = format!(
        "The client '{owner}' has used {used}. The limit is reset at {}.",
        http_date(reset.saturating_mul(1000))
    );
    wait_for_midnight(message, Duration::from_secs(reset - now))
}

/// The fault of a request beyond a limit of the day, which ends after this time.
pub fn wait_for_midnight(message: String, wait: Duration) -> Fault {
    Fault {
        retry: Retry::After(wait),
        gave_up: true,
        ..Fault::new(Kind::ClientLimit, message)
    }
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
        let check = |tokens, cost| {
            let spent = Spending {
                tokens,
                cost,
                ..Spending::default()
            };
            check_day("alice", limits, spent, now)
        };
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
    fn searches_and_pages_have_limits_of_their_own() {
        let limits = ClientLimits {
            tokens_per_day: Some(1),
            cost_per_day: Some(0.5),
            searches_per_day: Some(2),
            pages_per_day: Some(3),
            ..ClientLimits::default()
        };
        let spending = |cost, searches, pages| Spending {
            tokens: 1,
            cost,
            searches,
            pages,
        };
        let (search, page) = (spending(0.0, 1, 0), spending(0.0, 0, 1));
        for (spent, asked, refused) in [
            (spending(0.4, 1, 3), search, None),
            (spending(0.4, 2, 0), search, Some("2 of its 2 searches")),
            (spending(0.5, 1, 0), search, Some("$0.50 of its $0.50")),
            (spending(0.5, 2, 2), page, None),
            (spending(0.0, 0, 3), page, Some("3 of its 3 pages")),
            (spending(0.5, 2, 3), spending(0.1, 0, 0), None),
        ] {
            let found = check_web_day("alice", limits, spent, asked, 0);
            let message = found.err().map(|fault| fault.message);
            match refused {
                None => assert_eq!(message, None),
                Some(used) => assert!(message.unwrap().contains(used), "{used}"),
            }
        }
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
