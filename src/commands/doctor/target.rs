//! Resolves the target of a measurement: the provider, its base URL, its models and their windows.

use std::sync::Arc;

use registry::{Discovery, Model, ModelSet, Provider, Wire};
use strum::VariantArray as _;
use toml::{Table, Value};

use super::report::DoctorCheck;
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

/// The headers for a bare key that servers are known to want in place of `Authorization`.
const KEY_HEADERS: [&str; 2] = ["api-key", "x-api-key"];

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
        ..registry::build(&known.id, table)?.to_provider(&known.id)
    };
    let mut config = config.clone();
    config.registry.replace_provider(&Arc::new(provider));
    Ok(config)
}

/// The configurations with the key of a provider in each other header; none without a key.
pub(super) fn with_key_headers(config: &Config, id: &str) -> Vec<Config> {
    let known = config.registry.provider(id).cloned();
    let known = known.filter(|known| known.key_header.is_none() && config.keys.contains_key(id));
    let Some(known) = known else {
        return Vec::new();
    };
    let with = |header: &&str| {
        let mut config = config.clone();
        let provider = Provider {
            key_header: Some((*header).to_owned()),
            ..Provider::clone(&known)
        };
        config.registry.replace_provider(&Arc::new(provider));
        config
    };
    KEY_HEADERS.iter().map(with).collect()
}

/// Asks a provider for its models, and puts them into the registry. If the provider is known by its
/// address alone, it may also be asked below `/v1`, and in the ways of local servers for the window
/// of the model.
pub(super) async fn find_models(
    config: &mut Config,
    id: &str,
    is_unknown: bool,
    model: Option<&str>,
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
    let mut listed = ask_with_key(config, &mut provider, is_unknown && has_key).await;
    if is_unknown && !known.base_url.ends_with("/v1") && is_absent(&listed) {
        let mut below = provider.clone();
        below.base_url.push_str("/v1");
        let found = ask_with_key(config, &mut below, has_key).await;
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
            let found = ask(config, &other).await;
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
        Ok(set) if set.models().is_empty() => checks.push(DoctorCheck::warning(
            "models",
            "The provider lists no models.",
            "Name one with --model.",
        )),
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

/// Asks a provider, and sets the header in which it takes the key if `may_try` allows to try others
/// than the usual one.
async fn ask_with_key(
    config: &Config,
    provider: &mut Provider,
    may_try: bool,
) -> Result<ModelSet, DiscoveryError> {
    let listed = ask(config, provider).await;
    if may_try && is_unauthorized(&listed) {
        for header in KEY_HEADERS {
            let other = Provider {
                key_header: Some(header.to_owned()),
                ..provider.clone()
            };
            let answered = ask(config, &other).await;
            if !is_unauthorized(&answered) {
                *provider = other;
                return answered;
            }
        }
    }
    listed
}

async fn ask(config: &Config, provider: &Provider) -> Result<ModelSet, DiscoveryError> {
    let upstream = Upstreams::default().get(config, &Arc::new(provider.clone()));
    discover(upstream, PATIENCE, &mut ModelDetails::new()).await
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

/// Words in the ids of models that answer no prompt, for lists that say nothing else of them.
const OTHER_KINDS: [&str; 12] = [
    "embed",
    "rerank",
    "whisper",
    "tts",
    "dall-e",
    "moderation",
    "guard",
    "transcribe",
    "image",
    "audio",
    "sora",
    "realtime",
];

/// The id of the model to measure: the one that was named, or the first of the provider that may
/// answer prompts.
pub(super) fn model_of(config: &Config, id: &str, named: Option<&str>) -> Option<String> {
    let provider = config.registry.provider(id)?;
    let answers = |model: &&Arc<Model>| {
        let id = model.id.to_lowercase();
        !OTHER_KINDS.iter().any(|kind| id.contains(kind))
    };
    let first = || {
        let discovered = config.registry.discovered_models(provider);
        let all = || provider.models.iter().chain(&discovered);
        all().find(answers).or_else(|| all().next()).cloned()
    };
    let named = named.map(|name| {
        name.strip_prefix(&format!("{id}/"))
            .unwrap_or(name)
            .to_owned()
    });
    named.or_else(|| first().map(|model| model.id.clone()))
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
