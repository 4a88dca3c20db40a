//! Why a turn cannot be run again.

use thiserror::Error;

/// Why a turn cannot be run again. That it goes another way is no error: the
/// comparison of the two turns names it.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// Something was too large to be kept.
    #[error("the turn was not kept whole: {0} is missing or cut off")]
    Incomplete(String),
    /// What is told of the turn does not fit together.
    #[error("the turn is damaged: {0}")]
    Damaged(&'static str),
    /// The loopback or the threads cannot be had.
    #[error("the replay cannot be run here")]
    Io(#[from] std::io::Error),
    /// Nothing moved any more.
    #[error("the replay stood still for {seconds} seconds {at}")]
    Stuck {
        /// While waiting for what.
        at: &'static str,
        /// How long.
        seconds: u64,
    },
    /// The answer had no end.
    #[error("the replay says far more than was recorded, and was stopped")]
    Endless,
    /// The model that the turn was to be sent to is not configured.
    #[error("{0}")]
    NoModel(String),
    /// The program failed in a way that it must not.
    #[error("the replay ended without a turn")]
    NoTurn,
}
