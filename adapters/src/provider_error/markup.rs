//! The words of a body that is no JSON: a line of text, or a web page.

use excerpts::html::{VisiblePart, visible_parts};

/// How much of a page is read, in characters.
const MAX_READ: usize = 8_000;

/// The longest text of a page that counts as a message, in characters. Of a longer one, only
/// the title is told.
const MAX_PAGE_TEXT: usize = 300;

/// The words of a text that may be a web page. A page repeats its title as a heading, so the title
/// is told only if the page has no other text, or too much.
pub(super) fn words(text: &str) -> String {
    let end = text.char_indices().nth(MAX_READ);
    let text = text
        .get(..end.map_or(text.len(), |(end, _)| end))
        .unwrap_or(text);
    let (mut title, mut rest) = (String::new(), String::new());
    let mut is_title = false;
    for part in visible_parts(text) {
        match part {
            // A tag separates words.
            VisiblePart::Open(tag) => {
                is_title = tag.name.as_slice() == b"title";
                rest.push(' ');
            }
            VisiblePart::Close(_) => {
                is_title = false;
                rest.push(' ');
            }
            VisiblePart::Text(text) if is_title => title.push_str(&text),
            VisiblePart::Text(text) => rest.push_str(&text),
        }
    }
    let (title, rest) = (one_line(&title), one_line(&rest));
    let is_message = !rest.is_empty() && rest.chars().nth(MAX_PAGE_TEXT).is_none();
    if is_message || title.is_empty() {
        rest
    } else {
        title
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_page_is_told_by_its_text_or_its_title() {
        let long = "word ".repeat(100);
        for (page, expected) in [
            ("just\n words", "just words"),
            (
                "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx/1.25</center>\r\n</body>\r\n</html>",
                "404 Not Found nginx/1.25",
            ),
            (
                "<!DOCTYPE html><HTML><HEAD><TITLE>LM Studio</TITLE><script>let a = '<b>';</script></HEAD><BODY><div id=\"root\"></div><script src=\"a.js\"></script></BODY></HTML>",
                "LM Studio",
            ),
            (
                &format!(
                    "<html><head><title>host | 502: Bad gateway</title></head><body>{long}</body></html>"
                ),
                "host | 502: Bad gateway",
            ),
            ("<html><header>Hello</header></html>", "Hello"),
            ("<Error><Code>AccessDenied</Code></Error>", "AccessDenied"),
            (
                "<html><head><title>413</title></head><body>Too\n large</body></html>",
                "Too large",
            ),
            (
                "<html><title>502</title>Bad&nbsp;gateway &amp; no more",
                "Bad gateway & no more",
            ),
            (
                "<html><head><title>413 &mdash; Too large",
                "413 — Too large",
            ),
            (
                "a value must be <100, not <|end|>",
                "a value must be <100, not <|end|>",
            ),
            ("<head", ""),
            ("", ""),
        ] {
            assert_eq!(words(page), expected, "{page}");
        }
    }
}
