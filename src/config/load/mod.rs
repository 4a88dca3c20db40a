//! Reads files, environment and flags, checks them, and builds a [`Config`].

mod provider;
mod server;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;
use registry::Registry;
use toml::Table;
use xxhash_rust::xxh3::Xxh3;

use super::Config;
use super::inputs::{Inputs, parent_dir};
use super::settings::ConfigFile;
use super::toml_file::{ConfigError, TomlFile};
use provider::ProviderTable;
pub use provider::provider_files;

/// Loads the configuration. The first mistake found ends it with an error that names file
/// and line where possible. Blocks: files are read and key commands are run.
pub fn load(inputs: &Inputs) -> Result<Config, ConfigError> {
    let paths = inputs.config_paths();
    let main = match &paths.file {
        Some(path) => TomlFile::read(path)?,
        None => TomlFile::default(),
    };
    let mut file: ConfigFile = main.parse()?;
    let mut loader = ConfigLoader {
        inputs,
        config_dir: parent_dir(&paths.providers_dir).to_owned(),
        configured_ids: BTreeSet::new(),
        config: Config::default(),
        digest: Xxh3::new(),
    };
    loader.add_source(&main);
    loader.server(&main, &mut file.server)?;
    loader.codex(&main, &mut file.codex)?;
    let compiled = file.capture.patterns.iter().map(|text| Regex::new(text));
    file.capture.compiled_patterns = compiled
        .collect::<Result<_, _>>()
        .map_err(|error| main.error(&["capture", "patterns"], error.to_string()))?;
    let tables = main.parse::<Table>()?.remove("providers");
    let mut tables = tables
        .and_then(|value| value.try_into::<Table>().ok())
        .unwrap_or_default();
    for (id, spec) in file.providers.0 {
        let overrides = tables
            .remove(&id)
            .and_then(|value| value.try_into().ok())
            .unwrap_or_default();
        let table = ProviderTable {
            path: vec!["providers", &id],
            id: &id,
            spec,
            overrides,
            file: &main,
        };
        loader.add_provider(table)?;
    }
    loader.add_provider_files(&paths.providers_dir)?;
    loader.add_providers_by_environment()?;
    loader.add_sandbox_if_alone()?;
    let mut config = loader.config;
    let fallbacks = file.routing.fallbacks.0.into_iter();
    let registry = Registry {
        fallbacks: fallbacks.map(|(of, others)| (of, others.0)).collect(),
        aliases: file.routing.aliases.0,
        default_model: file.routing.default_model,
        ..config.registry
    };
    registry.check().map_err(|refused| {
        let key = match &refused {
            registry::RegistryError::AliasOfAlias(alias, _)
            | registry::RegistryError::UnresolvedAlias(alias, _) => {
                ["routing", "aliases", alias.as_str()]
            }
            registry::RegistryError::UnresolvedDefault(_) => ["routing", "default_model", ""],
            registry::RegistryError::UnresolvedFallback(of, _) => {
                ["routing", "fallbacks", of.as_str()]
            }
        };
        main.error(&key, refused.to_string())
    })?;
    let sandbox = registry.provider(registry::SANDBOX);
    config.sandbox = sandbox.is_some_and(|provider| provider.base_url.is_empty());
    let config = Config {
        server: file.server,
        registry,
        codex: file.codex,
        context: file.context,
        artifacts: file.artifacts,
        capture: file.capture,
        digest: loader.digest.digest(),
        ..config
    };
    let least = config.least_memory();
    match config.server.memory {
        Some(memory) if memory < least => Err(main.error(
            &["server", "memory"],
            format!(
                "`memory` must be at least {least}: 3 times `body_limit`, `memory` of [capture] and of [artifacts], and 120 MiB for what is remembered of sessions"
            ),
        )),
        Some(_) | None => Ok(config),
    }
}

/// The parts of a configuration that have been read so far.
struct ConfigLoader<'a> {
    inputs: &'a Inputs,
    config_dir: PathBuf,
    configured_ids: BTreeSet<String>,
    /// Its providers, keys, files and warnings are filled in as they are found.
    config: Config,
    digest: Xxh3,
}

impl ConfigLoader<'_> {
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
        let warning = format!("{path} holds a secret and others can read it; chmod 600 {path}");
        if !self.config.warnings.contains(&warning) {
            self.config.warnings.push(warning);
        }
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.inputs.dirs.resolve(&self.config_dir, path)
    }
}

fn readable_by_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests;
