//! A search that the provider itself has made: one `web_search_call`, and the pages that it found,
//! which the texts of the answer may cite.

use std::collections::HashSet;

use registry::RelayToolKind;
use serde_json::json;

use super::super::event_buffer::EventBuffer;
use super::hosted::{HostedItem, OpenHostedItem};
use super::{Assembler, OpenItem};
use crate::cited_source::CitedSource;

/// The most pages that are listed.
const MAX_FOUND: usize = 1000;

/// The pages that a search of the provider has found in a round.
#[derive(Debug, Default)]
pub(super) struct FoundPages {
    /// Their addresses, in the order in which the provider named them.
    urls: Vec<String>,
    /// The same addresses, so that each is listed once.
    known: HashSet<String>,
    /// Whether the provider has searched. It may have found nothing.
    pub(super) has_searched: bool,
    /// Whether the item of the search was written.
    is_shown: bool,
}

impl Assembler {
    /// Whether the provider searches the web itself in this turn.
    pub(super) fn provider_searches(&self) -> bool {
        let relayed = self.settings.params.relayed_tools;
        relayed.contains(RelayToolKind::WebSearch)
    }

    /// Adds a page. A text that links to it gets the annotation when it is closed, since its place
    /// is known then.
    pub(super) fn add_found_page(&mut self, url: &str, title: &str) {
        let found = &mut self.found;
        found.has_searched = true;
        if found.urls.len() < MAX_FOUND && found.known.insert(url.to_owned()) {
            found.urls.push(url.to_owned());
            self.count_bytes(url.len() + title.len());
            self.writer.sources.extend([CitedSource {
                url: url.to_owned(),
                title: title.to_owned(),
                kept: None,
            }]);
        }
    }

    /// Writes the item of the search where pages came before the text.
    pub(super) fn show_search_before_text(&mut self, events: &mut EventBuffer) {
        let is_between = !matches!(self.open, OpenItem::Message(_)) && self.calls.is_empty();
        if is_between && !self.found.urls.is_empty() {
            self.show_search(events);
        }
    }

    /// Writes the item of the search, if there was one and it is not shown yet. A text that is open
    /// is closed.
    pub(super) fn show_search(&mut self, events: &mut EventBuffer) {
        let is_due = self.found.has_searched && !self.found.is_shown && self.provider_searches();
        if !is_due {
            return;
        }
        self.found.is_shown = true;
        self.close_text("completed", true, events);
        let shows_sources = self.settings.shows_sources;
        let sources = shows_sources.then(|| {
            let urls = self.found.urls.iter();
            urls.map(|url| json!({"type": "url", "url": url})).collect()
        });
        let item = HostedItem::WebSearchCall {
            action: HostedItem::search_action(&[], sources).to_string(),
            results: None,
        };
        let out = &mut self.writer.to(events);
        OpenHostedItem::open(item, out).close(None, false, out);
    }
}
