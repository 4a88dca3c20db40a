//! The page of DuckDuckGo for browsers without JavaScript. It is no API: it may change, and it
//! often asks for proof of a human.
//!
//! Request: searxng/searxng, searx/engines/duckduckgo.py: a form with `q`, of fewer than 500
//! characters, an empty `b` for the first page, `kl` for a region and `df` for a period, sent with
//! a `Referer`; there is no count, and a redirection leads to no results. Statuses of the page that
//! asks for proof: deedy5/duckduckgo_search, duckduckgo_search/duckduckgo_search.py, which takes
//! 202, 403 and 418 for limits. What is in the page is told in [`page`].

mod page;

use http::header::{ACCEPT, CONTENT_TYPE, REFERER};
use http::{HeaderValue, Method, StatusCode};
use jiff::civil::Date;
use url::form_urlencoded::Serializer;

use self::page::{ResultPage, read_page};
use super::answer::SearchReply;
use super::engine::EngineFacts;
use super::recency::Recency;
use super::region::{ALL_REGIONS, region};
use super::request::country;
use super::words::{WordLimit, words_with_sites};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &[],
    base_url: Some("https://html.duckduckgo.com"),
    request,
    read,
};

const LIMIT: WordLimit = WordLimit::chars(499);

#[expect(
    clippy::unnecessary_wraps,
    reason = "all search engines have this signature"
)]
fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    _today: Date,
) -> Result<WebRequest, SearchError> {
    let region = country(query).as_deref().and_then(region);
    let mut form = Serializer::new(String::new());
    form.append_pair("q", &words_with_sites(query, &LIMIT));
    form.append_pair("b", "");
    form.append_pair("kl", region.unwrap_or(ALL_REGIONS));
    if let Some(recency) = query.recency_days.and_then(Recency::of) {
        form.append_pair("df", recency.letter());
    }
    let mut request = WebRequest::get(settings.endpoint(&["html", ""]));
    request.method = Method::POST;
    request.body = form.finish().into_bytes();
    for (name, value) in [
        (ACCEPT, "text/html"),
        (CONTENT_TYPE, "application/x-www-form-urlencoded"),
        (REFERER, "https://html.duckduckgo.com/"),
    ] {
        request
            .headers
            .insert(name, HeaderValue::from_static(value));
    }
    Ok(request)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    match reply.status {
        StatusCode::FORBIDDEN | StatusCode::IM_A_TEAPOT => return Err(SearchError::Challenge),
        StatusCode::SEE_OTHER => return Err(SearchError::Empty),
        status if !status.is_success() => return Err(reply.keyless_refusal()),
        _ => {}
    }
    match read_page(&String::from_utf8_lossy(reply.body)) {
        ResultPage::Results(hits) => Ok(hits),
        ResultPage::Nothing => Err(SearchError::Empty),
        ResultPage::Challenge => Err(SearchError::Challenge),
        ResultPage::Unknown if reply.status == StatusCode::ACCEPTED => Err(SearchError::Challenge),
        ResultPage::Unknown => Err(SearchError::BadReply),
    }
}
