//! Pages of lists: they end by number and by bytes.

use super::reading::StoreRead;
use super::{ListPage, StoreError};

/// A page ends with the entry that brings it to this many bytes, whatever the client asked for: a
/// hundred entries may have gigabytes.
pub(super) const PAGE_BYTES: usize = 8 << 20;
/// The copies of an entry that are made of it for the answer: its form in the list, and the answer.
pub(super) const COPIES: usize = 2;

/// The entries of a page so far.
pub(super) struct StoredPage<T> {
    pub(super) entries: Vec<T>,
    limit: usize,
    bytes: usize,
    max_bytes: usize,
}

impl<T> StoredPage<T> {
    /// A page without entries, which ends at `max_bytes` bytes.
    pub(super) fn new(page: &ListPage, max_bytes: usize) -> Self {
        Self {
            entries: Vec::new(),
            limit: page.limit,
            bytes: 0,
            max_bytes,
        }
    }

    /// Reads another entry; `read` returns its bytes. False if the page is full, or there is no
    /// memory for another entry.
    pub(super) fn add(
        &mut self,
        reading: &StoreRead<'_>,
        read: impl FnOnce(&StoreRead<'_>) -> Result<(T, usize), StoreError>,
    ) -> Result<bool, StoreError> {
        if self.entries.len() >= self.limit || self.bytes >= self.max_bytes {
            return Ok(false);
        }
        let before = reading.reserved();
        let entry = read(reading).and_then(|(entry, bytes)| {
            reading.reserve(bytes.saturating_mul(COPIES))?;
            Ok((entry, bytes))
        });
        match entry {
            Ok((entry, bytes)) => {
                self.bytes = self.bytes.saturating_add(bytes);
                self.entries.push(entry);
                Ok(true)
            }
            Err(StoreError::NoMemory { .. }) if !self.entries.is_empty() => {
                reading.give_back(reading.reserved() - before);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
