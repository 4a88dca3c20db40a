//! Resolves the target of a measurement: the provider, its base URL, its models and their windows.

use std::sync::Arc;

use adapters::model_list::may_answer_prompts;
use registry::{Discovery, ModelSet, Provider, Wire};
use strum::VariantArray as _;
use toml::{Table, Value};

use super::report::DoctorCheck;
use super::watch::Used;
use crate::commands::cli::DoctorArgs;
use crate::config::{Config, Environment, KeyOrigin, address};
use crate::secrets::Secret;
use crate::upstream::Upstreams;
use crate::upstream::discovery::{DiscoveryError, ModelDetails, PATIENCE, discover};

/// The ways to ask a server on this machine for the windows of its models.
const LOCAL_DISCOVERY: [Discovery; 4] = [
    Discovery::LlamaCpp,
    Discovery::LmStudio,
    Discovery::Ollama,
    Discovery::Sglang,
];

/// The ways in which servers are known to want a key in place of `Authorization: Bearer`: the
/// header, and the word in front of the key.
const KEY_PLACES: [(Option<&str>, Option<&str>); 3] = [
    (Some("api-key"), None),
    (Some("x-api-key"), None),
    (None, Some("Token")),
];

/// The configuration with a provider that is known by its address alone, and its id.
pub(super) fn unknown_provider(
    mut config: Config,
    options: &DoctorArgs,
    url: &str,
    environment: &dyn Environment,
) -> anyhow::Result<(Config, String)> {
    let url = url.trim_end_matches('/');
    let url = address::endpoint_in_base_url(url)
        .and_then(|end| url.strip_suffix(end))
        .unwrap_or(url)
        .trim_end_matches('/');
    if let Some(why) = address::base_url_error(url, false) {
        anyhow::bail!("--url: {why}");
    }
    let id = match &options.provider {
        Some(id) => id.clone(),
        None => id_of(url),
    };
    if registry::builtin::is_builtin(&id) || config.registry.provider(&id).is_some() {
        anyhow::bail!("there is a provider '{id}' already; choose another name with --provider");
    }
    let mut table = Table::new();
    table.insert("base_url".to_owned(), Value::from(url));
    let provider = registry::build(&id, table)?.to_provider(&id);
    if let Some(name) = &options.key_env {
        let key = environment.get(name).and_then(|key| Secret::new(&key));
        let Some(key) = key else {
            anyhow::bail!("the environment has no {name}");
        };
        config.keys.insert(id.clone(), vec![key]);
        let origin = KeyOrigin::Environment(vec![name.clone()]);
        config.key_origins.insert(id.clone(), origin);
    }
    config.registry.providers = vec![Arc::new(provider)];
    Ok((config, id))
}

/// An id for a provider known only by its address: its host, and its port if it has one.
fn id_of(url: &str) -> String {
    let (origin, _) = address::split_origin(url);
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    let host = host.strip_prefix("api.").unwrap_or(host);
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let id = host.replace(|c: char| !is_plain(c), "-");
    id.trim_matches('-').to_owned()
}

/// Configurations with other base URLs and wires to try for a provider known only by its address:
/// below `/v1`, and in another wire.
pub(super) fn candidate_endpoints(config: &Config, id: &str) -> anyhow::Result<Vec<Config>> {
    let Some(known) = config.registry.provider(id) else {
        return Ok(Vec::new());
    };
    let mut addresses = vec![known.base_url.clone()];
    // Where models are listed, the address is right.
    let is_sure = config.registry.discovered.of(known).is_some();
    if !is_sure && !known.base_url.ends_with("/v1") {
        addresses.push(format!("{}/v1", known.base_url));
    }
    let mut others = Vec::new();
    for wire in Wire::VARIANTS {
        for address in &addresses {
            let is_known = *wire == known.dialect.quirks.wire() && *address == known.base_url;
            if !is_known {
                others.push(at_endpoint(config, known, address, *wire)?);
            }
        }
    }
    Ok(others)
}

/// The configuration with this address and this wire for a provider.
fn at_endpoint(
    config: &Config,
    known: &Provider,
    address: &str,
    wire: Wire,
) -> anyhow::Result<Config> {
    let mut table = Table::new();
    table.insert("base_url".to_owned(), address.into());
    table.insert("wire".to_owned(), wire.name().into());
    let provider = Provider {
        discovery: known.discovery,
        key_header: known.key_header.clone(),
        key_scheme: known.key_scheme.clone(),
        ..registry::build(&known.id, table)?.to_provider(&known.id)
    };
    let mut config = config.clone();
    config.registry.replace_provider(&Arc::new(provider));
    Ok(config)
}

/// The configurations with the key of a provider in each other place; none without a key.
pub(super) fn with_key_places(config: &Config, id: &str) -> Vec<Config> {
    let known = config.registry.provider(id).cloned();
    let is_usual = |known: &Arc<Provider>| how_key_is_taken(known).is_none();
    let known = known.filter(|known| is_usual(known) && config.keys.contains_key(id));
    let others = known.iter().flat_map(|known| key_places(known));
    let with = |provider: Provider| {
        let mut config = config.clone();
        config.registry.replace_provider(&Arc::new(provider));
        config
    };
    others.map(with).collect()
}

/// The provider with its key in each other place.
fn key_places(known: &Provider) -> [Provider; 3] {
    KEY_PLACES.map(|(header, scheme)| Provider {
        key_header: header.map(str::to_owned),
        key_scheme: scheme.map(str::to_owned),
        ..known.clone()
    })
}

/// In words, how a provider takes its key; `None` if it does so as usual.
pub(super) fn how_key_is_taken(provider: &Provider) -> Option<String> {
    let header = provider.key_header.as_ref();
    let header = header.map(|header| format!("the key is taken in the header {header}"));
    let scheme = provider.key_scheme.as_ref();
    let scheme = scheme.map(|scheme| format!("the key is taken as Authorization: {scheme}"));
    header.or(scheme)
}

/// Asks a provider for its models, and puts them into the registry. If the provider is known by its
/// address alone, it may also be asked below `/v1`, and in the ways of local servers for the window
/// of the model.
pub(super) async fn find_models(
    config: &mut Config,
    id: &str,
    is_unknown: bool,
    model: Option<&str>,
    used: &Used,
) -> Vec<DoctorCheck> {
    let Some(known) = config.registry.provider(id).cloned() else {
        return Vec::new();
    };
    if known.discovery == Discovery::Off {
        let found = format!("{} in the configuration", count(known.models.len()));
        return vec![DoctorCheck::good("models", found)];
    }
    let mut provider = Provider::clone(&known);
    let has_key = config.keys.contains_key(id);
    let mut listed = ask_with_key(config, &mut provider, is_unknown && has_key, used).await;
    if is_unknown && !known.base_url.ends_with("/v1") && is_absent(&listed) {
        let mut below = provider.clone();
        below.base_url.push_str("/v1");
        let found = ask_with_key(config, &mut below, has_key, used).await;
        if found.is_ok() {
            (provider, listed) = (below, found);
        }
    }
    let is_local =
        reqwest::Url::parse(&provider.base_url).is_ok_and(|url| address::is_loopback(&url));
    if is_unknown && is_local {
        for discovery in LOCAL_DISCOVERY {
            let other = Provider {
                discovery,
                ..provider.clone()
            };
            let found = ask(config, &other, used).await;
            // A list may tell only for what window the model was made.
            let is_better = match (window_of(&found, model), window_of(&listed, model)) {
                (Some(served), Some(listed)) => served < listed,
                (served, None) => served.is_some(),
                (None, Some(_)) => false,
            };
            if is_better {
                (provider, listed) = (other, found);
                break;
            }
        }
    }
    let mut checks = Vec::new();
    if provider.base_url != known.base_url {
        checks.push(DoctorCheck::good(
            "address",
            format!("{} (with /v1)", provider.base_url),
        ));
    }
    match listed {
        Ok(set)
            if !set
                .models()
                .iter()
                .any(|model| may_answer_prompts(&model.id)) =>
        {
            let found = match set.models().len() + set.left_out {
                0 => "The provider lists no models.".to_owned(),
                others => format!(
                    "{} in its list, and none for chat: they are for embeddings, speech, images \
                     and the like.",
                    count(others)
                ),
            };
            checks.push(DoctorCheck::warning(
                "models",
                found,
                "Name one with --model.",
            ));
        }
        Ok(set) => {
            checks.push(DoctorCheck::good(
                "models",
                format!("{} in its list", count(set.models().len())),
            ));
            config.registry.discovered.set(&provider, set);
        }
        Err(error) => checks.push(match error.status {
            Some(401 | 403) => DoctorCheck::failed("models", error.to_string(), None),
            _ => DoctorCheck::warning(
                "models",
                error.to_string(),
                "Name the model with --model, or list it in the configuration.",
            ),
        }),
    }
    config.registry.replace_provider(&Arc::new(provider));
    checks
}

/// Asks a provider, and sets the place in which it takes the key if `may_try` allows to try others
/// than the usual one.
async fn ask_with_key(
    config: &Config,
    provider: &mut Provider,
    may_try: bool,
    used: &Used,
) -> Result<ModelSet, DiscoveryError> {
    let listed = ask(config, provider, used).await;
    if may_try && is_unauthorized(&listed) {
        for other in key_places(provider) {
            let answered = ask(config, &other, used).await;
            if !is_unauthorized(&answered) {
                *provider = other;
                return answered;
            }
        }
    }
    listed
}

/// Asks a provider for its list, again after each pause for which it asks.
async fn ask(
    config: &Config,
    provider: &Provider,
    used: &Used,
) -> Result<ModelSet, DiscoveryError> {
    loop {
        let upstream = Upstreams::default().get(config, &Arc::new(provider.clone()));
        let listed = discover(upstream, PATIENCE, &mut ModelDetails::new()).await;
        match &listed {
            Err(DiscoveryError {
                status: Some(429),
                retry_after,
                ..
            }) if used.wait_out(*retry_after).await => {}
            _ => return listed,
        }
    }
}

/// The window of the model with this id, or of the first one, as a list tells it.
fn window_of(listed: &Result<ModelSet, DiscoveryError>, model: Option<&str>) -> Option<u64> {
    let set = listed.as_ref().ok()?;
    let model = model.map_or_else(|| set.models().first(), |id| set.get(id));
    model?.window
}

/// Whether the key was refused.
fn is_unauthorized(listed: &Result<ModelSet, DiscoveryError>) -> bool {
    let status = listed.as_ref().err().and_then(|error| error.status);
    matches!(status, Some(401 | 403))
}

/// Whether the address may be wrong: true for 404 and 405, and for a 200 that is no model list.
fn is_absent(listed: &Result<ModelSet, DiscoveryError>) -> bool {
    let status = listed.as_ref().err().and_then(|error| error.status);
    matches!(status, Some(200 | 404 | 405))
}

/// The id of the model to measure: the one that was named, or the first of the provider that may
/// answer prompts.
pub(super) fn model_of(config: &Config, id: &str, named: Option<&str>) -> Option<String> {
    let provider = config.registry.provider(id)?;
    if let Some(name) = named {
        let prefix = format!("{id}/");
        return Some(name.strip_prefix(&prefix).unwrap_or(name).to_owned());
    }
    let discovered = config.registry.discovered_models(provider);
    let mut ids = provider
        .models
        .iter()
        .chain(&discovered)
        .map(|model| &model.id);
    ids.find(|id| may_answer_prompts(id)).cloned()
}

fn count(models: usize) -> String {
    match models {
        1 => "1 model".to_owned(),
        models => format!("{models} models"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_a_name() {
        for (url, id) in [
            ("https://api.acme.example/v1", "acme-example"),
            ("http://127.0.0.1:8080/v1", "127-0-0-1-8080"),
            ("http://[::1]:9/v1", "1--9"),
        ] {
            assert_eq!(id_of(url), id);
        }
    }
}
