//! What the response headers say about a turn: which provider and model answer,
//! and what was changed on the way. The engine may still change it until the
//! first event goes out.

use std::sync::{Arc, Mutex, PoisonError};

use adapters::notes::Notes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::prefix::Telling;

/// Which provider and model answer.
const ROUTE_HEADER: HeaderName = HeaderName::from_static("x-respondent-route");
/// What was changed on the way: codes of the notes.
const NOTES_HEADER: HeaderName = HeaderName::from_static("x-respondent-notes");

/// What the request has in common with the last one of its session.
pub const PREFIX_HEADER: HeaderName = HeaderName::from_static("x-respondent-prefix");

/// Shared between the engine and the reply.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    route: String,
    notes: Notes,
    prefix: String,
}

impl Told {
    /// The turn goes to this route, named in full.
    pub(super) fn route(&self, name: String) {
        self.content(|content| content.route = name);
    }

    /// The request shares this much with the last one.
    pub(super) fn prefix(&self, telling: &Telling) {
        self.content(|content| content.prefix = telling.to_string());
    }

    /// These notes were made.
    pub(super) fn notes(&self, notes: &Notes) {
        self.content(|content| content.notes.extend(notes));
    }

    /// Writes the headers.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        self.content(|content| {
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

    fn content(&self, change: impl FnOnce(&mut Content)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
