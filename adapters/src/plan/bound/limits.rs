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
        let (whole, excerpt, style) = match bounds.outputs {
            Outputs::Whole => return None,
            Outputs::Fixed => (4_000, VISIBLE, Style::Fixed),
            Outputs::Adaptive => {
                let whole = (window.saturating_mul(6) / 100).clamp(4_000, 40_000);
                (whole, VISIBLE.min(whole), Style::Adaptive)
            }
        };
        let allowance = bounds.bytes(bounds.window.output_allowance());
        Some(Self {
            whole,
            counts_header: bounds.outputs == Outputs::Fixed,
            excerpt,
            style,
            visible: window / 2,
            after_epoch: window / 4,
            read_back: window / 4,
            notices: window / 8,
            // A little stays free for what no raw length tells: the form of the
            // messages, escapes, and the prompt that asks for a summary.
            input: window - allowance.min(window) - window / 64,
            least: window / 32,
        })
    }

    /// What outputs may take beside `others` bytes of other input.
    pub(super) fn beside(&self, others: usize) -> usize {
        let room = self.input.saturating_sub(others);
        room.clamp(self.least, self.visible)
    }
}
