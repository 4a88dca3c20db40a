//! `respondent codex status`: what Codex is set up for, and whether it is served.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use super::{codex_home, invocation, origin};
use crate::codex::default_config;
use crate::codex::profile;
use crate::codex::settings::ID;
use crate::commands::invocation::typed_program;
use crate::commands::served::{ModelSource, ServedModels, refusal};
use crate::config::{Config, Flags};
use crate::log::labelled;

/// `respondent codex status`: whether Codex is set up, for what, and whether that is served.
/// Returns what to print. `flags` are those of this process.
pub async fn run(config: &Config, flags: &Flags) -> anyhow::Result<String> {
    let home = codex_home()?;
    let program = typed_program();
    let setup = invocation(&program, flags, config).command("codex setup");
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
            "Codex is not set up in {}. To set it up: {setup}\n",
            home.folder().display()
        ));
    }
    let source = ModelSource::find(config).await?;
    for (path, start, content) in found {
        let table: toml::Table = content.parse().unwrap_or_default();
        let provider = table.get("model_providers").and_then(|all| all.get(ID));
        let base = provider.and_then(|provider| provider.get("base_url")?.as_str());
        let model = table.get("model").and_then(toml::Value::as_str);
        let _ = writeln!(text, "{}", path.display());
        let _ = writeln!(text, "  start    {start}");
        let _ = writeln!(text, "  model    {}", model.unwrap_or("none"));
        if let Some(model) = model
            && let Some(why) = refusal(&source, config, model).await?
        {
            let why = format!("it is not served. {why}");
            let rows = std::iter::once(("", why));
            text += &labelled(7, rows);
            let _ = writeln!(text, "           choose another: {setup} --model MODEL");
        }
        let base = base.unwrap_or("none");
        if base == format!("{origin}/v1") {
            let _ = writeln!(text, "  server   {base}");
        } else {
            let _ = writeln!(
                text,
                "  server   {base}, but this one is {origin}/v1\n           run again: {setup}"
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
            let served = match &source {
                ModelSource::Server(control) => {
                    ServedModels::of_server(control, config, None).await?
                }
                ModelSource::Shell => ServedModels::of_config(config, None),
            };
            if !is_complete(&served, &home.catalog()) {
                let _ = writeln!(
                    text,
                    "It lacks models that are served now. Run again: {setup}"
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
fn is_complete(served: &ServedModels, path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let catalog: Value = serde_json::from_str(&text).unwrap_or_default();
    let models = catalog.get("models").and_then(|models| models.as_array());
    let slugs: Vec<&str> = models
        .into_iter()
        .flatten()
        .filter_map(|model| model.get("slug")?.as_str())
        .collect();
    served.names().all(|name| slugs.contains(&name))
}
