//! The engine: from a client's request to the end of its answer. In the order of a turn's life:
//!
//! | file | what it does |
//! |---|---|
//! | `service` | what all turns need: configuration, metrics, `shared` state |
//! | `context` | who asks, and the clock, randomness, `observer` and `director` of one turn |
//! | `request` | a request that runs a turn, however it arrived; `received` adds its body and context, parses it and loads what it refers to |
//! | `mcp_request` | the MCP servers that a request names, and its secrets for them |
//! | `respond` | runs one turn, as a `stream` or as a whole; `reply` makes the HTTP response |
//! | `message` | runs the turn of a message of a WebSocket |
//! | `caller` | the client, and the session that the turn belongs to |
//! | `prepare` | routes a parsed request and chooses its first step: an answer, a summary, or none for a background response that waits |
//! | `routed_history` | a request with its routes, from which `prepared` makes rounds |
//! | `failover` | chooses the route, plans the turn and encodes the upstream request |
//! | `compact` | replaces a history with a summary, which it gets by running the engine |
//! | `workflow` | runs the nodes of a workflow |
//! | `engine` | runs the steps of an answer: sends the request of a round and reads the upstream's answer, retries, adapts and fails over |
//! | `tool_runner` | the tools that run in the proxy, between two rounds; `tool_arguments` checks their calls, and `tool_results` shares the room for their results |
//! | `recovery` | what to do after a fault; `request_budget` is how many requests may fail |
//! | `background` | answers for which no client waits |
//! | `sink` | where events go |
//! | `response_headers` | the `x-respondent-*` headers |
//! | `large_work` | long computations, which end early when nobody wants their result |
//! | `turn_memory` | the memory of a turn, as the budget of the process counts it |
//! | `record` | the log line and the metrics of the turn, with its `outcome` |
//! | `owner_limits` | the limits of clients |
//! | `running` | the turns that are running, and the log line of those that take long |
//!
//! State that outlives a turn is in `shared`, bounded and in memory: `session_memory` (what is
//! remembered of a session: its route, tools and items, its last requests as fingerprints from
//! `prefix`, its last token count as a `calibration`), `whole_sessions` (the sessions whose outputs
//! are not shortened any more) and `output_cache`. What of that outlives the process is in
//! `stored_prompts` and `stored_rounds`. `state` is the part of it that a recorder stores with a
//! turn and a replay restores.

mod background;
mod calibration;
mod caller;
mod compact;
mod context;
mod director;
mod engine;
mod failover;
mod image_texts;
mod large_work;
mod logged_sessions;
mod mcp_request;
mod message;
mod observer;
mod outcome;
mod output_cache;
mod owner_limits;
mod prefix;
mod prepare;
mod prepared;
mod received;
mod record;
mod recovery;
mod reply;
mod request;
mod request_budget;
mod respond;
mod response_headers;
mod route;
mod routed_history;
mod running;
mod service;
mod session_changes;
mod session_memory;
mod shared;
mod sink;
mod state;
mod stored_prompts;
mod stored_rounds;
mod stream;
#[cfg(test)]
mod tests;
mod tool_arguments;
mod tool_results;
mod tool_runner;
mod turn_memory;
mod whole_sessions;
mod workflow;

pub use background::{
    AcceptedJob, BackgroundJob, BackgroundQueue, QueueFuture, ResponseIdentity, restored_headers,
};
pub use calibration::TokenCalibration;
pub use caller::{Caller, Session, TurnKind};
pub use context::{TurnContext, TurnEnvironment, TurnEnvironmentFactory};
pub use director::TurnDirector;
pub use mcp_request::{McpRequest, McpServerSecrets};
pub use message::{MessageRequest, message_turn};
pub use observer::{TurnEvent, TurnObserver};
pub use outcome::Outcome;
pub use owner_limits::{OwnerSlot, OwnerSlots, check_web_day, wait_for_midnight};
pub use prefix::PrefixReason;
pub use request::{TurnEndpoint, TurnRequest};
pub use respond::{input_tokens, respond, run_in_background};
pub use response_headers::PREFIX_HEADER;
pub use running::{RunningTurnReport, RunningTurns};
pub use service::Service;
pub use session_changes::ChangedSession;
pub use sink::{EventLog, LogFuture, error_message};
pub use state::{ModelPatches, ProviderState, TurnState};
pub use stream::{EventStream, LAST_EVENT_ROOM};
pub use tool_arguments::{
    from_object as tool_arguments_from_object, parse as parse_tool_arguments, whole_number,
};
pub use tool_runner::{
    APPROVAL_SECONDS, CallRecord, CallSource, ListFuture, McpTools, RecordedToolCall, ToolEffect,
    ToolFuture, ToolResult, ToolRunner, TurnTools,
};
pub use turn_memory::ReceivedBody;
pub use workflow::ResumedResponse;
