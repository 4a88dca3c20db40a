//! A cache of results for which a whole output had to be read. It pays off because a long
//! session sends the same long outputs with every request.

use std::sync::Arc;

use super::output::OutputMeasure;

/// Remembers results that depend on their key alone. It saves work and never changes a
/// plan, so an implementation may forget entries whenever it likes.
pub trait PlanCache {
    /// The key of a text. Two different texts must never have the same key.
    fn key(&self, text: &str) -> u128;
    /// The entry under this key.
    fn get(&self, key: u128) -> Option<CachedOutput>;
    /// Stores an entry.
    fn put(&self, key: u128, entry: CachedOutput);
}

/// A result for which a whole output had to be read.
#[derive(Clone, Debug)]
pub enum CachedOutput {
    /// The measure of the output, and whether it was read back from an artifact.
    Measure(Arc<OutputMeasure>, bool),
    /// The text that is sent instead of the output.
    Replacement(Arc<str>),
}

/// A cache that remembers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl PlanCache for NoCache {
    fn key(&self, _: &str) -> u128 {
        0
    }

    fn get(&self, _: u128) -> Option<CachedOutput> {
        None
    }

    fn put(&self, _: u128, _: CachedOutput) {}
}
