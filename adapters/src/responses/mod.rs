//! The client's dialect: the Responses API.

pub mod assembler;
mod body;
pub mod compacted;
pub mod envelope;
pub mod frames;
mod parameters;
pub mod patch;
pub mod request;
pub(crate) mod tools;
