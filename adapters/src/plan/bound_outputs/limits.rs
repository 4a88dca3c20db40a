//! How much of a window tool outputs may take.

use crate::plan::output::{ExcerptStyle, MAX_EXCERPT_CHARS};
use crate::plan::{Bounds, OutputPolicy, Retention};

/// The maximum bytes of a notice.
pub(super) const NOTICE_BYTES: usize = 200;

/// When the excerpts of a round that is too large are shortened, none gets fewer bytes
/// than this, unless there is no room for this much of each.
pub(super) const MIN_EXCERPT_BYTES: usize = 1_000;

/// The most bytes of all outputs of a request together, about 100,000 tokens, however large the
/// window is: every output that a request repeats is paid for again.
const MAX_ALL_OUTPUTS: usize = 400_000;

/// The bytes of the newest outputs that stay when the older ones become notices because repeating
/// them costs too much: some 3,000 to 5,500 tokens.
const MIN_RECENT: usize = 12_000;
const MAX_RECENT: usize = 20_000;

/// The most characters of a result of a tool of the proxy that a plan does not shorten, if its
/// bytes fit as well: such a tool bounds its results itself.
pub const MAX_PROXY_TOOL_CHARS: usize = 16_000;

/// The limits for one window, in bytes unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputLimits {
    /// Characters up to which an output is sent whole.
    pub(super) whole_chars: usize,
    /// Bytes up to which it is sent whole. They matter where characters take several
    /// bytes.
    pub(super) whole_bytes: usize,
    /// The same for files that were read: agents change them by exact text.
    pub(super) file_chars: usize,
    pub(super) file_bytes: usize,
    /// Bytes up to which a result of a tool that runs in the proxy is sent whole, if it has no more
    /// than [`MAX_PROXY_TOOL_CHARS`].
    pub(super) proxy_tool_bytes: usize,
    /// Instructions up to this many bytes are sent whole, longer ones not at all.
    pub(super) instructions: usize,
    pub(super) excerpt_chars: usize,
    pub(super) excerpt_style: ExcerptStyle,
    /// All outputs together.
    pub(super) all_outputs: usize,
    /// How much of them an epoch leaves.
    pub(super) after_epoch: usize,
    /// The newest outputs, which an epoch leaves that is made because it is worth it.
    pub(super) recent: usize,
    /// The texts that were read back from artifacts in one round.
    pub(super) read_back: usize,
    /// The part of the notices that counts against `all_outputs`. There is one notice
    /// for each call; when the calls alone fill the window, the client has to compact.
    pub(super) notices: usize,
    /// The whole input, outputs included.
    pub(super) input: usize,
    /// How much outputs may take however full the window is.
    pub(super) min_outputs: usize,
    /// More than this cannot fit the window, however few tokens a text has.
    pub(super) max_whole: usize,
}

impl OutputLimits {
    /// `None` where outputs are not limited.
    pub(super) fn of(bounds: &Bounds) -> Option<Self> {
        let window = bounds.window_bytes();
        let (whole_chars, whole_bytes, excerpt_chars, excerpt_style) = match bounds.outputs {
            OutputPolicy::Whole => return None,
            OutputPolicy::Fixed => (4_000, usize::MAX, MAX_EXCERPT_CHARS, ExcerptStyle::Fixed),
            OutputPolicy::Adaptive => {
                let share = window.saturating_mul(6) / 100;
                let chars = share.clamp(4_000, 24_000);
                // Enough for 4,000 characters of any script.
                let bytes = share.max(4 * 4_000);
                let excerpt = (window / 170).clamp(2_000, MAX_EXCERPT_CHARS);
                (chars, bytes, excerpt, ExcerptStyle::Adaptive)
            }
        };
        let (file_chars, file_bytes) = match excerpt_style {
            ExcerptStyle::Fixed => (whole_chars, whole_bytes),
            ExcerptStyle::Adaptive => {
                let share = window.saturating_mul(8) / 100;
                (share.clamp(whole_chars, 50_000), share.max(whole_bytes))
            }
        };
        let proxy_tool_bytes = whole_bytes.max(window / 6);
        let all_outputs = (window / 2).min(MAX_ALL_OUTPUTS);
        let allowance = bounds.bytes_for(bounds.window.output_allowance());
        Some(Self {
            whole_chars,
            whole_bytes,
            file_chars,
            file_bytes,
            proxy_tool_bytes,
            instructions: match excerpt_style {
                ExcerptStyle::Fixed => whole_chars,
                ExcerptStyle::Adaptive => window / 8,
            },
            excerpt_chars,
            excerpt_style,
            all_outputs,
            after_epoch: all_outputs / 2,
            recent: match bounds.retention {
                Retention::Disk | Retention::Memory => (window / 16).clamp(MIN_RECENT, MAX_RECENT),
                Retention::Nothing => usize::MAX,
            },
            read_back: all_outputs / 2,
            notices: all_outputs / 4,
            input: window.saturating_sub(allowance),
            min_outputs: window / 32,
            max_whole: max_whole(bounds),
        })
    }

    /// The limits where outputs are shortened only if the window forces it.
    pub(super) fn forced(&self) -> Self {
        Self {
            whole_chars: usize::MAX,
            whole_bytes: usize::MAX,
            file_chars: usize::MAX,
            file_bytes: usize::MAX,
            instructions: usize::MAX,
            all_outputs: self.input,
            after_epoch: self.input / 2,
            recent: usize::MAX,
            read_back: self.input,
            ..*self
        }
    }

    /// How much outputs may take in a request that has `others` bytes of other input.
    pub(super) fn available_beside(&self, others: usize) -> usize {
        self.room_beside(others).min(self.all_outputs)
    }

    /// How much of them the window can hold.
    pub(super) fn room_beside(&self, others: usize) -> usize {
        self.input.saturating_sub(others).max(self.min_outputs)
    }
}

/// Bytes of text in a token, at most; a text has fewer, except for long runs of one character.
const MAX_BYTES_PER_TOKEN: f64 = 4.5;

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a limit; no window has 2^52 tokens"
)]
fn max_whole(bounds: &Bounds) -> usize {
    (bounds.window.max_input() as f64 * MAX_BYTES_PER_TOKEN) as usize
}
