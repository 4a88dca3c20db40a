//! Converts recorded turns into redacted turns for bundles.

use super::recorded_turn::RecordedTurn;
use crate::config::Config;
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::redact::{Keep, Scrubber};

/// The turn without the secrets that its own configuration knew when it ran.
pub(super) fn redacted_turn(turn: &RecordedTurn, keep: Keep) -> BundleTurn {
    scrubber(&turn.config, keep).turn(&turn.to_bundle_turn())
}

pub(super) fn scrubber(config: &Config, keep: Keep) -> Scrubber {
    Scrubber::new(config.redactor(), keep)
}
