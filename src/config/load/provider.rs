//! Providers: which are on, whether their tables are sound, what their keys are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use registry::{Provider, Spec, builtin};
use toml::Table;

use super::ConfigLoader;
use crate::config::keys::{self, ApiKeys};
use crate::config::toml_file::{ConfigError, TomlFile};
use crate::config::{KeyOrigin, address};

/// A provider's table: where it stands and what it says.
pub(super) struct ProviderTable<'a> {
    pub(super) id: &'a str,
    pub(super) spec: Spec,
    pub(super) overrides: Table,
    pub(super) file: &'a TomlFile,
    pub(super) path: Vec<&'a str>,
}

impl ProviderTable<'_> {
    fn error(&self, key: &str, why: &str) -> ConfigError {
        let mut path = self.path.clone();
        path.push(key);
        self.file
            .error(&path, format!("provider `{}`: {why}", self.id))
    }
}

impl ConfigLoader<'_> {
    /// Every `*.toml` of the folder, by name; a folder that is absent is empty.
    pub(super) fn add_provider_files(&mut self, folder: &Path) -> Result<(), ConfigError> {
        for path in provider_files(folder) {
            let source = TomlFile::read(&path)?;
            let Some(id) = path.file_stem().and_then(|stem| stem.to_str()) else {
                return Err(source.error(&[], "the file name must be the provider's id"));
            };
            self.add_source(&source);
            let (spec, over) = (source.parse()?, source.parse()?);
            self.add_provider(ProviderTable {
                id,
                spec,
                overrides: over,
                file: &source,
                path: Vec::new(),
            })?;
        }
        Ok(())
    }

    pub(super) fn add_provider(&mut self, mut given: ProviderTable) -> Result<(), ConfigError> {
        let id = given.id;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.is_empty() || !id.bytes().all(word) {
            return Err(given.error("", "an id is made of letters, digits, '.', '_' and '-'"));
        }
        if !self.configured_ids.insert(id.to_owned()) {
            return Err(given.error("", "it is configured twice"));
        }
        if !given.spec.enabled {
            return Ok(());
        }
        let over = std::mem::take(&mut given.overrides);
        let spec = builtin::build(id, over).map_err(|error| given.error("", error.message()))?;
        let mut provider = spec.provider(id);
        provider.ca_file = provider.ca_file.map(|path| self.resolve(&path));
        if provider.has_own_address() {
            return Err(given.error("base_url", &base_url_hint(&provider)));
        }
        check_provider(&provider).map_err(|(key, why)| given.error(key, why))?;
        let environment = self.inputs.environment.as_ref();
        let told = keys::api_keys(&given.spec, environment, |path| self.resolve(path));
        let keys = match told.map_err(|(key, why)| given.error(key, &why))? {
            Some(keys) => Some(keys),
            None => keys::default_keys(&provider.key_env, environment)
                .map_err(|(key, why)| given.error(key, &why))?,
        };
        if keys.is_none() && provider.key_required {
            let why = match provider.key_env.first() {
                Some(name) => format!(
                    "it needs a key: set {name}, or give api_key_env, \
                     api_key_file, api_key_command or api_key"
                ),
                None => "it needs a key: give api_key_env, api_key_file, api_key_command \
                     or api_key"
                    .to_owned(),
            };
            return Err(given.error("", &why));
        }
        provider.key_weights = keys::key_weights(&given.spec, &provider.key_weights, keys.as_ref())
            .map_err(|(key, why)| given.error(key, &why))?;
        if given.spec.api_key.is_some() {
            self.warn_if_readable(given.file.path.as_deref());
        }
        self.enable(provider, keys);
        Ok(())
    }

    /// Built-in providers that nobody configured and whose usual variable is set.
    /// Sites of one vendor share a variable and not its keys: the variable turns one
    /// of them on, the configured one or else the first, and none if that one is
    /// turned off. One whose address is the user's own needs a table.
    pub(super) fn add_providers_by_environment(&mut self) -> Result<(), ConfigError> {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for id in builtin::ids().filter(|id| self.configured_ids.contains(*id)) {
            let is_on = self.providers.iter().any(|provider| provider.id == id);
            match self.key_origins.get(id) {
                Some(KeyOrigin::Environment(names)) => taken.extend(names.iter().cloned()),
                _ if is_on => {}
                _ => taken.extend(builtin::key_env(id)),
            }
        }
        for id in builtin::ids()
            .filter(|id| !self.configured_ids.contains(*id))
            .collect::<Vec<_>>()
        {
            let names = builtin::key_env(id);
            let keys = keys::default_keys(&names, self.inputs.environment.as_ref())
                .map_err(|(_, why)| ConfigError::new(format!("provider `{id}`: {why}")))?;
            let Some(keys) = keys else {
                continue;
            };
            if let KeyOrigin::Environment(names) = &keys.origin {
                if names.iter().any(|name| taken.contains(name)) {
                    continue;
                }
                taken.extend(names.iter().cloned());
            }
            let provider = builtin_provider(id)?;
            if provider.has_own_address() {
                let why = base_url_hint(&provider);
                self.warnings
                    .push(format!("provider `{id}` has a key and stays off: {why}"));
                continue;
            }
            self.enable(provider, Some(keys));
        }
        Ok(())
    }

    /// With nothing else on, the embedded provider answers.
    pub(super) fn add_sandbox_if_alone(&mut self) -> Result<(), ConfigError> {
        if !self.providers.is_empty() {
            return Ok(());
        }
        if self.configured_ids.contains(registry::SANDBOX) {
            return Err(ConfigError::new(
                "no provider is on; give a key or configure one",
            ));
        }
        let provider = builtin_provider(registry::SANDBOX)?;
        self.enable(provider, None);
        Ok(())
    }

    fn enable(&mut self, provider: Provider, keys: Option<ApiKeys>) {
        if let Some(keys) = keys {
            for name in &keys.unset_variables {
                let id = &provider.id;
                self.warnings
                    .push(format!("provider `{id}`: the environment has no {name}"));
            }
            if let KeyOrigin::File(path) = &keys.origin {
                self.add_secret_file(&path.clone());
            }
            self.keys.insert(provider.id.clone(), keys.secrets);
            self.key_origins.insert(provider.id.clone(), keys.origin);
        }
        self.providers.push(Arc::new(provider));
    }
}

/// The `*.toml` files of a folder, by name.
pub fn provider_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml") && path.is_file())
        .collect();
    files.sort();
    files
}

fn builtin_provider(id: &str) -> Result<Provider, ConfigError> {
    let spec = builtin::build(id, Table::new())
        .map_err(|error| ConfigError::new(format!("embedded provider `{id}`: {error}")))?;
    Ok(spec.provider(id))
}

/// What to write for a provider whose address holds a part of the user's own.
fn base_url_hint(provider: &Provider) -> String {
    let form = &provider.base_url;
    format!(
        "it needs base_url: write base_url = \"{form}\" with your own name for the part in braces"
    )
}

/// What a provider's table gets wrong, as (key, why).
fn check_provider(provider: &Provider) -> Result<(), (&'static str, &'static str)> {
    let inside = provider.id == registry::SANDBOX && provider.base_url.is_empty();
    if provider.base_url.is_empty() && !inside {
        return Err(("base_url", "it is not built in and needs base_url"));
    }
    if !inside && let Some(why) = address::base_url_error(&provider.base_url, provider.allow_http) {
        return Err(("base_url", why));
    }
    if let Some(why) = provider.proxy.as_deref().and_then(address::proxy_error) {
        return Err(("proxy", why));
    }
    if provider
        .ca_file
        .as_deref()
        .is_some_and(|path| !path.is_file())
    {
        return Err(("ca_file", "ca_file is not a file"));
    }
    for (name, value) in &provider.headers {
        let fits = HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
        if !fits {
            return Err((
                "headers",
                "headers holds a name or value that cannot be sent",
            ));
        }
    }
    if let Some(name) = &provider.key_header
        && HeaderName::try_from(name).is_err()
    {
        return Err(("key_header", "key_header is no name of a header"));
    }
    if provider.max_concurrent == Some(0) {
        return Err(("max_concurrent", "max_concurrent must be above zero"));
    }
    let mut ids = BTreeSet::new();
    if !provider
        .models
        .iter()
        .all(|model| !model.id.is_empty() && ids.insert(&model.id))
    {
        return Err(("models", "models lists an id twice or an empty one"));
    }
    let offered = |model: &Arc<registry::Model>| {
        model
            .default_reasoning
            .as_ref()
            .is_none_or(|level| model.reasoning.contains(level))
    };
    if !provider.models.iter().all(offered) {
        return Err((
            "models",
            "a model's default_reasoning is not among its reasoning levels",
        ));
    }
    if provider.models.iter().any(|model| {
        model
            .bytes_per_token
            .is_some_and(|ratio| ratio.is_nan() || ratio <= 0.0)
    }) {
        return Err(("models", "bytes_per_token must be above zero"));
    }
    Ok(())
}
