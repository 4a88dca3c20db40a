//! Reads files, environment and flags, checks them, and builds a [`Config`].

mod provider;
mod server;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;

use regex::bytes::Regex;
use registry::{Provider, Registry};
use toml::Table;

use super::inputs::{ConfigPaths, Inputs, parent_dir};
use super::raw::{RawCapture, RawConfig};
use super::toml_file::{ConfigError, TomlFile};
use super::{CaptureConfig, Config, ContextConfig, KeyOrigin};
use crate::secrets::Secret;
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
    let raw: RawConfig = main.parse()?;
    let mut loader = ConfigLoader::new(inputs, &paths);
    loader.add_source(&main);
    let server = loader.server(&main, raw.server)?;
    let codex = loader.codex(&main, raw.codex.instructions_file.as_deref())?;
    let capture = capture_config(&main, &raw.capture)?;
    let tables = main.parse::<Table>()?.remove("providers");
    let mut tables = tables
        .and_then(|value| value.try_into::<Table>().ok())
        .unwrap_or_default();
    for (id, spec) in raw.providers.0 {
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
    let registry = Registry {
        fallbacks: raw
            .routing
            .fallbacks
            .0
            .into_iter()
            .map(|(of, others)| (of, others.0))
            .collect(),
        providers: loader.providers,
        aliases: raw.routing.aliases.0,
        default_model: raw.routing.default_model,
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
    Ok(Config {
        sandbox: registry
            .provider(registry::SANDBOX)
            .is_some_and(|provider| provider.base_url.is_empty()),
        server,
        registry,
        keys: loader.keys,
        key_origins: loader.key_origins,
        codex,
        context: ContextConfig {
            outputs: raw.context.outputs,
        },
        artifacts: raw.artifacts.into(),
        capture,
        source_files: loader.source_files,
        warnings: loader.warnings,
        digest: loader.digest.finish(),
        sandbox_address: None,
        redactor: OnceLock::new(),
    })
}

fn capture_config(main: &TomlFile, raw: &RawCapture) -> Result<CaptureConfig, ConfigError> {
    let compiled = raw.patterns.iter().map(|pattern| Regex::new(pattern));
    let patterns = compiled
        .collect::<Result<Vec<Regex>, _>>()
        .map_err(|error| main.error(&["capture", "patterns"], error.to_string()))?;
    Ok(CaptureConfig {
        mode: raw.mode,
        recent: raw.recent,
        memory: raw.memory,
        keep: raw.keep,
        keep_size: raw.keep_size,
        keep_days: raw.keep_days,
        patterns,
        images: raw.images,
        encrypted: raw.encrypted,
    })
}

/// The parts of a configuration that have been read so far.
struct ConfigLoader<'a> {
    inputs: &'a Inputs,
    config_dir: PathBuf,
    configured_ids: BTreeSet<String>,
    providers: Vec<Arc<Provider>>,
    keys: HashMap<String, Vec<Secret>>,
    key_origins: HashMap<String, KeyOrigin>,
    source_files: Vec<PathBuf>,
    warnings: Vec<String>,
    digest: DefaultHasher,
}

impl<'a> ConfigLoader<'a> {
    fn new(inputs: &'a Inputs, paths: &ConfigPaths) -> Self {
        Self {
            inputs,
            config_dir: parent_dir(&paths.providers_dir).to_owned(),
            configured_ids: BTreeSet::new(),
            providers: Vec::new(),
            keys: HashMap::new(),
            key_origins: HashMap::new(),
            source_files: Vec::new(),
            warnings: Vec::new(),
            digest: DefaultHasher::new(),
        }
    }

    fn add_source(&mut self, source: &TomlFile) {
        source.text().hash(&mut self.digest);
        self.source_files.extend(source.path.clone());
    }

    fn add_secret_file(&mut self, path: &Path) {
        self.warn_if_readable(Some(path));
        self.source_files.push(path.to_owned());
    }

    fn warn_if_readable(&mut self, path: Option<&Path>) {
        let Some(path) = path.filter(|path| readable_by_others(path)) else {
            return;
        };
        let path = path.display();
        let warning = format!("{path} holds a secret and others can read it; chmod 600 {path}");
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.inputs.dirs.resolve(&self.config_dir, path)
    }
}

#[cfg(unix)]
fn readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
