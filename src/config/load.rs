//! From files, environment and flags to a checked configuration.

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

use super::inputs::{Found, Inputs, folder_of};
use super::raw::{Raw, RawCapture};
use super::source::{ConfigError, Source};
use super::{Capture, Config, Context, KeyOrigin};
use crate::secrets::Secret;
use provider::Given;
pub use provider::provider_files;

/// Reads everything and checks it. Blocks: files are read, key commands run.
pub fn load(inputs: &Inputs) -> Result<Config, ConfigError> {
    let found = inputs.find();
    let main = match &found.file {
        Some(path) => Source::read(path)?,
        None => Source::default(),
    };
    let raw: Raw = main.parse()?;
    let mut load = Loading::new(inputs, &found);
    load.saw(&main);
    let server = load.server(&main, raw.server)?;
    let codex = load.codex(&main, raw.codex.instructions_file.as_deref())?;
    let capture = capture(&main, &raw.capture)?;
    let tables = main.parse::<Table>()?.remove("providers");
    let mut tables = tables
        .and_then(|value| value.try_into::<Table>().ok())
        .unwrap_or_default();
    for (id, spec) in raw.providers.0 {
        let over = tables
            .remove(&id)
            .and_then(|value| value.try_into().ok())
            .unwrap_or_default();
        let given = Given {
            path: vec!["providers", &id],
            id: &id,
            spec,
            over,
            source: &main,
        };
        load.given(given)?;
    }
    load.folder(&found.providers)?;
    load.usual()?;
    load.sandbox()?;
    let registry = Registry {
        fallbacks: raw
            .routing
            .fallbacks
            .0
            .into_iter()
            .map(|(of, others)| (of, others.0))
            .collect(),
        providers: load.providers,
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
        keys: load.keys,
        key_origins: load.origins,
        codex,
        context: Context {
            outputs: raw.context.outputs,
        },
        artifacts: raw.artifacts.into(),
        capture,
        sources: load.sources,
        warnings: load.warnings,
        digest: load.digest.finish(),
        sandbox_address: None,
        redactor: OnceLock::new(),
    })
}

fn capture(main: &Source, raw: &RawCapture) -> Result<Capture, ConfigError> {
    let compiled = raw.patterns.iter().map(|pattern| Regex::new(pattern));
    let patterns = compiled
        .collect::<Result<Vec<Regex>, _>>()
        .map_err(|error| main.error(&["capture", "patterns"], error.to_string()))?;
    Ok(Capture {
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

/// What is known so far.
struct Loading<'a> {
    inputs: &'a Inputs,
    folder: PathBuf,
    seen: BTreeSet<String>,
    providers: Vec<Arc<Provider>>,
    keys: HashMap<String, Vec<Secret>>,
    origins: HashMap<String, KeyOrigin>,
    sources: Vec<PathBuf>,
    warnings: Vec<String>,
    digest: DefaultHasher,
}

impl<'a> Loading<'a> {
    fn new(inputs: &'a Inputs, found: &Found) -> Self {
        Self {
            inputs,
            folder: folder_of(&found.providers).to_owned(),
            seen: BTreeSet::new(),
            providers: Vec::new(),
            keys: HashMap::new(),
            origins: HashMap::new(),
            sources: Vec::new(),
            warnings: Vec::new(),
            digest: DefaultHasher::new(),
        }
    }

    fn saw(&mut self, source: &Source) {
        source.text().hash(&mut self.digest);
        self.sources.extend(source.path.clone());
    }

    fn holds_secret(&mut self, path: &Path) {
        self.warn_if_readable(Some(path));
        self.sources.push(path.to_owned());
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
        self.inputs.places.beside(&self.folder, path)
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
