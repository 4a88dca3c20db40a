//! Redacts a recorded turn.

use super::raw::Raw;
use crate::config::Config;
use crate::diagnostics::bundle::Turn;
use crate::diagnostics::redact::{Keep, Scrubber};

/// A turn without secrets, as the configuration knew them when it ran.
pub(super) fn clean(raw: &Raw, keep: Keep) -> Turn {
    scrubber(&raw.config, keep).turn(&raw.turn())
}

pub(super) fn scrubber(config: &Config, keep: Keep) -> Scrubber {
    Scrubber::new(config.redactor(), keep)
}
