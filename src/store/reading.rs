//! One read of the database: it asks for memory before it takes anything into memory, and stops
//! when its result is not wanted any more.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Row};

use super::{
    ArtifactEntry, ArtifactText, JobEntry, StoreError, UsageKey, UsageSum, WaitingDelivery,
};
use super::{FoundPrompt, LearnedRow, SpentRow, StoredConversation, StoredRatio, WholeSession};
use crate::net::memory::{CountedValue, MemoryKind, ProcessMemory, SharedMemory};

/// A connection that reads, and the memory of what it reads. Lives as long as one transaction.
pub(super) struct StoreRead<'c> {
    connection: &'c Connection,
    memory: SharedMemory,
    reserved: Cell<usize>,
    stop: &'c AtomicBool,
}

impl<'c> StoreRead<'c> {
    /// A read with a share that may have bytes already. It ends when `stop` is true.
    pub(super) fn new(
        connection: &'c Connection,
        memory: &SharedMemory,
        stop: &'c AtomicBool,
    ) -> Self {
        Self {
            connection,
            memory: memory.clone(),
            reserved: Cell::new(0),
            stop,
        }
    }

    /// A read of a program that has no budget: of a command, for example.
    pub(super) fn without_budget(connection: &'c Connection) -> Self {
        static GOES_ON: AtomicBool = AtomicBool::new(false);
        let share = ProcessMemory::unlimited().share(MemoryKind::Requests);
        Self::new(connection, &SharedMemory::new(share), &GOES_ON)
    }

    /// Makes sure that there is memory for `bytes` more bytes. The error says how much the whole
    /// read needs, so that it can wait for that and begin again.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), StoreError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped);
        }
        let total = self.reserved.get().saturating_add(bytes);
        self.memory
            .grow(total)
            .map_err(|full| StoreError::NoMemory {
                needed: total,
                full,
            })?;
        self.reserved.set(total);
        Ok(())
    }

    /// Takes back what was reserved for the last bytes, which were not used.
    pub(super) fn give_back(&self, bytes: usize) {
        self.reserved.set(self.reserved.get().saturating_sub(bytes));
    }

    /// The bytes that were reserved.
    pub(super) fn reserved(&self) -> usize {
        self.reserved.get()
    }

    /// A text that was read, with the share of the whole read.
    pub(super) fn counted(&self, text: String) -> CountedValue<String> {
        CountedValue::new(text, self.memory.clone())
    }

    /// The text in a column.
    pub(super) fn text(&self, row: &Row<'_>, column: usize) -> Result<String, StoreError> {
        let text = row.get_ref(column)?.as_str();
        let text = text.map_err(rusqlite::Error::from)?;
        self.reserve(text.len())?;
        Ok(text.to_owned())
    }
}

impl Deref for StoreRead<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// What is small whatever is stored, and needs no share.
pub(super) trait Small {}

impl Small for bool {}
impl Small for u64 {}
impl Small for FoundPrompt {}
impl Small for StoredConversation {}
impl Small for ArtifactEntry {}
// It holds the share of its text itself.
impl Small for ArtifactText {}
impl Small for JobEntry {}
impl Small for SpentRow {}
impl Small for StoredRatio {}
// The owner and the id of a job.
impl Small for (String, String) {}
impl Small for WaitingDelivery {}
impl Small for WholeSession {}
// The evidence in it is cut.
impl Small for LearnedRow {}
impl Small for (UsageKey, UsageSum) {}
impl<T: Small> Small for Option<T> {}
impl<T: Small> Small for Vec<T> {}
