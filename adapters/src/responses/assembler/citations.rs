//! Citations and their conversion to annotations of the Responses API: those that the provider
//! reports, and the links of a text to the pages that tools of the proxy have read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use memchr::memmem;
use serde_json::json;

use crate::cited_source::CitedSource;
use crate::event::Citation;
use crate::json;

/// Upper bound of the citations that wait for a text.
const MAX_PENDING: usize = 1000;

/// The most pages that an answer can cite.
const MAX_SOURCES: usize = 1000;

/// The longest label of a link, in bytes; a longer one is not taken for a label.
const MAX_LABEL: usize = 500;
/// The most that is read behind the address of a link, in bytes. A link with a longer title is not
/// taken for one.
const MAX_TITLE: usize = 500;
/// The longest address that is cited, in bytes.
const MAX_ADDRESS: usize = 2_000;
/// The most characters between an address and the next space that do not belong to it, such as
/// those that end a sentence or a link.
const MAX_TRAILING: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Citations {
    /// The URLs that were cited, to list a source page only once.
    urls: HashSet<String>,
    /// Annotations (JSON) that arrived while no text was open.
    pub(super) pending: Vec<String>,
}

/// The pages that the texts of an answer may cite: titles by address.
#[derive(Debug, Default)]
pub(super) struct CitedSources(HashMap<String, String>);

impl Citations {
    /// The annotation for a citation.
    pub(super) fn annotation(&mut self, citation: &Citation<'_>) -> String {
        if !self.urls.contains(citation.url.as_ref()) {
            self.urls.insert(citation.url.clone().into_owned());
        }
        annotation_json(&citation.url, &citation.title, citation.start, citation.end)
    }

    /// The annotation for a page on which the whole answer is based; `None` if the page was
    /// cited already.
    pub(super) fn source_annotation(&mut self, url: &str, title: &str) -> Option<String> {
        self.urls
            .insert(url.to_owned())
            .then(|| annotation_json(url, title, 0, 0))
    }

    /// Keeps an annotation until a text is open; dropped if too many wait.
    pub(super) fn keep_pending(&mut self, annotation: String) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push(annotation);
        }
    }
}

impl CitedSources {
    /// Adds pages. One that is there already keeps its title.
    pub(super) fn extend(&mut self, sources: impl IntoIterator<Item = CitedSource>) {
        for source in sources {
            if self.0.len() < MAX_SOURCES {
                self.0.entry(source.url).or_insert(source.title);
            }
        }
    }

    /// The annotations for the links of a text to these pages, in their order. `escaped` is the
    /// text as the content of a JSON string.
    ///
    /// The API reference does not say in which unit `start_index` and `end_index` count. They count
    /// code points, which are the characters of Python's strings.
    pub(super) fn annotations(&self, escaped: &str) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let text = json::unescape(escaped);
        let mut links: Vec<(Range<usize>, &str, &str)> = Vec::new();
        let mut behind = 0;
        for at in memmem::find_iter(text.as_bytes(), "http") {
            // An address within another one.
            if at < behind {
                continue;
            }
            let address = text.get(at..).map(address).unwrap_or_default();
            behind = at + address.len();
            if let Some((url, title)) = self.cited(address) {
                let link = link_around(&text, at..at + url.len());
                // The label of the link may have addresses, too.
                let before = links.partition_point(|(earlier, ..)| earlier.end <= link.start);
                links.truncate(before);
                behind = link.end;
                links.push((link, url, title));
            }
        }
        let (mut byte, mut chars) = (0, 0);
        let mut index_of = |at: usize| {
            let between = text.get(byte..at).unwrap_or_default();
            chars += between.chars().count() as u64;
            byte = at;
            chars
        };
        let annotations = links.into_iter().map(|(link, url, title)| {
            let start = index_of(link.start);
            annotation_json(url, title, start, index_of(link.end))
        });
        annotations.collect()
    }

    /// The page whose address this is, and the address without what follows it in a sentence or a
    /// link.
    fn cited<'t>(&'t self, address: &'t str) -> Option<(&'t str, &'t str)> {
        let mut url = address;
        for _ in 0..=MAX_TRAILING {
            if url.len() <= MAX_ADDRESS {
                if let Some(title) = self.0.get(url) {
                    return Some((url, title));
                }
                // An address with a fragment cites its page, and keeps the fragment.
                let page = url
                    .split_once('#')
                    .filter(|_| url.ends_with(char::is_alphanumeric));
                if let Some(title) = page.and_then(|(page, _)| self.0.get(page)) {
                    return Some((url, title));
                }
                // Models leave the last slash out.
                if let Some(title) = self.0.get(&format!("{url}/")) {
                    return Some((url, title));
                }
            }
            url = url.strip_suffix(|last: char| !last.is_alphanumeric())?;
        }
        None
    }
}

/// The address that a text begins with, and what follows it without a space. Addresses are ASCII,
/// as searches and pages give them.
fn address(text: &str) -> &str {
    let is_part = |char: char| char.is_ascii_graphic() && !r#"<>"`{}|\^[]"#.contains(char);
    let end = text.find(|char| !is_part(char)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// The range of the Markdown link whose address is in this range of a text, or that range.
fn link_around(text: &str, address: Range<usize>) -> Range<usize> {
    let link = || {
        let before = text.get(..address.start)?.strip_suffix("](")?;
        let from = before.len().saturating_sub(MAX_LABEL);
        let from = (from..=before.len()).find(|at| before.is_char_boundary(*at))?;
        let mut depth = 0_u32;
        let mut chars = before.get(from..)?.char_indices().rev();
        let (label, _) = chars.find(|(_, char)| match char {
            '[' if depth == 0 => true,
            '[' => {
                depth -= 1;
                false
            }
            _ => {
                depth += u32::from(*char == ']');
                false
            }
        })?;
        let behind = text.get(address.end..)?;
        let behind = behind.get(..behind.floor_char_boundary(MAX_TITLE))?;
        let behind = behind.lines().next()?;
        Some(from + label..address.end + end_of_link(behind)?)
    };
    link().unwrap_or_else(|| address.clone())
}

/// The length of what ends a Markdown link behind its address, which may be a title.
fn end_of_link(behind: &str) -> Option<usize> {
    let title = behind.find([' ', ')']).and_then(|at| {
        let quote = behind.get(at..)?.trim_start();
        let mark = quote
            .chars()
            .next()
            .filter(|char| matches!(char, '"' | '\''))?;
        let from = behind.len() - quote.len() + 1;
        let end = behind.get(from..)?.find(&format!("{mark})"))?;
        Some(from + end + 1)
    });
    let end = title.or_else(|| behind.find(')'))?;
    Some(end + 1)
}

fn annotation_json(url: &str, title: &str, start: u64, end: u64) -> String {
    json!({
        "type": "url_citation", "url": url, "title": title,
        "start_index": start, "end_index": end,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Promise: A link to a page that a tool has read becomes a `url_citation` whose offsets count
    /// characters, whatever the script, and enclose the whole Markdown link.
    #[test]
    fn links_to_read_pages_are_cited() {
        let mut sources = CitedSources::default();
        let page = |url: &str, title: &str| CitedSource {
            url: url.to_owned(),
            title: title.to_owned(),
            kept: None,
        };
        sources.extend([
            page("https://example.com/a", "A"),
            page("https://example.com/a/b?c=d", "B"),
            page("https://example.org/", "C"),
            page("https://en.wikipedia.org/wiki/Rust_(language)", "D"),
        ]);
        for (text, cited) in [
            (
                "See [the page](https://example.com/a).",
                vec![("[the page](https://example.com/a)", "A")],
            ),
            (
                "見て：https://example.com/a。",
                vec![("https://example.com/a", "A")],
            ),
            (
                "見て 🦀 https://example.com/a 。",
                vec![("https://example.com/a", "A")],
            ),
            (
                "([例🦀](https://example.com/a/b?c=d))",
                vec![("[例🦀](https://example.com/a/b?c=d)", "B")],
            ),
            (
                "https://example.org, https://example.com/a!",
                vec![("https://example.org", "C"), ("https://example.com/a", "A")],
            ),
            (
                "[m](https://example.com/a#method.b), https://example.com/a#c.",
                vec![
                    ("[m](https://example.com/a#method.b)", "A"),
                    ("https://example.com/a#c", "A"),
                ],
            ),
            (
                "[[1]](https://example.org/) and <https://example.com/a>",
                vec![
                    ("[[1]](https://example.org/)", "C"),
                    ("https://example.com/a", "A"),
                ],
            ),
            (
                "[https://example.com/a](https://example.com/a)",
                vec![("[https://example.com/a](https://example.com/a)", "A")],
            ),
            (
                "[D](https://en.wikipedia.org/wiki/Rust_(language))",
                vec![("[D](https://en.wikipedia.org/wiki/Rust_(language))", "D")],
            ),
            (
                "https://example.com/abc https://evil.example/https://example.com/a",
                vec![],
            ),
            ("http and https:// and [a](b)", vec![]),
            (
                "[https://example.org/ https://example.com/a](https://example.com/a)",
                vec![(
                    "[https://example.org/ https://example.com/a](https://example.com/a)",
                    "A",
                )],
            ),
            (
                "[x](https://example.com/a \"a (short) title\") (https://example.org/)",
                vec![
                    ("[x](https://example.com/a \"a (short) title\")", "A"),
                    ("https://example.org/", "C"),
                ],
            ),
            (
                "[x](https://example.com/a 'a (title)') and \"quoted\")",
                vec![("[x](https://example.com/a 'a (title)')", "A")],
            ),
            (
                "https://example.com/a............",
                vec![("https://example.com/a", "A")],
            ),
        ] {
            let annotations = sources.annotations(&json::escape(text));
            let chars: Vec<char> = text.chars().collect();
            let found: Vec<(String, String)> = annotations
                .iter()
                .map(|annotation| {
                    let annotation: Value = serde_json::from_str(annotation).unwrap();
                    let index =
                        |name: &str| usize::try_from(annotation[name].as_u64().unwrap()).unwrap();
                    let span = &chars[index("start_index")..index("end_index")];
                    (
                        span.iter().collect(),
                        annotation["title"].as_str().unwrap().to_owned(),
                    )
                })
                .collect();
            let cited: Vec<(String, String)> = cited
                .iter()
                .map(|(span, title)| ((*span).to_owned(), (*title).to_owned()))
                .collect();
            assert_eq!(found, cited, "{text}");
        }
    }
}
