//! How much text a request may add beside a stored history.

use crate::item_text::{content_size, message_text};
use crate::turn::{Item, ItemKind, Turn};

/// The most characters of assistant messages that a client sends beside a stored conversation.
const MAX_FORGED_CHARS: usize = 5_000;

/// Leaves assistant messages out of the items that a client sends beside a stored conversation, the
/// oldest first, if they have more than [`MAX_FORGED_CHARS`] characters: the history is what is
/// stored, not what a client says of it.
pub(crate) fn limit_forged_history(items: &mut Vec<Item<'_>>) -> usize {
    let mut left = MAX_FORGED_CHARS;
    let mut is_kept: Vec<bool> = items
        .iter()
        .rev()
        .map(|item| {
            if item.kind != ItemKind::Message || item.role() != "assistant" {
                return true;
            }
            let chars = message_text(item).chars().count();
            let fits = chars <= left;
            left = if fits { left - chars } else { 0 };
            fits
        })
        .collect();
    is_kept.reverse();
    let before = items.len();
    let mut is_kept = is_kept.into_iter();
    items.retain(|_| is_kept.next().unwrap_or(true));
    before - items.len()
}

/// Shortens user messages of text alone that have more characters than the limit. They end with a
/// mark that says so.
pub(crate) fn shorten_messages(turn: &mut Turn<'_>, from: usize, max_chars: usize) {
    for item in turn.items.iter_mut().skip(from) {
        if item.kind != ItemKind::Message || item.role() != "user" || has_media(item) {
            continue;
        }
        let text = message_text(item);
        let chars = text.chars().count();
        if chars > max_chars {
            let kept: String = text.chars().take(max_chars).collect();
            let more = chars - max_chars;
            let short = format!("{kept}\n[Shortened: {more} more characters]");
            *item = Item::user(short.into());
            turn.notes
                .add("message_shortened", format!("{chars} characters"));
        }
    }
}

fn has_media(item: &Item<'_>) -> bool {
    item.content()
        .is_some_and(|content| content_size(Some(content), false).media > 0)
}
