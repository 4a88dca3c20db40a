//! What a tool read back of an artifact: it must not be folded again at once.

use super::header;

const HEAD: &str = "[artifact art_";
const DIGITS: usize = 32;

/// How an MCP result begins as JSON.
const WRAPPED: [&str; 2] = [
    "[{\"type\":\"text\",\"text\":\"",
    "{\"content\":[{\"type\":\"text\",\"text\":\"",
];

/// The first line of what a tool reads back: `[artifact art_… <what>]`, without line
/// end. `id` is an artifact id, `what` says which part follows, in one line.
pub fn read_back_head(id: &str, what: &str) -> String {
    format!("[artifact {id} {what}]")
}

/// Whether a text begins with such a line, below the lines that Codex writes, or with
/// it in the first text of an MCP result that came as JSON.
pub fn is_read_back(text: &str) -> bool {
    let body = text.get(header::read(text).bytes..).unwrap_or(text);
    let body = WRAPPED
        .iter()
        .find_map(|start| body.strip_prefix(start))
        .unwrap_or(body);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_back_is_known_by_its_first_line() {
        let id = crate::plan::output::id("x");
        let head = read_back_head(&id, "lines 1-20 of 400");
        for (text, known) in [
            (format!("{head}\nfn main() {{}}\n"), true),
            (format!("[artifact {id}]\n"), true),
            (format!("Wall time: 0.1 seconds\nOutput:\n{head}\nx"), true),
            (
                format!("[{{\"type\":\"text\",\"text\":\"{head}\\nx\"}}]"),
                true,
            ),
            (format!("see {head}"), false),
            ("[artifact art_1234 lines 1-20]\n".to_owned(), false),
            (format!("[artifact {}g]", id.get(..35).unwrap()), false),
            (String::new(), false),
        ] {
            assert_eq!(is_read_back(&text), known, "{text}");
        }
    }

    #[test]
    fn a_page_is_cut_at_a_line_end_and_says_where_to_read_on() {
        let line = |i: usize| format!("行 {i}\n");
        let text: String = (0..2_000).map(line).collect();
        let page = page(&text, 4_000);
        assert!(page.chars().count() <= 4_000);
        let (shown, note) = page.rsplit_once("\n[Cut after ").unwrap();
        assert!(text.starts_with(&format!("{shown}\n")));
        assert!(note.starts_with(&format!("{} characters", shown.chars().count())));
        assert_eq!(super::page(&text, 40_000), text);
    }
}
