//! Lists of pages that stand beside the answer instead of in it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::{Chunk, list, word};
use crate::event::Event;
use crate::json;

/// The lists as they were last: some servers repeat them in every chunk.
#[derive(Debug, Default)]
pub(super) struct Sources {
    last: [String; 3],
}

impl Sources {
    /// Tells the pages of the lists of a chunk, those with titles first.
    pub(super) fn take<'a>(&mut self, chunk: &Chunk<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let lists = [chunk.search_results, chunk.web_search, chunk.citations];
        for (raw, last) in lists.into_iter().zip(&mut self.last) {
            let Some(raw) = raw.filter(|raw| raw.get() != last) else {
                continue;
            };
            raw.get().clone_into(last);
            for page in list::<&'a RawValue>(Some(raw)) {
                let (url, title) = read(page);
                if !url.is_empty() {
                    emit(Event::Source { url, title });
                }
            }
        }
    }
}

/// Address and title of a page.
fn read(raw: &RawValue) -> (Cow<'_, str>, Cow<'_, str>) {
    #[derive(Deserialize)]
    struct Page<'a> {
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
    match serde_json::from_str::<Page<'_>>(raw.get()) {
        Ok(page) => (word(page.url.or(page.link)), word(page.title)),
        Err(_) => Default::default(),
    }
}
