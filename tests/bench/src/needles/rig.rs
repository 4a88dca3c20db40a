//! The proxy, before an upstream that keeps what it was sent.

use std::path::Path;

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Duration, timeout},
};

use super::case::Case;
use crate::{
    conn::Conn,
    report::Arm,
    server::{Launcher, Server},
    upstream,
};

const TIMEOUT: Duration = Duration::from_mins(2);

/// A running proxy and the bodies that its upstream has received.
pub(crate) struct Rig {
    server: Server,
    bodies: UnboundedReceiver<Bytes>,
    /// Holds the data of the proxy, and deletes it at the end.
    _launcher: Launcher,
}

impl Rig {
    pub(crate) async fn start(proxy: &Path, window: u64) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (sender, bodies) = unbounded_channel();
        tokio::spawn(upstream::serve(listener, Some(sender)));
        let launcher = Launcher::new(Some(proxy.to_owned()))?.with_window(window);
        Ok(Self {
            server: launcher.start(Arm::Ours, address).await?,
            bodies,
            _launcher: launcher,
        })
    }

    /// The text of the case's output as it reached the upstream.
    pub(crate) async fn shown(&mut self, case: &Case) -> anyhow::Result<String> {
        let exchange = self.exchange(case);
        let body = timeout(TIMEOUT, exchange).await.context("no answer")??;
        tool_output(&body)
    }

    async fn exchange(&mut self, case: &Case) -> anyhow::Result<Bytes> {
        let target = self.server.target;
        let mut conn = Conn::open(target.addr).await?;
        let reply = conn.send(&target.post(&request(case))).await?;
        let status = reply.status;
        let answer = conn.read_to_end(reply).await?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(status == 200, "{}: status {status}: {answer}", case.id);
        self.bodies.recv().await.context("the upstream ended")
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await
    }
}

/// The text of the tool output in an upstream request.
pub(super) fn tool_output(body: &[u8]) -> anyhow::Result<String> {
    let body: Value = serde_json::from_slice(body)?;
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.context("a request without messages")?;
    let result = messages
        .iter()
        .find(|message| message.get("role").and_then(Value::as_str) == Some("tool"));
    let content = result.and_then(|message| message.get("content"));
    let text = content.and_then(Value::as_str);
    Ok(text.context("a request without a tool output")?.to_owned())
}

/// The turn of an agent that has just run the command of the case.
pub(super) fn request(case: &Case) -> Value {
    let arguments =
        json!({"command": ["bash", "-lc", case.command], "workdir": "/home/user/project"});
    json!({"model": "bench/bench", "stream": false, "store": false, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": case.question}]},
        {"type": "function_call", "name": "shell", "call_id": "call_0", "arguments": arguments.to_string()},
        {"type": "function_call_output", "call_id": "call_0", "output": case.output}]})
}
