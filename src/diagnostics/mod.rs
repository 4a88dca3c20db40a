//! What the process says about itself: log records, one line each.
pub mod bundle;
pub mod capture;
mod human;
pub mod line;
pub mod listing;
pub mod log;
pub mod redact;
pub mod replay;
pub mod selection;
