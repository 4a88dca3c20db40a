//! The excerpt of a web page or of search results: titles, URLs and snippets, then the
//! first and the last lines as text.

use std::borrow::Cow;
use std::collections::HashSet;

use super::line_cut::{self, FirstAndLast, one_line};
use super::line_excerpt::LABELS;
use super::{ExcerptBody, ExcerptInput, html};

const MAX_LINKS: usize = 40;

/// How many bytes of a text are searched for links.
const SEARCHED_BYTES: usize = 1024 * 1024;

/// Characters of the labels of the excerpt.
const LABEL_CHARS: usize = 90;

struct PageLink<'t> {
    title: Cow<'t, str>,
    url: &'t str,
    snippet: &'t str,
}

pub(super) fn excerpt_body(input: ExcerptInput<'_>) -> ExcerptBody {
    let ExcerptInput { text, room, .. } = input;
    let text: Cow<'_, str> = if html::is_tagged(text) {
        html::plain(text).into()
    } else {
        text.into()
    };
    let text = text.as_ref();
    let spare = room.saturating_sub(LABEL_CHARS);
    if text.chars().count() < spare {
        let whole = line_cut::first_lines(text, spare);
        return ExcerptBody {
            chars: whole.chars,
            lines: whole.lines,
            text: format!("As text:\n{}", whole.text),
        };
    }
    let (list, list_chars) = link_list(text, spare * 55 / 100);
    let half = spare.saturating_sub(list.chars().count()) / 2;
    let ends = FirstAndLast::take(ExcerptInput { text, ..input }, half);
    let body = ends.body(LABELS, ("", list_chars, 0));
    ExcerptBody {
        text: list + &body.text,
        ..body
    }
}

/// The list of links, in at most `room` characters, and how many of these are characters
/// of the text.
fn link_list(text: &str, room: usize) -> (String, usize) {
    let count = memchr::memmem::find_iter(text.as_bytes(), b"://").count();
    if count == 0 {
        return (String::new(), 0);
    }
    let mut list = format!("Titles and addresses ({count} addresses in all):\n");
    let label = list.chars().count();
    let mut left = room.saturating_sub(label);
    for link in find_links(text) {
        let mut entry = format!(
            "- {}\n  {}\n",
            one_line(&link.title, 120),
            one_line(link.url, 200)
        );
        if link.title.is_empty() {
            entry = format!("- {}\n", one_line(link.url, 200));
        }
        if !link.snippet.is_empty() {
            entry.push_str("  ");
            entry.push_str(&one_line(link.snippet, 160));
            entry.push('\n');
        }
        let cost = entry.chars().count();
        if cost > left {
            break;
        }
        left -= cost;
        list.push_str(&entry);
    }
    let list_chars = list.chars().count() - label;
    if list_chars == 0 {
        (String::new(), 0)
    } else {
        (list, list_chars)
    }
}

fn find_links(text: &str) -> Vec<PageLink<'_>> {
    let mut links: Vec<PageLink<'_>> = Vec::new();
    let mut known = HashSet::new();
    // The last line without a link: the title of a link that has none.
    let mut line_before = "";
    let mut read = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        read += line.len() + 1;
        if links.len() >= MAX_LINKS || read > SEARCHED_BYTES {
            break;
        }
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let Some((label, url)) = find_url(line) else {
            line_before = line;
            continue;
        };
        if !known.insert(url) {
            continue;
        }
        let is_inline = label.len() + url.len() + 8 < line.len();
        let title: Cow<'_, str> = if label.is_empty() {
            std::mem::take(&mut line_before).into()
        } else {
            label.into()
        };
        let snippet = match lines.peek().map(|next| next.trim()) {
            Some(next) if !is_inline && !next.contains("://") && !is_title(next) => {
                strip_field_name(next)
            }
            Some(_) | None => "",
        };
        links.push(PageLink {
            title: strip_field_name(&title).to_owned().into(),
            url,
            snippet,
        });
    }
    links
}

/// The first URL of a line, after its label: the text before it, or the text of its
/// Markdown link.
fn find_url(line: &str) -> Option<(&str, &str)> {
    let at = line.find("http").filter(|at| {
        line.get(*at..)
            .is_some_and(|rest| rest.starts_with("http://") || rest.starts_with("https://"))
    })?;
    let (before, rest) = line.split_at_checked(at)?;
    let end = rest.find(|byte: char| byte.is_whitespace() || "<>\"'`)]|".contains(byte));
    let url = rest
        .get(..end.unwrap_or(rest.len()))?
        .trim_end_matches(['.', ',', ';', ':']);
    if let Some(label) = before.strip_suffix("](") {
        let title = label.rsplit_once('[').map_or(label, |(_, title)| title);
        return Some((title, url));
    }
    let label = before.trim_end_matches(|byte: char| " -–—:*(<".contains(byte));
    let is_field_name = matches!(
        strip_field_name(label).to_ascii_lowercase().as_str(),
        "url" | "link" | "source" | "href" | ""
    );
    Some((if is_field_name { "" } else { label }, url))
}

/// Whether a line begins the next search result.
fn is_title(line: &str) -> bool {
    let digits = line.trim_start_matches(|byte: char| byte.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(['.', ')'])
        || line.starts_with('#')
        || line
            .get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case("title:"))
}

/// A line without the list mark, number or field name before it.
fn strip_field_name(line: &str) -> &str {
    let line = line.trim_start_matches(|byte: char| "#*-• ".contains(byte));
    let digits = line.trim_start_matches(|byte: char| byte.is_ascii_digit());
    let line = match digits.strip_prefix(['.', ')']) {
        Some(rest) if digits.len() < line.len() => rest,
        Some(_) | None => line,
    };
    let line = line.trim_matches(|byte: char| byte == '*' || byte == ' ');
    match line.split_once(':') {
        Some(("Title" | "title" | "Snippet" | "snippet" | "Summary" | "Description", rest)) => {
            rest.trim_matches(|byte: char| byte == '*' || byte == ' ')
        }
        Some(_) | None => line,
    }
}
