//! Errors of replays.

use thiserror::Error;

/// Why a replay gave no turn. A replay that takes another course than the recording is
/// no error: comparing the two turns shows it.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The named body was too large to be recorded whole.
    #[error("the turn was not kept whole: {0} is missing or cut off")]
    Incomplete(String),
    /// The metadata of the turn is contradictory.
    #[error("the turn is damaged: {0}")]
    Damaged(&'static str),
    /// The loopback socket or the thread could not be created.
    #[error("the replay cannot be run here")]
    Io(#[from] std::io::Error),
    /// The replay made no progress.
    #[error("the replay stood still for {seconds} seconds {at}")]
    Stuck {
        /// The event that it was waiting for.
        at: &'static str,
        /// How long it waited.
        seconds: u64,
    },
    /// The response became far longer than the recorded one.
    #[error("the replay says far more than was recorded, and was stopped")]
    Endless,
    /// The result is not wanted any more.
    #[error("the replay was stopped")]
    Stopped,
    /// The model that the turn should be sent to is not configured.
    #[error("{0}")]
    NoModel(String),
    /// The turn ended without a recording, which is a defect.
    #[error("the replay ended without a turn")]
    NoTurn,
}
