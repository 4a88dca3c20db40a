//! The one clock that upstream and loader share.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
///
/// The system clock, not `CLOCK_MONOTONIC`: std keeps the value of `Instant` to itself, and the
/// system clock is the only one that two processes can compare without unsafe code. A step of the
/// clock during a run would show as an absurd latency; run without a time daemon that steps.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}
