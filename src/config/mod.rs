//! The checked configuration, read from files, environment variables and flags.
//!
//! | module | contents |
//! |---|---|
//! | [`purpose`] | what a configuration is loaded for, which decides what is read |
//! | [`inputs`] | flags, environment variables, the user's directories, and where the file is |
//! | [`settings`] | the schema of `proxy-config.toml`: every key with its default |
//! | [`toml_file`] | a TOML file with its text, so that errors can name a line |
//! | [`mod@load`] | reads the inputs, checks them and builds a [`Config`] |
//! | `for_replay` | the configuration that replays a recorded turn, without any file |
//! | [`address`] | checks of listen addresses, base URLs and proxy URLs |
//! | [`search`] | searches of the web and its pages |
//! | [`mcp_servers`] | the MCP servers that requests may name |
//! | [`keys`] | API keys from the environment, a file, a command or the configuration |
//! | [`schema`] | the JSON schema of the configuration, for editors |
//! | [`report`] | the text that `respondent check` prints |
//! | [`error`] | the mistakes of a configuration, with file and line |
//! | [`webhooks`] | who is told of background responses |
//! | [`callers`] | host names and origins that may call the server |
//! | [`clients`] | the clients, with their tokens and limits |
//! | [`changes`] | what an edit has changed |
//! | [`watch`] | reloads the configuration when its files change |

pub mod address;
mod callers;
mod changes;
pub mod clients;
pub mod error;
mod for_replay;
pub mod inputs;
pub mod keys;
pub mod load;
pub mod mcp_servers;
pub mod purpose;
pub mod report;
pub mod schema;
pub mod search;
pub mod settings;
mod storage;
pub mod toml_file;
mod tools;
pub mod vision;
pub mod watch;
pub mod webhooks;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use adapters::fault::Fault;
use adapters::responses::prompt_templates::PromptTemplates;
use adapters::workflow::WorkflowCatalog;
use regex::bytes::Regex;
use registry::Registry;

pub use clients::{ClientLimits, Clients};
pub use error::{ConfigError, ConfigErrors};
pub use inputs::{ConfigPaths, Environment, Flags, Inputs, ProcessEnvironment, UserDirs};
pub use keys::KeyOrigin;
pub use load::load;
pub use purpose::LoadPurpose;
pub use settings::{ArtifactConfig, ArtifactMode, CaptureMode};
pub use storage::{ClientToolMode, HistoryConfig, JobConfig, ResponseConfig, ResponseMode};
pub use tools::ToolConfig;
pub use watch::ConfigWatcher;
pub use webhooks::{Webhook, WebhookEvent};

use crate::net::{AdmittedBy, LOCAL_OWNER};
use crate::secrets::{Redactor, Secret, TokenHash};
use mcp_servers::{McpConfig, McpTransport};
use search::SearchConfig;
use settings::{CaptureConfig, CodexConfig, ContextConfig, ServerConfig};
use vision::VisionConfig;

/// The environment variable with the token: the server asks its clients for it, and Codex sends it.
pub const TOKEN_VARIABLE: &str = "RESPONDENT_TOKEN";

/// Values shorter than this many bytes are taken for placeholders such as `EMPTY`, not secrets.
const MIN_SECRET_LENGTH: usize = 6;

/// A plain word longer than this many bytes could be a real key, so it is treated as one.
const MAX_PLACEHOLDER_LENGTH: usize = 20;

/// The memory budget in bytes, if the other limits need no more.
const USUAL_MEMORY: usize = 512 << 20;

/// The smallest memory budget in bytes.
pub(crate) const LEAST_MEMORY: usize = 128 << 20;

/// What is remembered of sessions, outputs and searches takes no more bytes than this, and no more
/// than a quarter of the budget.
const SESSION_MEMORY: usize = 120 << 20;

/// What is remembered of outputs takes no more bytes than this.
const OUTPUT_MEMORY: usize = 8 << 20;

/// The results of searches that are kept take no more bytes than this.
pub const SEARCH_MEMORY: usize = 4 << 20;
/// What sessions were shown of the web takes at most the budget divided by this.
const REFERENCES_PART: usize = 32;

/// The whole configuration, checked. [`load()`] makes it at start and after each edit of a
/// file; the server then shares it behind an `ArcSwap`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The HTTP server: `[server]`, the flags and the environment.
    pub server: ServerConfig,
    /// Who may use it besides the operator: `[clients]`.
    pub clients: Clients,
    /// The enabled providers, the aliases, the fallbacks and the default model.
    pub registry: Registry,
    /// API keys by provider id. Providers without a key have no entry.
    pub keys: HashMap<String, Vec<Secret>>,
    /// Where these keys come from, by provider id.
    pub key_origins: HashMap<String, KeyOrigin>,
    /// In a replay, the scheme, host and port to which all requests to providers go.
    pub replay_origin: Option<String>,
    /// In a replay, why the prompt of the request was refused. If it was not, its template has been
    /// filled in.
    pub replay_refusal: Option<Fault>,
    /// Searches of the web and its pages: `[search]`.
    pub search: SearchConfig,
    /// Settings for Codex clients: `[codex]`.
    pub codex: CodexConfig,
    /// How long histories are bounded: `[context]`.
    pub context: ContextConfig,
    /// Storage of the tool outputs that were shortened: `[artifacts]`.
    pub artifacts: ArtifactConfig,
    /// Storage of responses and conversations: `[responses]`.
    pub responses: ResponseConfig,
    /// How much of a stored history is sent: `[history]`.
    pub history: HistoryConfig,
    /// The prompt templates that a request may name: `[prompts]`.
    pub prompts: Arc<PromptTemplates>,
    /// The workflows that a request may name: those of the program, and `[workflows]`.
    pub workflows: Arc<WorkflowCatalog>,
    /// How background responses run: `[jobs]`.
    pub jobs: JobConfig,
    /// How much tools of the server may do: `[tools]`.
    pub tools: ToolConfig,
    /// The model that describes images to models that take none: `[vision]`.
    pub vision: VisionConfig,
    /// The MCP servers that requests may name: `[tools.mcp]`.
    pub mcp: McpConfig,
    /// Whom the server tells of background responses: `[webhooks]`.
    pub webhooks: Vec<Webhook>,
    /// Recording of turns for diagnosis and replay: `[capture]`.
    pub capture: CaptureConfig,
    /// Whether the embedded provider is enabled and the server must start it.
    pub sandbox: bool,
    /// Where the configuration file is.
    pub paths: ConfigPaths,
    /// Every file that was read, including key files and the instructions file, and the folders of
    /// prompt templates.
    pub source_files: Vec<PathBuf>,
    /// Problems that do not prevent serving, as sentences for the log and for `check`.
    pub warnings: Vec<String>,
    /// A hash of the text of the configuration files and the instructions file. It is
    /// comparable within one process only.
    pub digest: u64,
    sandbox_address: Option<SocketAddr>,
    /// `capture.patterns`, compiled.
    secret_patterns: Vec<Regex>,
    redactor: OnceLock<Redactor>,
}

/// The most bytes of what is remembered of sessions, outputs and searches, with such a budget.
fn sessions_and_outputs(budget: usize) -> usize {
    SESSION_MEMORY
        .min(budget / 4)
        .max(OUTPUT_MEMORY + SEARCH_MEMORY)
}

impl Config {
    /// Sets the address of the embedded provider, once its port is bound.
    pub fn set_sandbox_address(&mut self, address: SocketAddr) {
        self.sandbox_address = Some(address);
        self.registry
            .set_base_url(registry::SANDBOX, &format!("http://{address}/v1"));
    }

    /// The limit of the memory budget in bytes.
    pub fn memory_limit(&self) -> usize {
        let usual = USUAL_MEMORY.max(self.least_memory());
        self.server.memory.unwrap_or(usual)
    }

    /// Whether requests need a token: the server's or a client's.
    pub fn needs_token(&self) -> bool {
        self.server.token.is_some() || !self.clients.is_empty()
    }

    /// Whether a request of this owner that was let in by this token would be let in now.
    pub fn admits(&self, owner: &str, by: AdmittedBy) -> bool {
        let AdmittedBy(Some(token)) = by else {
            return !self.needs_token();
        };
        if owner == LOCAL_OWNER {
            let own = self.server.token.as_ref();
            return own.is_some_and(|own| TokenHash::of(own.expose().as_bytes()) == token);
        }
        let mut clients = self.clients.iter();
        clients.any(|(name, client)| **name == *owner && client.token == token)
    }

    /// The most bytes of what is remembered of sessions.
    pub fn session_memory(&self) -> usize {
        sessions_and_outputs(self.memory_limit()) - OUTPUT_MEMORY - SEARCH_MEMORY
    }

    /// The most bytes of what sessions were shown of the web.
    pub fn references_memory(&self) -> usize {
        self.memory_limit() / REFERENCES_PART
    }

    /// Brings the limits that are not set into a budget: the bodies of requests, the recordings and
    /// the artifacts in memory take an eighth of it each.
    fn fit_into(&mut self, budget: usize) {
        let usual = Self::default();
        for (limit, usual) in [
            (&mut self.server.body_limit, usual.server.body_limit),
            (&mut self.capture.memory, usual.capture.memory),
            (&mut self.artifacts.memory, usual.artifacts.memory),
        ] {
            if *limit == usual {
                *limit = usual.min(budget / 8);
            }
        }
    }

    /// Whether responses are stored on disk.
    pub fn stores_responses(&self) -> bool {
        match self.responses.mode {
            Some(mode) => mode == ResponseMode::Disk,
            None => self.artifacts.mode == ArtifactMode::Disk,
        }
    }

    /// The least memory budget in bytes with which one request of the largest size can be answered
    /// when everything that may be remembered is remembered.
    fn least_memory(&self) -> usize {
        let capture = match self.capture.mode {
            CaptureMode::Off => 0,
            CaptureMode::Failures | CaptureMode::All => self.capture.memory,
        };
        let artifacts = match self.artifacts.mode {
            ArtifactMode::Off => 0,
            ArtifactMode::Memory | ArtifactMode::Disk => self.artifacts.memory,
        };
        let request = self.server.body_limit.saturating_mul(3);
        let sessions = self
            .server
            .memory
            .map_or(SESSION_MEMORY, sessions_and_outputs);
        [capture, artifacts, request]
            .into_iter()
            .fold(sessions, usize::saturating_add)
            .max(LEAST_MEMORY)
    }

    /// The redactor for everything that is logged, recorded or reported. It finds the
    /// secrets of this configuration (keys, the token, and credentials in headers, queries
    /// and proxy URLs), text that looks like a secret, and the user's `capture.patterns`.
    /// Built at the first call.
    pub fn redactor(&self) -> &Redactor {
        let make = || Redactor::new(&self.secrets()).with_patterns(&self.secret_patterns);
        self.redactor.get_or_init(make)
    }

    /// The same configuration with the given redactor.
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self {
            redactor: OnceLock::from(redactor),
            ..self
        }
    }

    /// The same configuration, with a redactor that knows the token of a client too. Only the hash
    /// of such a token is configured, so it is unknown until the client sends a request.
    #[must_use]
    pub fn with_client_token(&self, token: &Secret) -> Self {
        let mut config = Self {
            redactor: OnceLock::new(),
            ..self.clone()
        };
        config.clients.add_seen(token.clone());
        config
    }

    fn secrets(&self) -> Vec<Secret> {
        let keys = self.keys.values().flatten();
        let mut secrets: Vec<Secret> = keys
            .filter(|key| !is_placeholder_key(key.expose()))
            .cloned()
            .collect();
        secrets.extend(self.server.token.clone());
        secrets.extend(self.clients.seen_tokens().iter().cloned());
        for webhook in &self.webhooks {
            secrets.extend(webhook.secrets.iter().flat_map(Webhook::forms_of_secret));
            secrets.extend(webhook.secret_of_url());
        }
        let search = self.search.engines.iter();
        secrets.extend(search.filter_map(|engine| engine.key.clone()));
        let browserless = self.search.browserless.as_ref();
        secrets.extend(browserless.map(|browserless| browserless.token.clone()));
        for server in self.mcp.servers.values() {
            match &server.transport {
                McpTransport::Http { token, .. } => secrets.extend(token.clone()),
                McpTransport::Program { env, .. } => {
                    let held = env
                        .iter()
                        .filter(|(name, value)| may_hold_secret(name, value.expose()));
                    secrets.extend(held.map(|(_, value)| value.clone()));
                }
            }
        }
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
