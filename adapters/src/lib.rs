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
pub mod compaction_blob;
mod content;
pub mod drive;
pub mod encoded;
pub mod event;
mod fair_share;
pub mod fault;
pub mod golden;
mod item_text;
pub mod json;
pub mod notes;
mod output_kind;
pub mod plan;
pub mod provider_error;
pub mod purpose;
pub mod quirk_patch;
pub mod reader;
pub mod responses;
mod schema;
mod sealed;
mod shorten;
pub mod sse;
pub mod text;
pub mod tools;
pub mod turn;
