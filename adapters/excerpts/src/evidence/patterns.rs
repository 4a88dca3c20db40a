//! How many units differ in numbers only, in a table of a fixed size.

/// The most bits of the index of a slot.
const MAX_BITS: u32 = 14;

/// The upper bits of an entry: the tag, which tells patterns apart that have the same slot. The
/// others are the count.
const TAG_MASK: u32 = 0xfff0_0000;
const COUNT_MASK: u32 = !TAG_MASK;

/// The counts of the patterns of one text. Of several patterns with the same slot the first one is
/// counted.
pub(super) struct PatternCounts {
    /// One entry for each slot: a tag and a count.
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
        u32::try_from(pattern & 0xfff).unwrap_or_default() << TAG_MASK.trailing_zeros()
    }

    #[inline]
    pub(super) fn count(&mut self, pattern: u64) {
        let (slot, tag) = (self.slot(pattern), Self::tag(pattern));
        if let Some(entry) = self.entries.get_mut(slot) {
            if *entry & COUNT_MASK == 0 {
                *entry = tag | 1;
            } else if *entry & TAG_MASK == tag && *entry & COUNT_MASK != COUNT_MASK {
                *entry += 1;
            }
        }
    }

    /// How many units have this pattern; `None` if it was not counted, as when another one has its
    /// slot.
    pub(super) fn of(&self, pattern: u64) -> Option<u32> {
        let entry = self.entries.get(self.slot(pattern))?;
        let count = entry & COUNT_MASK;
        (count > 0 && entry & TAG_MASK == Self::tag(pattern)).then_some(count)
    }

    /// How many patterns occurred once.
    pub(super) fn singles(&self) -> u32 {
        let singles = self
            .entries
            .iter()
            .filter(|entry| **entry & COUNT_MASK == 1);
        u32::try_from(singles.count()).unwrap_or(u32::MAX)
    }
}
