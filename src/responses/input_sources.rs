//! The sources that the input of a request names: what earlier answers have found and cited.

use adapters::stored_history::OwnItem;
use serde::Deserialize;

use crate::store::{NewSource, SourceStatus};

/// The most sources that are taken from the input of one request: the last ones.
const MAX_INPUT_SOURCES: usize = 12;

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamingItem {
    #[serde(rename = "type")]
    kind: String,
    action: SearchAction,
    content: Vec<AnnotatedPart>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SearchAction {
    url: Option<String>,
    sources: Vec<NamedSource>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AnnotatedPart {
    annotations: Vec<NamedSource>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedSource {
    #[serde(rename = "type")]
    kind: String,
    url: String,
    title: String,
}

/// The sources that these items name, in their order, each once.
pub(super) fn input_sources(items: &[OwnItem]) -> Vec<NewSource> {
    let mut sources: Vec<NewSource> = Vec::new();
    let may_name =
        |json: &str| json.contains("web_search_call") || json.contains("\"url_citation\"");
    for item in items.iter().rev().filter(|item| may_name(&item.json)) {
        // What has another form names none.
        let item: NamingItem = serde_json::from_str(&item.json).unwrap_or_default();
        let cited = item.content.into_iter().flat_map(|part| part.annotations);
        let cited = cited.filter(|cited| cited.kind == "url_citation");
        let mut named: Vec<NamedSource> = cited.collect();
        if item.kind == "web_search_call" {
            named.extend(item.action.sources);
            named.extend(item.action.url.map(|url| NamedSource {
                url,
                ..NamedSource::default()
            }));
        }
        for one in named.into_iter().rev().filter(|one| !one.url.is_empty()) {
            if sources.len() >= MAX_INPUT_SOURCES {
                break;
            }
            if sources.iter().all(|known| known.url != one.url) {
                sources.push(NewSource::new(SourceStatus::Input, &one.url, &one.title));
            }
        }
    }
    sources.reverse();
    sources
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Promise: At most the last 12 sources and citations that the input of a request repeats are
    /// sources of its response, each once.
    #[test]
    fn the_last_sources_of_the_input_are_taken() {
        let item = |json: Value| OwnItem {
            id: String::new(),
            json: json.to_string(),
            prefix: 0,
        };
        let listed: Vec<Value> = (0..20)
            .map(|n| json!({"type": "url", "url": format!("https://a.example/{n}")}))
            .collect();
        let items = [
            item(
                json!({"type": "web_search_call", "action": {"type": "search", "sources": listed}}),
            ),
            item(
                json!({"type": "web_search_call", "action": {"type": "open_page", "url": "https://b.example/"}}),
            ),
            item(json!({"type": "message", "content": "a web_search_call"})),
            item(
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x",
                "annotations": [
                    {"type": "url_citation", "url": "https://a.example/19", "title": "Nineteen"},
                    {"type": "file_citation", "url": "https://no.example/"},
                ]}]}),
            ),
        ];
        let sources = input_sources(&items);
        let urls: Vec<&str> = sources.iter().map(|source| &*source.url).collect();
        let mut expected: Vec<String> = (9..19).map(|n| format!("https://a.example/{n}")).collect();
        expected.extend([
            "https://b.example/".to_owned(),
            "https://a.example/19".to_owned(),
        ]);
        assert_eq!(urls, expected);
        assert_eq!(sources[11].title, "Nineteen");
        assert_eq!(sources[11].domain, "a.example");
    }
}
