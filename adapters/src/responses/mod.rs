//! The client's dialect: the Responses API.

pub mod assembler;
pub mod compaction_response;
pub mod envelope;
pub mod event_buffer;
mod parameters;
pub mod patch;
pub mod request;
mod request_body;
pub(crate) mod tools;
