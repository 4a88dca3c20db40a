//! The engine: from a client's request to the end of its answer. In the order of a turn's life:
//!
//! | file | what it does |
//! |---|---|
//! | `service` | what all turns need: configuration, metrics, `shared` state |
//! | `context` | who asks, and the clock, randomness and `observer` of one turn |
//! | `respond` | runs one turn, as a `stream` or as a whole; `reply` makes the HTTP response |
//! | `caller` | the client, and the session that the turn belongs to |
//! | `prepare` | parses and routes the request; the result is a `prepared` turn or a compaction |
//! | `failover` | chooses the route, plans the turn and encodes the upstream request (`spelling`) |
//! | `compact` | replaces a history with a summary, which it gets by running the engine |
//! | `engine` | sends the request, reads the answer, retries, adapts and fails over |
//! | `recovery` | what to do after a fault |
//! | `sink` | where events go |
//! | `response_headers` | the `x-respondent-*` headers |
//! | `record` | the log line and the metrics of the turn, with its `outcome` |
//!
//! State that outlives a turn is in `shared`, bounded and in memory: `session_routes` (the route of
//! a session), `prefix` (its last requests, as fingerprints), `calibration` (its last token count),
//! `tool_cache`, `item_cache`, `reasoning_cache` and `output_cache`. `state` is the part of it that
//! a recorder stores with a turn and a replay restores.

mod calibration;
mod caller;
mod compact;
mod context;
mod engine;
mod failover;
mod item_cache;
mod observer;
mod outcome;
mod output_cache;
mod prefix;
mod prepare;
mod prepared;
mod reasoning_cache;
mod record;
mod recovery;
mod reply;
mod respond;
mod response_headers;
mod service;
mod session_routes;
mod shared;
mod sink;
mod spelling;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod tool_cache;

pub use calibration::TokenCalibration;
pub use caller::{Caller, Session, TurnKind};
pub(crate) use compact::first_retained_item;
pub use context::{TurnContext, TurnEnvironment, TurnEnvironmentFactory};
pub use observer::{TurnEvent, TurnObserver};
pub use outcome::Outcome;
pub use prefix::PrefixReason;
pub use respond::{input_tokens, respond};
pub use response_headers::PREFIX_HEADER;
pub use service::Service;
pub(crate) use spelling::Spelling;
pub use state::{ModelPatches, ProviderState, TurnState};
