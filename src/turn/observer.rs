//! The events of a turn for its observer, such as a recorder. Nothing here may wait: events are
//! sent from the path of the answer.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::responses::assembler::{AnswerParams, HostedItem};
use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use http::{HeaderMap, StatusCode};
use registry::Route;

use super::outcome::Outcome;
use super::request::TurnRequest;
use super::state::TurnState;
use super::tool_runner::ToolResult;
use crate::upstream::{AttemptEvent, KeyIndex, Upstream, UpstreamRequest};

/// Observes one turn, from the client's request to the end of the answer. The engine drops it when
/// the turn is over, however it ended.
pub trait TurnObserver: Send + Sync {
    /// Called for each event, in the order in which they happen.
    fn on_event(&self, event: TurnEvent<'_>);
}

/// Something that happened in a turn.
pub enum TurnEvent<'a> {
    /// The client's request arrived.
    ClientRequest {
        /// The request without its body.
        request: &'a TurnRequest,
        /// The decoded body. Cloning the `Arc` is cheap.
        body: &'a Arc<String>,
    },
    /// The model name was looked up.
    Routes {
        /// The model name of the request.
        asked: &'a str,
        /// The route that is tried first, then its fallbacks; empty if the name is unknown.
        routes: &'a [Route],
        /// Similar model names, for an unknown one.
        near: &'a [String],
    },
    /// The state of the process that decides about this turn, as it was before the turn.
    State(Box<TurnState>),
    /// The baggage that was found for calls of the request: blobs by call id.
    Baggage(&'a HashMap<String, String>),
    /// The artifacts with these ids cannot be kept, and the coming request does not name them.
    Unkept(&'a BTreeSet<String>),
    /// The prompt of the coming request was compared with that of an earlier response.
    CacheDiagnostics(PromptCacheDiagnostics),
    /// An attempt begins: this request goes to a provider.
    UpstreamRequest {
        /// The provider, with its address and headers.
        upstream: &'a Arc<Upstream>,
        /// The route, with the learned quirks applied.
        route: &'a Route,
        /// The facts about the provider that the assembler needs.
        answer_params: &'a AnswerParams,
        /// The request without what the provider's settings add. Cloning it is cheap.
        request: &'a UpstreamRequest,
    },
    /// The API key that the request carries.
    Key(KeyIndex),
    /// The provider answered with this head.
    UpstreamHead {
        /// The HTTP status.
        status: StatusCode,
        /// The response headers.
        headers: &'a HeaderMap,
    },
    /// A chunk of the upstream's body, as the transport delivered it.
    UpstreamBody(&'a [u8]),
    /// The upstream's body ended by itself.
    UpstreamEnd,
    /// The attempt is over, with this fault if it failed.
    AttemptEnd(Option<&'a Fault>),
    /// The call of a tool that runs in the proxy begins.
    ToolCall {
        /// The call id.
        call_id: &'a str,
        /// What the client sees of it.
        shown: Option<&'a HostedItem>,
    },
    /// A call has ended.
    ToolResult {
        /// The call id.
        call_id: &'a str,
        /// What it returned.
        result: &'a ToolResult,
    },
    /// The result of a call was too long for its round, and the model gets this instead.
    ToolResultShortened {
        /// The call id.
        call_id: &'a str,
        /// The excerpt.
        text: &'a str,
    },
    /// The turn is ended early because the process shuts down.
    ShuttingDown,
    /// The head of our answer to the client.
    ClientHead {
        /// The HTTP status.
        status: StatusCode,
        /// The response headers.
        headers: &'a HeaderMap,
    },
    /// A chunk of our answer: whole server-sent events, or the whole JSON body.
    ClientBody(&'a [u8]),
    /// The turn is over.
    Ended {
        /// How it ended.
        outcome: Outcome,
        /// The differences between the client's request and the provider's.
        notes: &'a Notes,
        /// The tokens that were counted or estimated.
        usage: Option<Usage>,
        /// Why it failed, if it did.
        fault: Option<&'a Fault>,
    },
}

impl<'a> From<AttemptEvent<'a>> for TurnEvent<'a> {
    fn from(event: AttemptEvent<'a>) -> Self {
        match event {
            AttemptEvent::Head { status, headers } => Self::UpstreamHead { status, headers },
            AttemptEvent::ErrorBody(body) => Self::UpstreamBody(body),
        }
    }
}
