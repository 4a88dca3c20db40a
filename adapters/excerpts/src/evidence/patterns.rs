//! How many units differ in numbers only, in a table of a fixed size.

/// The most bits of a place in the table.
const MAX_BITS: u32 = 14;

/// The part of an entry that tells patterns apart that have the same place.
const TAG: u32 = 0xfff0_0000;

/// The counts of the patterns of one text. Of several patterns with the same place the first one
/// is counted.
pub(super) struct PatternCounts {
    /// The tag of a pattern and how often it occurred.
    entries: Vec<u32>,
    shift: u32,
}

impl PatternCounts {
    /// An empty table for a text of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let bits = (bytes / 16).max(1).ilog2().clamp(6, MAX_BITS);
        Self {
            entries: vec![0; 1 << bits],
            shift: 64 - bits,
        }
    }

    fn slot(&self, pattern: u64) -> usize {
        usize::try_from(pattern >> self.shift).unwrap_or_default()
    }

    fn tag(pattern: u64) -> u32 {
        u32::try_from(pattern & 0xfff).unwrap_or_default() << TAG.trailing_zeros()
    }

    #[inline]
    pub(super) fn count(&mut self, pattern: u64) {
        let (slot, tag) = (self.slot(pattern), Self::tag(pattern));
        if let Some(entry) = self.entries.get_mut(slot) {
            if *entry & !TAG == 0 {
                *entry = tag | 1;
            } else if *entry & TAG == tag && *entry & !TAG != !TAG {
                *entry += 1;
            }
        }
    }

    /// How many units have this pattern; `None` if another one has its place.
    pub(super) fn of(&self, pattern: u64) -> Option<u32> {
        let entry = self.entries.get(self.slot(pattern))?;
        let count = entry & !TAG;
        (count > 0 && entry & TAG == Self::tag(pattern)).then_some(count)
    }

    /// How many patterns occurred once.
    pub(super) fn singles(&self) -> u32 {
        let singles = self.entries.iter().filter(|entry| **entry & !TAG == 1);
        u32::try_from(singles.count()).unwrap_or(u32::MAX)
    }
}
