//! The main content of a web page as Markdown. Pure: the same page always becomes the same text,
//! and time and memory follow its size, whatever it holds.
//!
//! | file | what it does |
//! |---|---|
//! | [`charset`] | decodes the bytes of a page |
//! | [`guard`] | refuses pages that no parser survives |
//! | [`tree`] | parses a page, and looks for elements that multiply |
//! | [`content`] | finds the main content |
//! | [`links`] | makes the addresses of links whole |
//! | [`facts`] | the title, the address and the date that a page gives itself |
//! | [`text`] | plain text, Markdown and JSON |
//!
//! `tests/pages` compares ways to find the main content on pages with written truth.

mod charset;
mod content;
mod facts;
mod guard;
mod links;
#[cfg(test)]
mod tests;
pub mod text;
mod tree;

use url::Url;

use super::page::PageError;
pub use charset::decode;
pub use guard::{MAX_PAGE_BYTES, PageShape};

/// A page with fewer characters than this has no content: it is the frame of a page that a script
/// fills, or an excuse.
pub const MIN_CONTENT_CHARS: usize = 100;

/// The Markdown of a page may have this many times its bytes: each line of a list has as many
/// spaces before it as it is nested.
const MAX_GROWTH: usize = 4;
/// Markdown of up to this many bytes may have any size beside that of its page.
const SMALL_MARKDOWN: usize = 64 << 10;

/// What a page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageContent {
    /// The title without markup; may be empty.
    pub title: String,
    /// The address that the page gives as its own.
    pub canonical: Option<String>,
    /// When it was published, as the page says it.
    pub published: Option<String>,
    /// The main content as Markdown.
    pub markdown: String,
}

/// The content of a page at this address. `shape` is that of `html`.
pub fn extract(html: &str, shape: PageShape, url: &Url) -> Result<PageContent, PageError> {
    let page = tree::parse(html, shape)?;
    let canonical = facts::canonical(&page, url);
    let published = facts::published(&page);
    let (title, markdown) = content::main_content(page, shape, url);
    if markdown.len() > shape.bytes * MAX_GROWTH + SMALL_MARKDOWN {
        return Err(PageError::Hostile("its text multiplies"));
    }
    let chars = length(&markdown);
    if chars < MIN_CONTENT_CHARS {
        return Err(PageError::TooShort(chars));
    }
    Ok(PageContent {
        title: facts::shortened(&title, facts::MAX_TITLE_CHARS),
        canonical,
        published,
        markdown,
    })
}

/// How many characters a text has, without white space.
pub(super) fn length(text: &str) -> usize {
    text.chars().filter(|char| !char.is_whitespace()).count()
}
