//! Turns in a file.

mod compare;
mod diff;
mod turn;

pub use compare::{Difference, Scope, compare};
pub use diff::diff;
pub use turn::{Answer, Attempt, Head, Omitted, Piece, Request, Turn};
