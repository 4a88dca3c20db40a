//! The entries of a bundle and their names. A name from a file is only compared and
//! shown, never used as a path. Turns and attempts are numbered from 1.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::BundleTurn;
use crate::secrets::constant_regex;

/// The name of the first entry.
pub(super) const MANIFEST: &str = "bundle.json";

/// The names of all entries that a bundle can have.
static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    constant_regex(
        r"(?x-u)\A(?: bundle\.json | turns/[1-9][0-9]*/(?:
              (?: turn | request | plan )\.json
            | attempts/[1-9][0-9]*/(?: request\.json | answer )
            | answer
        ))\z",
    )
});

/// Whether a bundle can have an entry of this name.
pub(super) fn is_entry(name: &[u8]) -> bool {
    NAMES.is_match(name)
}

/// The name of the metadata of a turn.
pub(super) fn turn_json(turn: usize) -> String {
    format!("turns/{turn}/turn.json")
}

impl BundleTurn {
    /// The names of the entries after the `turn.json` of this turn, in the order of the file.
    pub(super) fn body_names(&self, turn: usize) -> Vec<String> {
        let of_attempts = (1..=self.attempts.len()).flat_map(|attempt| {
            ["request.json", "answer"].map(|body| format!("attempts/{attempt}/{body}"))
        });
        let first = ["request.json", "plan.json"].map(str::to_owned).into_iter();
        let all = first.chain(of_attempts).chain(["answer".to_owned()]);
        all.map(|name| format!("turns/{turn}/{name}")).collect()
    }

    /// The contents of the entries of [`Self::body_names`], in their order.
    pub(crate) fn bodies(&self) -> Vec<&Vec<u8>> {
        let attempts = self.attempts.iter();
        let attempts = attempts.flat_map(|attempt| [&attempt.body, &attempt.answer]);
        let bodies = [&self.request.body, &self.plan].into_iter().chain(attempts);
        bodies.chain([&self.answer.body]).collect()
    }

    /// Like [`Self::bodies`], to be filled.
    pub(super) fn bodies_mut(&mut self) -> Vec<&mut Vec<u8>> {
        let attempts = self.attempts.iter_mut();
        let attempts = attempts.flat_map(|attempt| [&mut attempt.body, &mut attempt.answer]);
        let bodies = [&mut self.request.body, &mut self.plan];
        let bodies = bodies.into_iter().chain(attempts);
        bodies.chain([&mut self.answer.body]).collect()
    }

    /// Frees the memory of all bodies.
    pub(crate) fn clear_bodies(&mut self) {
        for body in self.bodies_mut() {
            *body = Vec::new();
        }
    }
}
