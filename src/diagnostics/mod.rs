//! Records turns, so that they can be inspected and run again after they have ended.
//!
//! | module | what it does |
//! |---|---|
//! | `capture` | records turns while they run, keeps the recent ones in memory, writes failed ones to disk |
//! | `redact` | removes secrets from a recorded turn |
//! | `bundle` | the file format: reads, writes, shows and compares turns; the folder of stored bundles |
//! | `replay` | runs a recorded turn again, offline or against a real provider |
//! | `selection`, `listing` | which recorded turns exist, and which of them a user asks for |

pub mod bundle;
pub mod capture;
pub mod listing;
pub mod redact;
pub mod replay;
pub mod selection;
