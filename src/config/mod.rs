//! What the program was told: a checked configuration from files, environment
//! and flags.
//!
//! | module | noun |
//! |---|---|
//! | [`inputs`] | flags, environment, folders; where the file is |
//! | [`raw`] | the schema of the file, every key with its default |
//! | [`toml_file`] | a file with its text, and errors that name its line |
//! | [`load`] | from raw to checked |
//! | `for_replay` | a configuration that nobody wrote |
//! | [`address`] | which addresses are safe to listen on and to send keys to |
//! | [`keys`] | keys from environment, file, command |
//! | [`report`] | what `respondent check` prints |
//! | [`watch`] | edits while running |

pub mod address;
mod for_replay;
pub mod inputs;
pub mod keys;
pub mod load;
pub mod raw;
pub mod report;
pub mod toml_file;
pub mod watch;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use adapters::plan::Outputs;
use regex::bytes::Regex;
use registry::Registry;

pub use inputs::{Environment, Flags, Inputs, ProcessEnvironment, UserDirs};
pub use keys::KeyOrigin;
pub use load::load;
pub use raw::{ArtifactMode, CaptureMode, LogFormat};
pub use toml_file::ConfigError;
pub use watch::ConfigWatcher;

use crate::secrets::{Redactor, Secret};
use raw::RawArtifacts;

/// Shorter secrets are placeholders such as `EMPTY`.
const MIN_SECRET_LENGTH: usize = 6;

/// A word of more letters may be a key after all.
const MAX_PLACEHOLDER_LENGTH: usize = 20;

/// Everything that was told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// How we serve.
    pub server: ServerConfig,
    /// The providers that are on, aliases and the default model.
    pub registry: Registry,
    /// The keys of each provider that has any, by its id.
    pub keys: HashMap<String, Vec<Secret>>,
    /// Where these keys are from.
    pub key_origins: HashMap<String, KeyOrigin>,
    /// What Codex is told.
    pub codex: CodexConfig,
    /// What is sent of long histories.
    pub context: ContextConfig,
    /// What is kept of shortened outputs.
    pub artifacts: ArtifactConfig,
    /// What is kept of turns.
    pub capture: CaptureConfig,
    /// Whether the embedded provider is on and must be started.
    pub sandbox: bool,
    /// The files read, keys' files included.
    pub source_files: Vec<PathBuf>,
    /// What works but should be known.
    pub warnings: Vec<String>,
    /// Changes with the text of the configuration files.
    pub digest: u64,
    sandbox_address: Option<SocketAddr>,
    redactor: OnceLock<Redactor>,
}

/// How we serve: `[server]`, its defaults filled in.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where files are kept.
    pub data_dir: PathBuf,
    /// Accepted `Host` names besides the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Accepted `Origin` values besides the server's own.
    pub allowed_origins: Vec<String>,
    /// What clients must present.
    pub token: Option<Secret>,
    /// Bytes of a request body at most, before and after decoding.
    pub body_limit: usize,
    /// For the head of a request.
    pub header_timeout: Duration,
    /// For its body.
    pub body_timeout: Duration,
    /// For running turns after a request to stop.
    pub grace: Duration,
    /// Silence on a stream before a sign of life.
    pub heartbeat: Duration,
    /// From the upstream's headers to ours at the latest.
    pub commit_after: Duration,
    /// Connections at a time.
    pub max_connections: usize,
    /// Filter of the log.
    pub log: String,
    /// Form of the log.
    pub log_format: LogFormat,
}

/// What is kept of turns, to be looked at and replayed: `[capture]`.
#[derive(Clone, Debug, Default)]
pub struct CaptureConfig {
    /// Which turns are kept on disk.
    pub mode: CaptureMode,
    /// Turns in memory at most.
    pub recent: usize,
    /// Bytes of all turns at most, those that run and those that are kept. One
    /// turn may take a quarter, and its request whatever it has.
    pub memory: usize,
    /// Turns on disk at most.
    pub keep: usize,
    /// Their bytes at most.
    pub keep_size: u64,
    /// Days until one goes.
    pub keep_days: u32,
    /// What counts as a secret besides keys and tokens.
    pub patterns: Vec<Regex>,
    /// Images are kept, else their hash.
    pub images: bool,
    /// Encrypted contents are kept, else their hash.
    pub encrypted: bool,
}

/// What is sent of long histories: `[context]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextConfig {
    /// How tool outputs are bounded.
    pub outputs: Outputs,
}

/// What is kept of shortened outputs: `[artifacts]`.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactConfig {
    /// Where.
    pub mode: ArtifactMode,
    /// Days after the last access until one goes.
    pub keep_days: u32,
    /// Bytes on disk at most; the longest unread go first.
    pub keep_size: u64,
    /// Bytes in memory at most, where there is no disk.
    pub memory: usize,
}

/// What Codex is told: `[codex]`.
#[derive(Clone, Debug, Default)]
pub struct CodexConfig {
    /// Replaces our base prompt.
    pub instructions: Option<Arc<str>>,
}

impl ServerConfig {
    /// The folder of the turns that are kept on disk.
    pub fn bundles_dir(&self) -> PathBuf {
        self.data_dir.join("bundles")
    }
}

impl From<RawArtifacts> for ArtifactConfig {
    fn from(raw: RawArtifacts) -> Self {
        Self {
            mode: raw.mode,
            keep_days: raw.keep_days,
            keep_size: raw.keep_size,
            memory: raw.memory,
        }
    }
}

impl Config {
    /// Tells where the embedded provider runs, once its port is bound.
    pub fn set_sandbox_address(&mut self, address: SocketAddr) {
        self.sandbox_address = Some(address);
        self.registry
            .set_base_url(registry::SANDBOX, &format!("http://{address}/v1"));
    }

    /// A redactor of every secret in this configuration: keys, the token, and
    /// what headers, queries and proxy addresses may hide; of what looks like
    /// one; and of what the user's patterns match.
    pub fn redactor(&self) -> Redactor {
        let make = || Redactor::new(&self.secrets()).with_patterns(&self.capture.patterns);
        self.redactor.get_or_init(make).clone()
    }

    /// The same with another redactor.
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self {
            redactor: OnceLock::from(redactor),
            ..self
        }
    }

    fn secrets(&self) -> Vec<Secret> {
        let keys = self.keys.values().flatten();
        let mut secrets: Vec<Secret> = keys
            .filter(|key| !is_placeholder_key(key.expose()))
            .cloned()
            .collect();
        secrets.extend(self.server.token.clone());
        for provider in &self.registry.providers {
            let pairs = provider.headers.iter().chain(&provider.query);
            let pairs = pairs.filter(|(name, value)| may_hold_secret(name, value));
            secrets.extend(pairs.filter_map(|(_, value)| Secret::new(value)));
            let words = provider
                .headers
                .iter()
                .filter_map(|(_, value)| value.split_once(' '));
            secrets.extend(words.filter_map(|(_, credential)| Secret::new(credential)));
            let proxy = provider.proxy.as_deref().and_then(address::password_in_url);
            secrets.extend(proxy);
        }
        secrets.retain(|secret| self.can_be_redacted(secret.expose()));
        secrets
    }

    /// Whether a secret can be hidden: one that is short or the name of something
    /// stands in many a text that has nothing to do with it.
    fn can_be_redacted(&self, secret: &str) -> bool {
        let named = |provider: &Arc<registry::Provider>| {
            let models = provider.models.iter();
            provider.id.eq_ignore_ascii_case(secret)
                || models
                    .clone()
                    .any(|model| model.id.eq_ignore_ascii_case(secret))
        };
        secret.len() >= MIN_SECRET_LENGTH && !self.registry.providers.iter().any(named)
    }
}

/// Whether a key is no key but a word for none, such as `not-needed`: letters of
/// one case, with `-` and `_` between them.
fn is_placeholder_key(key: &str) -> bool {
    let letters = |is: fn(&u8) -> bool| key.bytes().all(|byte| is(&byte) || b"-_".contains(&byte));
    key.len() <= MAX_PLACEHOLDER_LENGTH
        && (letters(u8::is_ascii_lowercase) || letters(u8::is_ascii_uppercase))
}

/// Whether a header or query parameter may hold a secret, by its name or by the
/// look of its value.
fn may_hold_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "key", "token", "auth", "secret", "cookie", "password", "session", "sig",
    ]
    .iter()
    .any(|word| name.contains(word))
        || (value.len() >= 16 && !value.contains(' ') && value.bytes().any(|b| b.is_ascii_digit()))
}
