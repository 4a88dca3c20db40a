//! Turns in a file.

mod turn;

pub use turn::{Answer, Attempt, Head, Omitted, Piece, Request, Turn};
