//! How much of the outputs is sent.
//!
//! Within a limit an output stays byte for byte, beyond it an excerpt stands for it.
//! All outputs together have a share of the window; when they outgrow it the oldest
//! become notices, many at once, so that the bytes of a history seldom change
//! ([`replay`]). A round that is too large by itself is tightened ([`share`]). The
//! numbers come first, the texts that follow from them last ([`render`]).

mod entry;
mod known;
mod limits;
mod render;
mod replay;
mod share;
#[cfg(test)]
mod tests;
mod weigh;

use super::{Bounds, Memo, Placed, Plan};
use crate::turn::Turn;

use entry::Entry;
use known::Known;
use limits::Limits;
use replay::Replay;

impl Plan {
    /// Bounds the outputs of the sequence.
    pub(super) fn bound(&mut self, turn: &Turn<'_>, bounds: &Bounds, memo: &dyn Memo) {
        let Some(limits) = Limits::of(bounds) else {
            return;
        };
        let mut known = Known::new(memo);
        let mut replay = Replay::new(&limits, weigh::head(turn));
        for placed in &self.sequence {
            match placed {
                Placed::Answer(answer) => replay.answer(weigh::answer(answer, turn, bounds)),
                Placed::Interrupted(_) => replay.other(weigh::FRAME),
                Placed::Omitted(text) => replay.other(text.len() + weigh::FRAME),
                Placed::Message(index) => {
                    let shown = self.shown(*index).map(str::len);
                    let own = || turn.items.get(*index).map(weigh::message);
                    replay.other(shown.or_else(own).unwrap_or_default());
                }
                Placed::Result(index) | Placed::Stray(index) => {
                    let Some(item) = turn.items.get(*index) else {
                        continue;
                    };
                    let (entry, media) = Entry::read(*index, item, &limits, &mut known);
                    replay.other(weigh::result(item) + media);
                    if let Some(entry) = entry {
                        replay.output(entry);
                    }
                }
            }
        }
        replay.request();
        self.epochs = replay.epochs;
        for entry in &replay.entries {
            let Some(item) = turn.items.get(entry.item) else {
                continue;
            };
            let call_id = self.call_id(turn, entry.item);
            let shown = render::shown(entry, item, &call_id, &limits, bounds.keeping, &mut known);
            if let Some(shown) = shown {
                self.shown.insert(entry.item, shown);
            }
        }
    }
}
