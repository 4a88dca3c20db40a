//! How much outputs may take of a window.

use crate::plan::output::{Style, VISIBLE};
use crate::plan::{Bounds, Outputs};

/// A notice has at most so many bytes.
pub(super) const NOTICE: usize = 200;

/// No excerpt of a round that is too large has fewer bytes than this, unless there
/// is no room for as much of each.
pub(super) const LEAST: usize = 1_000;

/// The limits of one window. All are bytes unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Characters of an output that stays as it is.
    pub(super) whole: usize,
    /// Bytes of it, which are more where a character has several.
    pub(super) whole_bytes: usize,
    /// Whether the lines that Codex writes above an output count as well.
    pub(super) counts_header: bool,
    /// Characters of an excerpt.
    pub(super) excerpt: usize,
    /// The form of an excerpt.
    pub(super) style: Style,
    /// All outputs together.
    pub(super) visible: usize,
    /// What an epoch leaves of them.
    pub(super) after_epoch: usize,
    /// What is read back in one round.
    pub(super) read_back: usize,
    /// Up to which notices count: there is one a call, and when the calls alone fill
    /// the window it is on the client to compact.
    pub(super) notices: usize,
    /// The input, outputs included.
    pub(super) input: usize,
    /// What outputs may take however full the window is.
    pub(super) least: usize,
}

impl Limits {
    /// `None` where outputs are not bounded.
    pub(super) fn of(bounds: &Bounds) -> Option<Self> {
        let window = bounds.window_bytes();
        let (whole, whole_bytes, excerpt, style) = match bounds.outputs {
            Outputs::Whole => return None,
            Outputs::Fixed => (4_000, usize::MAX, VISIBLE, Style::Fixed),
            Outputs::Adaptive => {
                let share = window.saturating_mul(6) / 100;
                let whole = share.clamp(4_000, 40_000);
                // Enough for 4,000 characters of any script.
                let bytes = share.max(4 * 4_000);
                let excerpt = (window / 200).clamp(2_000, VISIBLE);
                (whole, bytes, excerpt, Style::Adaptive)
            }
        };
        let allowance = bounds.bytes(bounds.window.output_allowance());
        Some(Self {
            whole,
            whole_bytes,
            counts_header: bounds.outputs == Outputs::Fixed,
            excerpt,
            style,
            visible: window / 2,
            after_epoch: window / 4,
            read_back: window / 4,
            notices: window / 8,
            input: window.saturating_sub(allowance),
            least: window / 32,
        })
    }

    /// What outputs may take beside `others` bytes of other input.
    pub(super) fn beside(&self, others: usize) -> usize {
        let room = self.input.saturating_sub(others);
        room.clamp(self.least, self.visible)
    }
}
