//! One connection to a server, over HTTP or to a program on its standard input and output.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::HeaderValue;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    Implementation, PaginatedRequestParams, Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, serve_client};
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::process::Command;

use super::http::McpHttp;
use super::target::{McpReach, McpTarget};
use super::{MAX_MESSAGE, McpNetwork};
use crate::config::mcp_servers::McpTransport;
use crate::tools::web::client::WebClient;
use crate::tools::web::dialler::WebDialler;
use crate::tools::web::process_group::ProcessGroup;

/// The most tools of a server, and the most pages in which it lists them.
pub(super) const MAX_TOOLS: usize = 256;
const MAX_PAGES: usize = 32;

/// The variables of the server that each program gets.
const VARIABLES: [&str; 9] = [
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
];

/// Why a server cannot be used.
#[derive(Clone, Debug, Error)]
pub(super) enum McpError {
    /// It cannot be reached or started, or does not speak the protocol.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// It has refused a request.
    #[error("the server answered with an error: {0}")]
    Refused(String),
    /// The connection has ended.
    #[error("the connection to the server has ended: {0}")]
    Lost(String),
    /// It wants more than an answer.
    #[error("the server asks for input, which nobody can give here")]
    AsksForInput,
    /// It took too long.
    #[error("the server did not answer within {0:?}")]
    Timeout(Duration),
    /// It has ended again and again.
    #[error("the program of the server has ended too often; it is started again in a minute")]
    EndsTooOften,
}

/// A server that is connected. It ends when it is dropped.
pub(super) struct McpConnection {
    service: RunningService<RoleClient, McpListener>,
    _program: Option<ProcessGroup>,
}

/// Takes what a server says without being asked.
struct McpListener {
    /// Set when the list of tools has changed.
    has_changed: Arc<AtomicBool>,
}

impl ClientHandler for McpListener {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.has_changed.store(true, Relaxed);
    }
}

/// A stream that breaks is opened again a few times.
#[derive(Debug)]
struct FewRetries;

impl SseRetryPolicy for FewRetries {
    fn retry(&self, current_times: usize) -> Option<Duration> {
        (current_times < 3).then_some(Duration::from_secs(1))
    }
}

impl McpConnection {
    /// Connects, or starts the program. `has_changed` is set when the list of tools changes.
    pub(super) async fn open(
        target: &McpTarget,
        network: &McpNetwork,
        has_changed: Arc<AtomicBool>,
    ) -> Result<Self, McpError> {
        let listener = McpListener { has_changed };
        let (service, program) = match &target.transport {
            McpTransport::Http { url, token } => {
                let dialler = Arc::clone(&network.dialler);
                let dialler = match &target.reach {
                    McpReach::Any => WebDialler::any(dialler),
                    McpReach::PublicAnd(others) => {
                        WebDialler::public_and(dialler, others.iter().copied())
                    }
                };
                let tls = network.tls().map_err(out_of_reach)?;
                let memory = network.memory();
                let client = WebClient::new(dialler, tls).with_memory(memory.clone());
                let mut headers = HashMap::new();
                for (name, value) in &target.headers {
                    let mut value = HeaderValue::from_str(value.expose()).map_err(out_of_reach)?;
                    value.set_sensitive(true);
                    headers.insert(name.clone(), value);
                }
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers)
                    .max_sse_event_size(MAX_MESSAGE);
                if let Some(token) = token {
                    config = config.auth_header(token.expose());
                }
                config.retry_config = Arc::new(FewRetries);
                let http = McpHttp { client, memory };
                let transport = StreamableHttpClientTransport::with_client(http, config);
                (serve_client(listener, transport).await, None)
            }
            McpTransport::Program { command, args, env } => {
                let mut program = Command::new(command);
                program.args(args).env_clear();
                let kept = VARIABLES.iter();
                program.envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))));
                program.envs(env.iter().map(|(name, value)| (name, value.expose())));
                program
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null());
                let mut group = ProcessGroup::start(&mut program).map_err(out_of_reach)?;
                let pipes = group.pipes();
                let (input, output) = pipes.ok_or_else(|| out_of_reach("it has no pipes"))?;
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(output, input)
                    .with_max_line_length(MAX_MESSAGE);
                (serve_client(listener, transport).await, Some(group))
            }
        };
        Ok(Self {
            service: service.map_err(begin_error)?,
            _program: program,
        })
    }

    /// Whether it has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The tools of the server, and whether there are more than may be used.
    pub(super) async fn tools(&self) -> Result<(Vec<Tool>, bool), McpError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.peer().list_tools(Some(params)).await;
            let page = page.map_err(service_error)?;
            tools.extend(page.tools);
            if tools.len() > MAX_TOOLS {
                tools.truncate(MAX_TOOLS);
                return Ok((tools, true));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok((tools, false));
            }
        }
        Ok((tools, true))
    }

    /// Calls a tool once.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, McpError> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let answered = self.service.peer().call_tool_once(params).await;
        match answered.map_err(service_error)? {
            CallToolResponse::Complete(result) => Ok(result),
            _ => Err(McpError::AsksForInput),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
fn out_of_reach(error: impl ToString) -> McpError {
    McpError::Unreachable(error.to_string())
}

/// The first message of the chain that says something: those around it name parts of a library.
fn begin_error(error: ClientInitializeError) -> McpError {
    match error {
        ClientInitializeError::JsonRpcError(error) => McpError::Refused(error.message.to_string()),
        ClientInitializeError::TransportError { error, .. } => out_of_reach(error.error),
        other => out_of_reach(other),
    }
}

fn service_error(error: ServiceError) -> McpError {
    match error {
        ServiceError::McpError(error) => McpError::Refused(error.message.to_string()),
        ServiceError::TransportSend(error) => McpError::Lost(error.error.to_string()),
        other => McpError::Lost(other.to_string()),
    }
}
