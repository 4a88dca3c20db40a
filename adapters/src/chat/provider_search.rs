//! The provider's own search of the web, in place of the functions of the proxy.
//!
//! It is used where it does what the client asks for. Whether it is used depends on the request's
//! tools and controls alone, so that it stays the same throughout a session.

use registry::{ChatQuirks, EnumSet, Model, ProviderSearch, RelayToolKind};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::encode::is_thinking;
use crate::tools::{ProviderToolUse, ProxyTool, ToolChoice, WebSearchDefinition};
use crate::turn::Turn;

/// The name by which a provider calls its search if the arguments of the call are its result.
pub(super) const ECHOED: &str = "$web_search";

/// The provider's search, if this turn uses it.
pub(super) fn used(turn: &Turn<'_>, model: &Model, quirks: &ChatQuirks) -> Option<ProviderSearch> {
    let search = quirks.web_search;
    let wanted = definition_of(turn)?;
    let is_wanted = match turn.tools.provider_tools() {
        ProviderToolUse::Never => false,
        ProviderToolUse::WhereEqual => search.is_equal_to_proxy(),
        ProviderToolUse::Always => search != ProviderSearch::None,
    };
    let is_allowed = match &turn.tool_choice {
        ToolChoice::Allowed { names, .. } => {
            let mut functions = turn.tools.in_place_of(RelayToolKind::WebSearch);
            functions.any(|name| names.contains(name))
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Named(_) => true,
    };
    let does_what_is_asked = wanted.external_web_access
        && (search.has_domain_filters() || !wanted.has_domains())
        && !(search.excludes_thinking() && is_thinking(turn, model));
    (is_wanted && is_allowed && does_what_is_asked).then_some(search)
}

/// See [`crate::wire::relayed_tools`].
pub(crate) fn relayed_tools(
    turn: &Turn<'_>,
    model: &Model,
    quirks: &ChatQuirks,
) -> EnumSet<RelayToolKind> {
    match used(turn, model, quirks) {
        Some(_) => EnumSet::empty().with(RelayToolKind::WebSearch),
        None => EnumSet::empty(),
    }
}

/// The tool of the request.
pub(super) fn definition(search: ProviderSearch, turn: &Turn<'_>) -> Value {
    match search {
        ProviderSearch::None => Value::Null,
        ProviderSearch::EchoedCall => {
            json!({"type": "builtin_function", "function": {"name": ECHOED}})
        }
        ProviderSearch::RequestTool => {
            json!({"type": "web_search", "web_search": {"enable": true, "search_result": true}})
        }
        ProviderSearch::ServerTool => {
            let parameters = definition_of(turn).map(|wanted| parameters(&wanted));
            let parameters = parameters.unwrap_or_default();
            json!({"type": "openrouter:web_search", "parameters": parameters})
        }
    }
}

/// What the client's definition of the tool asks for. Parsing has refused one that is malformed.
fn definition_of<'a>(turn: &Turn<'a>) -> Option<WebSearchDefinition<'a>> {
    WebSearchDefinition::of(&turn.tools)?.ok()
}

fn parameters(wanted: &WebSearchDefinition<'_>) -> Map<String, Value> {
    let as_written =
        |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let all = [
        ("allowed_domains", Some(json!(wanted.allowed_domains))),
        ("excluded_domains", Some(json!(wanted.blocked_domains))),
        (
            "search_context_size",
            as_written(wanted.search_context_size),
        ),
        ("user_location", as_written(wanted.user_location)),
    ];
    let given = all.into_iter().filter_map(|(name, value)| {
        let value = value.filter(|value| *value != json!([]))?;
        Some((name.to_owned(), value))
    });
    given.collect()
}

/// The type and the name of a call in a request.
pub(super) fn sent_call<'n>(name: &'n str, quirks: &ChatQuirks) -> (&'static str, &'n str) {
    if name == ProxyTool::ECHOED_SEARCH && quirks.web_search == ProviderSearch::EchoedCall {
        ("builtin_function", ECHOED)
    } else {
        ("function", name)
    }
}
