//! What time it is.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the seconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The clock of the system.
    pub fn system() -> Self {
        Self::new(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.map_or(0, |now| now.as_secs())
        })
    }

    /// Another one.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        (self.0)()
    }
}
