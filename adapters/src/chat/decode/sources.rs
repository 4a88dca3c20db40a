//! Lists of cited pages that come beside the answer's text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::{Chunk, parse_list, scalar};
use crate::event::Event;
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
            for page in parse_list::<&'a RawValue>(Some(raw)) {
                let (url, title) = url_and_title(page);
                if !url.is_empty() {
                    emit(Event::Source { url, title });
                }
            }
        }
    }
}

/// URL and title of a page.
fn url_and_title(raw: &RawValue) -> (Cow<'_, str>, Cow<'_, str>) {
    #[derive(Deserialize)]
    struct CitedPage<'a> {
        #[serde(borrow)]
        url: Option<&'a RawValue>,
        #[serde(borrow)]
        link: Option<&'a RawValue>,
        #[serde(borrow)]
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
