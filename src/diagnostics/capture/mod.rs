//! Takes down turns as they run, keeps the recent ones in memory, and writes the
//! failed ones to disk.

mod raw;
mod tape;

pub use raw::Raw;
pub use tape::{Room, Shelf, Tape};
