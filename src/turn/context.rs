//! The context of a turn: who asks, and everything that would differ if the same turn ran again.
//! Clock and randomness come from here alone, and all timers are tokio's, so a turn can be
//! replayed.

use std::sync::Arc;

use adapters::stop_flag::StopFlag;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::background::{BackgroundJob, ResponseIdentity};
use super::caller::Caller;
use super::director::TurnDirector;
use super::mcp_request::McpRequest;
use super::observer::{TurnEvent, TurnObserver};
use super::tool_runner::ToolRunner;
use crate::clock::{Clock, Random, System};
use crate::config::Config;
use crate::log;
use crate::net::ClientConnection;
use crate::responses::ConnectionResponses;

/// The context of one turn. Made for each request; clones share what is behind the pointers.
#[derive(Clone)]
pub struct TurnContext {
    /// The id of the HTTP request.
    pub request_id: Arc<str>,
    /// The owner of the turn. Everything that is stored is keyed by it.
    pub owner: Arc<str>,
    /// The client.
    pub caller: Caller,
    /// Cancelled when the turn has to end at once because the process shuts down.
    pub shutdown: CancellationToken,
    /// The connection of the client; `None` in a replay.
    pub client: Option<ClientConnection>,
    /// When the turn has taken as long as it may.
    pub deadline: Instant,
    /// Ends long work on the turn early, see [`Self::run_work`].
    pub stop: StopFlag,
    /// The response of a job, which was made when its request was taken.
    pub identity: Option<ResponseIdentity>,
    /// What a turn is given that runs in the background.
    pub job: Option<BackgroundJob>,
    /// The responses of the WebSocket that the turn is on.
    pub connection: Option<Arc<ConnectionResponses>>,
    /// What the request gives for its MCP servers; `None` if the proxy connects to none.
    pub mcp: Option<Arc<McpRequest>>,
    /// What a replay replaces.
    pub environment: TurnEnvironment,
}

/// The clock, the randomness and the tools of a turn, and who observes and directs it. It has no
/// other source of them, so that a replay can replace them.
#[derive(Clone)]
pub struct TurnEnvironment {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Makes ids and jitter.
    pub random: Arc<dyn Random>,
    /// Observes the turn, if anyone does.
    pub observer: Option<Arc<dyn TurnObserver>>,
    /// Directs the turn, if it is a replay or a measurement.
    pub director: Option<Arc<dyn TurnDirector>>,
    /// Runs tools in the proxy, if there are any.
    pub tools: Option<Arc<dyn ToolRunner>>,
}

/// Makes the environment of each turn: the real one, one with a recorder, or one for a replay.
pub trait TurnEnvironmentFactory: Send + Sync {
    /// Makes the environment of the turn that answers this request.
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment;

    /// The tools that its turns have.
    fn tools(&self) -> Option<Arc<dyn ToolRunner>> {
        None
    }

    /// What ends the work on its turns, if that is not the turn itself.
    fn stop_flag(&self) -> StopFlag {
        StopFlag::default()
    }
}

/// The clock and the randomness of the system; nobody observes or directs.
impl Default for TurnEnvironment {
    fn default() -> Self {
        Self {
            clock: Arc::new(System),
            random: Arc::new(System),
            observer: None,
            director: None,
            tools: None,
        }
    }
}

impl TurnEnvironmentFactory for System {
    fn create(&self, _: &Arc<str>, _: &Arc<Config>) -> TurnEnvironment {
        TurnEnvironment::default()
    }
}

impl TurnContext {
    /// Passes an event to the observer.
    pub fn observe(&self, event: TurnEvent<'_>) {
        if let Some(observer) = &self.environment.observer {
            observer.on_event(event);
        }
    }

    /// Logs the end of a stage of the turn.
    pub(super) fn log_stage(&self, stage: &str, began: Instant) {
        log::turn_stage(stage, began.elapsed(), &self.request_id);
    }

    /// Who directs the turn, if anyone does.
    pub(super) fn director(&self) -> Option<&dyn TurnDirector> {
        self.environment.director.as_deref()
    }

    /// A new resource id: the prefix, `_`, and 128 random bits in hexadecimal.
    pub fn new_id(&self, prefix: &str) -> String {
        format!("{prefix}_{:032x}", self.environment.random.bits())
    }

    /// The id of the turn's response, and when it was created.
    pub(super) fn response_identity(&self) -> ResponseIdentity {
        self.identity.clone().unwrap_or_else(|| ResponseIdentity {
            id: self.new_id("resp"),
            created_at: self.environment.clock.unix(),
        })
    }

    /// How many sources and calls of tools an earlier process has stored of the turn's response.
    pub(super) fn written_tool_places(&self) -> (usize, usize) {
        let job = self.job.as_ref();
        job.and_then(|job| job.resumed.lock().as_ref().map(|it| it.tool_places))
            .unwrap_or_default()
    }

    /// A random number from 0 to 1.
    pub fn jitter(&self) -> f64 {
        let bits = u32::try_from(self.environment.random.bits() & 0xFFFF_FFFF).unwrap_or(0);
        f64::from(bits) / f64::from(u32::MAX)
    }
}
