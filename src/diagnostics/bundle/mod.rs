//! Turns in a file: see `docs/bundles.md`.

mod check;
mod compare;
mod diff;
mod entry;
mod error;
mod fixture;
pub mod folder;
mod manifest;
mod pretty;
mod read;
#[cfg(test)]
pub(crate) mod sample;
mod show;
#[cfg(test)]
mod tests;
mod timestamp;
mod turn;
mod write;

pub use compare::{Difference, Scope, compare};
pub use diff::diff;
pub use error::BundleError;
pub use fixture::{FixtureError, Written, to_fixture};
pub use folder::{BundleFolder, RetentionLimits, StoredBundle};
pub use show::show;
pub use turn::{
    BodyChunk, BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead, BundleTurn,
    OmittedPart,
};

/// What one file holds. Without `Debug`: it holds what was said.
#[derive(Clone, Default, PartialEq)]
pub struct Bundle {
    /// The version of the program that made it.
    pub made_by: String,
    /// Whether images are kept whole; else a filler with their hash stands in
    /// their place.
    pub images: bool,
    /// The same of encrypted contents.
    pub encrypted: bool,
    /// At least one.
    pub turns: Vec<BundleTurn>,
}

/// The layout that is written. Every layout from 1 to this one is read.
const FORMAT_VERSION: u64 = 1;
/// Bytes of the file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Bytes of the tar in it.
const MAX_TAR_BYTES: u64 = 512 << 20;
/// Bytes of one `turn.json`: reading it takes a multiple of them.
const MAX_TURN_JSON_BYTES: u64 = 64 << 20;
const MAX_TURNS: usize = 1000;
const MAX_ATTEMPTS: usize = 1000;
/// Of the memory that decompressing takes, as a power of two. Every level of
/// `zstd` up to 19 keeps to it.
const MAX_WINDOW_LOG: u32 = 23;
