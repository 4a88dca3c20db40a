//! Bundles: what is kept of a turn, and the turn that is run again from it.
mod corpus;

use libtest_mimic::Trial;

/// All of them.
pub fn trials() -> Vec<Trial> {
    corpus::trials()
}
