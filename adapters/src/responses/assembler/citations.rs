//! Citations on their way to the text that they belong to.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// The most citations that wait for a text.
const LIMIT: usize = 1000;

/// The citations of an answer.
#[derive(Debug, Default)]
pub(super) struct Citations {
    /// The addresses that were cited.
    urls: HashSet<String>,
    /// Those that came while no text was open, in our form.
    pub(super) waiting: Vec<String>,
}

impl Citations {
    /// The annotation of the chat wire in our form: there a citation may be
    /// nested. `None` when it is another kind of annotation.
    pub(super) fn annotation(&mut self, raw: &RawValue) -> Option<String> {
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

    /// A page that the whole answer is drawn from, unless it was cited already.
    pub(super) fn source(&mut self, url: &str, title: &str) -> Option<String> {
        self.urls
            .insert(url.to_owned())
            .then(|| annotation_json(url, title, 0, 0))
    }

    /// Keeps an annotation until a text is open.
    pub(super) fn wait(&mut self, annotation: String) {
        if self.waiting.len() < LIMIT {
            self.waiting.push(annotation);
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
