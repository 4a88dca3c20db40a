//! The log on standard error.
use std::io;
use std::panic;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::line::{Line, OneLine};

/// How records look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For a reader.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Why the log could not be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter is not of the form `level` or `target=level,...`.
    #[error("the log filter cannot be read: {0}")]
    Filter(#[from] ParseError),
    /// There is a log already.
    #[error("the log is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sets up the log of the process, and lets panics speak through it.
///
/// `filter` has the form of tracing-subscriber's `EnvFilter`: `info`, or
/// `respondent=debug,warn`.
pub fn init(filter: &str, format: Format) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(filter)?;
    let records = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(|| OneLine(io::stderr()));
    match format {
        Format::Human => records.finish().try_init()?,
        Format::Json => records.json().flatten_event(true).finish().try_init()?,
    }
    panic::set_hook(Box::new(|info| {
        // The payload may quote a request, so the place alone is told.
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place = %Line::new(&place), "a request panicked");
    }));
    Ok(())
}
