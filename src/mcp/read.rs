//! The tool that reads a page of an artifact.

use std::fmt::Write;

use adapters::plan::output;
use serde::Deserialize;

use super::error::ToolCallError;
use crate::artifacts::owner::OwnerArtifacts;
use crate::store::{ArtifactRange, ArtifactText, text_range};

/// Characters of a page when the call does not say.
pub(crate) const DEFAULT_CHARS: usize = 20_000;

/// Largest number of characters of a page.
pub(super) const MAX_CHARS: usize = 30_000;

/// Largest number of bytes of a page. Codex cuts an output after 10,000 tokens, at 4
/// bytes each, and a page has lines around the text.
const MAX_BYTES: usize = 36_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    id: String,
    from_line: Option<u64>,
    lines: Option<u64>,
    from_byte: Option<u64>,
    max_chars: Option<usize>,
}

/// Reads a page: a line that describes it, the text, and how to read on if there is more.
pub(super) async fn read(
    owned: &OwnerArtifacts,
    arguments: ReadArguments,
) -> Result<String, ToolCallError> {
    let chars = arguments
        .max_chars
        .unwrap_or(DEFAULT_CHARS)
        .clamp(1, MAX_CHARS);
    let part = match (arguments.from_line, arguments.lines, arguments.from_byte) {
        (Some(_), _, Some(_)) | (None, Some(_), Some(_)) => {
            let why = "give from_line and lines, or from_byte, not both";
            return Err(ToolCallError::Arguments(why.to_owned()));
        }
        (None, None, from) => {
            let from = from.unwrap_or(0);
            ArtifactRange::Bytes(from..from.saturating_add(MAX_BYTES as u64))
        }
        (from, _, None) => {
            // Lines can have any length, so only as many bytes are read as fit.
            let from = from.unwrap_or(1).max(1);
            let line = ArtifactRange::Lines { from, count: 0 };
            let at = owned.read(&arguments.id, &line).await?.bytes.start;
            ArtifactRange::Bytes(at..at.saturating_add(MAX_BYTES as u64))
        }
    };
    let mut piece = owned.read(&arguments.id, &part).await?;
    if let Some(count) = arguments.lines {
        piece.text = piece.text.map(|mut text| {
            text.truncate(text_range::offset_after_lines(&text, count.max(1)));
            text
        });
    }
    Ok(page(&piece, chars))
}

fn page(piece: &ArtifactText, chars: usize) -> String {
    let ArtifactText {
        entry,
        bytes,
        first_line,
        text,
    } = piece;
    if text.is_empty() {
        let description = format!(
            "ends before that: it has lines 1-{} and bytes 0-{}",
            entry.lines,
            entry.bytes.saturating_sub(1)
        );
        return header_line(&entry.id, &description);
    }
    let end = page_end(text, chars);
    let text = text.get(..end).unwrap_or(text);
    let next = bytes.start + end as u64;
    let ended = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    let whole_line = text.ends_with('\n');
    let last_line = first_line + ended - u64::from(whole_line);
    let description = format!(
        "lines {first_line}-{last_line} of {}, bytes {}-{} of {}",
        entry.lines,
        bytes.start,
        next.saturating_sub(1),
        entry.bytes
    );
    let mut page = header_line(&entry.id, &description);
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

/// The first line of everything that a tool reads back, with its line end.
pub(super) fn header_line(id: &str, description: &str) -> String {
    output::read_back_heading(id, description) + "\n"
}

/// The byte at which a page of this text ends: within the limits, and at a line end if
/// there is one in its second half.
fn page_end(text: &str, chars: usize) -> usize {
    let by_chars = text
        .char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at);
    let max = text.floor_char_boundary(by_chars.min(MAX_BYTES));
    if max == text.len() {
        return max;
    }
    let fits = text.get(..max).unwrap_or_default();
    let lines = output::without_cut_line(fits);
    // The line end belongs to the page.
    max.min(lines.len() + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::artifacts::owner::owner_with_texts;
    use crate::mcp::call::call_tool;

    async fn page(owned: &OwnerArtifacts, arguments: Value) -> String {
        let result = call_tool(owned, "artifact_read", arguments).await;
        result.unwrap()
    }

    /// The text of a page, found by the byte range in its first line.
    fn text(page: &str) -> &str {
        let (head, rest) = page.split_once('\n').unwrap();
        let (_, bytes) = head.split_once("bytes ").unwrap();
        let (from, to) = bytes.split_once(" of ").unwrap().0.split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        rest.get(..=to - from).unwrap()
    }

    /// All pages: each says how to read the next.
    async fn pages(owned: &OwnerArtifacts, id: &str, chars: usize) -> Vec<String> {
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

    #[tokio::test]
    async fn pages_are_the_text_byte_for_byte() {
        let log: String = "a line of a log\n".repeat(9_000);
        let wide = "漢字かな交じり文。".repeat(9_000);
        let minified = "function(){return 1};".repeat(9_000);
        let mixed = format!("{log}{minified}\n\n\r\n{wide}\nno end");
        let texts = [&*log, &*wide, &*minified, &*mixed, "short", "\n\n\n"];
        let (owned, ids) = owner_with_texts(&texts).await;
        for (text_of, id) in texts.iter().zip(&ids) {
            for chars in [777, 20_000, 99_999] {
                let pages = pages(&owned, id, chars).await;
                let whole: String = pages.iter().map(|page| text(page)).collect();
                assert!(whole == **text_of, "{id} by {chars}");
                for page in &pages {
                    assert!(output::is_read_back(page), "{page}");
                    assert!(text(page).chars().count() <= chars.min(MAX_CHARS));
                    assert!(page.len() <= 40_000 - 1_000, "{} bytes", page.len());
                }
            }
        }
    }

    #[tokio::test]
    async fn a_page_can_begin_at_a_line_or_a_byte() {
        let (owned, ids) = owner_with_texts(&["one\ntwo\nthree\nfour"]).await;
        let id = &ids[0];
        for (arguments, expected) in [
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
            assert_eq!(
                page(&owned, arguments.clone()).await,
                expected,
                "{arguments}"
            );
        }
    }
}
