//! The counters of the artifact store.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::labels::WarningLabel;

/// Counts what happens to artifacts. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ArtifactCounts {
    kept: Counter,
    bytes: Counter,
    failures: Family<WarningLabel, Counter>,
}

impl ArtifactCounts {
    /// Counts artifacts that were written to the disk, and the bytes of their texts.
    pub fn kept(&self, artifacts: u64, bytes: u64) {
        self.kept.inc_by(artifacts);
        self.bytes.inc_by(bytes);
    }

    /// Counts a failure of the store under the id of its warning.
    pub fn failed(&self, warning: &'static str) {
        self.failures.get_or_create(&WarningLabel { warning }).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "artifacts_kept",
            "Tool outputs that were written to the disk whole",
            self.kept.clone(),
        );
        registry.register_with_unit(
            "artifacts_kept",
            "Their text",
            Unit::Bytes,
            self.bytes.clone(),
        );
        registry.register(
            "artifact_failures",
            "Failures of the store of artifacts by the id of their warning",
            self.failures.clone(),
        );
    }
}
