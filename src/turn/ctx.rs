//! What surrounds a turn: who asks, and everything that would differ if the
//! same turn ran again. Clock, randomness and timers come from here alone (the
//! timers are tokio's), so that a turn can be replayed.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use crate::config::Config;
use crate::tap::{Seen, Tap};

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
    /// Sees what passes, if anyone does.
    pub tap: Option<Arc<dyn Tap>>,
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

/// Gives each turn what it must not take from elsewhere.
pub trait Surroundings: Send + Sync {
    /// For the turn of this request.
    fn of(&self, request_id: &Arc<str>, config: &Arc<Config>) -> Surrounding;
}

/// What a turn must not take from elsewhere.
pub struct Surrounding {
    /// See [`Ctx::clock`].
    pub clock: Arc<dyn Clock>,
    /// See [`Ctx::random`].
    pub random: Arc<dyn Random>,
    /// See [`Ctx::tap`].
    pub tap: Option<Arc<dyn Tap>>,
}

impl Surroundings for System {
    fn of(&self, _: &Arc<str>, _: &Arc<Config>) -> Surrounding {
        Surrounding {
            clock: Arc::new(System),
            random: Arc::new(System),
            tap: None,
        }
    }
}

impl Ctx {
    /// Shows something to the tap.
    pub fn saw(&self, seen: Seen<'_>) {
        if let Some(tap) = &self.tap {
            tap.saw(seen);
        }
    }

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
