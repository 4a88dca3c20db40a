//! The translation of a turn, as pure code: it uses no sockets, clock, randomness or
//! environment.
//!
//! A turn passes through these modules:
//!
//! 1. [`responses::request`] parses the client's request body into a [`turn::Turn`];
//! 2. [`compact`] inserts and reads the summaries of a compacted history;
//! 3. [`plan`] decides for each item of the turn whether and how much of it is sent;
//! 4. a wire ([`chat`]) encodes turn and plan into [`encoded::Encoded`];
//! 5. [`sse`] splits the bytes of the answer into server-sent events, which the wire
//!    decodes into [`event::Event`]s;
//! 6. [`responses::assembler`] writes the Responses events for the client.
//!
//! Shared types: [`text`] is text that stays escaped, [`json`] reads and writes JSON
//! without a tree, [`tools`] maps tool names, [`baggage`] is provider state that the client
//! keeps, [`mend`] changes the quirks of a provider after an error, [`fault::Fault`] is
//! every error, and [`notes::Note`] records every change of a turn. [`drive`] and
//! [`golden`] run the whole path without a network, for tests.

pub mod baggage;
pub mod chat;
pub mod compact;
pub mod drive;
pub mod encoded;
pub mod event;
pub mod fault;
pub mod golden;
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
