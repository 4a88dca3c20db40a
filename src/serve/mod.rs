//! The HTTP edge: everything between a socket and a parsed request body.
//!
//! It knows nothing of models or translation. A connection comes in through
//! [`listen`], each request passes [`guard`] before a byte of its body is read,
//! [`router`] finds the handler, [`body`] reads and decodes the body within its
//! limits, and an [`App`] answers. Refusals have the shape of [`error`].
mod answer;
pub mod body;
mod decode;
pub mod error;
pub mod guard;
pub mod listen;
pub mod router;
mod token;

pub use answer::Body;
pub use body::BodyLimits;
pub use guard::{GuardSettings, Reason};
pub use listen::{ListenLimits, Shutdown, serve};
pub use router::{App, Edge, EdgeSettings, RequestId};
pub use token::{Token, TokenError};
