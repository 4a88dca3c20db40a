//! Gives each call an id that providers accept and that no other call of the request has.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::turn::Item;

/// The longest call id, in characters, that all providers accept.
const MAX_CHARS: usize = 64;

/// The ids of the calls so far.
#[derive(Default)]
pub(super) struct CallIdAllocator {
    taken: HashSet<String>,
    /// For each call id that could not be used: how many ids were minted instead.
    minted: HashMap<String, u32>,
}

impl CallIdAllocator {
    /// A new id for a call whose own id cannot be used; `None` if its own is used. The
    /// new id depends on the call and on how many calls before it had the same unusable
    /// id, so that it stays the same while the history grows.
    pub(super) fn mint(&mut self, call: &Item<'_>) -> Option<String> {
        let own = call.call_id().unwrap_or_default().into_owned();
        if is_acceptable(&own) && self.taken.insert(own.clone()) {
            return None;
        }
        let name = call.name().unwrap_or_default();
        let count = self.minted.entry(own.clone()).or_default();
        *count += 1;
        let mut hash = crc32fast::hash(format!("{own}\n{name}\n{count}").as_bytes());
        let mut id = format!("call_{hash:08x}");
        while !self.taken.insert(id.clone()) {
            // Ids with one checksum are easily made, and would collide again and again.
            *count += 1;
            let digest = Sha256::digest(format!("{own}\n{name}\n{count}"));
            hash = u32::from_be_bytes(digest.first_chunk().copied().unwrap_or_default());
            id = format!("call_{hash:08x}");
        }
        Some(id)
    }
}

/// The code of the note about a call that did not keep its own id.
pub(super) fn minted_id_note(call: &Item<'_>) -> &'static str {
    match call.call_id() {
        Some(own) if is_acceptable(&own) => "call_id_repeated",
        Some(own) if !own.is_empty() => "call_id_too_long",
        Some(_) | None => "call_id_missing",
    }
}

fn is_acceptable(id: &str) -> bool {
    !id.is_empty() && id.chars().nth(MAX_CHARS).is_none()
}
