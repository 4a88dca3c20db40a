//! Turns in a file.

mod fixture;
mod turn;

pub use fixture::{FixtureError, Written, to_fixture};
pub use turn::{Answer, Attempt, Head, Omitted, Piece, Request, Turn};
