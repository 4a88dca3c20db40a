//! `respondent models`: lists the models of the providers that are on, or of all: those of the
//! running server, or else of this shell.

use std::fmt::Write;

use registry::suggest;

use super::served::ModelSource;
use super::{ok_body, parse_answer, print_text};
use crate::app::models::providers::{ListedModel, ListedProvider, listed_providers};
use crate::app::models::{dollars, short_count};
use crate::config::inputs::CONFIG_FILE_NAME;
use crate::config::{Config, Inputs};
use crate::control::ControlClient;
use crate::log::{TERMINAL_WIDTH, wrapped};

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

/// `respondent models`: prints the list of the server, or else that of this shell.
pub async fn run(
    inputs: &Inputs,
    config: Config,
    options: ModelListOptions<'_>,
) -> anyhow::Result<()> {
    let providers = match ModelSource::find(&config).await? {
        ModelSource::Server(control) => providers_of(&control).await?,
        ModelSource::Shell => {
            let (config, unknown) = super::with_discovered_models(inputs, config).await?;
            listed_providers(&config, &unknown)?
        }
    };
    print_text(&model_list(providers, options)?)
}

/// The providers as a server lists them.
pub(super) async fn providers_of(control: &ControlClient) -> anyhow::Result<Vec<ListedProvider>> {
    parse_answer(&ok_body(control.get("/diagnostics/models").await?)?)
}

/// The list as text: a table for each provider, or JSON. The error of an unknown provider names
/// similar ids.
fn model_list(
    mut providers: Vec<ListedProvider>,
    options: ModelListOptions<'_>,
) -> anyhow::Result<String> {
    if let Some(id) = options.provider {
        if !providers.iter().any(|provider| provider.id == id) {
            let known = providers.iter().map(|provider| provider.id.as_str());
            let near: Vec<&str> = suggest::similar(id, known).into_iter().take(3).collect();
            let hint = if near.is_empty() {
                "`respondent models --all` lists the known ones".to_owned()
            } else {
                format!("did you mean {}?", suggest::one_of(&near))
            };
            anyhow::bail!("there is no provider '{id}'; {hint}");
        }
        providers.retain(|provider| provider.id == id);
    }
    let known = providers.len();
    if !options.all && options.provider.is_none() {
        providers.retain(|provider| provider.on);
    }
    if options.json {
        return Ok(serde_json::to_string_pretty(&providers)? + "\n");
    }
    let mut text = String::new();
    for (index, provider) in providers.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        write_provider(provider, &mut text)?;
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

fn write_provider(provider: &ListedProvider, out: &mut String) -> std::fmt::Result {
    let ListedProvider { id, name, on, .. } = provider;
    writeln!(out, "{id} ({name}), {}", if *on { "on" } else { "off" })?;
    if !on {
        let has_placeholder = provider.base_url.contains('{');
        match provider.api_key_env.first() {
            Some(name) if !has_placeholder => {
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
    let models = &provider.models;
    let width = models.iter().map(|model| model.id.len());
    let width = width.max().unwrap_or(0).clamp(5, NAME_WIDTH);
    if !models.is_empty() {
        let units = format!(
            "  {:<width$} {:>13} {:<5} {:<REASONING_WIDTH$} {:>20}",
            "", "tokens", "", "", "$ per million tokens"
        );
        writeln!(out, "{units}")?;
        let line = format!(
            "  {:<width$} {:>6} {:>6} {:<5} {:<REASONING_WIDTH$} {:>6} {:>6} {:>6}",
            "model", "window", "output", "image", "reasoning", "in", "cached", "out"
        );
        writeln!(out, "{line}")?;
    }
    for model in models {
        write_model(model, width, out)?;
    }
    if let Some(reason) = &provider.models_unknown {
        for line in wrapped(reason, usize::from(TERMINAL_WIDTH) - 2) {
            writeln!(out, "  {line}")?;
        }
    }
    if provider.passthrough {
        writeln!(out, "  any other name: {id}/...")?;
    }
    Ok(())
}

/// Writes the line of a model. A name wider than its column gets its own line.
fn write_model(model: &ListedModel, width: usize, out: &mut String) -> std::fmt::Result {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use registry::builtin;
    use serde_json::Value;

    use super::*;
    use crate::config::{Flags, LoadPurpose, UserDirs};

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
        model_list(listed_providers(config, &BTreeMap::new())?, options)
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
                                tokens                     $ per million tokens
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
