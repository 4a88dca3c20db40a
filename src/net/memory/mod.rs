//! The memory that requests, answers and what is remembered may take: one budget for the process.
//!
//! Whatever may grow holds a [`MemoryShare`], or is a store that is asked for its size. Only new
//! work is refused: [`MemoryShare::request`] waits a moment for room, in turn by owner. What a
//! running turn needs it gets ([`MemoryShare::set`]), and limits of their own bound it: the size of
//! an answer, and those of each store.
//!
//! If several owners use the server, the last part of the budget is for those who hold little
//! ([`super::fairness`]).
//!
//! | module | contents |
//! |---|---|
//! | `waiting` | those who wait for memory, and whose turn it is |
//! | `counted` | values that hold the share of their bytes |

mod counted;
mod waiting;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use strum::{EnumCount, EnumIter, IntoStaticStr};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

pub use self::counted::{CountedValue, SharedMemory};
use self::waiting::WaitingShares;
use super::fairness::Sharing;

/// Shares are counted in steps of this many bytes, so that what is small costs nothing.
pub(crate) const STEP: usize = 64 * 1024;
/// A share of at most the budget divided by this is small, as that of a usual turn.
const SMALL_PART: usize = 128;
/// Small shares are granted to everybody until only this part of the budget is left.
const LAST_PART: usize = 8;
/// How long new work waits for room.
const WAIT: Duration = Duration::from_secs(3);
/// How often new work that waits looks again: stores do not tell when they shrink.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MemoryKind {
    /// Bodies of requests: those of clients, what they continue, and what is sent to providers for
    /// them.
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

/// The budget of a process, made at its start; clones are the same budget. What is taken through a
/// handle counts for the owner that it is for, see [`Self::of_owner`].
#[derive(Clone)]
pub struct ProcessMemory {
    budget: Arc<Budget>,
    account: Arc<OwnerAccount>,
}

struct Budget {
    limit: AtomicUsize,
    sharing: Sharing,
    shares: [AtomicUsize; MemoryKind::COUNT],
    stores: RwLock<Vec<(MemoryKind, StoreSize)>>,
    accounts: Mutex<BTreeMap<Arc<str>, Arc<OwnerAccount>>>,
    waiting: Mutex<WaitingShares>,
    /// Notified when a share shrinks.
    freed: Notify,
}

/// What one owner holds. Lives as long as the budget: owners are few.
#[derive(Default)]
struct OwnerAccount {
    held: AtomicUsize,
    /// How many wait.
    waiting: AtomicUsize,
}

/// Tells the size of a store in bytes.
type StoreSize = Box<dyn Fn() -> usize + Send + Sync>;

/// The budget has no room for new work of this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryFull {
    /// Others use it.
    #[error("the memory for requests is in use; send the request again in a few seconds")]
    InUse,
    /// It never has. Both in bytes.
    #[error(
        "this needs {} MiB of memory and may take {} MiB; enlarge memory in [server]",
        needed.div_ceil(1 << 20),
        most >> 20
    )]
    TooLarge {
        /// What is needed.
        needed: usize,
        /// The most that one owner may have.
        most: usize,
    },
}

impl ProcessMemory {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            budget: Arc::new(Budget {
                limit: AtomicUsize::new(limit),
                sharing: Sharing::default(),
                shares: Default::default(),
                stores: RwLock::default(),
                accounts: Mutex::default(),
                waiting: Mutex::default(),
                freed: Notify::new(),
            }),
            account: Arc::default(),
        }
    }

    /// A budget that is never used up.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// The same budget for an owner.
    #[must_use]
    pub fn of_owner(&self, owner: &str) -> Self {
        let mut accounts = self.budget.accounts.lock();
        let account = match accounts.get(owner) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(accounts.entry(owner.into()).or_default()),
        };
        Self {
            budget: Arc::clone(&self.budget),
            account,
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.budget.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit, for new work from now on.
    pub fn set_limit(&self, limit: usize) {
        self.budget.limit.store(limit, Ordering::Relaxed);
        self.budget.freed.notify_waiters();
    }

    /// Whether several owners may use the server.
    pub fn sharing(&self) -> &Sharing {
        &self.budget.sharing
    }

    /// Counts a store: `size` tells its bytes, and must not wait.
    pub fn add_store(&self, kind: MemoryKind, size: impl Fn() -> usize + Send + Sync + 'static) {
        self.budget.stores.write().push((kind, Box::new(size)));
    }

    /// The bytes in use for this.
    pub fn used_for(&self, kind: MemoryKind) -> usize {
        let stores = self.budget.stores.read();
        let stores = stores.iter().filter(|(of, _)| *of == kind);
        let stored: usize = stores.map(|(_, size)| size()).sum();
        stored.saturating_add(self.held(kind).load(Ordering::Relaxed))
    }

    /// The bytes in use for everything.
    pub fn used(&self) -> usize {
        let held = self.budget.shares.iter();
        let held = held.map(|share| share.load(Ordering::Relaxed));
        let stores = self.budget.stores.read();
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
        CountedValue::new(bytes, SharedMemory::new(share)).into_bytes()
    }

    /// Whether the budget holds what is counted now, to which the last change added `growth`, and
    /// still has the part that other owners need. A small share may take from that part, so that an
    /// owner's usual turns go on beside their large requests.
    fn fits(&self, growth: usize) -> bool {
        let (limit, used) = (self.limit(), self.used());
        let held = || self.account.held.load(Ordering::Relaxed);
        self.sharing().allows(limit, used, held)
            || self.is_small(growth) && used <= limit - limit / LAST_PART
    }

    fn is_small(&self, bytes: usize) -> bool {
        bytes <= (self.limit() / SMALL_PART).max(2 * STEP)
    }

    #[expect(clippy::indexing_slicing, reason = "there is a counter for each kind")]
    fn held(&self, kind: MemoryKind) -> &AtomicUsize {
        &self.budget.shares[kind as usize]
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
        Arc::ptr_eq(&self.budget, &other.budget)
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

    /// Changes the share to about `bytes` bytes, for work that goes on whatever the limit.
    pub fn set(&mut self, bytes: usize) {
        let before = self.bytes;
        self.count(bytes);
        if self.bytes < before {
            self.memory.budget.freed.notify_waiters();
        }
    }

    fn count(&mut self, bytes: usize) {
        let bytes = bytes - bytes % STEP;
        let counter = self.memory.held(self.kind);
        let held = &self.memory.account.held;
        if bytes > self.bytes {
            counter.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            counter.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Enlarges the share to about `bytes` bytes for new work. One that has nothing yet waits some
    /// seconds, if need be, until the budget has room and those of the owner who came before have
    /// theirs. Work that holds memory does not wait for more, because others would do the same and
    /// none could go on.
    pub async fn request(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        let has_some = self.bytes > 0;
        if has_some || self.is_first() || self.memory.is_small(bytes) {
            let grown = self.grow(bytes);
            if has_some || grown.is_ok() {
                return grown;
            }
        }
        self.check_size(bytes)?;
        let memory = self.memory.clone();
        let mut granted = memory.wait_for_share(self.kind, bytes);
        let until = Instant::now() + WAIT;
        let is_granted = loop {
            let mut freed = std::pin::pin!(memory.budget.freed.notified());
            freed.as_mut().enable();
            memory.serve_waiting();
            match granted.try_recv() {
                Ok(share) => {
                    *self = share;
                    break true;
                }
                Err(_) if Instant::now() >= until => break false,
                // Whether it was notified or not, it looks again.
                Err(_) => {
                    let next = until.min(Instant::now() + LOOK_AGAIN);
                    let _ = timeout_at(next, freed).await;
                }
            }
        };
        if is_granted {
            Ok(())
        } else {
            Err(MemoryFull::InUse)
        }
    }

    /// Enlarges the share to about `bytes` bytes if the budget has room now.
    pub fn grow(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        let before = self.bytes;
        if bytes < before.saturating_add(STEP) {
            return Ok(());
        }
        self.count(bytes);
        if self.memory.fits(bytes - before) {
            return Ok(());
        }
        // Nothing became free, so no task is woken.
        self.count(before);
        self.check_size(bytes)?;
        Err(MemoryFull::InUse)
    }

    /// Refuses what never fits.
    fn check_size(&self, bytes: usize) -> Result<(), MemoryFull> {
        let most = self.memory.sharing().most_of_owner(self.memory.limit());
        if bytes > most {
            return Err(MemoryFull::TooLarge {
                needed: bytes,
                most,
            });
        }
        Ok(())
    }

    /// Whether no other task of the same owner waits.
    fn is_first(&self) -> bool {
        self.memory.account.waiting.load(Ordering::Relaxed) == 0
    }

    /// Takes about `bytes` bytes out of the share.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let taken = bytes.min(self.bytes);
        let taken = taken - taken % STEP;
        self.bytes -= taken;
        Self {
            memory: self.memory.clone(),
            kind: self.kind,
            bytes: taken,
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn new_work_is_refused_beyond_the_limit_and_running_work_goes_on() {
        let memory = ProcessMemory::new(10 * MIB);
        let mut running = memory.share(MemoryKind::Answers);
        running.request(8 * MIB).await.unwrap();
        running.set(12 * MIB);
        assert_eq!(memory.used(), 12 * MIB);
        let mut new = memory.share(MemoryKind::Requests);
        assert_eq!(new.request(MIB).await, Err(MemoryFull::InUse));
        assert_eq!(memory.used_for(MemoryKind::Requests), 0);
        drop(running);
        assert_eq!(new.request(MIB).await, Ok(()));
        assert_eq!(memory.used(), MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn new_work_waits_for_memory_that_becomes_free() {
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

    #[tokio::test(start_paused = true)]
    async fn a_small_request_does_not_wait_behind_large_ones_of_its_owner() {
        let memory = ProcessMemory::new(100 * MIB);
        memory.sharing().set(true);
        let alice = memory.of_owner("alice");
        let mut large = alice.share(MemoryKind::Requests);
        large.request(75 * MIB).await.unwrap();
        let mut waiting = alice.share(MemoryKind::Requests);
        let waiting = tokio::spawn(async move { waiting.request(10 * MIB).await });
        tokio::task::yield_now().await;
        let mut small = alice.share(MemoryKind::Requests);
        assert_eq!(small.grow(MIB / 2), Ok(()));
        let mut next = alice.share(MemoryKind::Requests);
        let before = Instant::now();
        assert_eq!(next.request(MIB / 2).await, Ok(()));
        assert_eq!(before.elapsed(), Duration::ZERO);
        // The last part is for those who hold little.
        let mut many = alice.share(MemoryKind::Requests);
        for bytes in (0..20 * MIB).step_by(MIB / 2) {
            let _ = many.grow(bytes);
        }
        assert!(memory.used() <= 88 * MIB, "{} bytes", memory.used());
        let mut other = memory.of_owner("bob").share(MemoryKind::Requests);
        assert_eq!(other.request(8 * MIB).await, Ok(()));
        assert_eq!(waiting.await.unwrap(), Err(MemoryFull::InUse));
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
