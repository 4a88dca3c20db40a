//! The point in a session after which outputs are no longer shortened.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::turn::Item;

/// Outputs are fingerprinted by their length and this many bytes from each end. To hash all of
/// every output would take too long.
const HASHED_END: usize = 256;

/// Hashes the length and the ends of a text.
pub fn hash_ends(hash: &mut Xxh3, text: &[u8]) {
    hash.update(&text.len().to_le_bytes());
    hash.update(text.get(..HASHED_END).unwrap_or(text));
    let end = text.len().saturating_sub(HASHED_END);
    hash.update(text.get(end..).unwrap_or_default());
}

/// No outputs are added to more marks than this; the last batch may exceed it.
const MAX_MARKS: usize = 512;

/// The point in a session after which outputs are shortened only where the window forces it. What
/// was sent before stays as it was sent. Made from the newest requests of the session, when
/// shortening has turned out to cost more than it saves; kept as long as the session is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct UnshortenedFrom {
    /// The outputs that were sent before, sorted. A history without any of them began later, and
    /// all of it is sent whole.
    sent: Vec<OutputMark>,
    /// The list was cut. A history without any of its outputs may be older than it, so it is still
    /// shortened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_partial: bool,
}

/// What an output is recognized by in later requests: a hash of its call id, its length and its
/// ends, and of the same of all outputs before it. So it also says that a history begins like
/// another one: many clients number their calls, so that two histories often have equal outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct OutputMark(u64);

impl OutputMark {
    /// The mark of an item after the output with this mark; `None` if it is no output.
    pub fn of(item: &Item<'_>, before: Option<Self>) -> Option<Self> {
        let output = item.output()?.get().as_bytes();
        let mut hash = Xxh3::with_seed(before.map_or(0, |before| before.0));
        let id = item.call_id().unwrap_or_default();
        hash.update(&id.len().to_le_bytes());
        hash.update(id.as_bytes());
        hash_ends(&mut hash, output);
        Some(Self(hash.digest()))
    }
}

impl UnshortenedFrom {
    /// The point after these histories of a session, each with the marks of its outputs in their
    /// order. If there are too many outputs, the newest ones of each history are known.
    pub fn after<'m>(histories: impl IntoIterator<Item = &'m [OutputMark]>) -> Self {
        let histories: Vec<_> = histories.into_iter().collect();
        let longest = histories.iter().map(|marks| marks.len()).max();
        let newest = |back: usize| {
            let marks = histories.iter();
            marks.filter_map(move |marks| marks.iter().rev().nth(back).copied())
        };
        let (mut sent, mut is_partial) = (BTreeSet::new(), false);
        for back in 0..longest.unwrap_or_default() {
            sent.extend(newest(back));
            if sent.len() > MAX_MARKS {
                is_partial = true;
                break;
            }
        }
        Self {
            sent: sent.into_iter().collect(),
            is_partial,
        }
    }

    /// How many of these outputs, which are in their order, were sent before.
    pub(super) fn sent_before(&self, marks: &[OutputMark]) -> usize {
        let is_known = |mark: &OutputMark| self.sent.binary_search(mark).is_ok();
        let known = marks.iter().rposition(is_known).map(|last| last + 1);
        known.unwrap_or(if self.is_partial { marks.len() } else { 0 })
    }
}
