//! The text that `respondent check` prints: the settings, providers and models that a server
//! with this configuration would have. It never contains a key.

use adapters::plan::OutputPolicy;
use registry::{Provider, Registry};

use super::search::{ConfiguredSearchEngine, SearchMode};
use super::{ArtifactMode, CaptureMode, ClientLimits, Config};
use crate::log::labelled;

mod json;

pub use json::json_report;

/// The width of the column with the labels, in characters.
const LABEL_WIDTH: usize = 9;

/// Texts beside their labels.
type Rows = Vec<(&'static str, String)>;

/// The report: the server's settings, then a few lines for each provider.
pub fn report(config: &Config) -> String {
    let mut parts = vec![server_rows(config)];
    let providers = &config.registry.providers;
    parts.extend(providers.iter().map(|one| provider_rows(config, one)));
    parts.extend([search_rows(config), webhook_rows(config)]);
    parts.push(routing_rows(config));
    let warnings = config.warnings.iter();
    parts.push(warnings.map(|text| ("warning", text.clone())).collect());
    let mut text = found_file_notice(config).unwrap_or_default();
    for rows in parts.into_iter().filter(|rows| !rows.is_empty()) {
        text += &labelled(LABEL_WIDTH, rows.into_iter());
        text.push('\n');
    }
    text + "The configuration is valid. No provider was asked.\n"
}

/// The lines that say that the configuration was found in the working directory; `None` if it was
/// not. They are the first that `serve` and `check` print.
pub fn found_file_notice(config: &Config) -> Option<String> {
    let file = config
        .paths
        .file
        .as_ref()
        .filter(|_| config.paths.is_found)?;
    Some(format!(
        "Using {}, which was found in the working directory.\nOnly serve and check read it; name it with --config for the other commands.\n",
        file.display()
    ))
}

/// The limits of a client, such as `: at most 4 requests at once, 100 tokens a day`.
fn limits(limits: ClientLimits) -> String {
    let requests = limits.concurrent_requests;
    let limits = [
        requests.map(|most| format!("{most} requests at once")),
        limits
            .tokens_per_day
            .map(|most| format!("{most} tokens a day")),
        limits.cost_per_day.map(|most| format!("${most} a day")),
        limits
            .searches_per_day
            .map(|most| format!("{most} searches a day")),
        limits
            .pages_per_day
            .map(|most| format!("{most} pages a day")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if limits.is_empty() {
        String::new()
    } else {
        format!(": at most {}", limits.join(", "))
    }
}

fn server_rows(config: &Config) -> Rows {
    let server = &config.server;
    let needs_token = server.token.is_some() || !config.clients.is_empty();
    let token = if needs_token { "required" } else { "none" };
    let mut rows = vec![
        ("listen", format!("http://{}", server.listen)),
        ("token", token.to_owned()),
    ];
    for (name, client) in config.clients.iter() {
        rows.push(("client", format!("{name}{}", limits(client.limits))));
    }
    rows.push(("data", server.data_dir.display().to_string()));
    let folder = server.bundles_dir();
    let capture = match config.capture.mode {
        CaptureMode::Off => "turns are not kept".to_owned(),
        CaptureMode::Failures => format!("turns that fail are kept in {}", folder.display()),
        CaptureMode::All => format!("all turns are kept in {}", folder.display()),
    };
    let mode = config.capture.mode.name();
    rows.push(("capture", format!("{mode}: {capture}")));
    let outputs = match config.context.outputs {
        OutputPolicy::Adaptive => {
            "adaptive: long tool outputs are shortened to suit the model's window"
        }
        OutputPolicy::Fixed => "fixed: tool outputs of more than 4,000 characters are shortened",
        OutputPolicy::Whole => "whole: tool outputs are sent as they are",
    };
    rows.push(("outputs", outputs.to_owned()));
    let artifacts = match config.artifacts.mode {
        ArtifactMode::Off => "off: what is shortened is not kept".to_owned(),
        ArtifactMode::Memory => {
            "memory: what is shortened is kept until the server stops".to_owned()
        }
        ArtifactMode::Disk => {
            let folder = server.data_dir.join("artifacts");
            format!("disk: what is shortened is kept in {}", folder.display())
        }
    };
    rows.push(("artifacts", artifacts));
    let memory = config.memory_limit() >> 20;
    rows.push(("memory", format!("{memory} MiB at most")));
    if config.source_files.is_empty() {
        rows.push(("files", "none".to_owned()));
    }
    for source in &config.source_files {
        rows.push(("file", source.display().to_string()));
    }
    rows
}

fn provider_rows(config: &Config, provider: &Provider) -> Rows {
    let address = match provider.base_url.as_str() {
        "" => "inside this program, on a free port",
        url => url,
    };
    let mut rows = vec![
        ("provider", format!("{} ({})", provider.id, provider.name)),
        ("address", address.to_owned()),
    ];
    let count = config.keys.get(&provider.id).map_or(0, Vec::len);
    rows.push(match config.key_origins.get(&provider.id) {
        Some(origin) if count > 1 => ("keys", format!("{count} from {origin}")),
        Some(origin) => ("key", origin.to_string()),
        None => ("key", "none".to_owned()),
    });
    if !provider.key_weights.is_empty() {
        let weights: Vec<String> = provider.key_weights.iter().map(u32::to_string).collect();
        rows.push(("weights", weights.join(", ")));
    }
    if let Some(limit) = provider.max_concurrent {
        rows.push(("limit", format!("{limit} at once")));
    }
    for model in &provider.models {
        let name = config.registry.public_name(provider, model);
        let tokens = model.window().tokens;
        rows.push(("model", format!("{name} ({tokens} tokens)")));
    }
    if provider.passthrough {
        let name = provider.prefixed_name("...");
        rows.push(("model", format!("{name} (any other name)")));
    }
    rows
}

fn search_rows(config: &Config) -> Rows {
    let search = &config.search;
    let shown = |engine: &ConfiguredSearchEngine| {
        let key = engine.key_origin.as_ref().map(ToString::to_string);
        let price = engine.price.map(|price| format!("${price} a search"));
        let details: Vec<String> = key.into_iter().chain(price).collect();
        if details.is_empty() {
            engine.name.name().to_owned()
        } else {
            format!("{} ({})", engine.name.name(), details.join(", "))
        }
    };
    let engines: Vec<String> = search.engines.iter().map(shown).collect();
    let mut rows = vec![(
        "search",
        match search.mode {
            SearchMode::Off => "off".to_owned(),
            SearchMode::Native => "only the providers' own searches".to_owned(),
            SearchMode::Auto | SearchMode::Proxy if engines.is_empty() => {
                "no search engine is on".to_owned()
            }
            SearchMode::Auto | SearchMode::Proxy => engines.join(", "),
        },
    )];
    if search.mode == SearchMode::Off {
        return rows;
    }
    if search.browserless.is_some() {
        rows.push(("browser", "Browserless gets pages that need one".to_owned()));
    }
    if let Some(chromium) = &search.chromium {
        let text = format!("{} gets pages that scripts fill", chromium.display());
        rows.push(("browser", text));
    }
    rows
}

fn webhook_rows(config: &Config) -> Rows {
    let row = |webhook: &super::Webhook| {
        let events = match &webhook.events {
            None => "all events".to_owned(),
            Some(events) => {
                let names: Vec<&str> = events.iter().map(|event| event.name()).collect();
                names.join(", ")
            }
        };
        let text = format!("{} -> {}: {events}", webhook.name, webhook.host());
        ("webhook", text)
    };
    config.webhooks.iter().map(row).collect()
}

fn routing_rows(config: &Config) -> Rows {
    let registry = &config.registry;
    let mut rows = Rows::new();
    for (alias, target) in &registry.aliases {
        rows.push(("alias", format!("{alias} = {}", led(registry, target))));
    }
    for (of, others) in &registry.fallbacks {
        let of = match of.as_str() {
            registry::EVERY_MODEL => "any model",
            name => name,
        };
        rows.push(("fallback", format!("{of} -> {}", others.join(", "))));
    }
    if let Some(model) = &registry.default_model {
        let model = led(registry, model);
        let text = format!("{model}, for names of Codex's own models that no provider has");
        rows.push(("default", text));
    }
    rows
}

/// Where the name of a model leads, as `provider/model`, and whether the provider is known to have
/// that model. The route is absent if the name leads nowhere.
fn lead(registry: &Registry, name: &str) -> (Option<String>, bool) {
    match registry.resolve(name, false) {
        Ok(route) => {
            let provider = &route.provider;
            let is_listed = provider.model(&route.model.id).is_some();
            (Some(route.full_name()), is_listed)
        }
        Err(_) => (None, false),
    }
}

/// A name with where it leads, if the name does not say so, and whether that is certain.
fn led(registry: &Registry, name: &str) -> String {
    let (route, is_listed) = lead(registry, name);
    let Some(route) = route else {
        return name.to_owned();
    };
    let shown = if route == name {
        route
    } else {
        format!("{name} -> {route}")
    };
    if is_listed {
        shown
    } else {
        format!("{shown} (passed on: the provider's file does not list it)")
    }
}
