//! What surrounds a turn: who asks, and everything that would differ if the
//! same turn ran again. Clock, randomness and timers come from here alone (the
//! timers are tokio's), so that a turn can be replayed.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;

use super::caller::Caller;

/// The surroundings of one turn.
#[derive(Clone)]
pub struct Ctx {
    /// The id of the HTTP request.
    pub request_id: Arc<str>,
    /// Whose turn it is: everything stored is keyed by it.
    pub owner: Arc<str>,
    /// Who asks.
    pub caller: Caller,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Ids and jitter.
    pub random: Arc<dyn Random>,
    /// Cancelled when the turn must come to its end now.
    pub ending: CancellationToken,
    /// Sees the traffic of both sides.
    pub tap: Arc<dyn Tap>,
}

/// Wall clock.
pub trait Clock: Send + Sync {
    /// Seconds since 1970.
    fn unix(&self) -> u64;
}

/// Randomness.
pub trait Random: Send + Sync {
    /// 128 bits.
    fn bits(&self) -> u128;
}

/// The clock and the randomness of the operating system.
#[derive(Debug)]
pub struct System;

impl Clock for System {
    fn unix(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.as_secs())
    }
}

impl Random for System {
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        // Without randomness ids repeat, which is worse than stopping; the
        // panic costs this request alone.
        #[expect(
            clippy::expect_used,
            reason = "an id that repeats would mix up responses"
        )]
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        u128::from_le_bytes(bytes)
    }
}

impl Ctx {
    /// A new id of a resource: the prefix and 128 bits in hexadecimal.
    pub fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:032x}", self.random.bits())
    }

    /// A number from 0 to 1.
    pub fn jitter(&self) -> f64 {
        let bits = u32::try_from(self.random.bits() & 0xFFFF_FFFF).unwrap_or(0);
        f64::from(bits) / f64::from(u32::MAX)
    }
}

/// A place that sees what passes, as it passes. It must not wait.
pub trait Tap: Send + Sync {
    /// Something passed.
    fn saw(&self, request_id: &str, seen: Seen<'_>);
}

/// What passed, as bytes.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The client's request body.
    ClientRequest(&'a [u8]),
    /// Our request body to the upstream.
    UpstreamRequest(&'a [u8]),
    /// A piece of the upstream's answer, cut as the transport cut it.
    UpstreamAnswer(&'a [u8]),
    /// Events on their way to the client.
    ClientEvents(&'a [u8]),
}

/// Tells the sizes of what passes in the log, at level trace.
#[derive(Debug)]
pub struct TraceTap;

impl Tap for TraceTap {
    fn saw(&self, request_id: &str, seen: Seen<'_>) {
        let (what, bytes) = match seen {
            Seen::ClientRequest(bytes) => ("client request", bytes.len()),
            Seen::UpstreamRequest(bytes) => ("upstream request", bytes.len()),
            Seen::UpstreamAnswer(bytes) => ("upstream answer", bytes.len()),
            Seen::ClientEvents(bytes) => ("client events", bytes.len()),
        };
        tracing::trace!(target: "respondent::tap", request = request_id, what, bytes);
    }
}
