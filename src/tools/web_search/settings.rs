//! What the client's definition of `web_search` asks for, and what it wants to see of the searches.
//!
//! The fields are those of OpenAI's API reference; `blocked_domains` is an extension of others.

use adapters::turn::Controls;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::tools::web::search::UserLocation;
use crate::tools::web::shown::SearchContext;

/// The settings of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostedSearchSettings {
    /// Only pages of these domains and of those below them, if there are any.
    pub(super) allowed_domains: Vec<String>,
    /// No pages of these.
    pub(super) blocked_domains: Vec<String>,
    /// Where the user is.
    pub(super) location: Option<UserLocation>,
    /// How much of a search the model gets.
    pub(super) context: SearchContext,
    /// Only what was found before may be used: `external_web_access: false`.
    pub(super) cache_only: bool,
    /// Whether the client wants the addresses of what was found.
    pub(super) shows_sources: bool,
    /// Whether the client wants what was found.
    pub(super) shows_results: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SearchDefinition {
    filters: Option<SearchFilters>,
    user_location: Option<DefinedLocation>,
    search_context_size: Option<String>,
    external_web_access: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SearchFilters {
    allowed_domains: Option<Vec<String>>,
    blocked_domains: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DefinedLocation {
    country: Option<String>,
    region: Option<String>,
    city: Option<String>,
    timezone: Option<String>,
}

impl HostedSearchSettings {
    /// Reads a definition. What cannot be read is left at its default, as the API does with fields
    /// that it does not know.
    pub(super) fn of(definition: Option<&RawValue>, controls: &Controls<'_>) -> Self {
        let read = definition.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let read: SearchDefinition = read.unwrap_or_default();
        let filters = read.filters.unwrap_or_default();
        let context = read.search_context_size;
        let context = context.and_then(|size| size.parse().ok());
        Self {
            allowed_domains: filters.allowed_domains.unwrap_or_default(),
            blocked_domains: filters.blocked_domains.unwrap_or_default(),
            location: read.user_location.map(|location| UserLocation {
                country: location.country,
                region: location.region,
                city: location.city,
                timezone: location.timezone,
            }),
            context: context.unwrap_or_default(),
            cache_only: read.external_web_access == Some(false),
            shows_sources: controls.search_sources,
            shows_results: controls.search_results,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The fields of the client's `web_search` are honoured: domains, the user's place,
    /// the size of the context, and whether the web may be asked.
    #[test]
    fn definitions_are_read() {
        let read = |json: &str| {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            HostedSearchSettings::of(Some(&raw), &Controls::default())
        };
        assert_eq!(
            read(r#"{"type":"web_search"}"#),
            HostedSearchSettings::default()
        );
        let all = read(
            r#"{"type":"web_search","filters":{"allowed_domains":["docs.rs"],"blocked_domains":["x.com"]},"user_location":{"type":"approximate","country":"DE","city":"Ulm"},"search_context_size":"high","external_web_access":false}"#,
        );
        assert_eq!(all.allowed_domains, ["docs.rs"]);
        assert_eq!(all.blocked_domains, ["x.com"]);
        assert_eq!(all.location.unwrap().country.as_deref(), Some("DE"));
        assert_eq!((all.context.results(), all.cache_only), (10, true));
        let odd = read(r#"{"type":"web_search","search_context_size":"huge","filters":null}"#);
        assert_eq!(odd, HostedSearchSettings::default());
    }
}
