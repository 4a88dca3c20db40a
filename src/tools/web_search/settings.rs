//! What the client's definition of `web_search` asks for, and what it wants to see of the searches.

use adapters::tools::WebSearchDefinition;
use adapters::turn::Controls;

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

impl HostedSearchSettings {
    /// Those of a definition. A place and a size that cannot be read are left at their default, as
    /// the API does with fields that it does not know.
    pub(super) fn of(definition: &WebSearchDefinition<'_>, controls: &Controls<'_>) -> Self {
        let location = definition.user_location;
        let location = location.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let context = definition.search_context_size;
        let context = context.and_then(|raw| serde_json::from_str(raw.get()).ok());
        Self {
            allowed_domains: definition.allowed_domains.clone(),
            blocked_domains: definition.blocked_domains.clone(),
            location,
            context: context.unwrap_or_default(),
            cache_only: !definition.external_web_access,
            shows_sources: controls.search_sources,
            shows_results: controls.search_results,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    /// Promise: The fields of the client's `web_search` are honoured: domains, the user's place,
    /// the size of the context, and whether the web may be asked. What would limit the search and
    /// cannot be read is refused.
    #[test]
    fn definitions_are_read() {
        let tried = |json: &str| -> Result<HostedSearchSettings, String> {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            let definition = WebSearchDefinition::read(&raw).map_err(|fault| fault.message)?;
            Ok(HostedSearchSettings::of(&definition, &Controls::default()))
        };
        let read = |json: &str| -> HostedSearchSettings { tried(json).unwrap() };
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
        // What else is malformed takes no limit away.
        let limited = r#""filters":{"allowed_domains":["docs.rs"]}"#;
        for malformed in [
            r#""user_location":"DE""#,
            r#""search_context_size":5"#,
            r#""external_web_access":"cached""#,
            r#""unknown":{"a":[]}"#,
        ] {
            let settings = read(&format!("{{{malformed},{limited}}}"));
            assert_eq!(settings.allowed_domains, ["docs.rs"], "{malformed}");
            let is_by_name = malformed.contains("cached");
            assert_eq!(settings.cache_only, is_by_name, "{malformed}");
        }
        let many = vec!["a.org"; 101];
        for (field, value) in [
            ("filters", json!("docs.rs")),
            (
                "filters.allowed_domains",
                json!({"allowed_domains": "docs.rs"}),
            ),
            ("filters.blocked_domains", json!({"blocked_domains": [1]})),
            ("filters.allowed_domains", json!({"allowed_domains": many})),
        ] {
            let name = field.split('.').next().unwrap();
            let refused = tried(&json!({ name: value }).to_string()).unwrap_err();
            assert!(
                refused.starts_with(&format!("'{field}' of the tool")),
                "{refused}"
            );
        }
    }
}
