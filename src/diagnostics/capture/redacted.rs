//! Redacts a recorded turn.

use super::recorded_turn::RecordedTurn;
use crate::config::Config;
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::redact::{Keep, Scrubber};

/// A turn without secrets, as the configuration knew them when it ran.
pub(super) fn redacted_turn(raw: &RecordedTurn, keep: Keep) -> BundleTurn {
    scrubber(&raw.config, keep).turn(&raw.to_bundle_turn())
}

pub(super) fn scrubber(config: &Config, keep: Keep) -> Scrubber {
    Scrubber::new(config.redactor(), keep)
}
