//! Cited pages: citations in the text, and lists that come beside it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::{Chunk, scalar};
use crate::event::{Citation, Event};
use crate::json;

/// The last version of each list: some servers repeat them in every chunk.
#[derive(Debug, Default)]
pub(super) struct CitedPages {
    last: [String; 3],
}

impl CitedPages {
    /// Emits the pages of each list that has changed, lists with titles first.
    pub(super) fn emit_changed<'a>(&mut self, chunk: &Chunk<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let lists = [chunk.search_results, chunk.web_search, chunk.citations];
        for (raw, last) in lists.into_iter().zip(&mut self.last) {
            let Some(raw) = raw.filter(|raw| raw.get() != last) else {
                continue;
            };
            raw.get().clone_into(last);
            for page in json::list::<&'a RawValue>(Some(raw)) {
                let (url, title) = url_and_title(page);
                if !url.is_empty() {
                    emit(Event::Source { url, title });
                }
            }
        }
    }
}

/// Reads an element of `annotations`: `{type, url_citation: {…}}`, or with the fields of
/// `url_citation` at the top level. `None` if it is another type of annotation.
pub(super) fn citation(raw: &RawValue) -> Option<Citation<'_>> {
    #[derive(Deserialize)]
    struct ChatAnnotation<'a> {
        #[serde(borrow)]
        url_citation: Option<UrlCitation<'a>>,
    }
    #[derive(Deserialize)]
    struct UrlCitation<'a> {
        #[serde(borrow)]
        url: Cow<'a, str>,
        #[serde(borrow)]
        title: Option<Cow<'a, str>>,
        start_index: Option<u64>,
        end_index: Option<u64>,
    }
    let annotation: ChatAnnotation<'_> = serde_json::from_str(raw.get()).ok()?;
    let found = match annotation.url_citation {
        Some(found) => found,
        None => serde_json::from_str(raw.get()).ok()?,
    };
    Some(Citation {
        url: found.url,
        title: found.title.unwrap_or_default(),
        start: found.start_index.unwrap_or(0),
        end: found.end_index.unwrap_or(0),
    })
}

/// URL and title of a page.
fn url_and_title(raw: &RawValue) -> (Cow<'_, str>, Cow<'_, str>) {
    #[derive(Deserialize)]
    struct CitedPage<'a> {
        #[serde(borrow)]
        url: Option<&'a RawValue>,
        link: Option<&'a RawValue>,
        title: Option<&'a RawValue>,
    }
    if let Some(url) = json::unquote(raw.get()) {
        return (json::unescape(url), Cow::default());
    }
    match serde_json::from_str::<CitedPage<'_>>(raw.get()) {
        Ok(page) => (scalar(page.url.or(page.link)), scalar(page.title)),
        Err(_) => Default::default(),
    }
}
