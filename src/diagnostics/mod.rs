//! Recording, inspecting and replaying turns.
//!
//! [`capture`] records each turn in memory, [`redact`] removes secrets from it, and [`bundle`] writes
//! it to a file that [`replay`] runs through the same engine again. [`listing`] is the list of
//! recorded turns.

pub mod bundle;
pub mod capture;
pub mod listing;
pub mod redact;
pub mod replay;
