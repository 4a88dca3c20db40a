//! What a tool read back of an artifact: it must not be folded again at once.

use super::header;

const HEAD: &str = "[artifact art_";
const DIGITS: usize = 32;

/// The first line of what a tool reads back: `[artifact art_… <what>]`, without line
/// end. `id` is an artifact id, `what` says which part follows, in one line.
pub fn read_back_head(id: &str, what: &str) -> String {
    format!("[artifact {id} {what}]")
}

/// Whether a text begins with such a line, below the lines that Codex writes.
pub fn is_read_back(text: &str) -> bool {
    let body = text.get(header::read(text).bytes..).unwrap_or(text);
    let Some(rest) = body.strip_prefix(HEAD) else {
        return false;
    };
    let id = rest.as_bytes().get(..DIGITS).unwrap_or_default();
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    id.len() == DIGITS
        && id.iter().all(hex)
        && matches!(rest.as_bytes().get(DIGITS), Some(b' ' | b']'))
}

/// The start of a read-back of more than `limit` characters, cut at a line end where
/// there is one, and a line that says where to read on. At most `limit` characters.
pub fn page(text: &str, limit: usize) -> String {
    let note = |chars: usize| {
        format!(
            "\n[Cut after {chars} characters of this page: read on from there with artifact_read, in smaller pieces.]"
        )
    };
    let room = limit.saturating_sub(note(text.len()).len());
    let end = text
        .char_indices()
        .nth(room)
        .map_or(text.len(), |(at, _)| at);
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let head = text.get(..end).unwrap_or_default();
    let head = match head.rfind('\n') {
        Some(at) if at >= end / 2 => head.get(..at).unwrap_or(head),
        Some(_) | None => head,
    };
    let mut page = head.to_owned();
    page.push_str(&note(head.chars().count()));
    page
}
