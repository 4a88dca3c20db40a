//! Waiting for others for a limited time.
//!
//! The time in which the future was not polled does not count. A client that takes nothing, or a
//! machine that is busy, keeps a task from being polled, and what arrives meanwhile is unread.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A timer that is seen later than this was not waited for.
const MAX_LATENESS: Duration = Duration::from_millis(100);

/// Whether a timer that was due at `due` is noticed at `now`, so much later that its task cannot
/// have been waiting for it.
pub(crate) fn is_late(due: Instant, now: Instant) -> bool {
    now.saturating_duration_since(due) > MAX_LATENESS
}

/// Waits for a future for at most `limit`; `None` if it takes longer. If the timer is noticed late,
/// the wait begins again.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    loop {
        let due = Instant::now() + limit;
        tokio::select! {
            biased;
            output = &mut future => return Some(output),
            () = sleep_until(due) => {}
        }
        if !is_late(due, Instant::now()) {
            return None;
        }
    }
}
