//! The connections of all turns: one for each server, its secrets and their owner.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::McpNetwork;
use super::connection::McpConnection;
use super::error::McpError;
use super::listed_tool::ListedTools;
use super::target::McpTarget;
use crate::config::mcp_servers::McpTransport;
use crate::secrets::Redactor;

/// How long it may take to connect, and to list the tools, within the time of a call.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was not used for this long is ended when another one is needed.
const IDLE: Duration = Duration::from_mins(10);
/// The most connections.
const MAX_SERVERS: usize = 64;
/// How long a server that could not be asked for its tools is not asked again: one that hangs would
/// hold up every turn.
const FAILURE_AGE: Duration = Duration::from_secs(30);
/// A program may be started this often in this time.
const MAX_STARTS: usize = 5;
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// The connections. Made with the server.
pub(super) struct McpPool {
    network: Arc<McpNetwork>,
    servers: Mutex<HashMap<[u8; 32], Arc<PooledServer>>>,
}

/// A server to which a connection is kept.
pub(super) struct PooledServer {
    target: McpTarget,
    network: Arc<McpNetwork>,
    /// Finds the secrets of the server in what it sends.
    redactor: Redactor,
    last_used: Mutex<Instant>,
    has_changed: Arc<AtomicBool>,
    connection: AsyncMutex<ConnectionSlot>,
    listed: AsyncMutex<Option<ToolsAnswer>>,
}

/// What came of asking a server for its tools.
struct ToolsAnswer {
    at: Instant,
    tools: Result<Arc<ListedTools>, McpError>,
}

#[derive(Default)]
struct ConnectionSlot {
    open: Option<Arc<McpConnection>>,
    /// When a program was started.
    starts: VecDeque<Instant>,
}

impl McpPool {
    pub(super) fn new(network: Arc<McpNetwork>) -> Self {
        Self {
            network,
            servers: Mutex::default(),
        }
    }

    /// The server for this owner.
    pub(super) fn get(&self, target: McpTarget, owner: &str) -> Arc<PooledServer> {
        let key = target.key(owner);
        let now = Instant::now();
        let mut servers = self.servers.lock();
        if let Some(known) = servers.get(&key) {
            *known.last_used.lock() = now;
            return Arc::clone(known);
        }
        servers.retain(|_, server| {
            let is_used = Arc::strong_count(server) > 1;
            is_used || now.saturating_duration_since(*server.last_used.lock()) < IDLE
        });
        if servers.len() >= MAX_SERVERS {
            let oldest = servers
                .iter()
                .min_by_key(|(_, server)| *server.last_used.lock());
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                servers.remove(&oldest);
            }
        }
        let server = Arc::new(PooledServer {
            redactor: Redactor::new(&target.secrets()),
            target,
            network: Arc::clone(&self.network),
            last_used: Mutex::new(now),
            has_changed: Arc::default(),
            connection: AsyncMutex::default(),
            listed: AsyncMutex::default(),
        });
        servers.insert(key, Arc::clone(&server));
        server
    }
}

impl PooledServer {
    /// The tools of the server, which are asked for anew if what is known is older than this or has
    /// changed; after a failure not at once. Several that ask at the same time wait for one answer.
    /// `call_timeout` is the most time of a call.
    pub(super) async fn tools(
        &self,
        max_age: Duration,
        call_timeout: Duration,
    ) -> Result<Arc<ListedTools>, McpError> {
        let mut listed = self.listed.lock().await;
        if let Some(answer) = listed.as_ref().filter(|it| self.is_current(it, max_age)) {
            return answer.tools.clone();
        }
        *listed = None;
        let tools = self.ask(call_timeout).await;
        *listed = Some(ToolsAnswer {
            at: Instant::now(),
            tools: tools.clone(),
        });
        tools
    }

    fn is_current(&self, answer: &ToolsAnswer, max_age: Duration) -> bool {
        let age = answer.at.elapsed();
        match &answer.tools {
            Ok(_) => age < max_age && !self.has_changed.load(Relaxed),
            Err(_) => age < FAILURE_AGE,
        }
    }

    async fn ask(&self, call_timeout: Duration) -> Result<Arc<ListedTools>, McpError> {
        let asking = async {
            let connection = self.connect().await?;
            // What changes from here on is asked for again.
            self.has_changed.store(false, Relaxed);
            connection.tools().await
        };
        let time = LIST_TIMEOUT.min(call_timeout);
        let asked = timeout(time, asking).await;
        let asked = asked.unwrap_or(Err(McpError::Timeout(time)));
        let (tools, is_cut) = match asked {
            Ok(tools) => tools,
            Err(error) => {
                self.disconnect().await;
                return Err(error);
            }
        };
        let redactor = self.redactor.clone();
        let read = spawn_blocking(move || ListedTools::new(&tools, is_cut, &redactor)).await;
        let read = read.map_err(|error| McpError::Lost(error.to_string()))?;
        Ok(Arc::new(read))
    }

    /// Calls a tool once, whatever comes of it. A connection that has ended before is made anew.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, McpError> {
        *self.last_used.lock() = Instant::now();
        let connecting = timeout(LIST_TIMEOUT, self.connect()).await;
        let connection = connecting.unwrap_or(Err(McpError::Timeout(LIST_TIMEOUT)))?;
        let called = connection.call(name, arguments).await;
        if !connection.is_closed() {
            return called;
        }
        self.disconnect().await;
        let is_program = matches!(self.target.transport, McpTransport::Program { .. });
        called.map_err(|error| match error {
            // It has ended, and not its answer alone.
            McpError::Cut(why) if is_program => McpError::Lost(why),
            other => other,
        })
    }

    /// See [`McpTarget::identity`].
    pub(super) fn identity(&self) -> String {
        self.target.identity()
    }

    /// What the server has sent, without its secrets.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.redactor.redact_known(text).into_owned()
    }

    async fn connect(&self) -> Result<Arc<McpConnection>, McpError> {
        let mut slot = self.connection.lock().await;
        if let Some(open) = slot.open.as_ref().filter(|open| !open.is_closed()) {
            return Ok(Arc::clone(open));
        }
        slot.open = None;
        if matches!(self.target.transport, McpTransport::Program { .. }) {
            slot.starts.retain(|start| start.elapsed() < STARTS_WITHIN);
            if slot.starts.len() >= MAX_STARTS {
                return Err(McpError::EndsTooOften);
            }
            slot.starts.push_back(Instant::now());
        }
        let has_changed = Arc::clone(&self.has_changed);
        let opened = McpConnection::open(&self.target, &self.network, has_changed).await?;
        let opened = Arc::new(opened);
        slot.open = Some(Arc::clone(&opened));
        Ok(opened)
    }

    async fn disconnect(&self) {
        self.connection.lock().await.open = None;
    }
}

#[cfg(test)]
mod tests;
