//! What `respondent check --json` prints: the report as JSON. It never contains a key.

use serde_json::{Value, json};

use super::lead;
use crate::config::Config;

/// The report as JSON: `valid`, `server`, `clients`, `providers` with their models, `search`,
/// `aliases`, `fallbacks`, `default_model` and `warnings`. An alias and the default model have the
/// `route` that they lead to, as `provider/model`.
pub fn json_report(config: &Config) -> Value {
    let registry = &config.registry;
    let server = &config.server;
    let route = |name: &str| registry.resolve(name, false).ok().map(|it| it.full_name());
    let clients = config.clients.iter().map(|(name, client)| {
        let limits = client.limits;
        json!({
            "name": &**name,
            "max_concurrent_requests": limits.concurrent_requests,
            "max_tokens_per_day": limits.tokens_per_day,
            "max_cost_per_day": limits.cost_per_day,
            "max_searches_per_day": limits.searches_per_day,
            "max_pages_per_day": limits.pages_per_day,
        })
    });
    let providers = registry.providers.iter().map(|provider| {
        let models = provider.models.iter().map(|model| {
            let window = model.window().tokens;
            json!({"name": registry.public_name(provider, model), "window": window})
        });
        json!({
            "id": provider.id,
            "name": provider.name,
            "base_url": provider.base_url,
            "key": config.key_origins.get(&provider.id).map(ToString::to_string),
            "keys": config.keys.get(&provider.id).map_or(0, Vec::len),
            "any_model": provider.passthrough,
            "models": models.collect::<Vec<_>>(),
        })
    });
    let aliases = registry
        .aliases
        .iter()
        .map(|(alias, target)| json!({"name": alias, "model": target, "route": route(target)}));
    let fallbacks = registry.fallbacks.iter();
    let fallbacks = fallbacks.map(|(of, others)| json!({"of": of, "models": others}));
    let engines = config.search.engines.iter().map(|it| it.name.name());
    json!({
        "valid": true,
        "files": &config.source_files,
        "server": {
            "listen": server.listen,
            "token": server.token.is_some(),
            "data_dir": &server.data_dir,
        },
        "clients": clients.collect::<Vec<_>>(),
        "providers": providers.collect::<Vec<_>>(),
        "search": engines.collect::<Vec<_>>(),
        "aliases": aliases.collect::<Vec<_>>(),
        "fallbacks": fallbacks.collect::<Vec<_>>(),
        "default_model": registry.default_model.as_ref().map(|model| {
            json!({"model": model, "route": route(model), "listed": lead(registry, model).1})
        }),
        "warnings": &config.warnings,
    })
}
