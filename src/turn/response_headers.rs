//! The `x-respondent-*` response headers of a turn: which provider and model answer, what was
//! changed in the request, and how much of it the provider may have cached.

use std::sync::Arc;

use adapters::notes::Notes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::prefix::PrefixReport;
use parking_lot::Mutex;

/// The provider and the model that answer.
const ROUTE_HEADER: HeaderName = HeaderName::from_static("x-respondent-route");
/// The codes of the notes: how the client's request was changed for the provider, and how an answer
/// was that is not streamed.
const NOTES_HEADER: HeaderName = HeaderName::from_static("x-respondent-notes");

/// How the upstream request compares with the previous one of its session; see `turn::prefix`.
pub const PREFIX_HEADER: HeaderName = HeaderName::from_static("x-respondent-prefix");

/// The headers, shared by the engine and the HTTP reply. The engine changes them until the first
/// event goes out; then the reply writes them.
#[derive(Clone, Default)]
pub(super) struct ResponseHeaders(Arc<Mutex<HeaderContent>>);

#[derive(Default)]
struct HeaderContent {
    route: String,
    notes: Notes,
    prefix: String,
}

impl ResponseHeaders {
    /// Sets the full name of the route.
    pub(super) fn set_route(&self, name: String) {
        self.update(|content| content.route = name);
    }

    pub(super) fn set_prefix(&self, report: &PrefixReport) {
        self.update(|content| content.prefix = report.to_string());
    }

    pub(super) fn add_notes(&self, notes: &Notes) {
        self.update(|content| content.notes.extend(notes));
    }

    /// Inserts the headers that have a value.
    pub(super) fn write_to(&self, headers: &mut HeaderMap) {
        self.update(|content| {
            let codes = content.notes.codes();
            for (name, value) in [
                (ROUTE_HEADER, &content.route),
                (NOTES_HEADER, &codes),
                (PREFIX_HEADER, &content.prefix),
            ] {
                if let Ok(value) = HeaderValue::from_str(value)
                    && !value.is_empty()
                {
                    headers.insert(name, value);
                }
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut HeaderContent)) {
        change(&mut self.0.lock());
    }
}
