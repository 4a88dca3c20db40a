//! Turns in a file.

mod compare;
mod diff;
mod show;
mod turn;

pub use compare::{Difference, Scope, compare};
pub use diff::diff;
pub use show::show;
pub use turn::{Answer, Attempt, Head, Omitted, Piece, Request, Turn};
