//! Citations and their conversion to annotations of the Responses API.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

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
    /// Converts an annotation of Chat Completions, with the citation in `url_citation` or at
    /// the top level. `None` if it is another type of annotation.
    pub(super) fn parse_annotation(&mut self, raw: &RawValue) -> Option<String> {
        #[derive(Deserialize)]
        struct Annotation {
            url_citation: Option<Citation>,
            #[serde(flatten)]
            flat: Option<Citation>,
        }
        #[derive(Deserialize)]
        struct Citation {
            url: String,
            title: Option<String>,
            start_index: Option<u64>,
            end_index: Option<u64>,
        }
        let annotation: Annotation = serde_json::from_str(raw.get()).ok()?;
        let citation = annotation.url_citation.or(annotation.flat)?;
        self.urls.insert(citation.url.clone());
        Some(annotation_json(
            &citation.url,
            &citation.title.unwrap_or_default(),
            citation.start_index.unwrap_or(0),
            citation.end_index.unwrap_or(0),
        ))
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
