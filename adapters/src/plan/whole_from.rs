//! From where on a session gets its outputs whole, although they are long.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::turn::Item;

/// The bytes at each end of an output by which, together with its length, it is told from others.
const HASHED_END: usize = 256;

/// The most histories of one session that a [`WholeFrom`] tells apart.
const MAX_HISTORIES: usize = 4;

/// The point in a session from which on outputs are shortened only where the window forces it. What
/// was sent before stays as it was sent. Made from the newest requests of the session, when
/// shortening has turned out to cost more than it saves; kept as long as the session is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(expecting = "struct WholeFrom")]
pub struct WholeFrom {
    /// The newest output of each history that was sent before. A history without any of them began
    /// later, and all of it is sent whole.
    after: [Option<OutputMark>; MAX_HISTORIES],
}

/// What an output is recognized by in later requests: a hash of its call id, its length and its
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(expecting = "struct OutputMark")]
pub struct OutputMark(u64);

impl OutputMark {
    /// The mark of an item; `None` if it is no output.
    pub fn of(item: &Item<'_>) -> Option<Self> {
        let output = item.output()?.get().as_bytes();
        let mut hash = Sha256::new();
        if let Some(id) = item.call_id() {
            hash.update(id.as_bytes());
        }
        hash.update(output.len().to_le_bytes());
        hash.update(output.get(..HASHED_END).unwrap_or(output));
        let end = output.len().saturating_sub(HASHED_END);
        hash.update(output.get(end..).unwrap_or_default());
        let digest = hash.finalize();
        let start = digest.first_chunk::<8>().copied();
        Some(Self(u64::from_le_bytes(start.unwrap_or_default())))
    }
}

impl WholeFrom {
    /// The point after these outputs, the newest ones of the histories of a session.
    pub fn after(newest: impl IntoIterator<Item = OutputMark>) -> Self {
        let mut after = [None; MAX_HISTORIES];
        for (place, mark) in after.iter_mut().zip(newest) {
            *place = Some(mark);
        }
        Self { after }
    }

    /// Whether this item is an output after which the session is sent whole.
    pub(super) fn is_after(&self, item: &Item<'_>) -> bool {
        OutputMark::of(item).is_some_and(|mark| self.after.contains(&Some(mark)))
    }
}
