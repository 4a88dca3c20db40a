//! Shortens the outputs of a round that is too large by itself.

use super::bounded_output::{BoundedOutput, OutputForm};
use super::limits::{MIN_EXCERPT_BYTES, NOTICE_BYTES, OutputLimits};

/// Takes `excess` bytes from the outputs of a round, but nothing from texts that were
/// read back. Each output keeps the length of an excerpt, or, if that is too much, of a
/// short one; bytes to spare go to the newest first. If there is no room even for short
/// excerpts, the oldest become notices.
pub(super) fn tighten(round: &mut [BoundedOutput], excess: usize, limits: &OutputLimits) {
    let mut outputs: Vec<&mut BoundedOutput> = round
        .iter_mut()
        .filter(|output| !output.is_read_back)
        .collect();
    let sum: usize = outputs.iter().map(|output| output.size()).sum();
    let room = sum.saturating_sub(excess);
    for minimum in [MinimumSize::Excerpt, MinimumSize::ShortExcerpt] {
        if let Some(spare) = room.checked_sub(minimum.sum(&outputs, limits)) {
            return distribute(&mut outputs, spare, minimum, limits);
        }
    }
    let mut needed = MinimumSize::ShortExcerpt.sum(&outputs, limits);
    let newest = outputs.len().saturating_sub(1);
    let mut notices = 0;
    for output in outputs.iter_mut().take(newest) {
        if needed <= room {
            break;
        }
        needed -= MinimumSize::ShortExcerpt.of(output, limits);
        output.demote();
        needed += output.size();
        notices += 1;
    }
    let rest = outputs.get_mut(notices..).unwrap_or_default();
    let spare = room.saturating_sub(needed);
    distribute(rest, spare, MinimumSize::ShortExcerpt, limits);
}

/// The bytes of a round if all outputs that are longer than an excerpt become excerpts.
pub(super) fn size_as_excerpts(round: &[BoundedOutput], limits: &OutputLimits) -> usize {
    let one = |output: &BoundedOutput| {
        if output.is_read_back {
            output.size()
        } else {
            MinimumSize::Excerpt.of(output, limits)
        }
    };
    round.iter().map(one).sum()
}

/// How much each output of a round keeps at least.
#[derive(Clone, Copy)]
enum MinimumSize {
    Excerpt,
    ShortExcerpt,
}

impl MinimumSize {
    fn of(self, output: &BoundedOutput, limits: &OutputLimits) -> usize {
        let minimum = match self {
            _ if output.is_instructions => NOTICE_BYTES,
            Self::Excerpt => output.excerpt_cap(limits).bytes,
            Self::ShortExcerpt => MIN_EXCERPT_BYTES,
        };
        output.size().min(minimum)
    }

    fn sum(self, outputs: &[&mut BoundedOutput], limits: &OutputLimits) -> usize {
        outputs.iter().map(|output| self.of(output, limits)).sum()
    }
}

/// Gives each output its minimum, and the spare bytes to the newest first.
fn distribute(
    outputs: &mut [&mut BoundedOutput],
    mut spare: usize,
    minimum: MinimumSize,
    limits: &OutputLimits,
) {
    for output in outputs.iter_mut().rev() {
        let least = minimum.of(output, limits);
        let more = output.size() - least;
        if more <= spare {
            spare -= more;
            continue;
        }
        if output.is_instructions {
            output.demote();
            continue;
        }
        let longest = output.excerpt_cap(limits).bytes;
        let bytes = least.saturating_add(spare).min(longest).max(NOTICE_BYTES);
        spare -= bytes.saturating_sub(least).min(spare);
        output.form = OutputForm::Excerpt(output.cap_for_bytes(bytes));
    }
}
