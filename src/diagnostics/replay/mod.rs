//! Placeholder.
use super::bundle::Turn;
use crate::config::Config;
use thiserror::Error;

/// Placeholder.
pub fn replay(turn: &Turn) -> Result<Turn, ReplayError> {
    Ok(turn.clone())
}

/// Placeholder.
pub fn live(turn: &Turn, _config: &Config, _model: &str) -> Result<Turn, ReplayError> {
    Ok(turn.clone())
}

/// Placeholder.
#[derive(Debug, Error)]
#[expect(missing_docs)]
pub enum ReplayError {
    #[error("the turn was not kept whole: {0} is missing or cut off")]
    NotWhole(String),
    #[error("the turn is damaged: {0}")]
    Damaged(&'static str),
    #[error("the replay cannot be run here")]
    Io(#[from] std::io::Error),
    #[error("the replay stood still for {seconds} seconds {at}")]
    Stuck { at: &'static str, seconds: u64 },
    #[error("{0}")]
    NoModel(String),
    #[error("the replay ended without a turn")]
    Lost,
}
