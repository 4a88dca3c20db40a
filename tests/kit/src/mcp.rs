//! An MCP server on loopback, over HTTP. It lists the tools and answers the calls that a test says,
//! also as servers do that are slow, broken or hostile, and remembers what it was asked.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::web::{WebAnswer, WebServer, WebServerRequest};

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct McpPlayer {
    server: WebServer,
    calls: Arc<Mutex<Vec<Value>>>,
    called: watch::Sender<usize>,
}

/// What it answers to a request.
#[derive(Clone, Debug)]
pub enum McpAnswer {
    /// This result.
    Result(Value),
    /// The same as an event of a stream.
    Event(Value),
    /// The same behind a message that the list of tools has changed.
    ListChanged(Value),
    /// This error of the protocol.
    Error(Value),
    /// Results under the ids of other requests.
    OtherIds(Value),
    /// This HTTP status.
    Status(u16),
    /// This HTTP answer, whatever it is.
    Raw(String),
    /// Nothing, on a connection that stays open.
    Silence,
    /// A beginning of a result that goes on without end.
    Endless,
    /// A beginning of an event that goes on without end.
    EndlessEvent,
}

impl McpAnswer {
    /// The result of a call: one text.
    pub fn text(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}]}))
    }

    /// The result of a call that has failed.
    pub fn failure(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}], "isError": true}))
    }

    fn to_web(&self, id: &Value) -> WebAnswer {
        let message = |id: &Value, name: &str, value: &Value| {
            json!({"jsonrpc": "2.0", "id": id, name: value}).to_string()
        };
        let json = |body: String| WebAnswer::new(200, "application/json", body);
        let events = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\n\r\n";
        match self {
            Self::Result(result) => json(message(id, "result", result)),
            Self::Error(error) => json(message(id, "error", error)),
            Self::Event(result) => {
                let data = message(id, "result", result);
                WebAnswer::raw(format!("{events}data: {data}\n\n"))
            }
            Self::ListChanged(result) => {
                let changed =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let data = message(id, "result", result);
                WebAnswer::raw(format!("{events}data: {changed}\n\ndata: {data}\n\n"))
            }
            Self::OtherIds(result) => {
                let data = message(&json!(987_654), "result", result);
                WebAnswer::raw(format!("{events}data: {data}\n\n")).then_silence()
            }
            Self::Status(status) => WebAnswer::new(*status, "text/plain", "no"),
            Self::Raw(answer) => WebAnswer::raw(answer.as_bytes()),
            Self::Silence => WebAnswer::raw("").then_silence(),
            Self::Endless => {
                let head =
                    "HTTP/1.1 200 x\r\ncontent-type: application/json\r\n\r\n{\"jsonrpc\":\"";
                WebAnswer::raw(head).without_end()
            }
            Self::EndlessEvent => {
                WebAnswer::raw(format!("{events}data: {{\"jsonrpc\":\"")).without_end()
            }
        }
    }
}

/// A tool as a server lists it: it takes an object with a text `q`.
pub fn tool(name: &str, is_read_only: bool) -> Value {
    json!({
        "name": name, "description": format!("The tool {name}."),
        "inputSchema": {
            "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"],
        },
        "annotations": {"readOnlyHint": is_read_only},
    })
}

impl McpPlayer {
    /// A server with these tools. `call` answers a call of the tool with this name and these
    /// arguments.
    ///
    /// # Errors
    /// If no port can be opened.
    pub async fn start(
        tools: Vec<Value>,
        call: impl Fn(&str, &Value) -> McpAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::answering(move |method, params| match method {
            "tools/list" => Some(McpAnswer::Result(json!({"tools": tools}))),
            "tools/call" => {
                let name = params.pointer("/name").and_then(Value::as_str);
                let arguments = params.pointer("/arguments").cloned();
                Some(call(
                    name.unwrap_or_default(),
                    &arguments.unwrap_or_default(),
                ))
            }
            _ => None,
        })
        .await
    }

    /// A server that answers requests of any method, with their parameters; in the usual way where
    /// `answer` has none.
    ///
    /// # Errors
    /// If no port can be opened.
    pub async fn answering(
        answer: impl Fn(&str, &Value) -> Option<McpAnswer> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let calls = Arc::<Mutex<Vec<Value>>>::default();
        let log = Arc::clone(&calls);
        let (called, _) = watch::channel(0);
        let counter = called.clone();
        let server = WebServer::start(move |request| {
            let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
            let method = message.pointer("/method").and_then(Value::as_str);
            let id = message.pointer("/id").cloned();
            let (Some(method), Some(id)) = (method, id) else {
                let is_message = request.method == "POST";
                return WebAnswer::new(if is_message { 202 } else { 405 }, "text/plain", "");
            };
            let params = message.pointer("/params").cloned().unwrap_or_default();
            if method == "tools/call" {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                // The rest is what the version of the protocol wants.
                let part = |name: &str| params.get(name).cloned().unwrap_or_default();
                log.push(json!({"name": part("name"), "arguments": part("arguments")}));
                counter.send_replace(log.len());
            }
            let usual = || match method {
                "initialize" => McpAnswer::Result(json!({
                    "protocolVersion": params.pointer("/protocolVersion"),
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "player", "version": "1"},
                })),
                "tools/list" => McpAnswer::Result(json!({"tools": []})),
                "ping" => McpAnswer::Result(json!({})),
                _ => McpAnswer::Error(json!({"code": -32_601, "message": "unknown"})),
            };
            answer(method, &params).unwrap_or_else(usual).to_web(&id)
        });
        Ok(Self {
            server: server.await?,
            calls,
            called,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.server.url("/mcp")
    }

    /// The parameters of the calls so far.
    pub fn calls(&self) -> Vec<Value> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until this many calls have arrived.
    pub async fn wait_for_calls(&self, count: usize) {
        let mut called = self.called.subscribe();
        // The sender lives as long as this server.
        called.wait_for(|called| *called >= count).await.ok();
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<WebServerRequest> {
        self.server.requests()
    }

    /// How many requests of this method there were.
    pub fn count(&self, method: &str) -> usize {
        let named = format!("\"method\":\"{method}\"");
        let requests = self.requests();
        requests
            .iter()
            .filter(|it| it.body.contains(&named))
            .count()
    }
}
