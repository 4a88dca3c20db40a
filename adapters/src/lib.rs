//! Everything pure about a turn: no sockets, clock, randomness or environment.
//!
//! The path of the data:
//!
//! 1. [`responses::request`] parses a request body into a borrowed [`turn::Turn`];
//! 2. [`plan`] decides what will be sent of each item;
//! 3. a wire ([`chat`]) encodes turn and plan into [`encoded::Encoded`];
//! 4. [`sse`] cuts the upstream's bytes into events, the wire decodes them into
//!    [`event::Event`]s;
//! 5. [`responses::assembler`] is the only writer of Responses events.
//!
//! A thing that goes wrong is a [`fault::Fault`]; a thing that was changed on
//! the way is a [`notes::Note`].

pub mod baggage;
pub mod chat;
pub mod compact;
pub mod encoded;
pub mod event;
pub mod fault;
pub mod json;
pub mod mend;
pub mod notes;
pub mod plan;
pub mod responses;
mod sealed;
pub mod sse;
pub mod text;
pub mod tools;
pub mod turn;
