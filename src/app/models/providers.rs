//! `GET /diagnostics/models`: the providers and their models, as `respondent models` shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::Response;
use registry::{Model, Price, Provider, builtin};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::{FIRST_LISTS, internal};
use crate::app::{AppState, respond_with};
use crate::config::Config;

/// A provider and its models.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ListedProvider {
    /// The id in the configuration and before a slash in the names of models.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Whether its models are served.
    pub on: bool,
    /// Whether it needs no table in the configuration.
    pub built_in: bool,
    /// The address, which may have a placeholder.
    pub base_url: String,
    /// The variables with its key.
    pub api_key_env: Vec<String>,
    /// Whether it takes the names of models that are not listed.
    pub passthrough: bool,
    /// Why the models that it lists itself are not known.
    pub models_unknown: Option<String>,
    /// The models that are configured, then those that it lists itself.
    pub models: Vec<ListedModel>,
}

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ListedModel {
    /// The id of the provider for it.
    pub id: String,
    /// The id with that of the provider.
    pub full_name: String,
    /// The name for people.
    pub name: String,
    /// One sentence for a model picker.
    pub description: String,
    /// Whether only the provider lists it.
    pub discovered: bool,
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The most tokens of an answer.
    pub max_output: Option<u64>,
    /// Whether it takes images.
    pub images: bool,
    /// The efforts, weakest first.
    pub reasoning: Vec<String>,
    /// The effort that clients preselect.
    pub default_reasoning: Option<String>,
    /// Whether it takes a temperature.
    pub sampling: bool,
    /// The bytes of a request for each token, with as many digits as were configured.
    pub bytes_per_token: Option<Number>,
    /// The price, if it is known.
    pub price: Option<Price>,
}

/// `GET /diagnostics/models`: a list of [`ListedProvider`]. Secrets in it are redacted.
pub(in crate::app) async fn list(State(app): State<AppState>) -> Response<Body> {
    app.discovery.shown(FIRST_LISTS).await;
    let config = app.service.config.load_full();
    let listed = listed_providers(&config, &app.discovery.errors());
    let text = listed.ok().and_then(|it| serde_json::to_string(&it).ok());
    match text {
        Some(text) => {
            let text = config.redactor().redact_known(&text).into_owned();
            respond_with("application/json", text)
        }
        None => internal(),
    }
}

/// The providers that are on in their order, then the other built-in ones. `unknown` says why some
/// list no models themselves, by id.
pub fn listed_providers(
    config: &Config,
    unknown: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<ListedProvider>> {
    let registry = &config.registry;
    let on = |provider: &Arc<Provider>| {
        let models = provider.models.iter();
        let models = models.map(|model| registry.with_reported_window(provider, model));
        let mut models: Vec<ListedModel> = models.map(|it| listed(provider, &it)).collect();
        let discovered = registry.discovered_models(provider);
        models.extend(discovered.iter().map(|model| listed(provider, model)));
        ListedProvider {
            models_unknown: unknown.get(&provider.id).cloned(),
            ..listed_provider(provider, true, models)
        }
    };
    let mut providers: Vec<ListedProvider> = registry.providers.iter().map(on).collect();
    for id in builtin::ids().filter(|id| registry.provider(id).is_none()) {
        let provider = registry::build(id, toml::Table::new())?.to_provider(id);
        let models = provider.models.iter();
        let models = models.map(|model| listed(&provider, model)).collect();
        providers.push(listed_provider(&provider, false, models));
    }
    Ok(providers)
}

fn listed_provider(provider: &Provider, on: bool, models: Vec<ListedModel>) -> ListedProvider {
    ListedProvider {
        id: provider.id.clone(),
        name: provider.name.clone(),
        on,
        built_in: builtin::is_builtin(&provider.id),
        base_url: provider.base_url.clone(),
        api_key_env: provider.key_env.clone(),
        passthrough: provider.passthrough,
        models_unknown: None,
        models,
    }
}

fn listed(provider: &Provider, model: &Model) -> ListedModel {
    // As a number of 64 bits it would have more digits than were configured.
    let ratio = model.bytes_per_token.map(|ratio| format!("{ratio:?}"));
    ListedModel {
        id: model.id.clone(),
        full_name: provider.prefixed_name(&model.id),
        name: model.display_name().to_owned(),
        description: model.description.clone(),
        discovered: model.unlisted,
        window: model.window,
        max_output: model.max_output,
        images: model.images,
        reasoning: model.reasoning.clone(),
        default_reasoning: model.default_reasoning.clone(),
        sampling: model.sampling,
        bytes_per_token: ratio.and_then(|ratio| ratio.parse().ok()),
        price: model.price.clone(),
    }
}
