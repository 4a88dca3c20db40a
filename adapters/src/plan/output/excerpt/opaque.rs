//! What no reader wants more of: minified assets, base64, binary data.

use super::cut::{chars, first_chars};
use super::{Part, Task};

/// Characters that are shown.
const SHOWN: usize = 240;

pub(super) fn show(task: Task<'_>) -> Part {
    let most = SHOWN.min(task.room.saturating_sub(90));
    let head = first_chars(task.text, most);
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
    Part {
        text: format!("Minified, encoded or binary. It begins:\n{clean}…\n"),
        chars: chars(head),
        lines: 0,
    }
}
