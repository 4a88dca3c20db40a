//! The schema of `proxy-config.toml`, with the default of every key; a key without a default
//! is `None`. A test keeps `proxy-config.example.toml` equal to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use adapters::plan::OutputPolicy;
use registry::ProviderSpec;
use registry::duration;
use registry::lists::{OneOrMany, Pairs};
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
    pub providers: Pairs<ProviderSpec>,
}

/// `[server]`; the keys are described in [`super::ServerConfig`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(missing_docs, reason = "described where they are used")]
pub struct RawServer {
    pub listen: SocketAddr,
    /// Our directory in the user's data directory if left out.
    pub data_dir: Option<PathBuf>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// The environment variable that holds the token.
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

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text to be read by people.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// `[routing]`
#[derive(Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RawRouting {
    /// The model for Codex when it asks for one that no provider lists.
    pub default_model: Option<String>,
    /// The user's own names for models, in the order of the file.
    pub aliases: Pairs<String>,
    /// Models to try instead of a model, or of every model (`*`), while it is unavailable.
    pub fallbacks: Pairs<OneOrMany>,
}

/// `[context]`; the keys are described in [`super::ContextConfig`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[expect(missing_docs, reason = "described where they are used")]
pub struct RawContext {
    pub outputs: OutputPolicy,
}

impl Default for RawContext {
    fn default() -> Self {
        Self {
            outputs: OutputPolicy::Adaptive,
        }
    }
}

/// `[artifacts]`; the keys are described in [`super::ArtifactConfig`].
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

/// Where the full text of shortened tool outputs is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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

/// `[capture]`; the keys are described in [`super::CaptureConfig`].
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
    /// Regular expressions for the user's own secrets.
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

/// Which turns are written to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// A file with base instructions that replace the built-in ones.
    pub instructions_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
