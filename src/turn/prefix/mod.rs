//! Compares each upstream request with the previous one of its session: how many bytes both begin
//! with, where they first differ, and why. Providers cache prompts by prefix, so this shows how
//! much of a request may be cached.
//!
//! [`tracker`] remembers the last requests of each session as a [`fingerprint`]: hashes of their
//! parts. The result of a comparison is a [`report`].

mod fingerprint;
mod report;
#[cfg(test)]
mod tests;
mod tracker;

pub(super) use fingerprint::{FingerprintContext, RequestFingerprint};
pub use report::PrefixReason;
pub(super) use report::PrefixReport;
#[cfg(test)]
pub(super) use report::RequestPart;
pub(super) use tracker::PrefixTracker;
