//! Pure translation.

pub mod sse;
