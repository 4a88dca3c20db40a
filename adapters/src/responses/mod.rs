//! The Responses API, which clients speak.
//!
//! [`request`] parses a request body with `request_body` (its top level), `parameters` and
//! `tool_choice`. [`assembler`] writes the events of the answer into an
//! [`event_buffer::EventBuffer`]; [`response_object`] is the response around the output, with the
//! parameters that `echo` repeats and what [`prompt_cache`] says of the prompt. [`client_event`]
//! reads the messages of a WebSocket, [`answered_item`] the texts of an answer that was asked for
//! here, [`prompt_templates`] fills in what the `prompt` of a request
//! names, [`patch`] repairs the input of `apply_patch` calls, and [`compaction_response`] writes
//! the answer of `POST /v1/responses/compact`.

pub mod answered_item;
pub mod assembler;
pub mod client_event;
pub mod compaction_response;
mod echo;
pub mod event_buffer;
mod parameters;
pub mod patch;
pub mod prompt_cache;
pub mod prompt_templates;
pub mod request;
pub(crate) mod request_body;
pub mod response_object;
mod tool_choice;
