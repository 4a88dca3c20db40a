//! A web page or the results of a search: titles, addresses and snippets, then the
//! first and last lines as text.

use std::borrow::Cow;
use std::collections::HashSet;

use super::cut::{self, chars, one_line};
use super::{Part, Style, Task, html};

/// Addresses that are listed.
const LISTED: usize = 40;

/// Bytes of a text in which addresses are looked for.
const LOOK: usize = 1024 * 1024;

/// Characters of the labels.
const LABELS: usize = 90;

struct Link<'t> {
    title: Cow<'t, str>,
    address: &'t str,
    snippet: &'t str,
}

pub(super) fn show(task: Task<'_>) -> Part {
    let Task {
        text, room, style, ..
    } = task;
    let text: Cow<'_, str> = if html::is_tagged(text) {
        html::plain(text).into()
    } else {
        text.into()
    };
    let text = text.as_ref();
    let spare = room.saturating_sub(LABELS);
    if chars(text) < spare {
        let whole = cut::first(text, spare);
        return Part {
            chars: whole.chars,
            lines: whole.lines,
            text: format!("As text:\n{}", whole.text),
        };
    }
    let (list, held) = listed(text, spare * 55 / 100);
    let mut half = spare.saturating_sub(chars(&list)) / 2;
    if style == Style::Fixed {
        half = half.min(1_200);
    }
    let first = cut::first(text, half);
    let rest = text.get(first.bytes..).unwrap_or_default();
    let last = cut::last(rest, half);
    let mut shown = list;
    for (label, part) in [("First lines:\n", &first), ("Last lines:\n", &last)] {
        if !part.text.is_empty() {
            shown.push_str(label);
            shown.push_str(&part.text);
        }
    }
    Part {
        text: shown,
        chars: held + first.chars + last.chars,
        lines: first.lines + last.lines,
    }
}

/// The links in as many characters, and how many of these are the text's.
fn listed(text: &str, room: usize) -> (String, usize) {
    let count = memchr::memmem::find_iter(text.as_bytes(), b"://").count();
    if count == 0 {
        return (String::new(), 0);
    }
    let mut list = format!("Titles and addresses ({count} addresses in all):\n");
    let label = chars(&list);
    let mut left = room.saturating_sub(label);
    for link in links(text) {
        let mut entry = format!(
            "- {}\n  {}\n",
            one_line(&link.title, 120),
            one_line(link.address, 200)
        );
        if link.title.is_empty() {
            entry = format!("- {}\n", one_line(link.address, 200));
        }
        if !link.snippet.is_empty() {
            entry.push_str("  ");
            entry.push_str(&one_line(link.snippet, 160));
            entry.push('\n');
        }
        let cost = chars(&entry);
        if cost > left {
            break;
        }
        left -= cost;
        list.push_str(&entry);
    }
    let held = chars(&list) - label;
    if held == 0 {
        (String::new(), 0)
    } else {
        (list, held)
    }
}

fn links(text: &str) -> Vec<Link<'_>> {
    let mut links: Vec<Link<'_>> = Vec::new();
    let mut known = HashSet::new();
    let mut before = "";
    let mut read = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        read += line.len() + 1;
        if links.len() >= LISTED || read > LOOK {
            break;
        }
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let Some((label, address)) = address(line) else {
            before = line;
            continue;
        };
        if !known.insert(address) {
            continue;
        }
        let inline = label.len() + address.len() + 8 < line.len();
        let title: Cow<'_, str> = if label.is_empty() {
            std::mem::take(&mut before).into()
        } else {
            label.into()
        };
        let snippet = match lines.peek().map(|next| next.trim()) {
            Some(next) if !inline && !next.contains("://") && !is_title(next) => bare(next),
            Some(_) | None => "",
        };
        links.push(Link {
            title: bare(&title).to_owned().into(),
            address,
            snippet,
        });
    }
    links
}

/// The first address of a line, with what stands before it or in its Markdown link.
fn address(line: &str) -> Option<(&str, &str)> {
    let at = line.find("http").filter(|at| {
        line.get(*at..)
            .is_some_and(|rest| rest.starts_with("http://") || rest.starts_with("https://"))
    })?;
    let (before, rest) = line.split_at_checked(at)?;
    let end = rest.find(|byte: char| byte.is_whitespace() || "<>\"'`)]|".contains(byte));
    let address = rest
        .get(..end.unwrap_or(rest.len()))?
        .trim_end_matches(['.', ',', ';', ':']);
    if let Some(label) = before.strip_suffix("](") {
        let title = label.rsplit_once('[').map_or(label, |(_, title)| title);
        return Some((title, address));
    }
    let label = before.trim_end_matches(|byte: char| " -–—:*(<".contains(byte));
    let field = matches!(
        bare(label).to_ascii_lowercase().as_str(),
        "url" | "link" | "source" | "href" | ""
    );
    Some((if field { "" } else { label }, address))
}

/// Whether a line begins the next result.
fn is_title(line: &str) -> bool {
    let digits = line.trim_start_matches(|byte: char| byte.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(['.', ')'])
        || line.starts_with('#')
        || line
            .get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case("title:"))
}

/// A line without the sign, number or name of a field before it.
fn bare(line: &str) -> &str {
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
