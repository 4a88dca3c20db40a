//! The configuration that replays a recorded turn. It is built in code, so that a replay
//! does not depend on the user's files and environment.

use std::collections::HashMap;
use std::time::Duration;

use adapters::plan::OutputPolicy;
use registry::Registry;

use super::Config;
use super::settings::{ArtifactConfig, ArtifactMode, CaptureConfig, ContextConfig, ServerConfig};
use super::storage::{ResponseConfig, ResponseMode};
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
        Self {
            server: ServerConfig {
                heartbeat,
                commit_after,
                ..ServerConfig::default()
            },
            registry,
            keys,
            context: ContextConfig {
                outputs: OutputPolicy::Whole,
            },
            artifacts: ArtifactConfig {
                mode: ArtifactMode::Off,
                ..ArtifactConfig::default()
            },
            responses: ResponseConfig {
                mode: Some(ResponseMode::Off),
                ..ResponseConfig::default()
            },
            capture: CaptureConfig {
                recent: 1,
                memory: usize::MAX,
                keep: 0,
                keep_size: 0,
                keep_days: 0,
                ..CaptureConfig::default()
            },
            ..Self::default()
        }
    }
}
