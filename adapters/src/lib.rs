//! Pure translation.

pub mod responses;
pub mod sse;
