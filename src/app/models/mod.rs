//! The models that are served: `GET /v1/models` and `GET /v1/models/{id}`.
//!
//! [`list`](mod@list) builds the body of the list, which OpenAI SDKs and Codex read, and
//! [`prompt`] has the instructions that Codex requires for each model. [`providers`] is what
//! `respondent models` shows.

pub mod list;
pub mod prompt;
pub mod providers;

use std::time::Duration;

use adapters::fault::{Fault, Kind};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use http::{Response, StatusCode};
use registry::{Model, Provider, Registry, Route, Window, WindowSource};

pub use list::CatalogEntry;
use list::model_object;

use super::query::{ParameterError, QueryParams};
use super::{AppState, internal, respond_with, respond_with_json};
use crate::config::Config;
use crate::upstream::LearnedQuirks;
use axum::body::Body;

/// How long the list waits, after the start, for providers that were never asked for their models.
/// Codex waits five seconds for it.
const FIRST_LISTS: Duration = Duration::from_secs(2);

/// `GET /v1/models`. With the query `with` the list has the model of that name in any case, if
/// there is one. With `instructions=none` the entries for Codex have no instructions, for a command
/// that puts others in, and the list is whole. Codex adds its version, which is ignored as any
/// other query is.
pub(super) async fn list(
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ParameterError> {
    let params = QueryParams::parse_some(query.as_deref(), &["with", "instructions"])?;
    app.discovery.shown(FIRST_LISTS).await;
    let config = app.service.config.load();
    let learned_quirks = Some(app.service.learned_quirks());
    let entries = catalog_with(&config, learned_quirks, params.text("with"));
    let body = if params.text("instructions") == Some("none") {
        list::build_whole(&entries)
    } else {
        let instructions = config.codex.instructions.as_deref();
        list::build(&entries, instructions.unwrap_or(prompt::PROMPT))
    };
    if body.shortened + body.dropped > 0 {
        tracing::debug!(
            body.shortened,
            body.dropped,
            "the model list was cut to the size that Codex reads"
        );
    }
    Ok(respond_with("application/json", body.json))
}

/// `GET /v1/models/{id}`: a listed model, an alias or `provider/model`, which are all
/// names that a turn can have as its model. OpenAI SDKs send the slashes of an id
/// escaped, other clients as they are.
pub(super) async fn retrieve(
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Response<Body> {
    app.discovery.shown(FIRST_LISTS).await;
    let config = app.service.config.load();
    // Rejected is an id that is not UTF-8.
    let id = id.map_or_else(|_| String::new(), |Path(id)| id);
    match find(&config.registry, &id) {
        Ok(route) => respond_with_json(&model_object(&id, &route.provider.id)),
        Err(message) => model_not_found(message),
    }
}

/// The route of this model, or why there is none, in the words of a turn that asks for
/// the model.
fn find(registry: &Registry, id: &str) -> Result<Route, String> {
    if !is_model_id(id) {
        return Err("This is not a model id.".to_owned());
    }
    registry
        .resolve(id, false)
        .map_err(|error| error.to_string())
}

/// Whether a decoded id can be one. A provider that takes any model name would otherwise
/// make a model of an escaped dot segment.
fn is_model_id(id: &str) -> bool {
    !id.contains(char::is_control)
        && !id
            .split('/')
            .any(|part| matches!(part.trim(), "" | "." | ".."))
}

fn model_not_found(message: String) -> Response<Body> {
    let fault = Fault {
        param: Some("model".into()),
        ..Fault::new(Kind::ModelNotFound, message)
    };
    let mut response = respond_with("application/json", fault.body());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// The models of the configuration and those that providers list themselves. The default one is
/// first, because Codex takes the order as a preference. A window that an overflow error revealed
/// replaces the listed one if it is smaller or none is listed.
pub fn catalog(config: &Config, learned_quirks: Option<&LearnedQuirks>) -> Vec<CatalogEntry> {
    let registry = &config.registry;
    let mut entries: Vec<CatalogEntry> = registry
        .models()
        .map(|(provider, model)| {
            let learned = learned_quirks
                .and_then(|learned_quirks| learned_quirks.window(&provider.id, &model.id))
                .filter(|learned| model.window.is_none_or(|listed| learned.tokens < listed));
            let window = learned.unwrap_or_else(|| model.window());
            let name = registry.public_name(provider, &model);
            entry(config, provider, &model, name, window)
        })
        .collect();
    if let Some(default) = &registry.default_model
        && let Ok(route) = registry.resolve(default, false)
    {
        let name = registry.public_name(&route.provider, &route.model);
        entries.sort_by_key(|entry| entry.slug != name);
    }
    entries
}

/// The listed models, the one with this name, and those of sub-agents. Codex needs an entry for
/// each model that it uses, also for an alias or one that no provider lists, and refuses an empty
/// catalog. The models of sub-agents come right after the first one: Codex tells a model of the
/// first five only that a sub-agent may have.
pub fn catalog_with(
    config: &Config,
    learned_quirks: Option<&LearnedQuirks>,
    name: Option<&str>,
) -> Vec<CatalogEntry> {
    let mut entries = catalog(config, learned_quirks);
    let of_agents = || config.codex.agents.values().map(String::as_str);
    for name in name.into_iter().chain(of_agents()) {
        if !entries.iter().any(|entry| entry.is_named(name))
            && let Ok(route) = config.registry.resolve(name, false)
        {
            let (provider, model) = (&route.provider, &route.model);
            entries.push(CatalogEntry {
                other_slug: None,
                ..entry(config, provider, model, name.to_owned(), model.window())
            });
        }
    }
    if let Some((_, others)) = entries.split_first_mut() {
        others.sort_by_key(|entry| !of_agents().any(|name| entry.is_named(name)));
    }
    // A role on a model without levels could have no sub-agent: Codex gives it the effort of its
    // parent, and refuses what is not among the levels of its model. No provider is sent this one.
    let roles = || config.codex.roles().map(|(_, model)| model);
    for entry in &mut entries {
        if entry.reasoning.is_empty() && roles().any(|name| entry.is_named(name)) {
            entry.reasoning = vec!["none".to_owned()];
        }
    }
    entries
}

fn entry(
    config: &Config,
    provider: &Provider,
    model: &Model,
    slug: String,
    window: Window,
) -> CatalogEntry {
    CatalogEntry {
        other_slug: Some(provider.prefixed_name(&model.id)).filter(|name| *name != slug),
        slug,
        display_name: model.display_name().to_owned(),
        description: description(provider, model, window),
        owned_by: provider.id.clone(),
        window: window.tokens,
        auto_compact: CatalogEntry::default_auto_compact(window.tokens),
        // Of a model that takes none another one describes them.
        images: model.images || config.vision.model.is_some(),
        reasoning: model.reasoning.clone(),
        default_reasoning: model.default_reasoning.clone(),
        hidden: is_hidden(provider, model),
        tool_search: config.codex.tool_search,
    }
}

/// What a person, or a model that begins a sub-agent, chooses a model by: who makes it, and what is
/// known of its window, images and price.
fn description(provider: &Provider, model: &Model, window: Window) -> String {
    let mut facts = vec![if model.description.is_empty() {
        format!("by {}", provider.name)
    } else {
        model.description.trim_end_matches('.').to_owned()
    }];
    if window.source != WindowSource::Assumed {
        facts.push(format!("{} tokens", short_count(window.tokens)));
    }
    if model.images && !model.unlisted {
        facts.push("images".to_owned());
    }
    facts.extend(model.price.as_ref().map(|price| {
        let (input, output) = (dollars(price.input), dollars(price.output));
        format!("${input} in, ${output} out per million tokens")
    }));
    facts.join("; ")
}

/// A number of tokens in thousands or millions.
pub fn short_count(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 => format!("{}k", tokens / 1000),
        _ if tokens % 1_000_000 < 100_000 => format!("{}M", tokens / 1_000_000),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

/// A price in dollars with at most four decimal places.
pub fn dollars(price: f64) -> String {
    let text = format!("{price:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.split_once('.') {
        Some((_, cents)) if cents.len() == 1 => format!("{text}0"),
        _ => text.to_owned(),
    }
}

/// Whether a picker is better without a model: one of the hundreds that a host lists beside those
/// that are known here, or an older version that its maker lists under its date.
fn is_hidden(provider: &Provider, model: &Model) -> bool {
    let parts: Vec<&str> = model.id.rsplit('-').collect();
    let is_date = |part: &str| part.len() >= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    // The end of `-20250806`, or the year of `-2025-08-06`.
    let is_dated = [0, 2]
        .iter()
        .filter_map(|at| parts.get(*at))
        .any(|part| is_date(part));
    model.unlisted && !provider.models.is_empty() && (provider.passthrough || is_dated)
}

/// The model that a new user starts with: the default one, else the first listed one.
pub fn preferred_model(config: &Config) -> Option<String> {
    let listed = || {
        catalog(config, None)
            .into_iter()
            .next()
            .map(|entry| entry.slug)
    };
    config.registry.default_model.clone().or_else(listed)
}

/// The [`preferred_model`], else an example for a provider that takes any name.
pub fn first_model(config: &Config) -> String {
    let example = || {
        let provider = config.registry.providers.first();
        provider.map(|provider| provider.prefixed_name("MODEL"))
    };
    preferred_model(config).or_else(example).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use adapters::quirk_patch::ModelPatch;

    use super::*;
    use crate::config::{Inputs, LoadPurpose, load};

    #[test]
    fn a_learned_window_is_shown_where_it_is_smaller_or_none_is_listed() {
        let config = config_of(
            "[providers.lab]\nbase_url = \"https://lab.example/v1\"\nkey_required = false\n\
            models = [{ id = \"unknown\" }, { id = \"small\", window = 4096 }, { id = \"big\", window = 9000000 }]",
        );
        let learned_quirks = LearnedQuirks::default();
        let windows = || {
            let catalog = catalog(&config, Some(&learned_quirks));
            let windows = catalog
                .iter()
                .map(|entry| (entry.window, entry.auto_compact));
            windows.collect::<Vec<_>>()
        };
        assert_eq!(
            windows(),
            [(131_072, 108_451), (4_096, 2_991), (9_000_000, 8_100_000)]
        );
        for model in ["lab/unknown", "lab/small", "lab/big"] {
            let route = config.registry.resolve(model, false).unwrap();
            let of = crate::upstream::PatchesOf::owner("local");
            learned_quirks.learn(&route, of, ModelPatch::Window(200_000).into(), "");
        }
        assert_eq!(
            windows(),
            [(200_000, 176_000), (4_096, 2_991), (200_000, 176_000)]
        );
    }

    /// Promise: With `tool_search` in `[codex]`, Codex leaves the tools of its MCP servers out of
    /// its requests, and the right tool runs whether the model searches for it, calls it by its
    /// full name, or calls several at once. Without it, all tools are offered.
    #[test]
    fn codex_is_told_to_search_for_tools() {
        let lab = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\n\
            key_required = false\nmodels = [{ id = \"one\" }]\n";
        for (settings, is_told) in [("", false), ("[codex]\ntool_search = true", true)] {
            let entries = catalog(&config_of(&format!("{lab}{settings}")), None);
            let infos: Vec<_> = list::codex_infos(&entries, "").collect();
            // The model has two names.
            assert_eq!(infos.len(), 2);
            for info in infos {
                assert_eq!(info["supports_search_tool"], is_told, "{settings}");
            }
        }
    }

    /// Promise: `codex setup` gives Codex an entry for the model that it starts with, also for one
    /// that no provider lists.
    #[test]
    fn the_model_that_codex_starts_with_has_an_entry() {
        let config = config_of(
            "[providers.ollama]\n[providers.lab]\nbase_url = \"https://lab.example/v1\"\n\
             key_required = false\nmodels = [{ id = \"listed\", window = 4096 }]\n\
             [routing.aliases]\nfast = \"lab/listed\"",
        );
        let slugs = |name| {
            let entries = catalog_with(&config, None, Some(name)).into_iter();
            entries.map(|entry| entry.slug).collect::<Vec<_>>()
        };
        for (name, added) in [
            ("ollama/qwen3-coder", Some("ollama/qwen3-coder")),
            ("fast", Some("fast")),
            ("listed", None),
            ("lab/listed", None),
            ("nobody/listed", None),
        ] {
            let expected: Vec<&str> = ["listed"].into_iter().chain(added).collect();
            assert_eq!(slugs(name), expected, "{name}");
        }
        let alias = catalog_with(&config, None, Some("fast"));
        assert_eq!(alias.last().map(|entry| entry.window), Some(4096));
    }

    fn config_of(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
        let inputs = Inputs::under(folder.path());
        load(&inputs, LoadPurpose::Serve).unwrap()
    }
}
