//! Loads providers: decides which are enabled, checks their tables, and reads their keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use registry::{Provider, ProviderSpec, builtin, suggest};
use toml::Table;

use super::{ConfigLoader, provider_tables};
use crate::config::error::ConfigError;
use crate::config::keys::{self, ApiKeys, KeyError};
use crate::config::settings::ConfigFile;
use crate::config::toml_file::{Parsed, TomlFile};
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
    pub(super) fn error(&self, key: &str, why: &str) -> ConfigError {
        let mut path = self.path.clone();
        path.push(key);
        self.file
            .error(&path, format!("provider `{}`: {why}", self.id))
    }
}

impl ConfigLoader<'_> {
    /// Adds the providers of the main file, except those with entries that were left out.
    pub(super) fn add_provider_tables(
        &mut self,
        main: &TomlFile,
        parsed: &mut Parsed<ConfigFile>,
        specs: Vec<(String, ProviderSpec)>,
    ) {
        let mut tables = provider_tables(&mut parsed.table);
        for (id, spec) in specs {
            let overrides = tables.remove(&id).and_then(|value| value.try_into().ok());
            let path = vec!["providers", &id];
            if parsed.is_incomplete(&path) || self.has_enough_errors() {
                self.configured_ids.insert(id);
                continue;
            }
            self.add_provider(ProviderTable {
                path,
                id: &id,
                spec,
                overrides: overrides.unwrap_or_default(),
                file: main,
            });
        }
    }

    /// Adds every file of the directory for providers, in the order of names. A directory that
    /// does not exist counts as empty.
    pub(super) fn add_provider_files(&mut self) {
        for path in provider_files(&self.config.paths.providers_dir) {
            if self.has_enough_errors() {
                return;
            }
            let source = match TomlFile::read(&path) {
                Ok(source) => source,
                Err(error) => {
                    self.fail(error);
                    continue;
                }
            };
            let Some(id) = path.file_stem().and_then(|stem| stem.to_str()) else {
                self.fail(source.error(&[], "the file name must be the provider's id"));
                continue;
            };
            self.add_source(&source);
            let parsed: Parsed<ProviderSpec> = source.parse();
            let is_whole = parsed.errors.is_empty();
            for error in parsed.errors {
                self.fail(error);
            }
            match parsed.value {
                Some(spec) if is_whole => self.add_provider(ProviderTable {
                    id,
                    spec,
                    overrides: parsed.table,
                    file: &source,
                    path: Vec::new(),
                }),
                Some(_) | None => {
                    self.has_bad_provider = true;
                    self.configured_ids.insert(id.to_owned());
                }
            }
        }
    }

    fn add_provider(&mut self, table: ProviderTable) {
        let errors_before = self.errors.len();
        self.add_checked_provider(table);
        self.has_bad_provider |= self.errors.len() > errors_before;
    }

    fn add_checked_provider(&mut self, mut table: ProviderTable) {
        let id = table.id;
        if let Err(why) = check_name(id) {
            return self.fail(table.error("", why));
        }
        if !self.configured_ids.insert(id.to_owned()) {
            return self.fail(table.error("", "it is configured twice"));
        }
        let overrides = std::mem::take(&mut table.overrides);
        let spec = match builtin::build(id, overrides.clone()) {
            Ok(spec) => spec,
            Err(error) => return self.fail(table.error("quirks", error.message())),
        };
        let mut provider = spec.to_provider(id);
        let is_trusted = self.trusts(&table, &overrides, &provider);
        if !table.spec.enabled {
            self.config.registry.off.push(provider);
            return;
        }
        provider.ca_file = provider.ca_file.map(|path| self.resolve(&path));
        if provider.has_address_placeholder() {
            return self.fail(table.error("base_url", &base_url_hint(&provider)));
        }
        if let Some(end) = address::endpoint_in_base_url(&provider.base_url) {
            let kept = provider.base_url.trim_end_matches('/');
            let kept = kept.trim_end_matches(end).trim_end_matches('/').len();
            provider.base_url.truncate(kept);
            self.warn(format!(
                "provider `{id}`: base_url ends in {end}, which is cut, because the endpoint \
                 is appended to it"
            ));
        }
        let mistakes = provider_mistakes(&provider);
        for (key, why) in &mistakes {
            self.fail(table.error(key, why));
        }
        if !is_trusted || !mistakes.is_empty() {
            return;
        }
        let keys = match self.keys_of(&table, &provider) {
            Ok(keys) => keys,
            Err(KeyError::Mistake(key, why)) => return self.fail(table.error(key, &why)),
            Err(KeyError::Missing(why)) => {
                self.warn(format!("provider `{id}` is off: {why}"));
                self.config.registry.off.push(provider);
                return;
            }
        };
        match keys::key_weights(&table.spec, &provider.key_weights, keys.as_ref()) {
            Ok(weights) => provider.key_weights = weights,
            Err(why) => return self.fail(table.error("key_weights", &why)),
        }
        if overrides.contains_key("models") {
            self.warn_of_idle_levels(&provider);
        }
        if table.spec.api_key.is_some() {
            self.warn_if_readable(table.file.path.as_deref());
        }
        self.enable(provider, keys);
    }

    /// Warns of models whose reasoning levels a client is offered, although no level is sent.
    fn warn_of_idle_levels(&mut self, provider: &Provider) {
        let is_idle = |model: &&Arc<registry::Model>| {
            let quirks = &provider.dialect_for(&model.id).quirks;
            !model.reasoning.is_empty() && !quirks.controls_reasoning()
        };
        let idle: Vec<&str> = provider
            .models
            .iter()
            .filter(is_idle)
            .map(|model| model.id.as_str())
            .collect();
        if idle.is_empty() {
            return;
        }
        let (id, models) = (&provider.id, idle.join(", "));
        self.warn(format!(
            "provider `{id}`: the reasoning levels of {models} change nothing, because \
             reasoning_control is \"none\"; set it in the quirks, such as \"effort\", or remove the \
             levels"
        ));
    }

    /// The keys of a provider: the configured ones, or those in the variable that is usual for a
    /// built-in provider. A usual variable holds a key for the provider's own address, so
    /// another address gets it only if `api_key_env` says so.
    fn keys_of(
        &self,
        table: &ProviderTable,
        provider: &Provider,
    ) -> Result<Option<ApiKeys>, KeyError> {
        let environment = self.inputs.environment.as_ref();
        let reads_keys = self.purpose.reads_keys();
        let resolve = |path: &Path| self.resolve(path);
        if let Some(keys) = keys::api_keys(&(&table.spec).into(), environment, reads_keys, resolve)?
        {
            return Ok(Some(keys));
        }
        let usual = provider.key_env.first();
        let is_replaced = !builtin::has_address(&provider.id, &provider.base_url);
        if !is_replaced && let Some(keys) = keys::default_keys(&provider.key_env, environment)? {
            return Ok(Some(keys));
        }
        if !provider.key_required {
            return Ok(None);
        }
        let other_sources = "api_key_file, api_key_command or api_key";
        Err(KeyError::Missing(match usual {
            Some(name) if is_replaced => format!(
                "it needs a key, and {name} is not sent to another base_url unless you write \
                 api_key_env = \"{name}\"; or give {other_sources}"
            ),
            Some(name) => {
                format!("it needs a key: set {name}, or give api_key_env, {other_sources}")
            }
            None => format!("it needs a key: give api_key_env, {other_sources}"),
        }))
    }

    /// Enables the built-in providers that have no table and whose key variable is set.
    ///
    /// Several sites of one vendor may read the same variable, but a key belongs to one
    /// site. So a variable enables one site only: the configured one, or else the first; and
    /// none if the configured one is disabled. A provider whose base URL contains a name of
    /// the user's own is not enabled this way: it needs a table.
    pub(super) fn add_providers_by_environment(&mut self) {
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
            let keys = match keys::default_keys(&names, self.inputs.environment.as_ref()) {
                Ok(Some(keys)) => keys,
                Ok(None) => continue,
                Err(KeyError::Missing(why) | KeyError::Mistake(_, why)) => {
                    self.warn(format!("provider `{id}` is off: {why}"));
                    continue;
                }
            };
            if let KeyOrigin::Environment(names) = &keys.origin {
                if names.iter().any(|name| used_variables.contains(name)) {
                    continue;
                }
                used_variables.extend(names.iter().cloned());
            }
            let provider = match builtin_provider(id) {
                Ok(provider) => provider,
                Err(error) => {
                    self.fail(error);
                    continue;
                }
            };
            if provider.has_address_placeholder() {
                let why = base_url_hint(&provider);
                self.warn(format!("provider `{id}` has a key and stays off: {why}"));
                continue;
            }
            self.enable(provider, Some(keys));
        }
    }

    /// Enables the embedded provider if no other provider is enabled.
    pub(super) fn add_sandbox_if_alone(&mut self) {
        if !self.config.registry.providers.is_empty() || self.has_bad_provider {
            return;
        }
        if self.configured_ids.contains(registry::SANDBOX) {
            let why = "no provider is on; give a key or configure one";
            return self.fail(ConfigError::new(why));
        }
        match builtin_provider(registry::SANDBOX) {
            Ok(provider) => self.enable(provider, None),
            Err(error) => self.fail(error),
        }
    }

    fn enable(&mut self, provider: Provider, keys: Option<ApiKeys>) {
        if let Some(keys) = keys {
            for name in &keys.unset_variables {
                let id = &provider.id;
                self.warn(format!("provider `{id}`: the environment has no {name}"));
            }
            if let KeyOrigin::File(path) = &keys.origin {
                self.add_secret_file(&path.clone());
            }
            if !keys.secrets.is_empty() {
                self.config.keys.insert(provider.id.clone(), keys.secrets);
            }
            self.config
                .key_origins
                .insert(provider.id.clone(), keys.origin);
        }
        self.config.registry.providers.push(Arc::new(provider));
    }
}

/// Whether a provider or a webhook can have this name. Files are named after providers.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.is_empty() && name.bytes().all(fits) {
        return Ok(());
    }
    Err("a name is made of letters, digits, '.', '_' and '-'")
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

/// The mistakes in a provider's settings: the setting at fault and the reason.
fn provider_mistakes(provider: &Provider) -> Vec<(&'static str, String)> {
    let mut mistakes: Vec<(&'static str, String)> = Vec::new();
    let mut refuse = |setting, why: &str| mistakes.push((setting, why.to_owned()));
    let is_embedded = provider.id == registry::SANDBOX && provider.base_url.is_empty();
    if provider.base_url.is_empty() && !is_embedded {
        let why = "it is not built in and needs base_url";
        match suggest::nearest(&provider.id, builtin::ids()) {
            Some(near) => refuse("base_url", &format!("{why}; did you mean `{near}`?")),
            None => refuse("base_url", why),
        }
    } else if !is_embedded
        && let Some(why) = address::base_url_error(&provider.base_url, provider.allow_http)
    {
        refuse("base_url", why);
    }
    if let Some(why) = provider.proxy.as_deref().and_then(address::proxy_error) {
        refuse("proxy", why);
    }
    let is_absent = |path: &Path| !path.is_file();
    if provider.ca_file.as_deref().is_some_and(is_absent) {
        refuse("ca_file", "ca_file is not a file");
    }
    let is_sendable = |(name, value): &(String, String)| {
        HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok()
    };
    if !provider.headers.iter().all(is_sendable) {
        refuse(
            "headers",
            "headers contains a name or value that cannot be sent",
        );
    }
    if let Some(name) = &provider.key_header
        && HeaderName::try_from(name).is_err()
    {
        refuse("key_header", "key_header is not the name of a header");
    }
    let is_word = |word: &String| HeaderName::try_from(word).is_ok();
    if !provider.key_scheme.iter().all(is_word) {
        refuse("key_scheme", "key_scheme is not one word");
    }
    if provider.key_query.as_deref() == Some("") {
        refuse("key_query", "key_query is empty");
    }
    if provider.key_query.is_some()
        && (provider.key_header.is_some() || provider.key_scheme.is_some())
    {
        let why = "the key is sent in the query or in a header, not in both";
        refuse("key_query", why);
    }
    if provider.max_concurrent == Some(0) {
        refuse("max_concurrent", "max_concurrent must be above zero");
    }
    let mut ids = BTreeSet::new();
    let is_new =
        |model: &Arc<registry::Model>| !model.id.is_empty() && ids.insert(model.id.clone());
    if !provider.models.iter().all(is_new) {
        refuse("models", "models lists an id twice or an empty one");
    }
    let has_default_level = |model: &Arc<registry::Model>| {
        let level = model.default_reasoning.as_ref();
        level.is_none_or(|level| model.reasoning.contains(level))
    };
    if !provider.models.iter().all(has_default_level) {
        refuse(
            "models",
            "a model's default_reasoning is not among its reasoning levels",
        );
    }
    let has_bad_ratio = |model: &Arc<registry::Model>| {
        let ratio = model.bytes_per_token;
        ratio.is_some_and(|ratio| ratio.is_nan() || ratio <= 0.0)
    };
    if provider.models.iter().any(has_bad_ratio) {
        refuse("models", "bytes_per_token must be above zero");
    }
    mistakes
}
