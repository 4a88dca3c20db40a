//! Bundles, tested through the commands and the running server.
//!
//! | module | what it tests |
//! |---|---|
//! | `cli` | `respondent bundle` and `respondent replay` |
//! | `corpus` | turns of every kind of failure replay without a difference |
//! | `committed` | the bundles in `fixtures/bundles` keep working |
//! | `hostile` | untrusted bundles do no harm |
//! | `leaving` | a bundle that nobody waits for is not made |
mod cli;
mod committed;
mod corpus;
mod hostile;
mod leaving;

pub use cli::run;
