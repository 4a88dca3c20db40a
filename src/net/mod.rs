//! Helpers for I/O that do not depend on turns, providers or the configuration.
//!
//! [`RequestId`] is the id of a request, [`ClientConnection`] the connection that it came on, and
//! `blocking` runs long computations without blocking other turns.

pub(crate) mod blocking;
mod bounded_id;
mod client_connection;
mod request_id;

pub(crate) use bounded_id::bounded_id;
pub use client_connection::ClientConnection;
pub use request_id::RequestId;
