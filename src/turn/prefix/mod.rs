//! Compares each upstream request with the previous one of its session: how many bytes both begin
//! with, where they first differ, and why. Providers cache prompts by prefix, so this shows how
//! much of a request may be cached.
//!
//! Of the [`recent_requests`] of a session a [`fingerprint`] is remembered: hashes of their parts. The result of a comparison is a [`report`].

mod fingerprint;
mod recent_requests;
mod report;
#[cfg(test)]
mod tests;

pub(super) use fingerprint::{FingerprintContext, RequestFingerprint};
pub(super) use recent_requests::RecentRequests;
pub use report::PrefixReason;
pub(super) use report::PrefixReport;
#[cfg(test)]
pub(super) use report::RequestPart;
