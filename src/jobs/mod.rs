//! Background responses: they run whether or not anybody waits, any number of clients read their
//! events, and they outlive the process.
//!
//! | module | contents |
//! |---|---|
//! | `queue` | the jobs that wait and those that go on; each owner has its turn |
//! | `run` | one job, from its claim to its end |
//! | `log` | the events of a job, in memory and on their way to the disk |
//! | `viewer` | a client that reads the events of a job, live or from the disk |
//! | `recovery` | the jobs that an earlier process has left |
//! | `webhooks` | tells others that jobs have ended, or that people are asked for approvals |
//!
//! A job is claimed on the disk before its first request to a provider, so that no job runs
//! twice. When the process ends in the middle, its next start ends the job as failed.

mod items_so_far;
mod log;
mod queue;
mod recovery;
mod run;
mod viewer;
mod webhooks;

pub use queue::{CancelOutcome, JobCounts, JobQueue};
