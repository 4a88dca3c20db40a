//! Which item an event of the upstream belongs to.
//!
//! OpenAI sends the id and the index of the item with every event. Others leave one of them
//! out, change the ids between the events of an item, or give several items one index
//! (seen of Copilot's gateway, llama.cpp and LiteLLM). An id that is known decides, then the
//! index, then the item that is open.

use std::collections::HashMap;

/// The most items of one answer.
pub(super) const MAX_ITEMS: usize = 20_000;

/// The slots of the items of one answer. Made with the decoder.
#[derive(Debug, Default)]
pub(super) struct ItemSlots {
    by_id: HashMap<String, u32>,
    by_index: HashMap<u32, u32>,
    /// Whether the item of each slot is complete.
    ended: Vec<bool>,
}

impl ItemSlots {
    /// A slot for an item that begins; `None` if it has begun already.
    pub(super) fn add(&mut self, index: Option<u32>, id: &str) -> Option<u32> {
        let known = self.by_id.get(id).copied();
        let at_index = index.and_then(|index| self.by_index.get(&index).copied());
        if known.is_some() && (index.is_none() || known == at_index) {
            return None;
        }
        Some(self.new_slot(index, id))
    }

    /// The slot of an item that is complete. One that did not begin gets a new slot.
    pub(super) fn end(&mut self, index: Option<u32>, id: &str) -> u32 {
        let open = |slot: &u32| !self.is_ended(*slot);
        let found = self
            .by_id
            .get(id)
            .copied()
            .or_else(|| self.by_index.get(&index?).copied())
            .filter(open)
            .or_else(|| {
                self.last_open()
                    .filter(|_| index.is_none() && id.is_empty())
            });
        let slot = found.unwrap_or_else(|| self.new_slot(index, id));
        self.set_ended(slot);
        slot
    }

    /// The slot of an item that ends although its end does not tell what it is.
    pub(super) fn end_open(&mut self, index: Option<u32>, id: &str) -> Option<u32> {
        let slot = self.find(index, id)?;
        self.set_ended(slot);
        Some(slot)
    }

    /// The slot of the item that an event belongs to.
    pub(super) fn find(&self, index: Option<u32>, id: &str) -> Option<u32> {
        self.by_id
            .get(id)
            .copied()
            .or_else(|| self.by_index.get(&index?).copied())
            .or_else(|| self.last_open())
            .filter(|slot| !self.is_ended(*slot))
    }

    /// How many items have begun.
    pub(super) fn len(&self) -> usize {
        self.ended.len()
    }

    /// The slots of the items that are not complete, in their order, with the position of
    /// each among all items.
    pub(super) fn take_open(&mut self) -> Vec<(usize, u32)> {
        let open: Vec<_> = self
            .ended
            .iter()
            .enumerate()
            .filter(|(_, ended)| !**ended)
            .filter_map(|(at, _)| Some((at, u32::try_from(at).ok()?)))
            .collect();
        self.ended.fill(true);
        open
    }

    fn new_slot(&mut self, index: Option<u32>, id: &str) -> u32 {
        // An answer is bounded, and an item has more than one byte.
        let slot = u32::try_from(self.ended.len()).unwrap_or(u32::MAX);
        self.ended.push(false);
        if !id.is_empty() {
            self.by_id.insert(id.to_owned(), slot);
        }
        if let Some(index) = index {
            self.by_index.insert(index, slot);
        }
        slot
    }

    fn last_open(&self) -> Option<u32> {
        let last = u32::try_from(self.ended.len()).ok()?.checked_sub(1)?;
        (!self.is_ended(last)).then_some(last)
    }

    fn is_ended(&self, slot: u32) -> bool {
        let at = usize::try_from(slot).unwrap_or(usize::MAX);
        self.ended.get(at).copied().unwrap_or(true)
    }

    fn set_ended(&mut self, slot: u32) {
        let at = usize::try_from(slot).unwrap_or(usize::MAX);
        if let Some(ended) = self.ended.get_mut(at) {
            *ended = true;
        }
    }
}
