//! What a page says of itself.

use dom_query::Document;
use serde_json::Value;
use url::Url;

use crate::tools::web::fetch::page_url;

/// A longer title is cut.
pub(super) const MAX_TITLE_CHARS: usize = 500;
const MAX_DATE_CHARS: usize = 64;
/// A larger description of a page for search engines is not read: its values take many times the
/// memory of its text.
const MAX_LINKED_DATA: usize = 64 << 10;
const MAX_LINKED_DATA_SCRIPTS: usize = 8;

/// The first of these that a page has says when it was published.
const DATES: [(&str, &str); 8] = [
    ("meta[property='article:published_time']", "content"),
    ("meta[itemprop=datePublished]", "content"),
    ("meta[name=citation_publication_date]", "content"),
    ("meta[name='dc.date']", "content"),
    ("meta[name='DC.date']", "content"),
    ("meta[name=date]", "content"),
    ("[itemprop=datePublished]", "datetime"),
    ("article time[pubdate]", "datetime"),
];

/// The address that a page gives as its own, if it can be one of a page.
pub(super) fn canonical(page: &Document, url: &Url) -> Option<String> {
    let named = [
        ("link[rel~=canonical]", "href"),
        ("meta[property='og:url']", "content"),
    ];
    named.into_iter().find_map(|(selector, attribute)| {
        let element = page.select_single(selector);
        let named = url.join(element.attr(attribute)?.trim()).ok()?;
        page_url(named.as_str()).ok().map(String::from)
    })
}

/// When a page was published, as it says it.
pub(super) fn published(page: &Document) -> Option<String> {
    let dates = DATES.iter().find_map(|(selector, attribute)| {
        let date = page.select_single(selector).attr(attribute)?;
        (!date.trim().is_empty()).then(|| date.to_string())
    });
    let date = dates.or_else(|| linked_date(page))?;
    Some(shortened(&date, MAX_DATE_CHARS))
}

/// The date in the description of a page for search engines.
fn linked_date(page: &Document) -> Option<String> {
    let scripts = page.select("script[type='application/ld+json']");
    let mut scripts = scripts.nodes().iter().take(MAX_LINKED_DATA_SCRIPTS);
    scripts.find_map(|script| {
        let text = script.text();
        let is_small = text.len() <= MAX_LINKED_DATA;
        let data: Value = serde_json::from_str(is_small.then_some(&text)?).ok()?;
        let things = match data.get("@graph").unwrap_or(&data) {
            Value::Array(things) => things.as_slice(),
            thing => std::slice::from_ref(thing),
        };
        let mut dates = things.iter().filter_map(|thing| thing.get("datePublished"));
        Some(dates.find_map(Value::as_str)?.to_owned())
    })
}

/// The first characters of a text on one line, without space around it.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(most).collect()
}
