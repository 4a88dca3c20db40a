//! The tools of MCP servers that requests name, called for the model by the server.
mod allowed;
mod approvals;
mod background;
mod calls;
mod configured;
mod deferred;
mod effects;
mod hostile;
mod interrupted;
mod lists;
mod next_turn;
mod programs;
mod secrets;

use kit::mcp::McpPlayer;
use kit::player::{Player, PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use crate::proxy::{Proxy, Setup};
use crate::stored::background::{begin_body, ended};
use crate::web_search::web::without_hosted_tools;
use crate::websocket::client::Socket;

/// How a client asks. The trials differ in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpClient {
    Streaming,
    Whole,
    Background,
    WebSocket,
}

impl McpClient {
    pub const ALL: [Self; 4] = [
        Self::Streaming,
        Self::Whole,
        Self::Background,
        Self::WebSocket,
    ];

    /// The final response to a request.
    pub async fn ask(self, proxy: &Proxy, request: &Value) -> Value {
        match self {
            Self::Streaming => proxy.stream(request).await.response,
            Self::Whole => proxy.response(request).await,
            Self::Background => {
                let queued = begin_body(proxy, request.clone()).await;
                ended(proxy, &queued).await
            }
            Self::WebSocket => {
                let mut socket = Socket::open(proxy).await;
                socket.turn(request).await.response
            }
        }
    }
}

/// A server that lets requests name these MCP servers.
pub fn allowing(servers: &[&McpPlayer]) -> Setup {
    let hosts: Vec<String> = servers
        .iter()
        .map(|server| format!("\"{}\"", server.address()))
        .collect();
    let hosts = hosts.join(", ");
    Setup::new().tables(&format!("[tools.mcp]\nallowed_hosts = [{hosts}]"))
}

/// The program before a provider that runs no hosted tools itself.
pub async fn start(player: &Player, setup: Setup) -> Proxy {
    let wire = player.wire().unwrap_or(PlayerWire::Chat);
    Proxy::start_with(player, setup.provider(without_hosted_tools(wire))).await
}

pub async fn proxy(player: &Player, server: &McpPlayer) -> Proxy {
    start(player, allowing(&[server])).await
}

/// The definition of a server whose calls need no approval.
pub fn defined(label: &str, server: &McpPlayer) -> Value {
    json!({
        "type": "mcp", "server_label": label, "server_url": server.url(),
        "require_approval": "never",
    })
}

/// A request with these definitions.
pub fn request(input: impl Into<Value>, servers: &[Value]) -> Value {
    json!({
        "model": "up/m", "input": input.into(), "prompt_cache_key": "s", "tools": servers,
    })
}

/// The types of the items of a response.
pub fn kinds(response: &Value) -> Vec<&str> {
    let output = response["output"].as_array().unwrap().iter();
    output.map(|item| item["type"].as_str().unwrap()).collect()
}

/// What the model is told before the conversation.
pub fn instructions(sent: &RecordedRequest) -> String {
    let sent = sent.json();
    let of_message = sent["messages"][0]["content"].as_str();
    let text = of_message.or(sent["instructions"].as_str());
    text.unwrap_or_default().to_owned()
}
