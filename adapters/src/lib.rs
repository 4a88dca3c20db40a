#![doc = include_str!("../README.md")]
//!
//! # The code
//!
//! It is pure: it uses no sockets, clock, randomness or environment.
//!
//! A turn passes through these modules:
//!
//! 1. [`responses::request`] parses the client's request body into a [`turn::Turn`];
//! 2. [`compact`] inserts and reads the summaries of a compacted history;
//! 3. [`plan`] decides for each item of the turn whether and how much of it is sent;
//! 4. a wire (`chat`, `relay`) encodes turn and plan into a [`wire::WireRequest`];
//! 5. [`reader`] and [`sse`] split the bytes of the answer into chunks, which the wire decodes
//!    into [`event::Event`]s;
//! 6. [`responses::assembler`] writes the Responses events for the client.
//!
//! Shared types: [`text`] is text that stays escaped, [`json`] reads and writes JSON
//! without a tree, [`tools`] maps tool names, [`baggage`] is provider state that the client
//! keeps, [`model_list`] reads the lists of models that providers give, and [`notes::Note`]
//! records every change of a turn. Every error is a
//! [`fault::Fault`]; [`provider_error`] makes one of what a provider answers, with a
//! [`quirk_patch::QuirkPatch`] if the request can be adapted, and [`failed_request`] completes
//! its message.

mod arguments;
pub mod baggage;
mod body_writer;
mod chat;
pub mod cited_source;
pub mod coalescer;
pub mod compact;
pub mod compaction_blob;
mod content;
mod effort;
mod empty_input;
mod encode_options;
pub mod encoded;
pub mod event;
pub mod experiments;
pub mod failed_request;
pub mod fair_share;
pub mod fault;
mod format_instruction;
pub mod hidden_rounds;
pub mod image_texts;
pub mod item_text;
pub mod json;
mod media;
mod members;
pub mod model_list;
pub mod notes;
pub mod origin;
mod output_limit;
pub mod plan;
pub mod provider_error;
pub mod purpose;
pub mod quirk_patch;
pub mod reader;
pub mod refusal;
mod relay;
pub mod responses;
mod result_text;
mod schema;
mod sealed;
pub mod shared_text;
mod shorten;
pub mod sse;
pub mod stop_flag;
pub mod stored_history;
mod template_text;
pub mod text;
mod text_files;
pub mod token_count;
pub mod tools;
pub mod translation;
pub mod turn;
pub mod wire;
pub mod workflow;

pub use registry;
