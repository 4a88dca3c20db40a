//! The schema of `proxy-config.toml`. Every key has its default here; what has
//! none is `None`. `proxy-config.example.toml` shows the same, by test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use adapters::plan::Outputs;
use registry::Spec;
use registry::duration;
use registry::provider::{OneOrMany, Pairs};
use serde::Deserialize;

/// The whole file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RawConfig {
    /// `[server]`
    pub server: RawServer,
    /// `[routing]`
    pub routing: RawRouting,
    /// `[codex]`
    pub codex: RawCodex,
    /// `[context]`
    pub context: RawContext,
    /// `[artifacts]`
    pub artifacts: RawArtifacts,
    /// `[capture]`
    pub capture: RawCapture,
    /// `[providers.<id>]`
    pub providers: Pairs<Spec>,
}

/// `[server]`; the keys are described in [`super::ServerConfig`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(missing_docs, reason = "described where they are used")]
pub struct RawServer {
    pub listen: SocketAddr,
    /// The user's data directory when left out.
    pub data_dir: Option<PathBuf>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// The variable that holds the token.
    pub token_env: Option<String>,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    pub body_limit: usize,
    #[serde(deserialize_with = "duration::deserialize")]
    pub header_timeout: Duration,
    #[serde(deserialize_with = "duration::deserialize")]
    pub body_timeout: Duration,
    #[serde(deserialize_with = "duration::deserialize")]
    pub grace: Duration,
    #[serde(deserialize_with = "duration::deserialize")]
    pub heartbeat: Duration,
    #[serde(deserialize_with = "duration::deserialize")]
    pub commit_after: Duration,
    pub max_connections: usize,
    pub log: String,
    pub log_format: LogFormat,
}

impl Default for RawServer {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            data_dir: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            token_env: None,
            token_file: None,
            body_limit: 64 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_mins(1),
            grace: Duration::from_secs(20),
            heartbeat: Duration::from_secs(15),
            commit_after: Duration::from_secs(10),
            max_connections: 1024,
            log: "info".to_owned(),
            log_format: LogFormat::default(),
        }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// `[routing]`
#[derive(Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RawRouting {
    /// Answers Codex where nobody knows the name.
    pub default_model: Option<String>,
    /// Own names for models, in the order of the file.
    pub aliases: Pairs<String>,
    /// Where the turns of a model, or of every one (`*`), go instead.
    pub fallbacks: Pairs<OneOrMany>,
}

/// `[context]`; the keys are described in [`super::Context`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(missing_docs, reason = "described where they are used")]
pub struct RawContext {
    pub outputs: Outputs,
}

impl Default for RawContext {
    fn default() -> Self {
        Self {
            outputs: Outputs::Adaptive,
        }
    }
}

/// `[artifacts]`; the keys are described in [`super::ArtifactSettings`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(missing_docs, reason = "described where they are used")]
pub struct RawArtifacts {
    pub mode: ArtifactMode,
    pub keep_days: u32,
    pub keep_size: u64,
    pub memory: usize,
}

impl Default for RawArtifacts {
    fn default() -> Self {
        Self {
            mode: ArtifactMode::default(),
            keep_days: 30,
            keep_size: 2 << 30,
            memory: 64 << 20,
        }
    }
}

/// Where shortened outputs are kept whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactMode {
    /// Nowhere.
    Off,
    /// In memory alone.
    Memory,
    /// Under the data directory.
    #[default]
    Disk,
}

/// `[capture]`; the keys are described in [`super::Capture`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(missing_docs, reason = "described where they are used")]
pub struct RawCapture {
    pub mode: CaptureMode,
    pub recent: usize,
    pub memory: usize,
    pub keep: usize,
    pub keep_size: u64,
    pub keep_days: u32,
    /// Regular expressions.
    pub patterns: Vec<String>,
    pub images: bool,
    pub encrypted: bool,
}

impl Default for RawCapture {
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

/// Which turns are kept on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// None, and none in memory.
    Off,
    /// Those that fail.
    #[default]
    Failures,
    /// Every one.
    All,
}

impl CaptureMode {
    /// The word in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Failures => "failures",
            Self::All => "all",
        }
    }
}

/// `[codex]`
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RawCodex {
    /// The prompt to serve instead of our own.
    pub instructions_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
