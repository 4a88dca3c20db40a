//! A page of an artifact.

use std::fmt::Write;

use adapters::plan::output;
use serde::Deserialize;

use super::call::Unanswered;
use crate::artifacts::owned::Owned;
use crate::artifacts::{Part, Piece, cut};

/// Characters of a page when the call does not say.
pub(super) const CHARS: usize = 20_000;

/// Characters of a page at most.
pub(super) const CHARS_MOST: usize = 30_000;

/// Bytes of a page at most: Codex cuts what is more than 10,000 tokens, which it
/// takes to have 4 bytes each, and there are lines around the text.
pub(super) const BYTES_MOST: usize = 36_000;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    id: String,
    from_line: Option<u64>,
    lines: Option<u64>,
    from_byte: Option<u64>,
    max_chars: Option<usize>,
}

/// The page: a line that says what it is, the text, and how to read on if there is
/// more.
pub(super) async fn read(owned: &Owned, ask: Ask) -> Result<String, Unanswered> {
    let chars = ask.max_chars.unwrap_or(CHARS).clamp(1, CHARS_MOST);
    let part = match (ask.from_line, ask.lines, ask.from_byte) {
        (Some(_), _, Some(_)) | (None, Some(_), Some(_)) => {
            let why = "give from_line and lines, or from_byte, not both";
            return Err(Unanswered::Arguments(why.to_owned()));
        }
        (None, None, from) => {
            let from = from.unwrap_or(0);
            Part::Bytes(from..from.saturating_add(BYTES_MOST as u64))
        }
        (from, _, None) => {
            // Lines may have any length: no more is read than fits.
            let from = from.unwrap_or(1).max(1);
            let line = Part::Lines { from, count: 0 };
            let at = owned.read(&ask.id, &line).await?.bytes.start;
            Part::Bytes(at..at.saturating_add(BYTES_MOST as u64))
        }
    };
    let mut piece = owned.read(&ask.id, &part).await?;
    if let Some(count) = ask.lines {
        let end = cut::after_lines(&piece.text, count.max(1));
        piece.text.truncate(end);
    }
    Ok(page(&piece, chars))
}

fn page(piece: &Piece, chars: usize) -> String {
    let Piece {
        entry,
        bytes,
        first_line,
        text,
    } = piece;
    if text.is_empty() {
        let what = format!(
            "ends before that: it has lines 1-{} and bytes 0-{}",
            entry.lines,
            entry.bytes.saturating_sub(1)
        );
        return head(&entry.id, &what);
    }
    let end = end(text, chars);
    let text = text.get(..end).unwrap_or(text);
    let next = bytes.start + end as u64;
    let ended = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    let whole_line = text.ends_with('\n');
    let last_line = first_line + ended - u64::from(whole_line);
    let what = format!(
        "lines {first_line}-{last_line} of {}, bytes {}-{} of {}",
        entry.lines,
        bytes.start,
        next.saturating_sub(1),
        entry.bytes
    );
    let mut page = head(&entry.id, &what);
    page.push_str(text);
    if next < entry.bytes {
        if !whole_line {
            page.push('\n');
        }
        let (name, from) = if whole_line {
            ("from_line", last_line + 1)
        } else {
            ("from_byte", next)
        };
        // Writing to a string cannot fail.
        let _ = write!(page, "[There is more: read on with {name} {from}.]");
    }
    page
}

/// The first line of everything that was read back, with its line end.
pub(super) fn head(id: &str, what: &str) -> String {
    output::read_back_heading(id, what) + "\n"
}

/// Where a page of a text ends: within the limits, at a line end if one is in its
/// second half.
fn end(text: &str, chars: usize) -> usize {
    let by_chars = text.char_indices().nth(chars);
    let by_chars = by_chars.map_or(text.len(), |(at, _)| at);
    let mut most = by_chars.min(BYTES_MOST);
    while !text.is_char_boundary(most) {
        most -= 1;
    }
    if most == text.len() {
        return most;
    }
    let fits = text.get(..most).unwrap_or_default();
    match fits.rfind('\n') {
        Some(at) if at >= most / 2 => at + 1,
        Some(_) | None => most,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::artifacts::owned::filled;
    use crate::mcp::call::ask;

    async fn page(owned: &Owned, arguments: Value) -> String {
        let outcome = ask(owned, "artifact_read", arguments).await;
        assert!(!outcome.failed, "{outcome:?}");
        outcome.text
    }

    /// The text of a page, by the bytes that its first line names.
    fn text(page: &str) -> &str {
        let (head, rest) = page.split_once('\n').unwrap();
        let (_, bytes) = head.split_once("bytes ").unwrap();
        let (from, to) = bytes.split_once(" of ").unwrap().0.split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        rest.get(..=to - from).unwrap()
    }

    /// All pages, read on as each says.
    async fn pages(owned: &Owned, id: &str, chars: usize) -> Vec<String> {
        let mut all = Vec::new();
        let mut from = ("from_byte".to_owned(), 0);
        loop {
            let arguments = json!({"id": id, &from.0: from.1, "max_chars": chars});
            let page = page(owned, arguments).await;
            let next = page.rsplit_once("[There is more: read on with ");
            let next = next.and_then(|(_, next)| next.strip_suffix(".]")?.split_once(' '));
            let next = next.map(|(name, at)| (name.to_owned(), at.parse().unwrap()));
            all.push(page);
            match next {
                Some(next) => from = next,
                None => return all,
            }
        }
    }

    // S2-Dc
    #[tokio::test]
    async fn pages_are_the_text_byte_for_byte() {
        let log: String = "a line of a log\n".repeat(9_000);
        let wide = "漢字かな交じり文。".repeat(9_000);
        let minified = "function(){return 1};".repeat(9_000);
        let mixed = format!("{log}{minified}\n\n\r\n{wide}\nno end");
        let texts = [&*log, &*wide, &*minified, &*mixed, "short", "\n\n\n"];
        let (owned, ids) = filled(&texts).await;
        for (text_of, id) in texts.iter().zip(&ids) {
            for chars in [777, 20_000, 99_999] {
                let pages = pages(&owned, id, chars).await;
                let whole: String = pages.iter().map(|page| text(page)).collect();
                assert!(whole == **text_of, "{id} by {chars}");
                for page in &pages {
                    assert!(output::is_read_back(page), "{page}");
                    assert!(text(page).chars().count() <= chars.min(CHARS_MOST));
                    assert!(page.len() <= 40_000 - 1_000, "{} bytes", page.len());
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_are_read() {
        let (owned, ids) = filled(&["one\ntwo\nthree\nfour"]).await;
        let id = &ids[0];
        for (arguments, said) in [
            (
                json!({"id": id, "from_line": 2, "lines": 2}),
                format!(
                    "[artifact {id} lines 2-3 of 4, bytes 4-13 of 18]\ntwo\nthree\n\
                     [There is more: read on with from_line 4.]"
                ),
            ),
            (
                json!({"id": id, "from_line": 4}),
                format!("[artifact {id} lines 4-4 of 4, bytes 14-17 of 18]\nfour"),
            ),
            (
                json!({"id": id, "lines": 1}),
                format!(
                    "[artifact {id} lines 1-1 of 4, bytes 0-3 of 18]\none\n\
                     [There is more: read on with from_line 2.]"
                ),
            ),
            (
                json!({"id": id, "from_byte": 5, "max_chars": 2}),
                format!(
                    "[artifact {id} lines 2-2 of 4, bytes 5-6 of 18]\nwo\n\
                     [There is more: read on with from_byte 7.]"
                ),
            ),
            (
                json!({"id": id, "from_line": 2, "lines": 2, "max_chars": 5}),
                format!(
                    "[artifact {id} lines 2-2 of 4, bytes 4-7 of 18]\ntwo\n\
                     [There is more: read on with from_line 3.]"
                ),
            ),
            (
                json!({"id": id, "from_line": 9}),
                format!("[artifact {id} ends before that: it has lines 1-4 and bytes 0-17]\n"),
            ),
        ] {
            assert_eq!(page(&owned, arguments.clone()).await, said, "{arguments}");
        }
    }
}
