//! Turns in a file: see `docs/bundles.md`.

mod check;
mod compare;
mod diff;
mod entry;
mod error;
pub mod folder;
mod manifest;
mod pretty;
mod read;
#[cfg(test)]
pub(crate) mod sample;
mod show;
mod stamp;
#[cfg(test)]
mod tests;
mod turn;
mod write;

pub use compare::{Difference, Scope, compare};
pub use diff::diff;
pub use error::BundleError;
pub use folder::{Folder, Kept, Limits};
pub use show::show;
pub use turn::{Answer, Attempt, Head, Omitted, Piece, Request, Turn};

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
    pub turns: Vec<Turn>,
}

/// Bytes of the file.
const MOST_COMPRESSED: u64 = 256 << 20;
/// Bytes of the tar in it.
const MOST_BYTES: u64 = 512 << 20;
/// Bytes of one `turn.json`: reading it takes a multiple of them.
const MOST_JSON: u64 = 64 << 20;
const MOST_TURNS: usize = 1000;
const MOST_ATTEMPTS: usize = 1000;
/// Of the memory that decompressing takes, as a power of two. Every level of
/// `zstd` up to 19 keeps to it.
const WINDOW_LOG: u32 = 23;
