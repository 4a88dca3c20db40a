//! The words of a body that is no JSON: a line of text, or a web page.

use super::error::truncate;

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
    if !text.trim_start().starts_with('<') {
        return truncate(&without_tags(text));
    }
    let lower = text.to_ascii_lowercase();
    let title = element(text, &lower, "title")
        .map(without_tags)
        .unwrap_or_default();
    let mut rest = text.to_owned();
    for name in ["head", "script", "style"] {
        rest = without_element(&rest, name);
    }
    let rest = without_tags(&rest);
    let is_message = !rest.is_empty() && rest.chars().nth(MAX_PAGE_TEXT).is_none();
    truncate(if is_message || title.is_empty() {
        &rest
    } else {
        &title
    })
}

/// What the first element of this name contains. `lower` is the text in lower case.
fn element<'t>(text: &'t str, lower: &str, name: &str) -> Option<&'t str> {
    let start = find_tag(lower, name, 0)?;
    let start = start + lower.get(start..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find(&format!("</{name}"))?;
    text.get(start..end)
}

/// The text without all elements of this name. One that does not end reaches to the end.
fn without_element(text: &str, name: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let closing = format!("</{name}");
    let mut kept = String::new();
    let mut from = 0;
    while let Some(start) = find_tag(&lower, name, from) {
        kept.push_str(text.get(from..start).unwrap_or_default());
        let end = lower.get(start..).and_then(|rest| rest.find(&closing));
        from = end.map_or(text.len(), |end| start + end);
    }
    kept.push_str(text.get(from..).unwrap_or_default());
    kept
}

/// Where the next opening tag of this name begins. The tag `<header>` is not named `head`.
fn find_tag(lower: &str, name: &str, from: usize) -> Option<usize> {
    let open = format!("<{name}");
    let mut from = from;
    loop {
        let start = from + lower.get(from..)?.find(&open)?;
        from = start + open.len();
        let next = lower.get(from..)?.chars().next();
        if next.is_none_or(|c| !c.is_ascii_alphanumeric()) {
            return Some(start);
        }
    }
}

fn without_tags(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                out.push(' ');
            }
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
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
            ("<head", ""),
            ("", ""),
        ] {
            assert_eq!(words(page), expected, "{page}");
        }
    }
}
