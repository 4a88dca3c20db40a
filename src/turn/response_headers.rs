//! The `x-respondent-*` response headers of a turn: which provider and model answer, what was
//! changed in the request, and how much of it the provider may have cached; and what the provider
//! says of the limits of its rate.

use std::sync::Arc;

use adapters::notes::Notes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::prefix::PrefixReport;
use parking_lot::Mutex;

/// The provider and the model that answer.
const ROUTE_HEADER: HeaderName = HeaderName::from_static("x-respondent-route");
/// The codes of the notes: how the client's request was changed for the provider, and how an answer
/// was that is not streamed.
pub(super) const NOTES_HEADER: HeaderName = HeaderName::from_static("x-respondent-notes");

/// How the upstream request compares with the previous one of its session; see `turn::prefix`.
pub const PREFIX_HEADER: HeaderName = HeaderName::from_static("x-respondent-prefix");

/// How the names of the provider's headers begin that are passed on.
const RATE_LIMITS: &str = "x-ratelimit-";
/// The most of these headers, and the most bytes of a name or a value.
const MAX_RATE_LIMITS: usize = 16;
const MAX_RATE_LIMIT_BYTES: usize = 128;

/// The headers, shared by the engine and the HTTP reply. The engine changes them until the first
/// event goes out; then the reply writes them.
#[derive(Clone, Default)]
pub(super) struct ResponseHeaders(Arc<Mutex<HeaderContent>>);

#[derive(Default)]
struct HeaderContent {
    route: String,
    notes: Notes,
    prefix: String,
    rate_limits: Vec<(HeaderName, HeaderValue)>,
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

    /// Takes the limits that the provider names in the head of its last reply.
    pub(super) fn set_rate_limits(&self, upstream: &HeaderMap) {
        let is_passed_on = |(name, value): &(&HeaderName, &HeaderValue)| {
            name.as_str().starts_with(RATE_LIMITS)
                && name.as_str().len().max(value.len()) <= MAX_RATE_LIMIT_BYTES
                && value.to_str().is_ok()
        };
        let limits = upstream
            .iter()
            .filter(is_passed_on)
            .take(MAX_RATE_LIMITS)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        self.update(|content| content.rate_limits = limits);
    }

    /// Inserts the headers that have a value.
    pub(super) fn write_to(&self, headers: &mut HeaderMap) {
        self.update(|content| {
            headers.extend(content.rate_limits.iter().cloned());
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
