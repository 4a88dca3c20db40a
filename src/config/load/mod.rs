//! Reads files, environment and flags, checks them, and builds a [`Config`].

mod clients;
mod codex;
mod mcp_servers;
mod prompts;
mod provider;
mod routing;
mod search;
mod server;
mod trust;
mod vision;
mod webhooks;
mod workflows;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;
use toml::Table;
use xxhash_rust::xxh3::Xxh3;

use super::error::{ConfigError, ConfigErrors, MAX_ERRORS};
use super::inputs::{Inputs, parent_dir};
use super::purpose::LoadPurpose;
use super::settings::{CaptureConfig, ConfigFile};
use super::toml_file::{Parsed, TomlFile};
use super::{Config, ToolConfig};
pub use provider::{check_name, provider_files};

/// Loads the configuration. Fails with all mistakes that were found, which name file and line
/// where possible. Blocks: files are read and, if the purpose needs keys, key commands are run.
pub fn load(inputs: &Inputs, purpose: LoadPurpose) -> Result<Config, ConfigErrors> {
    let paths = inputs.config_paths(purpose);
    let main = match &paths.file {
        Some(path) => TomlFile::read(path)?,
        None => TomlFile::default(),
    };
    let mut parsed: Parsed<ConfigFile> = main.parse();
    let mut loader = ConfigLoader {
        inputs,
        purpose,
        config_dir: parent_dir(&paths.providers_dir).to_owned(),
        configured_ids: BTreeSet::new(),
        has_bad_provider: parsed.is_incomplete(&["providers"]),
        errors: std::mem::take(&mut parsed.errors),
        config: Config::default(),
        digest: Xxh3::new(),
    };
    loader.config.paths = paths;
    let Some(mut file) = parsed.value.take() else {
        return Err(loader.into_errors());
    };
    loader.add_source(&main);
    loader.distrust_settings(&main, &parsed.table, &file.server);
    if !parsed.is_incomplete(&["server"]) {
        let has_clients = !file.clients.0.is_empty();
        loader.server(&main, &mut file.server, has_clients);
    }
    loader.clients(&main, &file.server, file.clients);
    if !loader.config.paths.is_found {
        loader.codex_instructions(&main, &mut file.codex);
    }
    let tools = ToolConfig::from(&file.tools);
    loader.tools(&main, tools);
    loader.mcp_servers(&main, file.tools.mcp);
    loader.capture(&main, &file.capture);
    loader.add_provider_tables(&main, &mut parsed, file.providers.0);
    loader.add_provider_files();
    loader.add_providers_by_environment();
    loader.add_sandbox_if_alone();
    loader.search(&main, &file.search);
    loader.webhooks(&main, file.webhooks.0);
    loader.prompts(&main, &file.prompts);
    loader.workflows(&main, &file.workflows);
    loader.routing(&main, file.routing);
    loader.codex_agents(&main, &mut file.codex);
    loader.vision(&main, file.vision);
    let sandbox = loader.config.registry.provider(registry::SANDBOX);
    let has_sandbox = sandbox.is_some_and(|provider| provider.base_url.is_empty());
    let config = &mut loader.config;
    config.sandbox = has_sandbox;
    config.server = file.server;
    config.codex = file.codex;
    config.context = file.context;
    config.artifacts = file.artifacts;
    config.responses = file.responses;
    config.history = file.history;
    config.jobs = file.jobs;
    config.tools = tools;
    config.capture = file.capture;
    config.digest = loader.digest.digest();
    if let Some(memory) = config.server.memory {
        config.fit_into(memory);
    }
    let least = config.least_memory();
    if config.server.memory.is_some_and(|memory| memory < least) {
        loader.fail(main.error(
            &["server", "memory"],
            format!(
                "`memory` must be at least {least}: 3 times `body_limit`, `memory` of [capture] and of [artifacts], and a quarter of it for what is remembered of sessions"
            ),
        ));
    }
    if !loader.config.webhooks.is_empty() && !loader.config.stores_responses() {
        loader.warn("webhooks are told of background responses, which need stored responses: set mode = \"disk\" in [responses]".to_owned());
    }
    if loader.errors.is_empty() {
        Ok(loader.config)
    } else {
        Err(loader.into_errors())
    }
}

/// The parts of a configuration that have been read so far.
struct ConfigLoader<'a> {
    inputs: &'a Inputs,
    purpose: LoadPurpose,
    config_dir: PathBuf,
    configured_ids: BTreeSet<String>,
    /// Whether a provider has a mistake, so that names of its models cannot be judged.
    has_bad_provider: bool,
    errors: Vec<ConfigError>,
    /// Its providers, keys, files and warnings are filled in as they are found.
    config: Config,
    digest: Xxh3,
}

impl ConfigLoader<'_> {
    /// Notes a mistake.
    fn fail(&mut self, error: ConfigError) {
        if !self.has_enough_errors() {
            self.errors.push(error);
        }
    }

    /// Checks the limits of tools that run in the server.
    fn tools(&mut self, main: &TomlFile, tools: ToolConfig) {
        for (key, zero) in [
            ("max_rounds", tools.max_rounds == 0),
            ("max_artifact_chars", tools.max_artifact_chars == 0),
            ("max_unusable_rounds", tools.max_unusable_rounds == 0),
            ("max_calls", tools.max_calls == Some(0)),
            ("call_timeout", tools.call_timeout.is_zero()),
        ] {
            if zero {
                self.fail(main.error(&["tools", key], format!("`{key}` must be above zero")));
            }
        }
    }

    /// Whether no further mistake would be told.
    fn has_enough_errors(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    fn warn(&mut self, warning: String) {
        if !self.config.warnings.contains(&warning) {
            self.config.warnings.push(warning);
        }
    }

    /// The mistakes in the order in which they are written, those of the main file first.
    fn into_errors(mut self) -> ConfigErrors {
        let main = self.config.paths.file;
        self.errors
            .sort_by_key(|error| (error.file != main, error.file.clone(), error.line));
        ConfigErrors::new(self.errors)
    }

    fn capture(&mut self, main: &TomlFile, capture: &CaptureConfig) {
        for text in &capture.patterns {
            match Regex::new(text) {
                Ok(pattern) => self.config.secret_patterns.push(pattern),
                Err(error) => self.fail(main.error(&["capture", "patterns"], error.to_string())),
            }
        }
    }

    fn add_source(&mut self, source: &TomlFile) {
        self.digest.update(source.text().as_bytes());
        self.config.source_files.extend(source.path.clone());
    }

    fn add_secret_file(&mut self, path: &Path) {
        self.warn_if_readable(Some(path));
        self.config.source_files.push(path.to_owned());
    }

    fn warn_if_readable(&mut self, path: Option<&Path>) {
        let Some(path) = path.filter(|path| readable_by_others(path)) else {
            return;
        };
        let path = path.display();
        self.warn(format!(
            "{path} holds a secret and others can read it; chmod 600 {path}"
        ));
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.inputs.dirs.resolve(&self.config_dir, path)
    }
}

fn readable_by_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// The table of each provider in a file, by id.
fn provider_tables(file: &mut Table) -> Table {
    let tables = file.remove("providers");
    let tables = tables.and_then(|value| value.try_into::<Table>().ok());
    tables.unwrap_or_default()
}

#[cfg(test)]
mod tests;
