//! What the answers of all search engines have in common: refusals, and JSON of which anything may
//! be missing or of another type.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use excerpts::html::{VisiblePart, visible_parts};
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{SearchError, SearchHit};

/// More results than a search engine gives for any count.
const MAX_HITS: usize = 100;

/// A longer snippet is cut.
const MAX_SNIPPET_CHARS: usize = 8_000;

/// A longer message of a refusal is cut.
const MAX_MESSAGE_CHARS: usize = 200;

/// So much of a page is read for a message.
const MAX_PAGE_BYTES: usize = 4_000;

/// An answer to a search.
pub(super) struct SearchReply<'a> {
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl SearchReply<'_> {
    /// The JSON of an answer that is no refusal.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, SearchError> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(self.body).map_err(|_| SearchError::BadReply)
    }

    /// What a refusal is, if the statuses for keys are about keys.
    pub(super) fn refusal(&self) -> SearchError {
        match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::PAYMENT_REQUIRED | StatusCode::FORBIDDEN => {
                SearchError::Key(self.status)
            }
            _ => self.keyless_refusal(),
        }
    }

    /// What a refusal is that is not about the key.
    pub(super) fn keyless_refusal(&self) -> SearchError {
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            let retry_after = self.retry_after();
            return SearchError::RateLimit { retry_after };
        }
        self.refused(&self.message())
    }

    /// A refusal with this message.
    pub(super) fn refused(&self, message: &str) -> SearchError {
        SearchError::Refused {
            status: self.status,
            message: one_line(message, MAX_MESSAGE_CHARS),
        }
    }

    /// The header `Retry-After` in seconds. A date counts from the `Date` of the same answer.
    fn retry_after(&self) -> Option<u64> {
        let value = self.header(&RETRY_AFTER)?;
        if let Ok(seconds) = value.parse() {
            return Some(seconds);
        }
        let then = httpdate::parse_http_date(value).ok()?;
        let now = httpdate::parse_http_date(self.header(&DATE)?).ok()?;
        let left = then.duration_since(now).unwrap_or(Duration::ZERO);
        Some(left.as_secs())
    }

    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// What a refusal says, in one of the shapes that the search engines use.
    pub(super) fn message(&self) -> String {
        const PLACES: [&str; 8] = [
            "/error/message",
            "/error/detail",
            "/errors/0/detail",
            "/error",
            "/detail/error",
            "/detail",
            "/detail/0/msg",
            "/message",
        ];
        let Ok(body) = serde_json::from_slice::<Value>(self.body) else {
            return text_of_page(self.body);
        };
        let mut texts = PLACES.iter().filter_map(|place| body.pointer(place));
        let text = texts.find_map(Value::as_str);
        text.unwrap_or_default().to_owned()
    }
}

/// The start of what a browser shows of a page. Gateways before a search engine refuse with one.
fn text_of_page(body: &[u8]) -> String {
    let start = body.get(..MAX_PAGE_BYTES).unwrap_or(body);
    let html = String::from_utf8_lossy(start);
    let texts = visible_parts(&html).filter_map(|part| match part {
        VisiblePart::Text(text) => Some(text),
        VisiblePart::Open(_) | VisiblePart::Close(_) => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// The results of an answer. `listed` is how many entries its list had, usable or not.
pub(super) fn found(listed: usize, hits: Vec<SearchHit>) -> Result<Vec<SearchHit>, SearchError> {
    match (hits.is_empty(), listed) {
        (false, _) => Ok(hits),
        (true, 0) => Err(SearchError::Empty),
        // A list without a single address is none.
        (true, _) => Err(SearchError::BadReply),
    }
}

/// A result, if it has an address.
pub(super) fn hit(url: &str, title: &str, snippet: &str) -> Option<SearchHit> {
    let url = url.trim();
    (!url.is_empty()).then(|| SearchHit {
        url: url.to_owned(),
        title: one_line(title, usize::MAX),
        snippet: snippet.trim().chars().take(MAX_SNIPPET_CHARS).collect(),
        published: None,
        score: None,
    })
}

impl SearchHit {
    /// The result with its date, if there is one.
    pub(super) fn published(mut self, date: &str) -> Self {
        let date = one_line(date, 100);
        self.published = (!date.is_empty()).then_some(date);
        self
    }

    /// The result with its score, if that is one from 0 to 1.
    pub(super) fn scored(mut self, score: Option<f32>) -> Self {
        self.score = score.filter(|score| (0.0..=1.0).contains(score));
        self
    }
}

/// The text without line breaks and other control characters, cut.
pub(super) fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    for word in text.split(|char: char| char.is_whitespace() || char.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > max_chars.saturating_mul(4) {
            break;
        }
    }
    if let Some((end, _)) = line.char_indices().nth(max_chars) {
        line.truncate(end);
    }
    line
}

/// A value, or what has another type.
#[derive(Deserialize)]
#[serde(untagged)]
enum Loose<T> {
    Is(T),
    Other(IgnoredAny),
}

/// Reads a field; what has another type counts as missing.
pub(super) fn loose<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(match Loose::deserialize(deserializer)? {
        Loose::Is(value) => value,
        Loose::Other(IgnoredAny) => T::default(),
    })
}

/// The first elements of a list. Those of another type are left out.
pub(super) struct FirstElements<T> {
    pub elements: Vec<T>,
    /// How many elements the list has, of whatever type.
    pub listed: usize,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FirstElements<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = FirstElements<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        let mut listed = 0;
        while elements.len() < MAX_HITS {
            match list.next_element()? {
                None => return Ok(FirstElements { elements, listed }),
                Some(Loose::Is(element)) => elements.push(element),
                Some(Loose::Other(IgnoredAny)) => {}
            }
            listed += 1;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            listed += 1;
        }
        Ok(FirstElements { elements, listed })
    }
}
