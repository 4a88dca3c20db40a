//! The ids under which calls go.

use std::collections::{HashMap, HashSet};

use crate::turn::Item;

/// The longest id that providers accept.
const LIMIT: usize = 64;

/// The ids of the calls so far.
#[derive(Default)]
pub(super) struct Ids {
    taken: HashSet<String>,
    /// How often an id was of no use.
    useless: HashMap<String, u32>,
}

impl Ids {
    /// A new id for a call whose own cannot be used. It depends on the call and
    /// on how many before it had the same trouble, so that it stays the same
    /// while the history grows.
    pub(super) fn mint(&mut self, call: &Item<'_>) -> Option<String> {
        let own = call.call_id().unwrap_or_default().into_owned();
        if is_sound(&own) && self.taken.insert(own.clone()) {
            return None;
        }
        let name = call.name().unwrap_or_default();
        let times = self.useless.entry(own.clone()).or_default();
        loop {
            *times += 1;
            let id = format!(
                "call_{:08x}",
                crc32fast::hash(format!("{own}\n{name}\n{times}").as_bytes())
            );
            if self.taken.insert(id.clone()) {
                return Some(id);
            }
        }
    }
}

/// Why a call did not keep its id, as the code of a note.
pub(super) fn trouble(call: &Item<'_>) -> &'static str {
    match call.call_id() {
        Some(own) if is_sound(&own) => "call_id_repeated",
        Some(own) if !own.is_empty() => "call_id_too_long",
        Some(_) | None => "call_id_missing",
    }
}

fn is_sound(id: &str) -> bool {
    !id.is_empty() && id.chars().nth(LIMIT).is_none()
}
