//! The client's dialect: the Responses API.

pub mod assembler;
pub mod envelope;
pub mod frames;
pub mod patch;
pub mod request;
pub(crate) mod tools;
