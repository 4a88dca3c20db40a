//! A scripted upstream on loopback: Chat Completions, and Responses for requests to
//! `/responses`.
//!
//! - `script`: what to play, as data (JSON or Rust)
//! - `listener`: the listener, its connections, and the requests that it records
//! - `reply`: one reply on its way
//! - `http`: requests read from and replies written to a socket by hand, because a played fault
//!   (a reset, a wrong length, a missing terminator) is what a server library prevents
//! - `chat`, `tool_calls`: steps as stream chunks, or composed into one completion
//! - `responses`, `responses_checks`: steps as events of the Responses API, and what a strict
//!   upstream of that API refuses
//! - `dialect`: switches for the ways in which providers depart from the plain wire
//! - `refusal`: what strict providers refuse, and in which words

mod chat;
pub mod dialect;
mod http;
mod listener;
mod refusal;
mod reply;
mod responses;
mod responses_checks;
mod script;
#[cfg(test)]
mod tests;
mod tool_calls;

pub use dialect::{ChatDialect, ReplyForm};
pub use http::PlayerRequest;
pub use listener::{AnswerFunction, Player, RecordedRequest};
pub use refusal::{PathRule, ReasoningRequirement, RefusalRule, ScriptedRefusal};
pub use script::{
    ArgumentFragment, ConnectionCut, PlayerScript, PlayerWire, RepeatedSteps, RequestCondition,
    ScriptStep, ScriptedAnswer, ScriptedCall,
};
