//! How many requests a provider gets at once. Turns wait in the order in which
//! they came.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one provider; its limit may change while they are taken.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    semaphore: Arc<Semaphore>,
    state: Mutex<LimitState>,
}

#[derive(Debug)]
struct LimitState {
    limit: usize,
    /// Places above the limit that are still taken; they go when given back.
    surplus: usize,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub struct RequestPermit {
    permit: Option<OwnedSemaphorePermit>,
    limit: Arc<ConcurrencyLimit>,
}

impl ConcurrencyLimit {
    /// Without a limit the places are still counted, for a limit to come.
    pub(super) fn new(limit: Option<u32>) -> Arc<Self> {
        let limit = permits(limit);
        Arc::new(Self {
            semaphore: Arc::new(Semaphore::new(limit)),
            state: Mutex::new(LimitState { limit, surplus: 0 }),
        })
    }

    /// Waits for a place. To drop the future is to leave the queue.
    pub(super) async fn acquire(self: Arc<Self>) -> RequestPermit {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await;
        RequestPermit {
            // The semaphore is never closed.
            permit: permit.ok(),
            limit: self,
        }
    }

    /// A place that is free now, if nobody waits for it.
    #[cfg(test)]
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<RequestPermit> {
        let permit = Arc::clone(&self.semaphore).try_acquire_owned().ok()?;
        Some(RequestPermit {
            permit: Some(permit),
            limit: Arc::clone(self),
        })
    }

    /// Follows a new limit: a greater one lets waiting turns in, a smaller one
    /// is reached as turns end.
    pub(super) fn set_limit(&self, limit: Option<u32>) {
        let limit = permits(limit);
        let mut size = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if limit > size.limit {
            let more = limit - size.limit;
            let kept = more.min(size.surplus);
            size.surplus -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = size.limit - limit;
            size.surplus += fewer - self.semaphore.forget_permits(fewer);
        }
        size.limit = limit;
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
        let places = &self.limit;
        let mut size = places.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permit) = self.permit.take()
            && let Some(less) = size.surplus.checked_sub(1)
        {
            size.surplus = less;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::yield_now;

    use super::*;

    fn now(places: &Arc<ConcurrencyLimit>) -> Option<RequestPermit> {
        Arc::clone(places).acquire().now_or_never()
    }

    #[tokio::test]
    async fn turns_wait_in_their_order() {
        let places = ConcurrencyLimit::new(Some(1));
        let first = now(&places).unwrap();
        let (second, third) = (
            tokio::spawn(Arc::clone(&places).acquire()),
            tokio::spawn(Arc::clone(&places).acquire()),
        );
        yield_now().await;
        assert!(places.try_acquire().is_none());
        drop(first);
        let second = second.await.unwrap();
        yield_now().await;
        assert!(!third.is_finished());
        drop(second);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn who_leaves_the_queue_holds_nobody_up() {
        let places = ConcurrencyLimit::new(Some(1));
        let first = now(&places).unwrap();
        let gone = tokio::spawn(Arc::clone(&places).acquire());
        let next = tokio::spawn(Arc::clone(&places).acquire());
        yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(first);
        next.await.unwrap();
        assert!(now(&places).is_some());
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let places = ConcurrencyLimit::new(None);
        let taken: Vec<RequestPermit> = (0..1_000).filter_map(|_| now(&places)).collect();
        assert_eq!(taken.len(), 1_000);
    }

    #[test]
    fn a_smaller_limit_is_reached_as_turns_end() {
        let places = ConcurrencyLimit::new(None);
        let mut taken: Vec<RequestPermit> = (0..4).filter_map(|_| now(&places)).collect();
        places.set_limit(Some(2));
        for _ in 0..2 {
            assert!(now(&places).is_none());
            taken.pop();
        }
        assert!(now(&places).is_none());
        taken.pop();
        assert!(now(&places).is_some());
    }

    #[tokio::test]
    async fn a_greater_limit_lets_waiting_turns_in() {
        let places = ConcurrencyLimit::new(Some(3));
        let taken: Vec<RequestPermit> = (0..3).filter_map(|_| now(&places)).collect();
        places.set_limit(Some(1));
        let next = tokio::spawn(Arc::clone(&places).acquire());
        yield_now().await;
        places.set_limit(Some(3));
        yield_now().await;
        assert!(!next.is_finished(), "all three are still taken");
        places.set_limit(Some(4));
        let next = next.await.unwrap();
        drop(taken);
        let free: Vec<RequestPermit> = (0..9).filter_map(|_| now(&places)).collect();
        assert_eq!(free.len(), 3);
        drop(next);
    }
}
