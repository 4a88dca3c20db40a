//! `respondent models`: lists the models of the providers that are on, or of all.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use registry::{Model, Provider, builtin, suggest};
use serde_json::{Value, json};

use crate::app::models::{dollars, short_count};
use crate::config::Config;
use crate::config::inputs::CONFIG_FILE_NAME;
use crate::log::{TERMINAL_WIDTH, wrapped};
use crate::upstream::discovery::DiscoveryError;

/// The options of `respondent models`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelListOptions<'a> {
    /// List the models of this provider only.
    pub provider: Option<&'a str>,
    /// Also list the providers that are off.
    pub all: bool,
    /// Return JSON instead of tables.
    pub json: bool,
}

/// The width of the column with the names of models. A longer name has a line of its own.
const NAME_WIDTH: usize = 22;
/// The width of the column with the reasoning levels.
const REASONING_WIDTH: usize = 13;

/// The list as text: a table for each provider, or JSON. `unknown` says why the models of a
/// provider are not known, by its id. The error of an unknown provider names similar ids.
pub fn model_list(
    config: &Config,
    unknown: &BTreeMap<String, DiscoveryError>,
    options: ModelListOptions<'_>,
) -> anyhow::Result<String> {
    let mut providers = all_providers(config, unknown)?;
    if let Some(id) = options.provider {
        if !providers.iter().any(|status| status.provider.id == id) {
            let known = providers.iter().map(|status| status.provider.id.as_str());
            let near: Vec<&str> = suggest::similar(id, known).into_iter().take(3).collect();
            let hint = if near.is_empty() {
                "`respondent models --all` lists the known ones".to_owned()
            } else {
                format!("did you mean {}?", suggest::one_of(&near))
            };
            anyhow::bail!("there is no provider '{id}'; {hint}");
        }
        providers.retain(|status| status.provider.id == id);
    }
    let known = providers.len();
    if !options.all && options.provider.is_none() {
        providers.retain(|status| status.on);
    }
    if options.json {
        let providers = providers.iter().map(provider_json).collect();
        return Ok(format!("{:#}\n", Value::Array(providers)));
    }
    let mut text = String::new();
    for (index, status) in providers.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        write_provider(status, &mut text)?;
    }
    let hidden = known - providers.len();
    if hidden > 0 {
        let are = if hidden == 1 {
            "provider is"
        } else {
            "providers are"
        };
        let _ = writeln!(
            text,
            "\n{hidden} more {are} off: `respondent models --all` lists them."
        );
    }
    Ok(text)
}

/// A provider and whether it is enabled.
struct ProviderStatus {
    provider: Provider,
    on: bool,
    /// The models that it lists itself.
    discovered: Vec<Arc<Model>>,
    /// Why these are not known.
    unknown: Option<String>,
}

/// The enabled providers in their order, then the other built-in ones.
fn all_providers(
    config: &Config,
    unknown: &BTreeMap<String, DiscoveryError>,
) -> anyhow::Result<Vec<ProviderStatus>> {
    let registry = &config.registry;
    let status = |provider: &Arc<Provider>| {
        let listed = provider.models.iter();
        ProviderStatus {
            on: true,
            discovered: registry.discovered_models(provider),
            unknown: unknown.get(&provider.id).map(ToString::to_string),
            provider: Provider {
                models: listed
                    .map(|model| registry.with_reported_window(provider, model))
                    .collect(),
                ..Provider::clone(provider)
            },
        }
    };
    let mut providers: Vec<ProviderStatus> = registry.providers.iter().map(status).collect();
    for id in builtin::ids() {
        if config.registry.provider(id).is_none() {
            let provider = registry::build(id, toml::Table::new())?.to_provider(id);
            providers.push(ProviderStatus {
                provider,
                on: false,
                discovered: Vec::new(),
                unknown: None,
            });
        }
    }
    Ok(providers)
}

fn write_provider(status: &ProviderStatus, out: &mut String) -> std::fmt::Result {
    let ProviderStatus {
        provider,
        on,
        discovered,
        unknown,
    } = status;
    let id = &provider.id;
    writeln!(
        out,
        "{id} ({}), {}",
        provider.name,
        if *on { "on" } else { "off" }
    )?;
    if !on {
        match provider.key_env.first() {
            Some(name) if !provider.has_address_placeholder() => {
                writeln!(out, "  to turn it on: set {name}")?;
            }
            Some(_) | None => {
                writeln!(
                    out,
                    "  to turn it on: add `[providers.{id}]` to {CONFIG_FILE_NAME}"
                )?;
            }
        }
    }
    let models = || provider.models.iter().chain(discovered);
    let width = models().map(|model| model.id.len());
    let width = width.max().unwrap_or(0).clamp(5, NAME_WIDTH);
    if models().next().is_some() {
        let line = format!(
            "  {:<width$} {:>6} {:>6} {:<5} {:<REASONING_WIDTH$} {:>6} {:>6} {:>6}",
            "model", "window", "output", "image", "reasoning", "in", "cached", "out"
        );
        writeln!(out, "{line}")?;
    }
    for model in models() {
        write_model(model, width, out)?;
    }
    if let Some(reason) = unknown {
        for line in wrapped(reason, usize::from(TERMINAL_WIDTH) - 2) {
            writeln!(out, "  {line}")?;
        }
    }
    if provider.passthrough {
        writeln!(out, "  any other name: {}", provider.prefixed_name("..."))?;
    }
    Ok(())
}

/// Writes the line of a model. A name wider than its column gets its own line.
fn write_model(model: &Model, width: usize, out: &mut String) -> std::fmt::Result {
    let name = if model.id.len() > width {
        writeln!(out, "  {}", model.id)?;
        ""
    } else {
        &model.id
    };
    let price = model.price.as_ref();
    let mut line = format!(
        "  {name:<width$} {:>6} {:>6} {:<5} {:<REASONING_WIDTH$} {:>6} {:>6} {:>6}",
        model.window.map_or_else(|| "?".to_owned(), short_count),
        model.max_output.map_or_else(|| "?".to_owned(), short_count),
        if model.images { "yes" } else { "" },
        reasoning_levels(&model.reasoning),
        price.map_or_else(String::new, |price| dollars(price.input)),
        price
            .and_then(|price| price.cached_input)
            .map_or_else(String::new, dollars),
        price.map_or_else(String::new, |price| dollars(price.output)),
    );
    // A plus marks prices that are higher for long requests.
    if price.is_some_and(|price| !price.tiers.is_empty()) {
        line.push('+');
    }
    writeln!(out, "{}", line.trim_end())
}

/// The reasoning levels from weakest to strongest: all of them if they fit into the column,
/// else the first and the last.
fn reasoning_levels(levels: &[String]) -> String {
    let all = levels.join(" ");
    match (levels.first(), levels.last()) {
        (Some(first), Some(last)) if all.len() > REASONING_WIDTH => format!("{first}-{last}"),
        _ => all,
    }
}

/// A provider in the JSON output.
fn provider_json(status: &ProviderStatus) -> Value {
    let ProviderStatus { provider, on, .. } = status;
    let models = provider.models.iter().chain(&status.discovered);
    json!({
        "id": provider.id,
        "name": provider.name,
        "on": on,
        "built_in": builtin::is_builtin(&provider.id),
        "base_url": provider.base_url,
        "api_key_env": provider.key_env,
        "passthrough": provider.passthrough,
        "models_unknown": status.unknown,
        "models": models.map(|model| model_json(provider, model)).collect::<Vec<_>>(),
    })
}

/// A model in the JSON output.
fn model_json(provider: &Provider, model: &Model) -> Value {
    // As a number of 64 bits it would have more digits than were configured.
    let ratio = model.bytes_per_token.map(|ratio| format!("{ratio:?}"));
    json!({
        "id": model.id,
        "full_name": provider.prefixed_name(&model.id),
        "name": model.display_name(),
        "description": model.description,
        "discovered": model.unlisted,
        "window": model.window,
        "max_output": model.max_output,
        "images": model.images,
        "reasoning": model.reasoning,
        "default_reasoning": model.default_reasoning,
        "sampling": model.sampling,
        "bytes_per_token": ratio.and_then(|ratio| ratio.parse::<serde_json::Number>().ok()),
        "price": model.price,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, Inputs, LoadPurpose, UserDirs};

    /// A configuration with one enabled provider.
    fn config() -> Config {
        let folder = tempfile::tempdir().unwrap();
        let dirs = UserDirs::under(folder.path());
        let file = folder.path().join("c.toml");
        let text = r#"
            [providers.acme]
            base_url = "https://acme.example/v1"
            [[providers.acme.models]]
            id = "acme-large-model-with-a-name-that-is-longer-than-its-column"
            window = 1_500_000
            [[providers.acme.models]]
            id = "a-1"
            window = 200_000
            max_output = 65_536
            images = true
            reasoning = ["none", "minimal", "low", "medium", "high"]
            price = { input = 1.25, cached_input = 0.0036, output = 10, tiers = [{ above = 128000, input = 2.5, output = 20 }] }
        "#;
        std::fs::write(&file, text).unwrap();
        let inputs = Inputs {
            flags: Flags {
                config: Some(file),
                ..Flags::default()
            },
            environment: Arc::new(std::collections::HashMap::<String, String>::new()),
            dirs,
        };
        crate::config::load(&inputs, LoadPurpose::NeedNoKey).unwrap()
    }

    fn list(config: &Config, options: ModelListOptions<'_>) -> anyhow::Result<String> {
        model_list(config, &BTreeMap::new(), options)
    }

    fn only(id: &str) -> ModelListOptions<'_> {
        ModelListOptions {
            provider: Some(id),
            ..ModelListOptions::default()
        }
    }

    #[test]
    fn a_provider_is_printed_as_a_table() {
        assert_eq!(
            list(&config(), only("acme")).unwrap(),
            "\
acme (acme), on
  model                  window output image reasoning         in cached    out
  acme-large-model-with-a-name-that-is-longer-than-its-column
                           1.5M      ?
  a-1                      200k    65k yes   none-high       1.25 0.0036     10+
  any other name: acme/...
"
        );
    }

    #[test]
    fn the_list_has_the_providers_that_are_on_and_counts_the_others() {
        let text = list(&config(), ModelListOptions::default()).unwrap();
        assert!(text.starts_with("acme (acme), on\n"), "{text}");
        assert_eq!(text.matches("), o").count(), 1, "{text}");
        let hidden = format!("\n{} more providers are off: ", builtin::ids().count());
        assert!(text.contains(&hidden), "{text}");
    }

    #[test]
    fn every_provider_that_is_off_says_how_to_turn_it_on() {
        let options = ModelListOptions {
            all: true,
            ..ModelListOptions::default()
        };
        let text = list(&config(), options).unwrap();
        for off in [
            "openai (OpenAI), off\n  to turn it on: set OPENAI_API_KEY\n",
            "azure-openai (Azure OpenAI), off\n  to turn it on: add `[providers.azure-openai]` to proxy-config.toml\n",
            "ollama (Ollama), off\n  to turn it on: add `[providers.ollama]` to proxy-config.toml\n",
        ] {
            assert!(text.contains(off), "{off}");
        }
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
        for id in builtin::ids() {
            assert!(text.contains(&format!("{id} (")), "{id}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_provider_names_similar_ones() {
        let error = |id| list(&config(), only(id)).unwrap_err().to_string();
        assert_eq!(
            error("opnai"),
            "there is no provider 'opnai'; did you mean openai?"
        );
        assert!(error("telex").contains("respondent models --all"));
    }

    #[test]
    fn the_json_output_has_every_field() {
        let options = ModelListOptions {
            provider: Some("acme"),
            json: true,
            ..ModelListOptions::default()
        };
        let read: Value = serde_json::from_str(&list(&config(), options).unwrap()).unwrap();
        assert_eq!(
            read[0]["models"][1],
            serde_json::json!({
                "id": "a-1", "full_name": "acme/a-1", "name": "a-1", "description": "",
                "discovered": false, "window": 200_000, "max_output": 65_536, "images": true,
                "reasoning": ["none", "minimal", "low", "medium", "high"],
                "default_reasoning": null, "sampling": true, "bytes_per_token": null,
                "price": {
                    "input": 1.25, "cached_input": 0.0036, "cache_write": null, "output": 10.0,
                    "tiers": [{"above": 128_000, "input": 2.5, "cached_input": null, "output": 20.0}],
                },
            })
        );
        assert_eq!(read[0]["on"], true);
        assert_eq!(read[0]["built_in"], false);
    }
}
