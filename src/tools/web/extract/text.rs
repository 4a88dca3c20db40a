//! Pages that are no HTML: plain text, Markdown and JSON.

use percent_encoding::percent_decode_str;
use serde::de::IgnoredAny;
use url::Url;

use super::facts::{MAX_TITLE_CHARS, shortened};
use super::{MAX_GROWTH, PageContent, SMALL_MARKDOWN};
use crate::tools::web::page::PageError;

/// At most one character in this many may be one that no text has: some are in every long log.
const CHARS_PER_ODD_ONE: usize = 100;

/// The most bytes of JSON of this size on lines of its own.
pub fn max_json_bytes(bytes: usize) -> usize {
    bytes
        .saturating_mul(MAX_GROWTH)
        .saturating_add(SMALL_MARKDOWN)
}

/// The content of a text, which is all of it. Fails if it is empty, or a file of another kind.
pub fn text_content(text: String, url: &Url) -> Result<PageContent, PageError> {
    if text.trim().is_empty() {
        return Err(PageError::TooShort(0));
    }
    if is_binary(&text) {
        return Err(PageError::Binary);
    }
    Ok(PageContent {
        title: file_name(url),
        canonical: None,
        published: None,
        markdown: text,
    })
}

/// The content of JSON, with a line for each value, so that a part of it can be found and shown.
/// What is no JSON, or would multiply, stays as it is.
pub fn json_content(text: String, url: &Url) -> Result<PageContent, PageError> {
    let lines = on_lines(&text, max_json_bytes(text.len()));
    text_content(lines.unwrap_or(text), url)
}

fn is_binary(text: &str) -> bool {
    let (mut chars, mut odd) = (0, 0);
    for char in text.chars() {
        chars += 1;
        odd += match char {
            '\0' => return true,
            // A terminal gets the last two.
            '\t' | '\n' | '\r' | '\x0c' | '\x08' | '\x1b' => 0,
            char => usize::from(char.is_control() || char == char::REPLACEMENT_CHARACTER),
        };
    }
    odd * CHARS_PER_ODD_ONE > chars || text.starts_with("%PDF-")
}

/// The last part of the address, as a title.
pub fn file_name(url: &Url) -> String {
    let mut parts = url.path().rsplit('/');
    let last = parts.find(|part| !part.is_empty());
    let name = last.map(|name| percent_decode_str(name).decode_utf8_lossy());
    let name = name.unwrap_or_else(|| url.host_str().unwrap_or_default().into());
    shortened(&name, MAX_TITLE_CHARS)
}

/// JSON with a line for each value. Its bytes are copied, so that numbers and spellings stay.
/// `None` if it is no JSON, or would have more bytes.
fn on_lines(json: &str, most: usize) -> Option<String> {
    let _: IgnoredAny = serde_json::from_str(json).ok()?;
    let mut lines = String::with_capacity(json.len());
    let (mut depth, mut is_opened, mut is_string, mut is_escaped) = (0_usize, false, false, false);
    for char in json.chars() {
        if is_string {
            lines.push(char);
            is_string = char != '"' || is_escaped;
            is_escaped = char == '\\' && !is_escaped;
            continue;
        }
        if matches!(char, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let is_end = matches!(char, '}' | ']');
        depth = depth.saturating_sub(usize::from(is_end));
        if is_opened != is_end {
            begin_line(&mut lines, depth, most)?;
        }
        lines.push(char);
        is_opened = matches!(char, '{' | '[');
        depth += usize::from(is_opened);
        match char {
            ',' => begin_line(&mut lines, depth, most)?,
            ':' => lines.push(' '),
            _ => is_string = char == '"',
        }
    }
    (lines.len() <= most).then_some(lines)
}

fn begin_line(lines: &mut String, depth: usize, most: usize) -> Option<()> {
    let end = lines.len().checked_add(depth.checked_mul(2)?)?;
    if end >= most {
        return None;
    }
    lines.push('\n');
    lines.extend(std::iter::repeat_n("  ", depth));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(path: &str) -> Url {
        Url::parse("https://example.com")
            .unwrap()
            .join(path)
            .unwrap()
    }

    /// Promise: JSON is read with a line for each value, and its numbers and texts as they were
    /// written; JSON that would multiply, and what is none, is read as it came.
    #[test]
    fn json_has_a_line_for_each_value() {
        let nested = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        let wide = format!(
            "{}{}1{}",
            "[".repeat(99),
            "1,".repeat(99_999),
            "]".repeat(99)
        );
        for (json, expected) in [
            ("{}", "{}"),
            (" [ ] ", "[]"),
            ("{\"a\":1.00}", "{\n  \"a\": 1.00\n}"),
            (
                r#"{"a":[1,{},"x\\"],"b":"{,\" :["}"#,
                "{\n  \"a\": [\n    1,\n    {},\n    \"x\\\\\"\n  ],\n  \"b\": \"{,\\\" :[\"\n}",
            ),
            ("[[],1e999]", "[\n  [],\n  1e999\n]"),
            ("\"日本\\u00e9\"", "\"日本\\u00e9\""),
            ("{\"a\":1}{", "{\"a\":1}{"),
            ("// no JSON", "// no JSON"),
            (&nested, &nested),
            (&wide, &wide),
        ] {
            let content = json_content(json.to_owned(), &url("/")).unwrap();
            assert!(content.markdown == expected, "{json}: {}", content.markdown);
        }
    }

    /// Promise: A file that is no text is refused, whatever its server says; the title of a text is
    /// the name of its file.
    #[test]
    fn what_is_no_text_is_refused() {
        let log = format!("{}\x07", "line\n".repeat(40));
        for (text, is_text) in [
            ("a\0b", false),
            ("\u{89}PNG\r\n\u{1a}\n", false),
            ("%PDF-1.7\n% text", false),
            ("\u{fffd}\u{fffd}text", false),
            (&log, true),
            ("\x1b[1mB\x1b[0m\x08\x0c", true),
            ("日本語", true),
        ] {
            let read = text_content(text.to_owned(), &url("/a")).err();
            assert_eq!(read, (!is_text).then_some(PageError::Binary), "{text:?}");
        }
        for (path, title) in [
            ("/a/read%20me.txt?x=1", "read me.txt"),
            ("/a/b/", "b"),
            ("/%E6%97%A5%0A%FF", "日 \u{fffd}"),
            ("/", "example.com"),
        ] {
            let content = text_content("x".to_owned(), &url(path)).unwrap();
            assert_eq!(content.title, title, "{path}");
        }
    }
}
