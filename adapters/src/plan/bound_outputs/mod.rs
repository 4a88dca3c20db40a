//! Decides how much of each tool output is sent: the long-term limit on outputs, which
//! holds for every request of a session, even for one that would fit the window.
//!
//! Within a limit an output is sent byte for byte; a longer one is sent as an excerpt.
//! All outputs together have a share of the window. When they outgrow it, the oldest
//! become one-line notices, many at once (an *epoch*), so that the bytes of a history
//! rarely change. A round of outputs that is too large by itself is shortened further.
//!
//! [`replay`] goes through the session with sizes only ([`estimate`], [`limits`]), and [`tighten`]
//! shortens a round; [`savings`] pay for an epoch that the window does not force; each output is a
//! [`BoundedOutput`]. The replacement texts are made last, in [`render`].
//!
//! [`super::fit_window`], which runs after this, is the other limit: it cuts one request
//! that is still too long for the window.

mod bounded_output;
mod estimate;
mod limits;
mod origin;
mod output_reader;
mod render;
mod replay;
mod savings;
#[cfg(test)]
mod tests;
mod tighten;

use std::collections::{BTreeSet, VecDeque};

use super::{Bounds, OutputMark, Plan, PlanCache, SequenceEntry};
use crate::turn::Turn;

use bounded_output::BoundedOutput;
pub use limits::MAX_PROXY_TOOL_CHARS;
use limits::OutputLimits;
use origin::Origin;
use output_reader::OutputReader;
use replay::Replay;
use savings::Savings;

/// Whether the output of the call with this index may be instructions to an agent.
pub(super) fn reads_instructions(turn: &Turn<'_>, call: usize) -> bool {
    let origin = Origin {
        call: Some(call),
        message: None,
    };
    origin.is_instructions(turn)
}

impl Plan {
    /// The outputs of the sequence: the place of each, and its mark.
    fn mark_outputs(&self, turn: &Turn<'_>) -> Vec<(usize, OutputMark)> {
        let mut before = None;
        let entries = self.sequence.iter().enumerate();
        let outputs = entries.filter_map(|(position, entry)| {
            let item = turn.items.get(entry.output()?)?;
            let mark = OutputMark::of(item, before)?;
            before = Some(mark);
            Some((position, mark))
        });
        outputs.collect()
    }

    /// Decides for each output of the sequence how it is sent, and adds the replacements.
    pub(super) fn bound_outputs(
        &mut self,
        turn: &Turn<'_>,
        bounds: &Bounds,
        cache: &dyn PlanCache,
        unkept: &BTreeSet<String>,
    ) {
        let Some(limits) = OutputLimits::of(bounds) else {
            return;
        };
        let forced = limits.forced();
        let (positions, marks): (Vec<_>, Vec<_>) = self.mark_outputs(turn).into_iter().unzip();
        // The place from which on outputs are sent whole: after the last one that was sent before.
        let point = bounds.unshortened_from.as_ref().map(|from| {
            let last = from.sent_before(&marks).checked_sub(1);
            let last = last.and_then(|last| positions.get(last));
            last.map_or(0, |position| position + 1)
        });
        self.output_marks = marks;
        let limits_at = |position: usize| match point {
            Some(point) if position >= point => &forced,
            Some(_) | None => &limits,
        };
        let mut current = limits_at(0);
        let mut reader = OutputReader::new(cache, &turn.stop);
        let savings = Savings::new(bounds.cached_price, limits.max_whole);
        let mut replay = Replay::new(current, estimate::fixed_input_size(turn), savings);
        let mut message = None;
        // The calls of the last answer whose results have not come yet.
        let mut calls = VecDeque::new();
        for (position, entry) in self.sequence.iter().enumerate() {
            if turn.stop.is_raised() {
                return;
            }
            match entry {
                SequenceEntry::Answer(answer) => {
                    calls = answer.calls.iter().copied().collect();
                    replay.add_answer(estimate::answer_size(answer, turn, bounds));
                    current = limits_at(position);
                    replay.set_limits(current);
                }
                SequenceEntry::Interrupted(_) => {
                    calls.pop_front();
                    replay.add_other(estimate::MESSAGE_FRAME);
                }
                SequenceEntry::Omitted(text) => {
                    replay.add_other(text.len() + estimate::MESSAGE_FRAME);
                }
                SequenceEntry::Message(index) => {
                    if turn.items.get(*index).is_some_and(|it| it.role() == "user") {
                        message = Some(*index);
                    }
                    let replaced = self.replacement_text(*index).map(str::len);
                    let own = || turn.items.get(*index).map(estimate::message_size);
                    replay.add_other(replaced.or_else(own).unwrap_or_default());
                }
                SequenceEntry::Result(index) | SequenceEntry::Stray(index) => {
                    let Some(item) = turn.items.get(*index) else {
                        continue;
                    };
                    let call = match entry {
                        SequenceEntry::Result(_) => calls.pop_front(),
                        _ => None,
                    };
                    let origin = Origin { call, message };
                    let (output, media) = BoundedOutput::from_item(
                        (*index, item),
                        (turn, origin),
                        current,
                        &mut reader,
                    );
                    replay.add_other(estimate::result_frame_size(item) + media);
                    if let Some(output) = output {
                        replay.add_output(output);
                    }
                }
            }
        }
        replay.decide_request();
        self.epochs = replay.epochs;
        for output in &replay.outputs {
            if turn.stop.is_raised() {
                return;
            }
            let Some(item) = turn.items.get(output.item) else {
                continue;
            };
            let call_id = self.call_id(turn, output.item);
            let replacement = render::replacement(
                output,
                item,
                (&call_id, turn),
                &limits,
                (bounds.retention, unkept),
                &mut reader,
            );
            if let Some(replacement) = replacement {
                self.replacements.insert(output.item, replacement);
            }
        }
    }
}
