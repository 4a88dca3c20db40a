//! What the process says about itself: log records, one line each.
mod human;
pub mod line;
pub mod log;
