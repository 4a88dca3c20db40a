//! Where the next page of a list is. Providers that give their lists in pages tell it in one of a
//! few forms.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A longer address or mark of a page is not read, in bytes.
const MAX_MARK: usize = 2_048;

/// The members beside or around the entries that may tell where the next page is.
const PLACES: [&str; 7] = [
    "",
    "/pagination",
    "/paging",
    "/meta",
    "/metadata",
    "/links",
    "/_links",
];

/// The members with an address, or a mark that is told by its form.
const LINKS: [&str; 6] = [
    "/next",
    "/next/href",
    "/next_url",
    "/nextUrl",
    "/next_link",
    "/nextLink",
];

/// The members with the mark of the next page, and the parameters for it.
const MARKS: [(&str, &str); 6] = [
    ("/nextPageToken", "pageToken"),
    ("/next_page_token", "page_token"),
    ("/nextCursor", "cursor"),
    ("/next_cursor", "cursor"),
    ("/next_page", "page"),
    ("/nextPage", "page"),
];

/// Where the next page of a list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPage {
    /// At the same address with these parameters.
    Parameters(Vec<(&'static str, String)>),
    /// At this address, which may be relative.
    Link(String),
}

/// Where a page of a list says that the next one is; `None` if it is the last one.
pub fn next_page(body: &[u8]) -> Option<NextPage> {
    let page: Value = without_entries(body)?;
    let found = PLACES.iter().find_map(|place| {
        let part = page.pointer(place)?;
        let link = LINKS.iter().find_map(|at| mark(part.pointer(at)?));
        let link = link.map(|link| {
            if link.contains(['/', '?']) {
                NextPage::Link(link)
            } else {
                let is_number = link.bytes().all(|byte| byte.is_ascii_digit());
                parameter(if is_number { "page" } else { "cursor" }, link)
            }
        });
        link.or_else(|| {
            MARKS.iter().find_map(|(at, name)| {
                let mark = mark(part.pointer(at)?)?;
                Some(if mark.contains("://") || mark.starts_with(['/', '?']) {
                    NextPage::Link(mark)
                } else {
                    parameter(name, mark)
                })
            })
        })
    });
    found.or_else(|| after_last(&page, body)).or_else(|| {
        PLACES.iter().find_map(|place| {
            let number = |at: &str| page.pointer(&format!("{place}{at}"))?.as_u64();
            let current = number("/page").or_else(|| number("/current_page"))?;
            let total = number("/total_pages").or_else(|| number("/totalPages"))?;
            (current < total).then(|| parameter("page", (current + 1).to_string()))
        })
    })
}

/// Where the header `Link` of a reply says that the next page is.
pub fn linked_page(header: &str) -> Option<NextPage> {
    let mut links = header
        .split('<')
        .skip(1)
        .filter_map(|link| link.split_once('>'));
    let (link, _) = links.find(|(_, about)| {
        let about = about.to_ascii_lowercase().replace('"', "");
        about
            .split([';', ','])
            .any(|about| about.trim() == "rel=next")
    })?;
    mark(&Value::from(link)).map(NextPage::Link)
}

/// As OpenAI and Anthropic have it: `has_more`, and the id of the last entry. Their parameters have
/// different names; only OpenAI calls its object a list.
fn after_last(page: &Value, body: &[u8]) -> Option<NextPage> {
    let has_more = page.get("has_more").or_else(|| page.get("hasMore"));
    if has_more != Some(&Value::Bool(true)) {
        return None;
    }
    let last = page.get("last_id").or_else(|| page.get("lastId"));
    let last = last.and_then(mark).or_else(|| {
        let last: Value = serde_json::from_str(super::entries(body)?.last()?.get()).ok()?;
        mark(last.get("id")?)
    })?;
    let mut pairs = vec![("after", last.clone())];
    if page.get("object").is_none() {
        pairs.push(("after_id", last));
    }
    Some(NextPage::Parameters(pairs))
}

fn parameter(name: &'static str, value: String) -> NextPage {
    NextPage::Parameters(vec![(name, value)])
}

fn mark(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_u64()?.to_string(),
        _ => return None,
    };
    let is_usable = !text.is_empty() && text.len() <= MAX_MARK && !text.contains(char::is_control);
    is_usable.then_some(text)
}

/// The object around the entries of a list, without these.
fn without_entries(body: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow, default, rename = "data")]
        _data: Option<&'a RawValue>,
        #[serde(borrow, default, rename = "models")]
        _models: Option<&'a RawValue>,
        #[serde(flatten)]
        others: Value,
    }
    let whole: Envelope<'_> = serde_json::from_slice(body).ok()?;
    Some(whole.others)
}
