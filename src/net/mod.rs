//! Helpers for I/O that do not depend on turns, providers or the configuration.
//!
//! [`RequestId`] is the id of a request, [`Owner`] whose it is, [`ClientConnection`] the connection
//! that it came on, [`memory`] the budget of what requests and answers take, `blocking` runs long
//! computations without blocking other turns, `content_coding` decodes bodies, `patience` waits for
//! a limited time, and `websocket_frame` frames messages.

pub(crate) mod blocking;
mod bounded_id;
mod client_connection;
pub(crate) mod content_coding;
pub mod fairness;
pub mod memory;
mod owner;
pub(crate) mod patience;
mod request_id;
pub(crate) mod websocket_frame;

pub(crate) use bounded_id::bounded_id;
pub use client_connection::ClientConnection;
pub use owner::{AdmittedBy, LOCAL_OWNER, Owner, local_owner};
pub use request_id::RequestId;
