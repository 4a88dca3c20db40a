//! Helpers for I/O that do not depend on turns, providers or the configuration.
//!
//! [`RequestId`] is the id of a request, and `blocking` runs long computations without blocking
//! other turns.

pub(crate) mod blocking;
mod request_id;

pub use request_id::RequestId;
