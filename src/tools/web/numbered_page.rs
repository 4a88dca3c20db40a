//! Pages as a model reads them piece by piece: with numbers for lines and links.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use memchr::memmem;
use tokio::time::Instant;
use url::Url;

use super::page::Page;
use super::shown::one_line;
use crate::net::memory::{MemoryFull, SharedMemory};

/// A line of text is not longer, in bytes: a paragraph becomes several lines, so that a part of it
/// can be named.
const MAX_LINE: usize = 240;
/// The longest address of a link, in bytes. A longer one stays text.
const MAX_ADDRESS: usize = 2_000;
/// Brackets that are open at the same place; more of them are no links.
const MAX_OPEN: usize = 256;
/// What a page takes besides its texts, in bytes.
const BASE: usize = 256;

/// What a link takes besides its address, in the text and in the list of links, in bytes.
const LINK_BASE: usize = 64;
/// The numbered form of a text has at most this many times its bytes, besides [`LINK_BASE`]: the
/// text once, its hosts again behind links, and its addresses up to three times as long, because
/// they are percent-encoded.
const TIMES_NUMBERED: usize = 5;

/// A page with its lines and links numbered from 1. Made once from a [`Page`], whose share of
/// memory it takes over.
#[derive(Debug)]
pub struct NumberedPage {
    /// Where it was at last.
    pub url: String,
    /// The title on one line.
    pub title: String,
    /// When it was published, as the page says it.
    pub published: Option<String>,
    text: String,
    lines: Vec<Range<usize>>,
    links: Vec<String>,
    read_at: Instant,
    memory: Option<SharedMemory>,
}

impl NumberedPage {
    /// Numbers the lines of a page, and the links to web addresses in its Markdown. A link is
    /// written as `【3†its text】`, with its host behind another `†` if that is not the page's. Fails
    /// if there is no memory for that.
    pub fn new(page: &Page) -> Result<Self, MemoryFull> {
        let markdown = page.markdown.as_bytes();
        let links = memmem::find_iter(markdown, "](").count();
        let numbered = TIMES_NUMBERED * markdown.len() + LINK_BASE * links;
        let grow = |bytes| page.memory.as_ref().map_or(Ok(()), |it| it.grow(bytes));
        grow(markdown.len() + numbered)?;
        let host = Url::parse(&page.url).ok();
        let host = host.as_ref().and_then(Url::host_str).unwrap_or_default();
        let (text, links) = number_links(&page.markdown, host);
        let max_lines = max_lines(&text);
        grow(markdown.len() + numbered + max_lines * size_of::<Range<usize>>())?;
        let mut lines = Vec::with_capacity(max_lines);
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.trim_end();
            let mut from = start;
            let end = start + content.len();
            while from < end {
                let to = line_end(&text, from, end);
                lines.push(from..to);
                from = to;
            }
            if content.is_empty() {
                lines.push(start..start);
            }
            start += line.len();
        }
        lines.shrink_to_fit();
        Ok(Self {
            url: page.url.clone(),
            title: one_line(&page.title),
            published: page.published.as_deref().map(one_line),
            text,
            lines,
            links,
            read_at: Instant::now(),
            memory: page.memory.clone(),
        })
    }

    /// The same page, which was read this long ago.
    #[must_use]
    pub fn read_ago(self, age: Duration) -> Self {
        let now = Instant::now();
        Self {
            read_at: now.checked_sub(age).unwrap_or(now),
            ..self
        }
    }

    /// How long ago it was read.
    pub fn age(&self) -> Duration {
        self.read_at.elapsed()
    }

    /// Sets how many of its bytes count in the memory of the process: all, or none if whoever keeps
    /// the page counts it.
    pub(super) fn set_counted(&self, bytes: usize) {
        if let Some(memory) = &self.memory {
            memory.set(bytes);
        }
    }

    /// The number of lines.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// A line by its number.
    pub fn line(&self, number: usize) -> Option<&str> {
        let range = self.lines.get(number.checked_sub(1)?)?.clone();
        Some(self.text.get(range)?.trim())
    }

    /// The whole text, in which links have numbers.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of the line that this byte of the text is in.
    pub fn line_at(&self, byte: usize) -> usize {
        self.lines.partition_point(|line| line.start <= byte).max(1)
    }

    /// The address of a link by its number.
    pub fn link(&self, number: usize) -> Option<&str> {
        let link = self.links.get(number.checked_sub(1)?)?;
        Some(link)
    }

    /// The number of links.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let lines = self.lines.capacity() * size_of::<Range<usize>>();
        let links = self.links.iter();
        let links: usize = links.map(|link| link.len() + size_of::<String>()).sum();
        BASE + self.url.len() + self.title.len() + self.text.capacity() + lines + links
    }
}

/// The most lines that a text can have. In a paragraph each line begins where the one before had no
/// more room, so two lines in a row have at least [`MAX_LINE`] bytes, less a part of a character.
fn max_lines(text: &str) -> usize {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    ends + 1 + 2 * text.len() / (MAX_LINE - 3)
}

/// Where a line that begins here ends: after white space, if there is some within its length.
fn line_end(text: &str, from: usize, end: usize) -> usize {
    if end - from <= MAX_LINE {
        return end;
    }
    let longest = text.floor_char_boundary(from + MAX_LINE);
    let piece = text.get(from..longest).unwrap_or_default();
    match piece.rfind(char::is_whitespace) {
        Some(space) if space > 0 => text.ceil_char_boundary(from + space + 1),
        _ => longest,
    }
}

/// The text with numbers in place of addresses, and the addresses. Pictures lose theirs.
fn number_links(markdown: &str, page_host: &str) -> (String, Vec<String>) {
    let mut out = String::with_capacity(markdown.len());
    let mut links = Vec::new();
    // Where the text of an open bracket begins in `out`, and whether it is that of a picture.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut rest = markdown;
    while let Some(at) = rest.find(['[', ']', '\\']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let mut length = 1;
        if from.starts_with('\\') {
            length += from.chars().nth(1).map_or(0, char::len_utf8);
            out.push_str(from.get(..length).unwrap_or_default());
        } else if from.starts_with('[') {
            if open.len() == MAX_OPEN {
                open.clear();
            }
            open.push((out.len(), out.ends_with('!')));
            out.push('[');
        } else if let (Some((start, is_picture)), Some((address, end))) =
            (open.pop(), destination(from))
        {
            let text = out.split_off(start);
            let text = text.strip_prefix('[').unwrap_or_default().trim();
            length = end;
            if is_picture {
                out.pop();
                if !text.is_empty() {
                    let _ = write!(out, "[picture: {text}]");
                }
            } else {
                links.push(address.to_string());
                let _ = write!(out, "【{}†{text}", links.len());
                let host = address.host_str().unwrap_or_default();
                if host != page_host {
                    let _ = write!(out, "†{host}");
                }
                out.push('】');
            }
        } else {
            out.push(']');
        }
        rest = from.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    (out, links)
}

/// The web address behind the text of a link, as in `](https://example.org "title")`, and the
/// length of all that. What it reads has no further bracket, so that no byte is read twice.
fn destination(from: &str) -> Option<(Url, usize)> {
    let inner = from.strip_prefix("](")?;
    if !inner.starts_with("http") && !inner.starts_with("<http") {
        return None;
    }
    let mut depth = 0_usize;
    let mut end = None;
    for (at, byte) in inner.bytes().enumerate().take(2 * MAX_ADDRESS) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => {
                end = Some(at);
                break;
            }
            b')' => depth -= 1,
            b'[' | b']' | b'\n' => return None,
            _ => {}
        }
    }
    let end = end?;
    let address = inner.get(..end)?.split_whitespace().next()?;
    let address = address.trim_matches(['<', '>']);
    if address.len() > MAX_ADDRESS {
        return None;
    }
    let url = Url::parse(address).ok()?;
    matches!(url.scheme(), "http" | "https").then_some((url, "](".len() + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::web::page::FetchStrategy;

    fn numbered(markdown: &str) -> NumberedPage {
        let numbered = NumberedPage::new(&Page {
            url: "https://example.org/a".to_owned(),
            canonical: None,
            title: " The\n title ".to_owned(),
            published: None,
            markdown: markdown.to_owned(),
            received_bytes: 0,
            fetched_by: FetchStrategy::Native,
            memory: None,
        });
        let numbered = numbered.unwrap();
        assert!(numbered.lines() <= max_lines(numbered.text()));
        let links = memmem::find_iter(markdown.as_bytes(), "](").count();
        let text_and_links = numbered.bytes() - numbered.lines() * size_of::<Range<usize>>();
        let most = BASE + 64 + TIMES_NUMBERED * markdown.len() + LINK_BASE * links;
        assert!(text_and_links <= most, "{text_and_links} of {most}");
        numbered
    }

    #[test]
    fn links_are_numbered_in_their_order() {
        for (markdown, text, links) in [
            (
                "See [the docs](https://example.org/docs) and [more](https://other.org/x \"X\").",
                "See 【1†the docs】 and 【2†more†other.org】.",
                &["https://example.org/docs", "https://other.org/x"][..],
            ),
            (
                "[Rust (language)](https://example.org/Rust_(language))",
                "【1†Rust (language)】",
                &["https://example.org/Rust_(language)"],
            ),
            (
                "[![a cat](https://example.org/cat.png)](<https://example.org/cats>)",
                "【1†[picture: a cat]】",
                &["https://example.org/cats"],
            ),
            ("![](https://example.org/p.gif)x", "x", &[]),
            (
                "`f[i](x)` and [y](/y), \\[z](https://a.org)",
                "`f[i](x)` and [y](/y), \\[z](https://a.org)",
                &[],
            ),
            (
                "[a](javascript:alert(1)) [b](https://",
                "[a](javascript:alert(1)) [b](https://",
                &[],
            ),
            (
                "[x] [日本](https://例え.jp/)",
                "[x] 【1†日本†xn--r8jz45g.jp】",
                &["https://xn--r8jz45g.jp/"],
            ),
        ] {
            let page = numbered(markdown);
            assert_eq!(page.text(), text, "{markdown}");
            let found: Vec<&str> = (1..=page.links()).filter_map(|it| page.link(it)).collect();
            assert_eq!(found, links, "{markdown}");
        }
        assert_eq!(numbered("[a](https://a.org)").link(0), None);
        assert_eq!(numbered("[a](https://a.org)").link(2), None);
    }

    #[test]
    fn a_paragraph_becomes_lines_that_hold_all_of_it() {
        let words = "日本語 word ".repeat(100);
        let page = numbered(&format!("# Title\n\n{words}\n{}\nend", "x".repeat(1000)));
        assert_eq!(page.title, "The title");
        assert_eq!(page.line(1), Some("# Title"));
        assert_eq!(page.line(2), Some(""));
        let lines: Vec<&str> = (3..=page.lines()).filter_map(|it| page.line(it)).collect();
        assert!(lines.iter().all(|line| line.len() <= MAX_LINE), "{lines:?}");
        assert!(lines.iter().all(|line| !line.is_empty()), "{lines:?}");
        assert_eq!(lines.last(), Some(&"end"));
        let all: String = lines.concat().split_whitespace().collect();
        let expected = words.replace(' ', "") + &"x".repeat(1000) + "end";
        assert_eq!(all, expected);
        for number in 1..=page.lines() {
            let start = page.lines[number - 1].start;
            // An empty line has no bytes of its own but its end.
            assert_eq!(page.line_at(start), number);
        }
        assert_eq!(page.line_at(0), 1);
        assert_eq!(page.line(page.lines() + 1), None);
        assert_eq!(numbered("").lines(), 0);
    }

    #[test]
    fn hostile_markdown_takes_time_in_proportion_to_its_size() {
        for piece in [
            "[",
            "](",
            "](https://a",
            "![",
            "[](https://a.org)",
            "\\",
            "【",
        ] {
            let markdown = piece.repeat((1 << 20) / piece.len());
            let page = numbered(&markdown);
            assert!(page.text().len() < 16 << 20, "{piece}");
        }
    }
}
