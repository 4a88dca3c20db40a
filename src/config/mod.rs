//! The checked configuration, read from files, environment variables and flags.
//!
//! | module | contents |
//! |---|---|
//! | [`inputs`] | flags, environment variables, the user's directories, and where the file is |
//! | [`raw`] | the schema of `proxy-config.toml`: every key with its default |
//! | [`toml_file`] | a TOML file with its text, so that errors can name a line |
//! | [`mod@load`] | reads the inputs, checks them and builds a [`Config`] |
//! | `for_replay` | the configuration that replays a recorded turn, without any file |
//! | [`address`] | checks of listen addresses, base URLs and proxy URLs |
//! | [`keys`] | API keys from the environment, a file, a command or the configuration |
//! | [`report`] | the text that `respondent check` prints |
//! | [`watch`] | reloads the configuration when its files change |

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

use adapters::plan::OutputPolicy;
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

/// Values shorter than this many bytes are taken for placeholders such as `EMPTY`, not secrets.
const MIN_SECRET_LENGTH: usize = 6;

/// A plain word longer than this many bytes could be a real key, so it is treated as one.
const MAX_PLACEHOLDER_LENGTH: usize = 20;

/// The whole configuration, checked. [`load()`] makes it at start and after each edit of a
/// file; the server then shares it behind an `ArcSwap`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The HTTP server: `[server]`, the flags and the environment.
    pub server: ServerConfig,
    /// The enabled providers, the aliases, the fallbacks and the default model.
    pub registry: Registry,
    /// API keys by provider id. Providers without a key have no entry.
    pub keys: HashMap<String, Vec<Secret>>,
    /// Where these keys come from, by provider id.
    pub key_origins: HashMap<String, KeyOrigin>,
    /// Settings for Codex clients: `[codex]`.
    pub codex: CodexConfig,
    /// How long histories are bounded: `[context]`.
    pub context: ContextConfig,
    /// Storage of the tool outputs that were shortened: `[artifacts]`.
    pub artifacts: ArtifactConfig,
    /// Recording of turns for diagnosis and replay: `[capture]`.
    pub capture: CaptureConfig,
    /// Whether the embedded provider is enabled and the server must start it.
    pub sandbox: bool,
    /// Every file that was read, including key files and the instructions file.
    pub source_files: Vec<PathBuf>,
    /// Problems that do not prevent serving, as sentences for the log and for `check`.
    pub warnings: Vec<String>,
    /// A hash of the text of the configuration files and the instructions file. It is
    /// comparable within one process only.
    pub digest: u64,
    sandbox_address: Option<SocketAddr>,
    redactor: OnceLock<Redactor>,
}

/// Settings of the HTTP server: `[server]` with defaults, overridden by environment and
/// flags.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The directory for bundles and artifacts.
    pub data_dir: PathBuf,
    /// Accepted `Host` names besides the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Accepted `Origin` values besides the server's own.
    pub allowed_origins: Vec<String>,
    /// The token that clients must send; without one, every client is accepted.
    pub token: Option<Secret>,
    /// Maximum size of a request body in bytes, before and after decompression.
    pub body_limit: usize,
    /// Time limit for reading the head of a request.
    pub header_timeout: Duration,
    /// Time limit for reading the body of a request.
    pub body_timeout: Duration,
    /// How long running turns may continue after the server was asked to stop.
    pub grace: Duration,
    /// How long a stream may be silent before the server sends an event to keep it alive.
    pub heartbeat: Duration,
    /// Longest delay between the upstream's 2xx headers and the headers to the client.
    pub commit_after: Duration,
    /// Maximum number of open client connections.
    pub max_connections: usize,
    /// The log filter, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
}

/// Recording of turns, to inspect and replay them: `[capture]`.
#[derive(Clone, Debug, Default)]
pub struct CaptureConfig {
    /// Which turns are written to disk.
    pub mode: CaptureMode,
    /// Maximum number of turns kept in memory.
    pub recent: usize,
    /// Maximum bytes of all recorded turns, running and finished. One turn may use a
    /// quarter of it; the request of a turn is recorded whatever its size.
    pub memory: usize,
    /// Maximum number of turns on disk.
    pub keep: usize,
    /// Maximum bytes of the turns on disk.
    pub keep_size: u64,
    /// Days until a turn on disk is deleted.
    pub keep_days: u32,
    /// Patterns of further secrets to redact, besides keys and tokens.
    pub patterns: Vec<Regex>,
    /// Whether images are stored as they are; otherwise only their hash is.
    pub images: bool,
    /// Whether encrypted contents are stored as they are; otherwise only their hash is.
    pub encrypted: bool,
}

/// How the history that is sent to a model is bounded: `[context]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextConfig {
    /// How tool outputs are bounded.
    pub outputs: OutputPolicy,
}

/// Where the full text of shortened tool outputs is stored: `[artifacts]`.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactConfig {
    /// On disk, in memory, or nowhere.
    pub mode: ArtifactMode,
    /// Days after its last access until an artifact is deleted.
    pub keep_days: u32,
    /// Maximum bytes on disk; the least recently used artifacts are deleted first.
    pub keep_size: u64,
    /// Maximum bytes in memory, when artifacts are not on disk.
    pub memory: usize,
}

/// Settings for Codex clients: `[codex]`.
#[derive(Clone, Debug, Default)]
pub struct CodexConfig {
    /// The base instructions for Codex's models, in place of the built-in ones.
    pub instructions: Option<Arc<str>>,
}

impl ServerConfig {
    /// The directory for recorded turns.
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
    /// Sets the address of the embedded provider, once its port is bound.
    pub fn set_sandbox_address(&mut self, address: SocketAddr) {
        self.sandbox_address = Some(address);
        self.registry
            .set_base_url(registry::SANDBOX, &format!("http://{address}/v1"));
    }

    /// The redactor for everything that is logged, recorded or reported. It finds the
    /// secrets of this configuration (keys, the token, and credentials in headers, queries
    /// and proxy URLs), text that looks like a secret, and the user's `capture.patterns`.
    /// Built once; later calls return clones.
    pub fn redactor(&self) -> Redactor {
        let make = || Redactor::new(&self.secrets()).with_patterns(&self.capture.patterns);
        self.redactor.get_or_init(make).clone()
    }

    /// The same configuration with the given redactor.
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
            // The credential of "Scheme credential" also appears without its scheme.
            let schemes = provider
                .headers
                .iter()
                .filter_map(|(_, value)| value.split_once(' '));
            secrets.extend(schemes.filter_map(|(_, credential)| Secret::new(credential)));
            let proxy = provider.proxy.as_deref().and_then(address::password_in_url);
            secrets.extend(proxy);
        }
        secrets.retain(|secret| self.can_be_redacted(secret.expose()));
        secrets
    }

    /// Whether a secret can be redacted. Short ones, and those equal to the name of a
    /// provider or model, occur in too many unrelated texts.
    fn can_be_redacted(&self, secret: &str) -> bool {
        let is_name_of = |provider: &Arc<registry::Provider>| {
            let models = provider.models.iter();
            provider.id.eq_ignore_ascii_case(secret)
                || models
                    .clone()
                    .any(|model| model.id.eq_ignore_ascii_case(secret))
        };
        secret.len() >= MIN_SECRET_LENGTH && !self.registry.providers.iter().any(is_name_of)
    }
}

/// Whether a key only fills a required field, such as `not-needed`: letters of one case,
/// with `-` and `_`.
fn is_placeholder_key(key: &str) -> bool {
    let only = |is: fn(&u8) -> bool| key.bytes().all(|byte| is(&byte) || b"-_".contains(&byte));
    key.len() <= MAX_PLACEHOLDER_LENGTH
        && (only(u8::is_ascii_lowercase) || only(u8::is_ascii_uppercase))
}

/// Whether a header or query parameter may hold a secret, judged by its name, or by a long
/// value without spaces that contains a digit.
fn may_hold_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "key", "token", "auth", "secret", "cookie", "password", "session", "sig",
    ]
    .iter()
    .any(|word| name.contains(word))
        || (value.len() >= 16 && !value.contains(' ') && value.bytes().any(|b| b.is_ascii_digit()))
}
