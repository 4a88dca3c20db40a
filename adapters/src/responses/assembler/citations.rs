//! Citations and their conversion to annotations of the Responses API.

use std::collections::HashSet;

use serde_json::json;

use crate::event::Citation;

/// Upper bound of the citations that wait for a text.
const MAX_PENDING: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Citations {
    /// The URLs that were cited, to list a source page only once.
    urls: HashSet<String>,
    /// Annotations (JSON) that arrived while no text was open.
    pub(super) pending: Vec<String>,
}

impl Citations {
    /// The annotation for a citation.
    pub(super) fn annotation(&mut self, citation: &Citation<'_>) -> String {
        if !self.urls.contains(citation.url.as_ref()) {
            self.urls.insert(citation.url.clone().into_owned());
        }
        annotation_json(&citation.url, &citation.title, citation.start, citation.end)
    }

    /// The annotation for a page on which the whole answer is based; `None` if the page was
    /// cited already.
    pub(super) fn source_annotation(&mut self, url: &str, title: &str) -> Option<String> {
        self.urls
            .insert(url.to_owned())
            .then(|| annotation_json(url, title, 0, 0))
    }

    /// Keeps an annotation until a text is open; dropped if too many wait.
    pub(super) fn keep_pending(&mut self, annotation: String) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push(annotation);
        }
    }
}

fn annotation_json(url: &str, title: &str, start: u64, end: u64) -> String {
    json!({
        "type": "url_citation", "url": url, "title": title,
        "start_index": start, "end_index": end,
    })
    .to_string()
}
