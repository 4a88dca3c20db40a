//! Reads a page of results.
//!
//! Each result is a `div` of the class `result`, with a link of the class `result__a` around its
//! title and another of the class `result__snippet`; the class `result--ad` marks advertisements,
//! and the form `challenge-form` the page that asks for proof of a human: searxng/searxng,
//! searx/engines/duckduckgo.py. The classes of that page begin with `anomaly-modal`:
//! swissarmyhammer/swissarmyhammer, issues/01K2QNFTFX095KNPKXANP54MNZ.md. Links may lead through
//! `duckduckgo.com/l/` with the address in `uddg`: karikowska/velu-price-scraper,
//! tools/ddg_search.py. That `result--no-result` and `no-results` mark that nothing was found, and
//! `duckduckgo.com/y.js` advertisements, is known from the tests of several clients alone.

use excerpts::html::{VisiblePart, visible_parts};
use html5gum::StartTag;
use url::{Host, Url};

use super::super::SearchHit;
use super::super::answer::hit;

/// More results than a page has.
const MAX_RESULTS: usize = 100;

/// A longer text of a link is cut.
const MAX_TEXT_BYTES: usize = 32_000;

/// What a page is.
pub(super) enum ResultPage {
    Results(Vec<SearchHit>),
    Nothing,
    Challenge,
    /// A page of another form.
    Unknown,
}

pub(super) fn read_page(html: &str) -> ResultPage {
    let mut reader = ResultPageReader::default();
    for part in visible_parts(html) {
        match part {
            VisiblePart::Open(tag) => reader.open(&tag),
            VisiblePart::Close(name) if name.as_slice() == b"a" => reader.link = Link::Other,
            VisiblePart::Close(_) => {}
            VisiblePart::Text(text) => reader.text(&text),
        }
        if reader.results.len() > MAX_RESULTS {
            break;
        }
    }
    reader.finish()
}

#[derive(Default)]
struct ResultPageReader {
    results: Vec<FoundLink>,
    link: Link,
    is_advertisement: bool,
    says_nothing_found: bool,
    asks_for_proof: bool,
}

#[derive(Default)]
struct FoundLink {
    url: String,
    title: String,
    snippet: String,
}

/// In which link a text is.
#[derive(Clone, Copy, Default)]
enum Link {
    Title,
    Snippet,
    #[default]
    Other,
}

impl ResultPageReader {
    fn open(&mut self, tag: &StartTag<()>) {
        let classes = attribute(tag, b"class");
        let has = |class: &str| classes.split_ascii_whitespace().any(|name| name == class);
        self.says_nothing_found |= has("result--no-result") || has("no-results");
        let mut names = classes.split_ascii_whitespace();
        self.asks_for_proof |= names.any(|name| name.starts_with("anomaly-modal"))
            || attribute(tag, b"id") == "challenge-form";
        if has("result") {
            self.is_advertisement = has("result--ad");
        }
        if tag.name.as_slice() != b"a" {
            return;
        }
        self.link = Link::Other;
        if self.is_advertisement {
            return;
        }
        if has("result__a") {
            let Some(url) = target(&attribute(tag, b"href")) else {
                return;
            };
            let found = FoundLink {
                url,
                ..FoundLink::default()
            };
            self.results.push(found);
            self.link = Link::Title;
        } else if has("result__snippet") {
            self.link = Link::Snippet;
        }
    }

    fn text(&mut self, text: &str) {
        let Some(result) = self.results.last_mut() else {
            return;
        };
        let part = match self.link {
            Link::Title => &mut result.title,
            Link::Snippet => &mut result.snippet,
            Link::Other => return,
        };
        let left = MAX_TEXT_BYTES.saturating_sub(part.len());
        let end = text.floor_char_boundary(left);
        part.push_str(text.get(..end).unwrap_or_default());
    }

    fn finish(self) -> ResultPage {
        let results = self.results.iter();
        let hits = results.filter_map(|found| hit(&found.url, &found.title, &found.snippet));
        let hits: Vec<_> = hits.take(MAX_RESULTS).collect();
        if !hits.is_empty() {
            ResultPage::Results(hits)
        } else if self.asks_for_proof {
            ResultPage::Challenge
        } else if self.says_nothing_found {
            ResultPage::Nothing
        } else {
            ResultPage::Unknown
        }
    }
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> String {
    let value = tag.attributes.get(name);
    value.map_or_else(String::new, |value| {
        String::from_utf8_lossy(value.value.as_slice()).into_owned()
    })
}

/// The page that a link of a result leads to. `None` for an advertisement and for what is no
/// address.
fn target(link: &str) -> Option<String> {
    let base = Url::parse("https://html.duckduckgo.com/html/").ok()?;
    let url = base.join(link.trim()).ok()?;
    let is_own = match url.host()? {
        Host::Domain(name) => name == "duckduckgo.com" || name == "html.duckduckgo.com",
        Host::Ipv4(_) | Host::Ipv6(_) => false,
    };
    match url.path() {
        "/l/" if is_own => {
            let mut pairs = url.query_pairs();
            let (_, target) = pairs.find(|(name, _)| name == "uddg")?;
            Some(target.into_owned())
        }
        "/y.js" if is_own => None,
        _ => Some(url.into()),
    }
}
