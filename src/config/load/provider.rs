//! Loads providers: decides which are enabled, checks their tables, and reads their keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use registry::{Provider, ProviderSpec, builtin};
use toml::Table;

use super::ConfigLoader;
use crate::config::keys::{self, ApiKeys};
use crate::config::toml_file::{ConfigError, TomlFile};
use crate::config::{KeyOrigin, address};

/// A provider's table as it is in a configuration file.
pub(super) struct ProviderTable<'a> {
    pub(super) id: &'a str,
    /// The table parsed, without the values of a built-in provider of this id.
    pub(super) spec: ProviderSpec,
    /// The same table as TOML, to be laid over the built-in values.
    pub(super) overrides: Table,
    pub(super) file: &'a TomlFile,
    /// The keys that lead to the table; empty if the file is the table.
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
    /// Adds every provider file of a directory, in the order of names. A directory that does
    /// not exist counts as empty.
    pub(super) fn add_provider_files(&mut self, dir: &Path) -> Result<(), ConfigError> {
        for path in provider_files(dir) {
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

    pub(super) fn add_provider(&mut self, mut table: ProviderTable) -> Result<(), ConfigError> {
        let id = table.id;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.is_empty() || !id.bytes().all(allowed) {
            return Err(table.error("", "an id is made of letters, digits, '.', '_' and '-'"));
        }
        if !self.configured_ids.insert(id.to_owned()) {
            return Err(table.error("", "it is configured twice"));
        }
        if !table.spec.enabled {
            return Ok(());
        }
        let overrides = std::mem::take(&mut table.overrides);
        let spec = builtin::build(id, overrides)
            .map_err(|error| table.error("quirks", error.message()))?;
        let mut provider = spec.to_provider(id);
        provider.ca_file = provider.ca_file.map(|path| self.resolve(&path));
        if provider.has_address_placeholder() {
            return Err(table.error("base_url", &base_url_hint(&provider)));
        }
        check_provider(&provider).map_err(|(key, why)| table.error(key, why))?;
        let environment = self.inputs.environment.as_ref();
        let configured = keys::api_keys(&table.spec, environment, |path| self.resolve(path));
        let keys = match configured.map_err(|(key, why)| table.error(key, &why))? {
            Some(keys) => Some(keys),
            None => keys::default_keys(&provider.key_env, environment)
                .map_err(|(key, why)| table.error(key, &why))?,
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
            return Err(table.error("", &why));
        }
        provider.key_weights = keys::key_weights(&table.spec, &provider.key_weights, keys.as_ref())
            .map_err(|(key, why)| table.error(key, &why))?;
        if table.spec.api_key.is_some() {
            self.warn_if_readable(table.file.path.as_deref());
        }
        self.enable(provider, keys);
        Ok(())
    }

    /// Enables the built-in providers that have no table and whose key variable is set.
    ///
    /// Several sites of one vendor may read the same variable, but a key belongs to one
    /// site. So a variable enables one site only: the configured one, or else the first; and
    /// none if the configured one is disabled. A provider whose base URL contains a name of
    /// the user's own is not enabled this way: it needs a table.
    pub(super) fn add_providers_by_environment(&mut self) -> Result<(), ConfigError> {
        let mut used_variables: BTreeSet<String> = BTreeSet::new();
        for id in builtin::ids().filter(|id| self.configured_ids.contains(*id)) {
            let is_enabled = self
                .config
                .registry
                .providers
                .iter()
                .any(|provider| provider.id == id);
            match self.config.key_origins.get(id) {
                Some(KeyOrigin::Environment(names)) => used_variables.extend(names.iter().cloned()),
                _ if is_enabled => {}
                _ => used_variables.extend(builtin::key_env(id)),
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
                if names.iter().any(|name| used_variables.contains(name)) {
                    continue;
                }
                used_variables.extend(names.iter().cloned());
            }
            let provider = builtin_provider(id)?;
            if provider.has_address_placeholder() {
                let why = base_url_hint(&provider);
                self.config
                    .warnings
                    .push(format!("provider `{id}` has a key and stays off: {why}"));
                continue;
            }
            self.enable(provider, Some(keys));
        }
        Ok(())
    }

    /// Enables the embedded provider if no other provider is enabled.
    pub(super) fn add_sandbox_if_alone(&mut self) -> Result<(), ConfigError> {
        if !self.config.registry.providers.is_empty() {
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
                self.config
                    .warnings
                    .push(format!("provider `{id}`: the environment has no {name}"));
            }
            if let KeyOrigin::File(path) = &keys.origin {
                self.add_secret_file(&path.clone());
            }
            self.config.keys.insert(provider.id.clone(), keys.secrets);
            self.config
                .key_origins
                .insert(provider.id.clone(), keys.origin);
        }
        self.config.registry.providers.push(Arc::new(provider));
    }
}

/// The `*.toml` files of a directory, sorted by name.
pub fn provider_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
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
    Ok(spec.to_provider(id))
}

/// The advice for a provider whose base URL contains a placeholder, such as the resource
/// name of the user.
fn base_url_hint(provider: &Provider) -> String {
    let pattern = &provider.base_url;
    format!(
        "it needs base_url: write base_url = \"{pattern}\" with your own name for the part in braces"
    )
}

/// Checks a provider's settings. The error is the setting at fault and the reason.
fn check_provider(provider: &Provider) -> Result<(), (&'static str, &'static str)> {
    let is_embedded = provider.id == registry::SANDBOX && provider.base_url.is_empty();
    if provider.base_url.is_empty() && !is_embedded {
        return Err(("base_url", "it is not built in and needs base_url"));
    }
    if !is_embedded
        && let Some(why) = address::base_url_error(&provider.base_url, provider.allow_http)
    {
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
        let valid = HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
        if !valid {
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
    let has_default_level = |model: &Arc<registry::Model>| {
        model
            .default_reasoning
            .as_ref()
            .is_none_or(|level| model.reasoning.contains(level))
    };
    if !provider.models.iter().all(has_default_level) {
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
