//! Limits the concurrent requests to a provider (`max_concurrent`). Turns above the limit wait
//! in the order in which they arrived.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits of one provider. The limit may change while permits are held.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    semaphore: Arc<Semaphore>,
    state: Mutex<LimitState>,
}

#[derive(Debug)]
struct LimitState {
    limit: usize,
    /// The number of held permits above the limit; they are discarded when released.
    surplus: usize,
}

/// Permission for one request to run. It is released when it is dropped.
#[derive(Debug)]
pub struct RequestPermit {
    permit: Option<OwnedSemaphorePermit>,
    limit: Arc<ConcurrencyLimit>,
}

impl ConcurrencyLimit {
    /// A limit of `limit` requests. Without a limit permits are still counted, because a
    /// limit may be set later.
    pub(super) fn new(limit: Option<u32>) -> Arc<Self> {
        let limit = permits(limit);
        Arc::new(Self {
            semaphore: Arc::new(Semaphore::new(limit)),
            state: Mutex::new(LimitState { limit, surplus: 0 }),
        })
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(super) async fn acquire(self: Arc<Self>) -> RequestPermit {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await;
        RequestPermit {
            // The semaphore is never closed.
            permit: permit.ok(),
            limit: self,
        }
    }

    /// A permit, if one is free and no turn is waiting for it.
    #[cfg(test)]
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<RequestPermit> {
        let permit = Arc::clone(&self.semaphore).try_acquire_owned().ok()?;
        Some(RequestPermit {
            permit: Some(permit),
            limit: Arc::clone(self),
        })
    }

    /// Changes the limit. A greater limit admits waiting turns at once; a smaller one is
    /// reached as running turns end.
    pub(super) fn set_limit(&self, limit: Option<u32>) {
        let limit = permits(limit);
        let mut state = self.state.lock();
        if limit > state.limit {
            let more = limit - state.limit;
            let kept = more.min(state.surplus);
            state.surplus -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = state.limit - limit;
            state.surplus += fewer - self.semaphore.forget_permits(fewer);
        }
        state.limit = limit;
    }
}

fn permits(limit: Option<u32>) -> usize {
    limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(Semaphore::MAX_PERMITS)
        .clamp(1, Semaphore::MAX_PERMITS)
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let limit = &self.limit;
        let mut state = limit.state.lock();
        if let Some(permit) = self.permit.take()
            && let Some(less) = state.surplus.checked_sub(1)
        {
            state.surplus = less;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::yield_now;

    use super::*;

    fn acquire_now(limit: &Arc<ConcurrencyLimit>) -> Option<RequestPermit> {
        Arc::clone(limit).acquire().now_or_never()
    }

    #[tokio::test]
    async fn turns_are_admitted_in_the_order_of_arrival() {
        let limit = ConcurrencyLimit::new(Some(1));
        let first = acquire_now(&limit).unwrap();
        let (second, third) = (
            tokio::spawn(Arc::clone(&limit).acquire()),
            tokio::spawn(Arc::clone(&limit).acquire()),
        );
        yield_now().await;
        assert!(limit.try_acquire().is_none());
        drop(first);
        let second = second.await.unwrap();
        yield_now().await;
        assert!(!third.is_finished());
        drop(second);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn a_turn_that_leaves_the_queue_does_not_block_the_next() {
        let limit = ConcurrencyLimit::new(Some(1));
        let first = acquire_now(&limit).unwrap();
        let gone = tokio::spawn(Arc::clone(&limit).acquire());
        let next = tokio::spawn(Arc::clone(&limit).acquire());
        yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(first);
        next.await.unwrap();
        assert!(acquire_now(&limit).is_some());
    }

    #[test]
    fn without_a_limit_no_turn_waits() {
        let limit = ConcurrencyLimit::new(None);
        let taken: Vec<RequestPermit> = (0..1_000).filter_map(|_| acquire_now(&limit)).collect();
        assert_eq!(taken.len(), 1_000);
    }

    #[test]
    fn a_smaller_limit_is_reached_as_turns_end() {
        let limit = ConcurrencyLimit::new(None);
        let mut taken: Vec<RequestPermit> = (0..4).filter_map(|_| acquire_now(&limit)).collect();
        limit.set_limit(Some(2));
        for _ in 0..2 {
            assert!(acquire_now(&limit).is_none());
            taken.pop();
        }
        assert!(acquire_now(&limit).is_none());
        taken.pop();
        assert!(acquire_now(&limit).is_some());
    }

    #[tokio::test]
    async fn a_greater_limit_admits_waiting_turns() {
        let limit = ConcurrencyLimit::new(Some(3));
        let taken: Vec<RequestPermit> = (0..3).filter_map(|_| acquire_now(&limit)).collect();
        limit.set_limit(Some(1));
        let next = tokio::spawn(Arc::clone(&limit).acquire());
        yield_now().await;
        limit.set_limit(Some(3));
        yield_now().await;
        assert!(!next.is_finished(), "all three are still taken");
        limit.set_limit(Some(4));
        let next = next.await.unwrap();
        drop(taken);
        let free: Vec<RequestPermit> = (0..9).filter_map(|_| acquire_now(&limit)).collect();
        assert_eq!(free.len(), 3);
        drop(next);
    }
}
