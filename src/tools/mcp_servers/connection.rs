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
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, serve_client};
use serde_json::{Map, Value};
use tokio::process::{ChildStdin, ChildStdout, Command};
use url::Url;

use super::error::McpError;
use super::http::McpHttp;
use super::target::{McpReach, McpTarget};
use super::{MAX_MESSAGE, McpNetwork};
use crate::config::mcp_servers::McpTransport;
use crate::secrets::Secret;
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

/// The standard output and input of a program.
type ProgramTransport = AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>;

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
                let transport = http_transport(target, url, token.as_ref(), network)?;
                (serve_client(listener, transport).await, None)
            }
            McpTransport::Program { command, args, env } => {
                let (program, transport) = start_program(command, args, env)?;
                (serve_client(listener, transport).await, Some(program))
            }
        };
        Ok(Self {
            service: service.map_err(McpError::of_begin)?,
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
            let page = page.map_err(McpError::of_request)?;
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
        match answered.map_err(McpError::of_request)? {
            CallToolResponse::Complete(result) => Ok(result),
            _ => Err(McpError::AsksForInput),
        }
    }
}

/// The transport to a server over HTTP.
fn http_transport(
    target: &McpTarget,
    url: &Url,
    token: Option<&Secret>,
    network: &McpNetwork,
) -> Result<StreamableHttpClientTransport<McpHttp>, McpError> {
    let dialler = Arc::clone(&network.dialler);
    let dialler = match &target.reach {
        McpReach::Any => WebDialler::any(dialler),
        McpReach::PublicAnd(others) => WebDialler::public_and(dialler, others.iter().copied()),
    };
    let tls = network.tls().map_err(McpError::out_of_reach)?;
    let memory = network.memory();
    let client = WebClient::new(dialler, tls).with_memory(memory.clone());
    let mut headers = HashMap::new();
    for (name, value) in &target.headers {
        let mut value = HeaderValue::from_str(value.expose()).map_err(McpError::out_of_reach)?;
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
    Ok(StreamableHttpClientTransport::with_client(http, config))
}

/// Starts a server that is a program. It gets few variables of this process, and those of its
/// configuration.
fn start_program(
    command: &str,
    args: &[String],
    env: &[(String, Secret)],
) -> Result<(ProcessGroup, ProgramTransport), McpError> {
    let mut program = Command::new(command);
    program.args(args).env_clear();
    let kept = VARIABLES.iter();
    program.envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))));
    program.envs(env.iter().map(|(name, value)| (name, value.expose())));
    program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut group = ProcessGroup::start(&mut program).map_err(McpError::out_of_reach)?;
    let pipes = group.pipes();
    let (input, output) = pipes.ok_or_else(|| McpError::out_of_reach("it has no pipes"))?;
    let transport = ProgramTransport::new(output, input).with_max_line_length(MAX_MESSAGE);
    Ok((group, transport))
}
