//! The counters of the artifact store.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};

use super::{Counters, add, count};

/// Counts what happens to artifacts. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ArtifactCounts {
    kept: Counter,
    bytes: Counter,
    failures: Counters<1>,
}

impl ArtifactCounts {
    /// Counts artifacts that were written to the disk, and the bytes of their texts.
    pub fn kept(&self, artifacts: u64, bytes: u64) {
        self.kept.inc_by(artifacts);
        self.bytes.inc_by(bytes);
    }

    /// Counts a failure of the store under the id of its warning.
    pub fn failed(&self, warning: &'static str) {
        count(&self.failures, &[("warning", warning.into())]);
    }

    pub(super) fn registered(all: &mut Registry) -> Self {
        let kept = add(
            all,
            "artifacts_kept",
            "Tool outputs that were written to the disk whole",
        );
        let bytes = Counter::default();
        all.register_with_unit("artifacts_kept", "Their text", Unit::Bytes, bytes.clone());
        let failures = add(
            all,
            "artifact_failures",
            "Failures of the artifact store, by the id of their warning",
        );
        Self {
            kept,
            bytes,
            failures,
        }
    }
}
