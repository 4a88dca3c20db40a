//! The entries of a bundle and their names. A name from a file is only compared and
//! shown, never used as a path.

use std::fmt::{self, Display};
use std::iter::once;

use super::BundleTurn;

/// One entry of a bundle. Turns and attempts are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundleEntry {
    /// `bundle.json`.
    Manifest,
    /// `turn.json`: the metadata of a turn.
    Turn(usize),
    /// The body of the client's request.
    Request(usize),
    /// The plan of the turn's first attempt.
    Plan(usize),
    /// The body of a request to a provider: turn, attempt.
    AttemptRequest(usize, usize),
    /// The body of the provider's response: turn, attempt.
    AttemptAnswer(usize, usize),
    /// The body of the response to the client.
    Answer(usize),
}

impl BundleEntry {
    /// The entries after the `turn.json` of a turn, in the order of the file.
    pub(super) fn bodies(turn: usize, attempts: usize) -> impl Iterator<Item = Self> {
        let of_attempts = (1..=attempts).flat_map(move |attempt| {
            [
                Self::AttemptRequest(turn, attempt),
                Self::AttemptAnswer(turn, attempt),
            ]
        });
        [Self::Request(turn), Self::Plan(turn)]
            .into_iter()
            .chain(of_attempts)
            .chain(once(Self::Answer(turn)))
    }

    /// The entry with this name; `None` if no bundle has one.
    pub(super) fn parse(name: &[u8]) -> Option<Self> {
        let name = str::from_utf8(name).ok()?;
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let parts: Vec<&str> = name.splitn(6, '/').collect();
        let entry = match parts.as_slice() {
            ["bundle.json"] => Self::Manifest,
            ["turns", turn, "turn.json"] => Self::Turn(number(turn)?),
            ["turns", turn, "request.json"] => Self::Request(number(turn)?),
            ["turns", turn, "plan.json"] => Self::Plan(number(turn)?),
            ["turns", turn, "attempts", attempt, "request.json"] => {
                Self::AttemptRequest(number(turn)?, number(attempt)?)
            }
            ["turns", turn, "attempts", attempt, "answer"] => {
                Self::AttemptAnswer(number(turn)?, number(attempt)?)
            }
            ["turns", turn, "answer"] => Self::Answer(number(turn)?),
            _ => return None,
        };
        // Rejects other spellings of a number, such as `01` and `+1`.
        (entry.to_string() == name).then_some(entry)
    }
}

impl Display for BundleEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest => f.write_str("bundle.json"),
            Self::Turn(turn) => write!(f, "turns/{turn}/turn.json"),
            Self::Request(turn) => write!(f, "turns/{turn}/request.json"),
            Self::Plan(turn) => write!(f, "turns/{turn}/plan.json"),
            Self::AttemptRequest(turn, attempt) => {
                write!(f, "turns/{turn}/attempts/{attempt}/request.json")
            }
            Self::AttemptAnswer(turn, attempt) => {
                write!(f, "turns/{turn}/attempts/{attempt}/answer")
            }
            Self::Answer(turn) => write!(f, "turns/{turn}/answer"),
        }
    }
}

impl BundleTurn {
    /// The contents of [`BundleEntry::bodies`], in their order.
    pub(super) fn bodies(&self) -> Vec<&Vec<u8>> {
        let attempts = self.attempts.iter();
        let attempts = attempts.flat_map(|attempt| [&attempt.body, &attempt.answer]);
        let bodies = [&self.request.body, &self.plan].into_iter().chain(attempts);
        bodies.chain([&self.answer.body]).collect()
    }

    /// Frees the memory of all bodies.
    pub(crate) fn clear_bodies(&mut self) {
        self.bodies_mut()
            .into_iter()
            .for_each(|body| *body = Vec::new());
    }

    /// Like [`Self::bodies`], to be filled.
    pub(super) fn bodies_mut(&mut self) -> Vec<&mut Vec<u8>> {
        let attempts = self.attempts.iter_mut();
        let attempts = attempts.flat_map(|attempt| [&mut attempt.body, &mut attempt.answer]);
        let bodies = [&mut self.request.body, &mut self.plan];
        let bodies = bodies.into_iter().chain(attempts);
        bodies.chain([&mut self.answer.body]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_name_is_parsed_back() {
        let all = BundleEntry::bodies(3, 2).chain([BundleEntry::Manifest, BundleEntry::Turn(1000)]);
        for entry in all {
            let name = entry.to_string();
            assert_eq!(BundleEntry::parse(name.as_bytes()), Some(entry), "{name}");
        }
    }

    #[test]
    fn other_names_are_rejected() {
        for name in [
            "",
            "/bundle.json",
            "./bundle.json",
            "bundle.json/",
            "BUNDLE.JSON",
            "turns",
            "turns/1",
            "turns/0/answer",
            "turns/01/answer",
            "turns/+1/answer",
            "turns/-1/answer",
            "turns/99999999999999999999/answer",
            "turns/1/../2/answer",
            "turns/1//answer",
            "turns/1/attempts/1/answer/x",
            "turns/1/attempts/0/answer",
            "../turns/1/answer",
            "turns\\1\\answer",
            "turns/1/answer\0",
        ] {
            assert_eq!(BundleEntry::parse(name.as_bytes()), None, "{name}");
        }
        assert_eq!(BundleEntry::parse(b"turns/1/answer\xff"), None);
    }
}
