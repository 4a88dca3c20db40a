//! Bundles: files with recorded turns. `docs/bundles.md` describes the format.
//!
//! | module | what it does |
//! |---|---|
//! | `turn` | the data of one turn, as `turn.json` stores it |
//! | `manifest`, `entry` | `bundle.json`, and the names of the entries |
//! | `write`, `read`, `check` | pack a bundle; unpack an untrusted one and check it |
//! | `folder` | the stored bundles of a server |
//! | `show`, `diff`, `compare` | a report for people; the differences of two turns |
//! | `fixture` | a golden test case made of an attempt |

mod check;
mod compare;
mod diff;
mod entry;
mod error;
pub mod folder;
mod manifest;
mod read;
mod show;
#[cfg(test)]
mod tests;
mod timestamp;
mod turn;
mod write;

#[cfg(test)]
pub(crate) use tests::sample;

pub(in crate::diagnostics) use check::MAX_LIST_LENGTH;
pub use compare::{Difference, Scope, compare};
pub use diff::diff;
pub use error::BundleError;
pub use folder::{BundleFolder, RetentionLimits, StoredBundle};
pub use show::show;
pub(super) use turn::is_local;
pub use turn::{
    BodyChunk, BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead, BundleTurn,
    OmittedPart, RerunReport,
};

/// The contents of one file, in memory. It has no `Debug`: it contains conversations.
#[derive(Clone, Default, PartialEq)]
pub struct Bundle {
    /// The version of the program that made the bundle.
    pub made_by: String,
    /// Whether images are whole; otherwise a hash replaces each.
    pub images: bool,
    /// Whether encrypted contents are whole; otherwise a hash replaces each.
    pub encrypted: bool,
    /// At least one turn, oldest first.
    pub turns: Vec<BundleTurn>,
}

/// The format version that is written, and the only one that can be read.
const FORMAT_VERSION: u64 = 3;
/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum size of the unpacked tar in bytes.
const MAX_TAR_BYTES: u64 = 512 << 20;
/// Maximum size of one `turn.json` in bytes. Parsing it takes a multiple of that in
/// memory.
const MAX_TURN_JSON_BYTES: u64 = 64 << 20;
const MAX_TURNS: usize = 1000;
const MAX_ATTEMPTS: usize = 1000;
/// Maximum window of the decompressor, as a power of two. Every compression level of
/// `zstd` up to 19 stays within it.
const MAX_WINDOW_LOG: u32 = 23;
