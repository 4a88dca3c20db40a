//! The excerpt of minified assets, base64 and binary data: only their beginning.

use super::line_cut::first_chars;
use super::{ExcerptBody, ExcerptInput};

/// The maximum characters of the beginning.
const MAX_CHARS: usize = 240;

pub(super) fn excerpt_body(input: ExcerptInput<'_>) -> ExcerptBody {
    let limit = MAX_CHARS.min(input.room.saturating_sub(90));
    let head = first_chars(input.text, limit);
    let clean: String = head
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    ExcerptBody {
        text: format!("Minified, encoded or binary. It begins:\n{clean}…\n"),
        chars: head.chars().count(),
        lines: 0,
    }
}
