//! Ends long work on a request that is not wanted any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::fault::{Fault, Kind};

/// Tells the work on one request to stop. The code that starts long work makes a flag and passes it
/// on with the [`TurnSource`](crate::responses::request::TurnSource); another thread raises it. The
/// default flag is never raised.
///
/// Parsing, planning and encoding look at it for each item, and measuring outputs and searching
/// them for what an excerpt shows for each block of a long text, of at most 64 KiB. What they
/// return after it was raised is incomplete, and of no use but to be dropped.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Option<Arc<AtomicU8>>);

/// Why work has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    /// The client has left.
    ClientLeft = 1,
    /// The turn has taken longer than it may.
    TurnTimeout = 2,
    /// The process is ending.
    ShuttingDown = 3,
}

impl StopFlag {
    /// A flag that can be raised.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Tells the work to stop. The first reason stays.
    pub fn raise(&self, reason: StopReason) {
        if let Some(raised) = &self.0 {
            let _ = raised.compare_exchange(0, reason as u8, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the work has to stop.
    pub fn is_raised(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|raised| raised.load(Ordering::Relaxed) != 0)
    }

    /// Why the work has to stop, if it has to.
    pub fn reason(&self) -> Option<StopReason> {
        match self.0.as_ref()?.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(StopReason::ClientLeft),
            2 => Some(StopReason::TurnTimeout),
            _ => Some(StopReason::ShuttingDown),
        }
    }

    /// An error with the reason, if the work has to stop.
    pub fn check(&self) -> Result<(), Fault> {
        match self.reason() {
            None => Ok(()),
            Some(reason) => Err(reason.fault()),
        }
    }
}

impl StopReason {
    /// The fault of a turn that ends for this reason.
    pub fn fault(self) -> Fault {
        match self {
            // It has no reader.
            Self::ClientLeft => Fault::new(Kind::Internal, "The client has left."),
            Self::TurnTimeout => Fault::new(
                Kind::TurnTimeout,
                "The turn was ended because it took longer than turn_timeout in [server] allows.",
            ),
            Self::ShuttingDown => Fault::new(
                Kind::Draining,
                "Respondent is shutting down; send the request again in a moment.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let flag = StopFlag::new();
        assert_eq!(flag.reason(), None);
        assert!(flag.check().is_ok());
        flag.raise(StopReason::TurnTimeout);
        flag.raise(StopReason::ShuttingDown);
        assert!(flag.is_raised());
        assert_eq!(flag.reason(), Some(StopReason::TurnTimeout));
        assert_eq!(flag.check().unwrap_err().kind, Kind::TurnTimeout);
    }

    #[test]
    fn the_default_flag_is_never_raised() {
        let flag = StopFlag::default();
        flag.raise(StopReason::ClientLeft);
        assert!(!flag.is_raised());
    }
}
