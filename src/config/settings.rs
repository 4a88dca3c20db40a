//! The schema of `proxy-config.toml`: its tables, with the default of every key. What is not
//! written in the file itself, such as a token, is put in by [`mod@super::load`]. A test keeps
//! `proxy-config.example.toml` equal to it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adapters::plan::OutputPolicy;
use registry::ProviderSpec;
use registry::duration::{self, DurationText};
use registry::lists::{OneOrMany, Pairs};
use schemars::JsonSchema;
use serde::Deserialize;
use strum::IntoStaticStr;

use super::address::{self, DEFAULT_PORT, ListenText};
use super::clients::ClientEntry;
use super::search::SearchSpec;
use super::storage::{HistoryConfig, JobConfig, ResponseConfig};
use super::tools::ToolSpec;
use super::vision::VisionConfig;
use super::webhooks::WebhookSpec;
use crate::log::RecordFormat;
use crate::secrets::Secret;

/// The whole file, as it is written.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ConfigFile {
    /// `[server]`: the HTTP server.
    pub server: ServerConfig,
    /// `[clients.<name>]`: the clients that share the server, each with a token of its own.
    pub clients: Pairs<ClientEntry>,
    /// `[routing]`: which model answers to which name.
    pub routing: RoutingConfig,
    /// `[codex]`: settings for Codex clients.
    pub codex: CodexConfig,
    /// `[context]`: how the history that is sent to a model is bounded.
    pub context: ContextConfig,
    /// `[artifacts]`: where the full text of shortened tool outputs is stored.
    pub artifacts: ArtifactConfig,
    /// `[responses]`: where responses and conversations are stored, and for how long.
    pub responses: ResponseConfig,
    /// `[history]`: how much of a stored history is sent to a model.
    pub history: HistoryConfig,
    /// `[jobs]`: how background responses run.
    pub jobs: JobConfig,
    /// `[tools]`: how much the tools that run in the server may do in one answer.
    pub tools: ToolSpec,
    /// `[prompts]`: prompt templates that a request may name.
    pub prompts: PromptConfig,
    /// `[workflows]`: workflows that a request may name.
    pub workflows: WorkflowConfig,
    /// `[webhooks.<name>]`: whom the server tells that a background response has ended.
    pub webhooks: Pairs<WebhookSpec>,
    /// `[search]`: searches of the web and the pages of it.
    pub search: SearchSpec,
    /// `[vision]`: the model that describes images to models that take none.
    pub vision: VisionConfig,
    /// `[capture]`: recording of turns, to inspect and replay them.
    pub capture: CaptureConfig,
    /// `[providers.<id>]`: the providers; the first one that lists a model gets its requests.
    pub providers: Pairs<ProviderSpec>,
}

/// Settings of the HTTP server: `[server]` with defaults, overridden by environment and
/// flags.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ServerConfig {
    /// The address to listen on.
    #[serde(deserialize_with = "address::deserialize_listen")]
    #[schemars(with = "ListenText")]
    pub listen: SocketAddr,
    /// The directory for bundles and artifacts. Empty if the file names none; loading puts in
    /// our directory in the user's data directory.
    pub data_dir: PathBuf,
    /// Accepted `Host` names besides the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Accepted `Origin` values besides the server's own.
    pub allowed_origins: Vec<String>,
    /// The environment variable that holds the token.
    pub token_env: Option<String>,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    /// The token that clients must send; without one, every client is accepted.
    #[serde(skip)]
    pub token: Option<Secret>,
    /// Maximum size of a request body in bytes, before and after decompression.
    pub body_limit: usize,
    /// Time limit for reading the head of a request.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub header_timeout: Duration,
    /// Time limit for reading the body of a request.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub body_timeout: Duration,
    /// How long running turns may continue after the server was asked to stop.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub grace: Duration,
    /// How long a stream may be silent before the server sends an event to keep it alive.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub heartbeat: Duration,
    /// Longest delay between the upstream's 2xx headers and the headers to the client.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub commit_after: Duration,
    /// How long a turn may take, whatever it is doing.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub turn_timeout: Duration,
    /// Whether `/v1/responses` is served over WebSockets too.
    pub websocket: bool,
    /// How long a WebSocket may last.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub websocket_lifetime: Duration,
    /// Maximum bytes of all requests, answers, recordings and memories; `None` for 512 MiB, or
    /// what the other settings need if that is more.
    pub memory: Option<usize>,
    /// Maximum number of open client connections; in a burst of new ones up to twice as many.
    pub max_connections: usize,
    /// The log filter, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log: String,
    /// The format of log lines.
    pub log_format: RecordFormat,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            data_dir: PathBuf::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            token_env: None,
            token_file: None,
            token: None,
            body_limit: 64 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_mins(1),
            grace: Duration::from_secs(20),
            heartbeat: Duration::from_secs(15),
            commit_after: Duration::from_secs(10),
            turn_timeout: Duration::from_hours(1),
            websocket: true,
            websocket_lifetime: Duration::from_hours(1),
            memory: None,
            max_connections: 1024,
            log: "info".to_owned(),
            log_format: RecordFormat::default(),
        }
    }
}

impl ServerConfig {
    /// The directory for recorded turns.
    pub fn bundles_dir(&self) -> PathBuf {
        self.data_dir.join("bundles")
    }
}

/// `[prompts]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct PromptConfig {
    /// The folder with the prompt templates; there are none if it is not set.
    pub folder: Option<PathBuf>,
}

/// `[workflows]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct WorkflowConfig {
    /// The folder with the workflows; there are only those of the program if it is not set.
    pub folder: Option<PathBuf>,
}

/// `[routing]`
#[derive(Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RoutingConfig {
    /// The model for Codex when it asks for one that no provider lists.
    pub default_model: Option<String>,
    /// The user's own names for models, in the order of the file.
    pub aliases: Pairs<String>,
    /// Models to try instead of a model, or of every model (`*`), while it is unavailable.
    pub fallbacks: Pairs<OneOrMany>,
}

/// How the history that is sent to a model is bounded: `[context]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ContextConfig {
    /// How tool outputs are bounded.
    pub outputs: OutputPolicy,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            outputs: OutputPolicy::Adaptive,
        }
    }
}

/// Where the full text of shortened tool outputs is stored: `[artifacts]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
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

impl Default for ArtifactConfig {
    fn default() -> Self {
        Self {
            mode: ArtifactMode::default(),
            keep_days: 30,
            keep_size: 2 << 30,
            memory: 64 << 20,
        }
    }
}

/// Where the full text of shortened tool outputs is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactMode {
    /// It is not kept.
    Off,
    /// In memory, until the server stops.
    Memory,
    /// In a database in the data directory.
    #[default]
    Disk,
}

/// Recording of turns, to inspect and replay them: `[capture]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
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
    /// Regular expressions of further secrets to redact, besides keys and tokens.
    pub patterns: Vec<String>,
    /// Whether images are stored as they are; otherwise only their hash is.
    pub images: bool,
    /// Whether encrypted contents are stored as they are; otherwise only their hash is.
    pub encrypted: bool,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self {
            mode: CaptureMode::default(),
            recent: 32,
            memory: 64 << 20,
            keep: 50,
            keep_size: 256 << 20,
            keep_days: 7,
            patterns: Vec::new(),
            images: false,
            encrypted: false,
        }
    }
}

/// Which turns are written to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CaptureMode {
    /// None; recording in memory is off, too.
    Off,
    /// Turns that fail.
    #[default]
    Failures,
    /// Every turn.
    All,
}

impl CaptureMode {
    /// The value as it is written in the configuration file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Settings for Codex clients: `[codex]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct CodexConfig {
    /// A file with base instructions for Codex's models that replace the built-in ones.
    pub instructions_file: Option<PathBuf>,
    /// The contents of this file.
    #[serde(skip)]
    pub instructions: Option<Arc<str>>,
    /// Whether Codex leaves the tools of its MCP servers out of its requests, so that the model
    /// searches for those that it needs.
    pub tool_search: bool,
    /// `[codex.agents]`: the models of Codex's sub-agents by role, such as `explorer`. That of
    /// `default` is for sub-agents that ask for no model.
    pub agents: BTreeMap<String, String>,
}

impl CodexConfig {
    /// The name in [`Self::agents`] that stands for sub-agents that ask for no model.
    pub const DEFAULT_AGENT: &str = "default";

    /// The model of sub-agents that ask for none.
    pub fn default_agent(&self) -> Option<&str> {
        self.agents.get(Self::DEFAULT_AGENT).map(String::as_str)
    }

    /// The roles of sub-agents that have a model, with its name.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &str)> {
        let roles = self.agents.iter();
        roles
            .filter(|(role, _)| *role != Self::DEFAULT_AGENT)
            .map(|(role, model)| (role.as_str(), model.as_str()))
    }
}

#[cfg(test)]
pub(super) mod tests;
