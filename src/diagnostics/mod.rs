//! What the process says about itself: log records, one line each.
pub mod bundle;
mod human;
pub mod line;
pub mod log;
pub mod redact;
