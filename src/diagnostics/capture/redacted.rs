//! Converts recorded turns into redacted turns for bundles.

use super::recorded_turn::RecordedTurn;
use crate::config::Config;
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::redact::{Keep, Scrubber};
use crate::diagnostics::replay::replay;

/// The turn without the secrets that its own configuration knew when it ran. A turn that had
/// some is run again without them.
pub(super) fn redacted_turn(turn: &RecordedTurn, keep: Keep) -> BundleTurn {
    let turn_with_secrets = turn.to_bundle_turn();
    let redacted = scrubber(&turn.config, keep).turn(&turn_with_secrets);
    if redacted.request.body == turn_with_secrets.request.body
        && redacted.answer.body == turn_with_secrets.answer.body
    {
        return redacted;
    }
    replay(&redacted).unwrap_or(redacted)
}

pub(super) fn scrubber(config: &Config, keep: Keep) -> Scrubber {
    Scrubber::new(config.redactor(), keep)
}
