//! `respondent codex`: sets the Codex CLI up for this server, and undoes it.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::progress::Progress;
use crate::app::models::{catalog as listed_models, catalog_with, first_model};
use crate::codex::catalog::{self, CodexCatalog};
use crate::codex::default_config::{self, Restored};
use crate::codex::home::CodexHome;
use crate::codex::settings::{CodexSettings, CodexToken, ID};
use crate::codex::{profile, remove_file, write_file};
use crate::config::{ArtifactMode, Config, address};

/// The options of `respondent codex setup`.
#[derive(Debug, Clone, Copy)]
pub struct SetupOptions<'a> {
    /// The model to start with; the configured one if left out.
    pub model: Option<&'a str>,
    /// Whether the settings go into Codex's `config.toml` instead of a profile.
    pub as_default: bool,
    /// Whether the settings are printed and nothing is written.
    pub dry_run: bool,
    /// The Codex program.
    pub codex: &'a OsStr,
}

/// `respondent codex setup`: writes the settings and the model catalog. Returns what to print.
pub async fn setup(config: &Config, options: SetupOptions<'_>) -> anyhow::Result<String> {
    let home = codex_home()?;
    let model = model(config, options.model)?;
    let mut text = String::new();
    let catalog = match make_catalog(config, &model, options.codex).await {
        Ok(made) => Some(made),
        Err(error) => {
            let _ = writeln!(
                text,
                "No model catalog was written: {error}. Without one Codex reads the models from this server."
            );
            None
        }
    };
    let path = home.catalog();
    let origin = origin(config);
    let written = catalog.is_some().then_some(path.as_path());
    let settings = settings(config, &origin, &model, written);
    if options.dry_run {
        let (file, content) = if options.as_default {
            (home.config(), default_config::preview(&home, &settings)?)
        } else {
            (home.profile(ID), profile::text(&home, &settings)?)
        };
        let content = config.redactor().redact_known(&content);
        return Ok(format!("# {}\n{content}", file.display()));
    }
    if let Some(catalog) = &catalog {
        write_file(&path, &catalog.json)?;
        let _ = writeln!(
            text,
            "Wrote {} with the prompt of {}.",
            path.display(),
            catalog.prompt_model
        );
    }
    if options.as_default {
        let before = default_config::write(&home, &settings)?;
        let _ = writeln!(text, "Changed {}.", home.config().display());
        if let Some(before) = before {
            let _ = writeln!(text, "Kept the file as it was: {}.", before.display());
        }
    } else {
        let profile = profile::write(&home, &settings)?;
        let _ = writeln!(text, "Wrote {}.", profile.display());
    }
    let start = if options.as_default {
        "codex".to_owned()
    } else {
        format!("codex -p {ID}")
    };
    let width = start.len().max("respondent".len());
    let _ = write!(
        text,
        "\n  Server  {:width$}    (at {origin})\n  Codex   {start:width$}    (model {model})\n  Undo    respondent codex remove\n",
        "respondent"
    );
    Ok(text)
}

/// `respondent codex remove`: undoes what `setup` has written. Returns what to print.
pub fn remove() -> anyhow::Result<String> {
    let home = codex_home()?;
    let mut text = String::new();
    if let Some(path) = profile::remove(&home)? {
        let _ = writeln!(text, "Deleted {}.", path.display());
    }
    match default_config::remove(&home)? {
        Some(Restored::Whole) => {
            let _ = writeln!(text, "{} is as it was before.", home.config().display());
        }
        Some(Restored::Edited) => {
            let _ = writeln!(
                text,
                "Took our settings out of {}; what was edited since the setup stays.",
                home.config().display()
            );
        }
        None => {}
    }
    if remove_file(&home.catalog())? {
        let _ = writeln!(text, "Deleted {}.", home.catalog().display());
    }
    if text.is_empty() {
        text = format!("Codex is not set up in {}.\n", home.folder().display());
    }
    Ok(text)
}

/// `respondent codex status`: whether Codex is set up, and for what. Returns what to print.
pub fn status(config: &Config) -> anyhow::Result<String> {
    let home = codex_home()?;
    let origin = origin(config);
    let mut text = String::new();
    let mut found = Vec::new();
    if let Some(profile) = profile::read(&home)? {
        found.push((home.profile(ID), format!("codex -p {ID}"), profile));
    }
    if default_config::is_set_up(&home) {
        let config = fs::read_to_string(home.config()).unwrap_or_default();
        found.push((home.config(), "codex".to_owned(), config));
    }
    if found.is_empty() {
        return Ok(format!(
            "Codex is not set up in {}. To set it up: respondent codex setup\n",
            home.folder().display()
        ));
    }
    for (path, start, content) in found {
        let table: toml::Table = content.parse().unwrap_or_default();
        let provider = table.get("model_providers").and_then(|all| all.get(ID));
        let base = provider.and_then(|provider| provider.get("base_url")?.as_str());
        let model = table.get("model").and_then(toml::Value::as_str);
        let _ = writeln!(text, "{}", path.display());
        let _ = writeln!(text, "  start    {start}");
        let _ = writeln!(text, "  model    {}", model.unwrap_or("none"));
        let base = base.unwrap_or("none");
        if base == format!("{origin}/v1") {
            let _ = writeln!(text, "  server   {base}");
        } else {
            let _ = writeln!(
                text,
                "  server   {base}, but this one is {origin}/v1; run `respondent codex setup` again"
            );
        }
        if table.get("model_provider").and_then(toml::Value::as_str) != Some(ID) {
            let _ = writeln!(
                text,
                "  warning  `model_provider` is not \"{ID}\", so Codex uses another provider"
            );
        }
    }
    let modified = fs::metadata(home.catalog()).and_then(|metadata| metadata.modified());
    match modified {
        Ok(modified) => {
            let age = SystemTime::now()
                .duration_since(modified)
                .unwrap_or_default();
            let days = age.as_secs() / (24 * 60 * 60);
            let age = match days {
                0 => "today".to_owned(),
                1 => "yesterday".to_owned(),
                days => format!("{days} days ago"),
            };
            let _ = writeln!(text, "The model catalog was written {age}.");
            if !is_complete(config, &home.catalog()) {
                text.push_str(
                    "It lacks models that are served now; run `respondent codex setup` again.\n",
                );
            }
        }
        Err(_) => {
            text.push_str("There is no model catalog; Codex asks the server for its models.\n");
        }
    }
    Ok(text)
}

/// Whether the catalog has an entry for every model.
fn is_complete(config: &Config, path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let catalog: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let models = catalog.get("models").and_then(|models| models.as_array());
    let slugs: Vec<&str> = models
        .into_iter()
        .flatten()
        .filter_map(|model| model.get("slug")?.as_str())
        .collect();
    listed_models(config, None)
        .iter()
        .all(|model| slugs.contains(&model.slug.as_str()))
}

async fn make_catalog(
    config: &Config,
    model: &str,
    codex: &OsStr,
) -> Result<CodexCatalog, catalog::CatalogError> {
    let _progress = Progress::begin("Asking Codex for its prompt");
    let printed = catalog::run_codex_debug_models(codex).await?;
    catalog::build(&printed, &catalog_with(config, model))
}

fn settings<'a>(
    config: &'a Config,
    origin: &'a str,
    model: &'a str,
    catalog: Option<&'a Path>,
) -> CodexSettings<'a> {
    CodexSettings {
        origin,
        model,
        token: match &config.server.token {
            Some(token) => CodexToken::Written(token),
            None => CodexToken::None,
        },
        catalog,
        artifacts: config.artifacts.mode != ArtifactMode::Off,
    }
}

/// The model that Codex starts with: the one that was named, which must be served, or the first.
fn model(config: &Config, named: Option<&str>) -> anyhow::Result<String> {
    match named {
        Some(name) => {
            config
                .registry
                .resolve(name, false)
                .map_err(|error| anyhow::anyhow!("{error}"))?;
            Ok(name.to_owned())
        }
        None if listed_models(config, None).is_empty()
            && config.registry.default_model.is_none() =>
        {
            anyhow::bail!(
                "no model is listed; name one with --model, such as --model {}",
                first_model(config)
            )
        }
        None => Ok(first_model(config)),
    }
}

fn origin(config: &Config) -> String {
    let address = address::local_client_address(config.server.listen);
    format!("http://{address}")
}

fn codex_home() -> anyhow::Result<CodexHome> {
    CodexHome::find(|name| std::env::var_os(name))
        .ok_or_else(|| anyhow::anyhow!("there is no home directory; set CODEX_HOME"))
}
