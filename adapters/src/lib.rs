//! Everything pure about a turn: no sockets, clock, randomness or environment.
//!
//! The path of the data:
//!
//! 1. [`responses::request`] parses a request body into a borrowed [`turn::Turn`];
//! 2. [`plan`] decides what will be sent of each item;
//! 3. a wire ([`chat`]) encodes turn and plan into [`encoded::Encoded`];
//! 4. [`reader`] and [`sse`] split the upstream's bytes into chunks, which the wire
//!    decodes into [`event::Event`]s;
//! 5. [`responses::assembler`] is the only writer of Responses events.
//!
//! [`drive`] runs the whole path without a network, [`golden`] says what must
//! come out of it.
//!
//! A failure is a [`fault::Fault`], which [`provider_error`] makes of a provider's
//! error; a change that a known refusal leads to is a [`quirk_patch::QuirkPatch`].
//! What was changed on the way is a [`notes::Note`].

pub mod baggage;
pub mod chat;
pub mod compact;
mod content;
pub mod drive;
pub mod encoded;
pub mod event;
pub mod fault;
pub mod golden;
pub mod json;
pub mod notes;
pub mod plan;
pub mod provider_error;
pub mod quirk_patch;
pub mod reader;
pub mod responses;
mod schema;
mod sealed;
pub mod sse;
pub mod text;
pub mod tools;
pub mod turn;
