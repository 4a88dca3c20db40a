//! The configuration that replays a recorded turn. It is built in code, so that a replay
//! does not depend on the user's files and environment.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use registry::Registry;

use super::raw::{ArtifactMode, RawArtifacts, RawServer};
use super::{CaptureConfig, CodexConfig, Config, ContextConfig, ServerConfig};
use crate::secrets::Secret;

impl Config {
    /// A configuration with the given providers, their keys by provider id, and the recorded
    /// `heartbeat` and `commit_after`; everything else has its default. Turns of any size
    /// are captured in memory, artifacts are off, and nothing is written to disk.
    pub fn for_replay(
        registry: Registry,
        keys: HashMap<String, Vec<Secret>>,
        heartbeat: Duration,
        commit_after: Duration,
    ) -> Self {
        let raw = RawServer::default();
        Self {
            server: ServerConfig {
                listen: raw.listen,
                data_dir: PathBuf::new(),
                allowed_hosts: Vec::new(),
                allowed_origins: Vec::new(),
                token: None,
                body_limit: raw.body_limit,
                header_timeout: raw.header_timeout,
                body_timeout: raw.body_timeout,
                grace: raw.grace,
                heartbeat,
                commit_after,
                max_connections: raw.max_connections,
                log: raw.log,
                log_format: raw.log_format,
            },
            registry,
            keys,
            key_origins: HashMap::new(),
            codex: CodexConfig::default(),
            context: ContextConfig::default(),
            artifacts: RawArtifacts {
                mode: ArtifactMode::Off,
                ..RawArtifacts::default()
            }
            .into(),
            capture: CaptureConfig {
                recent: 1,
                memory: usize::MAX,
                ..CaptureConfig::default()
            },
            sandbox: false,
            source_files: Vec::new(),
            warnings: Vec::new(),
            digest: 0,
            sandbox_address: None,
            redactor: OnceLock::new(),
        }
    }
}
