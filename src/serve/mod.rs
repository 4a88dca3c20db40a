//! The HTTP edge: everything between a socket and a handler.
//!
//! It contains no models and no translation. [`listen`] accepts connections, and an
//! [`Edge`] answers each request: [`guard`] checks it before a byte of its body is
//! read, then the routes of a [`RouteTable`] find its handler, and a handler that needs
//! the body takes a [`DecodedRequest`], which is read and decoded within its limits.
//! Errors have the shape that [`error`] describes. A connection that a handler upgrades
//! becomes a [`websocket`].
pub mod body;
mod body_error;
mod client_stream;
mod connections;
mod counted_body;
mod edge;
pub mod error;
pub mod guard;
pub mod listen;
mod path;
mod refused_names;
pub mod routes;
pub mod websocket;

pub use body::{BodyLimits, DecodedRequest};
pub use counted_body::BodyIsCounted;
pub use edge::{Edge, EdgeSettings, RefusalObserver};
pub use guard::{ClientToken, GuardSettings, RefusalReason};
pub use listen::{ListenLimits, Shutdown, serve};
pub use routes::{RouteService, RouteTable};
