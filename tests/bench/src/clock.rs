//! The clock that the upstream and the loader share.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
///
/// This reads the system clock instead of `CLOCK_MONOTONIC`, because std does not expose the value
/// of an `Instant`: the system clock is the only one that two processes can compare without unsafe
/// code. If the clock is stepped during a run, a latency becomes absurd, so run the benchmark
/// without a time daemon that steps the clock.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}
