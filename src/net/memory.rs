//! The memory that requests, answers and what is remembered may take: one budget for the process.
//!
//! Whatever may grow holds a [`MemoryShare`], or is a store that is asked for its size. Only new
//! work is refused: [`MemoryShare::request`] waits a moment for room. What a running turn needs it
//! gets ([`MemoryShare::set`]), and limits of their own bound it: the size of an answer, and those
//! of each store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use strum::{EnumCount, EnumIter, IntoStaticStr};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Shares are counted in steps of this many bytes, so that what is small costs nothing.
pub(crate) const STEP: usize = 64 * 1024;
/// How long new work waits for room.
const WAIT: Duration = Duration::from_secs(3);
/// How often new work that waits looks again: stores do not tell when they shrink.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MemoryKind {
    /// Bodies of requests: those of clients, and what is sent to providers for them.
    Requests,
    /// Answers in the making, and those that clients have not taken yet.
    Answers,
    /// Recorded turns.
    Recordings,
    /// What is remembered of sessions and outputs, artifacts that are not on disk, and what the
    /// connections of the database cache.
    Memories,
}

impl MemoryKind {
    /// The label in the metrics.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// The budget of a process. Made at its start; clones are the same budget.
#[derive(Clone)]
pub struct ProcessMemory(Arc<Budget>);

struct Budget {
    limit: AtomicUsize,
    shares: [AtomicUsize; MemoryKind::COUNT],
    stores: RwLock<Vec<(MemoryKind, StoreSize)>>,
    /// Notified when a share shrinks.
    freed: Notify,
}

/// Tells the size of a store in bytes.
type StoreSize = Box<dyn Fn() -> usize + Send + Sync>;

/// The budget has no room for new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory for requests is in use; send the request again in a few seconds")]
pub struct MemoryFull;

impl ProcessMemory {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Budget {
            limit: AtomicUsize::new(limit),
            shares: Default::default(),
            stores: RwLock::default(),
            freed: Notify::new(),
        }))
    }

    /// A budget that is never used up.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit, for new work from now on.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
        self.0.freed.notify_waiters();
    }

    /// Counts a store: `size` tells its bytes, and must not wait.
    pub fn add_store(&self, kind: MemoryKind, size: impl Fn() -> usize + Send + Sync + 'static) {
        self.0.stores.write().push((kind, Box::new(size)));
    }

    /// The bytes in use for this.
    pub fn used_for(&self, kind: MemoryKind) -> usize {
        let stores = self.0.stores.read();
        let stores = stores.iter().filter(|(of, _)| *of == kind);
        let stored: usize = stores.map(|(_, size)| size()).sum();
        stored.saturating_add(self.held(kind).load(Ordering::Relaxed))
    }

    /// The bytes in use for everything.
    pub fn used(&self) -> usize {
        let held = self.0.shares.iter();
        let held = held.map(|share| share.load(Ordering::Relaxed));
        let stores = self.0.stores.read();
        let stored = stores.iter().map(|(_, size)| size());
        held.chain(stored).fold(0, usize::saturating_add)
    }

    /// A share that has no bytes yet.
    pub fn share(&self, kind: MemoryKind) -> MemoryShare {
        MemoryShare {
            memory: self.clone(),
            kind,
            bytes: 0,
        }
    }

    /// The same bytes, which count as long as anybody holds them.
    pub fn count_bytes(&self, kind: MemoryKind, bytes: Bytes) -> Bytes {
        if bytes.len() < STEP {
            return bytes;
        }
        let mut share = self.share(kind);
        share.set(bytes.len());
        Bytes::from_owner(CountedBytes {
            bytes,
            _share: share,
        })
    }

    #[expect(clippy::indexing_slicing, reason = "there is a counter for each kind")]
    fn held(&self, kind: MemoryKind) -> &AtomicUsize {
        &self.0.shares[kind as usize]
    }
}

impl fmt::Debug for ProcessMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessMemory")
            .field("limit", &self.limit())
            .field("used", &self.used())
            .finish()
    }
}

/// The same budget.
impl PartialEq for ProcessMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProcessMemory {}

/// A part of the budget. Its bytes are free again when it is dropped.
#[derive(Debug)]
pub struct MemoryShare {
    memory: ProcessMemory,
    kind: MemoryKind,
    /// What is counted: a multiple of [`STEP`].
    bytes: usize,
}

impl MemoryShare {
    /// The budget that it is a part of.
    pub fn memory(&self) -> &ProcessMemory {
        &self.memory
    }

    /// Changes the share to about so many bytes, for work that goes on whatever the limit.
    pub fn set(&mut self, bytes: usize) {
        let before = self.bytes;
        self.count(bytes);
        if self.bytes < before {
            self.memory.0.freed.notify_waiters();
        }
    }

    fn count(&mut self, bytes: usize) {
        let bytes = bytes - bytes % STEP;
        let counter = self.memory.held(self.kind);
        if bytes > self.bytes {
            counter.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            counter.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Enlarges the share to about so many bytes for new work, if need be after a wait of some
    /// seconds until the budget has room.
    pub async fn request(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        if self.try_request(bytes) {
            return Ok(());
        }
        let until = Instant::now() + WAIT;
        while Instant::now() < until {
            let memory = self.memory.clone();
            let mut freed = std::pin::pin!(memory.0.freed.notified());
            freed.as_mut().enable();
            if self.try_request(bytes) {
                return Ok(());
            }
            // Whether it was notified or not, it looks again.
            let _ = timeout_at(until.min(Instant::now() + LOOK_AGAIN), freed).await;
        }
        if self.try_request(bytes) {
            Ok(())
        } else {
            Err(MemoryFull)
        }
    }

    fn try_request(&mut self, bytes: usize) -> bool {
        let before = self.bytes;
        if bytes < before + STEP {
            return true;
        }
        self.count(bytes);
        let fits = self.memory.used() <= self.memory.limit();
        if !fits {
            // Nothing became free, so nobody is told.
            self.count(before);
        }
        fits
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

struct CountedBytes {
    bytes: Bytes,
    _share: MemoryShare,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn r32_new_work_is_refused_beyond_the_limit_and_running_work_goes_on() {
        let memory = ProcessMemory::new(10 * MIB);
        let mut running = memory.share(MemoryKind::Answers);
        running.request(8 * MIB).await.unwrap();
        running.set(12 * MIB);
        assert_eq!(memory.used(), 12 * MIB);
        let mut new = memory.share(MemoryKind::Requests);
        assert_eq!(new.request(MIB).await, Err(MemoryFull));
        assert_eq!(memory.used_for(MemoryKind::Requests), 0);
        drop(running);
        assert_eq!(new.request(MIB).await, Ok(()));
        assert_eq!(memory.used(), MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn r32_new_work_waits_for_memory_that_becomes_free() {
        let memory = ProcessMemory::new(10 * MIB);
        let mut held = memory.share(MemoryKind::Answers);
        held.set(10 * MIB);
        let mut new = memory.share(MemoryKind::Requests);
        let waiting = tokio::spawn(async move { new.request(2 * MIB).await });
        tokio::task::yield_now().await;
        held.set(7 * MIB);
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn stores_count_and_may_shrink_without_a_word() {
        let memory = ProcessMemory::new(10 * MIB);
        let stored = Arc::new(AtomicUsize::new(10 * MIB));
        let size = Arc::clone(&stored);
        memory.add_store(MemoryKind::Memories, move || size.load(Ordering::Relaxed));
        assert_eq!(memory.used_for(MemoryKind::Memories), 10 * MIB);
        let mut new = memory.share(MemoryKind::Requests);
        let waiting = tokio::spawn(async move { new.request(MIB).await });
        tokio::task::yield_now().await;
        stored.store(0, Ordering::Relaxed);
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[test]
    fn what_is_small_is_not_counted() {
        let memory = ProcessMemory::new(0);
        let mut share = memory.share(MemoryKind::Requests);
        share.set(STEP - 1);
        assert_eq!(memory.used(), 0);
        let bytes = memory.count_bytes(MemoryKind::Answers, vec![0; 2 * STEP].into());
        let part = bytes.slice(..1);
        drop(bytes);
        assert_eq!(memory.used_for(MemoryKind::Answers), 2 * STEP);
        drop(part);
        assert_eq!(memory.used(), 0);
    }
}
