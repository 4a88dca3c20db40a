//! What was found out about outputs before: a long session brings the same long
//! outputs with every request.

use std::sync::Arc;

use super::output::Measure;

/// Remembers what is a function of its name alone: it saves work and changes no
/// plan. It may forget whatever it likes.
pub trait Memo {
    /// The name of a text: no two texts may share one.
    fn name(&self, text: &str) -> u128;
    /// What was found out under a name.
    fn get(&self, name: u128) -> Option<Found>;
    /// Keeps what was found out.
    fn put(&self, name: u128, found: Found);
}

/// What took a look at all of an output.
#[derive(Clone, Debug)]
pub enum Found {
    /// What it is, and whether it was read back of an artifact.
    Measure(Arc<Measure>, bool),
    /// What is shown of it.
    Shown(Arc<str>),
}

/// Remembers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

impl Memo for Forgetful {
    fn name(&self, _: &str) -> u128 {
        0
    }

    fn get(&self, _: u128) -> Option<Found> {
        None
    }

    fn put(&self, _: u128, _: Found) {}
}
