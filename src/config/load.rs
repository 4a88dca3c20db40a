//! From files, environment and flags to a checked configuration.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use registry::{Provider, Registry, Spec, builtin};
use toml::Table;
use tracing_subscriber::EnvFilter;

use super::address;
use super::inputs::{Found, Inputs, folder_of};
use super::keys::{self, Keys};
use super::raw::{Raw, RawServer};
use super::source::{ConfigError, Source};
use super::{Codex, Config, KeyOrigin, Server};
use crate::secrets::Secret;

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
        providers: load.providers,
        aliases: raw.routing.aliases.0,
        default_model: raw.routing.default_model,
    };
    registry.check().map_err(|refused| {
        let key = match &refused {
            registry::Refused::Chain(alias, _) | registry::Refused::Alias(alias, _) => {
                ["routing", "aliases", alias.as_str()]
            }
            registry::Refused::Default(_) => ["routing", "default_model", ""],
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
        sources: load.sources,
        warnings: load.warnings,
        digest: load.digest.finish(),
        sandbox_address: None,
    })
}

/// A provider's table: where it stands and what it says.
struct Given<'a> {
    id: &'a str,
    spec: Spec,
    over: Table,
    source: &'a Source,
    path: Vec<&'a str>,
}

impl Given<'_> {
    fn error(&self, key: &str, why: &str) -> ConfigError {
        let mut path = self.path.clone();
        path.push(key);
        self.source
            .error(&path, format!("provider `{}`: {why}", self.id))
    }
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

    fn server(&mut self, main: &Source, raw: RawServer) -> Result<Server, ConfigError> {
        let Inputs {
            flags,
            environment,
            places,
        } = self.inputs;
        let listen = flags
            .listen
            .clone()
            .or_else(|| environment.get("RESPONDENT_LISTEN"));
        let listen = match listen {
            None => raw.listen,
            Some(text) => text.parse().map_err(|_| {
                ConfigError::new(format!(
                    "--listen (RESPONDENT_LISTEN) is {text:?}; give ADDR:PORT such as 127.0.0.1:8787"
                ))
            })?,
        };
        let data_dir = flags.data_dir.clone();
        let data_dir = data_dir
            .or_else(|| environment.get("RESPONDENT_DATA_DIR").map(PathBuf::from))
            .or_else(|| raw.data_dir.as_deref().map(|path| self.resolve(path)))
            .unwrap_or_else(|| places.data.clone());
        let log = flags
            .log
            .clone()
            .or_else(|| environment.get("RESPONDENT_LOG"));
        let log = log.unwrap_or(raw.log);
        EnvFilter::try_new(&log).map_err(|error| {
            main.error(&["server", "log"], format!("log filter {log:?}: {error}"))
        })?;
        let token = self.token(main, raw.token_env.as_deref(), raw.token_file.as_deref())?;
        if address::is_open(listen) && token.is_none() {
            let why = format!(
                "listening on {listen} lets other machines in; set token_env or token_file \
                 in [server], or listen on 127.0.0.1"
            );
            return Err(main.error(&["server", "listen"], why));
        }
        for (key, zero) in [
            ("body_limit", raw.body_limit == 0),
            ("max_connections", raw.max_connections == 0),
            ("header_timeout", raw.header_timeout.is_zero()),
            ("body_timeout", raw.body_timeout.is_zero()),
            ("heartbeat", raw.heartbeat.is_zero()),
        ] {
            if zero {
                return Err(main.error(&["server", key], format!("`{key}` must be above zero")));
            }
        }
        Ok(Server {
            listen,
            data_dir,
            allowed_hosts: raw.allowed_hosts,
            allowed_origins: raw.allowed_origins,
            token,
            body_limit: raw.body_limit,
            header_timeout: raw.header_timeout,
            body_timeout: raw.body_timeout,
            grace: raw.grace,
            heartbeat: raw.heartbeat,
            commit_after: raw.commit_after,
            max_connections: raw.max_connections,
            log,
            log_format: raw.log_format,
        })
    }

    fn token(
        &mut self,
        main: &Source,
        variable: Option<&str>,
        file: Option<&Path>,
    ) -> Result<Option<Secret>, ConfigError> {
        match (variable, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(main.error(
                &["server", "token_file"],
                "give token_env or token_file, not both",
            )),
            (Some(name), None) => {
                let token = self
                    .inputs
                    .environment
                    .get(name)
                    .as_deref()
                    .and_then(Secret::new);
                let why = || format!("token_env: the environment has no {name}");
                token
                    .map(Some)
                    .ok_or_else(|| main.error(&["server", "token_env"], why()))
            }
            (None, Some(path)) => {
                let path = self.resolve(path);
                let token = keys::first_line(&path)
                    .and_then(|token| token.ok_or_else(|| format!("{} is empty", path.display())));
                let token = token.map_err(|why| main.error(&["server", "token_file"], why))?;
                self.holds_secret(&path);
                Ok(Some(token))
            }
        }
    }

    fn codex(&mut self, main: &Source, file: Option<&Path>) -> Result<Codex, ConfigError> {
        let Some(path) = file.map(|path| self.resolve(path)) else {
            return Ok(Codex::default());
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let why = format!("instructions_file {}: {error}", path.display());
            main.error(&["codex", "instructions_file"], why)
        })?;
        text.hash(&mut self.digest);
        self.sources.push(path);
        Ok(Codex {
            instructions: Some(text.into()),
        })
    }

    /// Every `*.toml` of the folder, by name; a folder that is absent is empty.
    fn folder(&mut self, folder: &Path) -> Result<(), ConfigError> {
        for path in provider_files(folder) {
            let source = Source::read(&path)?;
            let Some(id) = path.file_stem().and_then(|stem| stem.to_str()) else {
                return Err(source.error(&[], "the file name must be the provider's id"));
            };
            self.saw(&source);
            let (spec, over) = (source.parse()?, source.parse()?);
            self.given(Given {
                id,
                spec,
                over,
                source: &source,
                path: Vec::new(),
            })?;
        }
        Ok(())
    }

    fn given(&mut self, mut given: Given) -> Result<(), ConfigError> {
        let id = given.id;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.is_empty() || !id.bytes().all(word) {
            return Err(given.error("", "an id is made of letters, digits, '.', '_' and '-'"));
        }
        if !self.seen.insert(id.to_owned()) {
            return Err(given.error("", "it is configured twice"));
        }
        if !given.spec.enabled {
            return Ok(());
        }
        let over = std::mem::take(&mut given.over);
        let spec = builtin::build(id, over).map_err(|error| given.error("", error.message()))?;
        let mut provider = spec.provider(id);
        provider.ca_file = provider.ca_file.map(|path| self.resolve(&path));
        sound(&provider).map_err(|(key, why)| given.error(key, why))?;
        let environment = self.inputs.environment.as_ref();
        let told = keys::told(&given.spec, environment, |path| self.resolve(path));
        let keys = match told.map_err(|(key, why)| given.error(key, &why))? {
            Some(keys) => Some(keys),
            None => keys::usual(&provider.key_env, environment)
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
        if given.spec.api_key.is_some() {
            self.warn_if_readable(given.source.path.as_deref());
        }
        self.turn_on(provider, keys);
        Ok(())
    }

    /// Built-in providers that nobody configured and whose usual variable is set.
    fn usual(&mut self) -> Result<(), ConfigError> {
        for id in builtin::ids()
            .filter(|id| !self.seen.contains(*id))
            .collect::<Vec<_>>()
        {
            let provider = embedded(id)?;
            let keys = keys::usual(&provider.key_env, self.inputs.environment.as_ref())
                .map_err(|(_, why)| ConfigError::new(format!("provider `{id}`: {why}")))?;
            if keys.is_some() {
                self.turn_on(provider, keys);
            }
        }
        Ok(())
    }

    /// With nothing else on, the embedded provider answers.
    fn sandbox(&mut self) -> Result<(), ConfigError> {
        if !self.providers.is_empty() {
            return Ok(());
        }
        if self.seen.contains(registry::SANDBOX) {
            return Err(ConfigError::new(
                "no provider is on; give a key or configure one",
            ));
        }
        let provider = embedded(registry::SANDBOX)?;
        self.turn_on(provider, None);
        Ok(())
    }

    fn turn_on(&mut self, provider: Provider, keys: Option<Keys>) {
        if let Some(keys) = keys {
            for name in &keys.unset {
                let id = &provider.id;
                self.warnings
                    .push(format!("provider `{id}`: the environment has no {name}"));
            }
            if let KeyOrigin::File(path) = &keys.origin {
                self.holds_secret(&path.clone());
            }
            self.keys.insert(provider.id.clone(), keys.secrets);
            self.origins.insert(provider.id.clone(), keys.origin);
        }
        self.providers.push(Arc::new(provider));
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

fn embedded(id: &str) -> Result<Provider, ConfigError> {
    let spec = builtin::build(id, Table::new())
        .map_err(|error| ConfigError::new(format!("embedded provider `{id}`: {error}")))?;
    Ok(spec.provider(id))
}

/// What a provider's table gets wrong, as (key, why).
fn sound(provider: &Provider) -> Result<(), (&'static str, &'static str)> {
    let inside = provider.id == registry::SANDBOX && provider.base_url.is_empty();
    if provider.base_url.is_empty() && !inside {
        return Err(("base_url", "it is not built in and needs base_url"));
    }
    if !inside && let Some(why) = address::refused(&provider.base_url, provider.allow_http) {
        return Err(("base_url", why));
    }
    if let Some(why) = provider.proxy.as_deref().and_then(address::refused_proxy) {
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
    if provider
        .models
        .iter()
        .any(|model| model.bytes_per_token.is_some_and(|ratio| !(ratio > 0.0)))
    {
        return Err(("models", "bytes_per_token must be above zero"));
    }
    Ok(())
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
