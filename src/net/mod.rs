//! Helpers for I/O that do not depend on turns, providers or the configuration.
//!
//! [`Body`] is the body of every response of the server, [`RequestId`] the id of a request, and
//! `blocking` runs long computations without blocking other turns.

pub(crate) mod blocking;
mod body;
mod request_id;

pub use body::Body;
pub use request_id::RequestId;
