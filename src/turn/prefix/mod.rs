//! Compares each upstream request with the previous one of its session: how many bytes both begin
//! with, where they first differ, and why. Providers cache prompts by prefix, so this shows how
//! much of a request may be cached.
//!
//! Of the [`recent_requests`] of a session a [`fingerprint`] is remembered: hashes of their parts.
//! The result of a comparison is a [`report`]. With what the provider counted for them, they also
//! give a [`forecast`] of the bill for the next request, and for the same request [`unshortened`].
//! The hashes are also [`stored`], for comparisons after a restart.

mod fingerprint;
mod forecast;
mod recent_requests;
mod report;
mod stored;
#[cfg(test)]
mod tests;
mod unshortened;

pub(super) use fingerprint::{CacheSettings, FingerprintContext, RequestFingerprint};
pub(super) use forecast::BillForecast;
pub(super) use recent_requests::RecentRequests;
pub use report::PrefixReason;
pub(super) use report::PrefixReport;
#[cfg(test)]
pub(super) use report::RequestPart;
pub(super) use stored::{StoredPrompt, diagnose_stored};
pub(super) use unshortened::Originals;
