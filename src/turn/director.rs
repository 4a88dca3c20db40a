//! What decides how a turn goes in place of the provider and of time.

use std::time::Duration;

use adapters::fault::Fault;

/// Directs one turn: a replay, so that it goes as it was recorded, or a measurement that may send
/// no more requests. Without one nothing is decided.
pub trait TurnDirector: Send + Sync {
    /// The fault with which the coming attempt fails before the provider answers, and after how
    /// long. `None` sends the request. It is asked once for each attempt. A replay returns one,
    /// because a bundle may hold failures that a server on loopback cannot produce, such as a name
    /// that does not resolve; a measurement does when it may send no more requests.
    fn injected_failure(&self) -> Option<(Duration, Fault)> {
        None
    }

    /// Whether time passes in steps, as it was recorded, so that no timer is late.
    fn sets_time(&self) -> bool {
        false
    }

    /// The length in bytes of the next chunk of the upstream's body. `None` takes chunks as the
    /// transport delivers them. Only a replay returns one, to cut the body where it was cut before.
    fn next_chunk_len(&self) -> Option<usize> {
        None
    }

    /// Whether the engine is to send a heartbeat before it ends its current wait. True in a replay
    /// only: a write to the store, for which the recorded turn waited, takes no time there.
    fn waits_for_heartbeat(&self) -> bool {
        false
    }

    /// How long after its next heartbeat a silence of the provider ends at the earliest; `None` if
    /// it ends with the idle timeout. Only a replay returns a time, while heartbeats are to come
    /// that the recorded turn sent in this silence: it noticed timers late, and did not blame the
    /// provider for that.
    fn silence_after_heartbeat(&self) -> Option<Duration> {
        None
    }

    /// How long to wait before the next attempt. Only a replay returns a pause: it prepares
    /// requests faster than the recorded turn did, and heartbeats would come at other places.
    fn pause_before_attempt(&self) -> Option<Duration> {
        None
    }
}
