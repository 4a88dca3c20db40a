//! Texts that a tool read back from an artifact. They must not be shortened in the same
//! round, or the agent could never read them.

use super::codex_header;

const HEADING_START: &str = "[artifact art_";
const ID_START: &str = "art_";
const ID_DIGITS: usize = 32;

/// The possible beginnings of an MCP result in JSON, up to its first text.
const MCP_STARTS: [&str; 2] = [
    "[{\"type\":\"text\",\"text\":\"",
    "{\"content\":[{\"type\":\"text\",\"text\":\"",
];

/// The first line of a text that a tool reads back, `[artifact art_… <part>]`, without its
/// line end. `id` is an artifact id; `part` says on one line which part follows.
pub fn read_back_heading(id: &str, part: &str) -> String {
    format!("[artifact {id} {part}]")
}

/// Whether a text was read back from an artifact: it begins with the line of
/// [`read_back_heading`], after the header of Codex if there is one. The line may also
/// begin the first text of an MCP result that came as JSON.
pub fn is_read_back(text: &str) -> bool {
    let body = text.get(codex_header::parse(text).bytes..).unwrap_or(text);
    let body = MCP_STARTS
        .iter()
        .find_map(|start| body.strip_prefix(start))
        .unwrap_or(body);
    let Some(rest) = body.strip_prefix(HEADING_START) else {
        return false;
    };
    let id = rest.as_bytes().get(..ID_DIGITS).unwrap_or_default();
    id.len() == ID_DIGITS
        && id.iter().copied().all(is_hex)
        && matches!(rest.as_bytes().get(ID_DIGITS), Some(b' ' | b']'))
}

/// Whether a text names an artifact, by an id such as an excerpt or a read-back text has it.
pub fn names_artifact(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memmem::find_iter(bytes, ID_START).any(|at| {
        let digits = at + ID_START.len();
        let id = bytes.get(digits..digits + ID_DIGITS).unwrap_or_default();
        id.len() == ID_DIGITS && id.iter().copied().all(is_hex)
    })
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The first `limit` characters of a longer text that was read back: cut at a line end
/// where there is one, and with a last line that says where to read on.
pub fn first_page(text: &str, limit: usize) -> String {
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
    let head = without_cut_line(head);
    let mut page = head.to_owned();
    page.push_str(&note(head.chars().count()));
    page
}

/// The beginning of a text that was cut somewhere, without its last line and the line end before
/// that, unless less than half would be left.
pub fn without_cut_line(head: &str) -> &str {
    match head.rfind('\n') {
        Some(end) if end >= head.len() / 2 => head.get(..end).unwrap_or(head),
        Some(_) | None => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_back_is_recognised_by_its_first_line() {
        let id = crate::artifact_id("x");
        let head = read_back_heading(&id, "lines 1-20 of 400");
        for (text, expected) in [
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
            assert_eq!(is_read_back(&text), expected, "{text}");
        }
    }

    #[test]
    fn an_id_in_a_text_is_found() {
        let id = crate::artifact_id("x");
        for (text, expected) in [
            (id.clone(), true),
            (format!("start_line art_1 {id}"), true),
            (format!("\"{id}\""), true),
            (format!("art_{}", "0".repeat(31)), false),
            (id.to_uppercase(), false),
            ("start_0 restart_, chart_".repeat(9), false),
            (String::new(), false),
        ] {
            assert_eq!(names_artifact(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_page_is_cut_at_a_line_end_and_says_where_to_read_on() {
        let line = |i: usize| format!("行 {i}\n");
        let text: String = (0..2_000).map(line).collect();
        let page = first_page(&text, 4_000);
        assert!(page.chars().count() <= 4_000);
        let (shown, note) = page.rsplit_once("\n[Cut after ").unwrap();
        assert!(text.starts_with(&format!("{shown}\n")));
        assert!(note.starts_with(&format!("{} characters", shown.chars().count())));
        assert_eq!(first_page(&text, 40_000), text);
    }
}
