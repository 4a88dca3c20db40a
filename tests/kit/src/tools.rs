//! Scripted tools that run in the proxy: what they are called, what the client sees of their calls
//! and what they return.
//!
//! The trait of the engine is not known here: a test implements it with these methods.

use std::sync::Mutex;
use std::time::Duration;

use adapters::responses::assembler::{HostedItem, McpCallError, WithheldCall};
use adapters::tools::ProxyTool;
use serde_json::json;
use tokio::sync::watch;

/// Tools of a test. Counts the calls that run.
#[derive(Debug)]
pub struct ScriptedTools {
    tools: Vec<ScriptedTool>,
    calls: Mutex<Vec<WithheldCall>>,
    running: watch::Sender<usize>,
}

/// One tool, which returns the same for every call.
#[derive(Clone, Debug)]
pub struct ScriptedTool {
    name: &'static str,
    shown: ShownCall,
    behaviour: ToolBehaviour,
}

/// What the client sees of a call.
#[derive(Clone, Copy, Debug)]
enum ShownCall {
    Nothing,
    Search,
    Mcp,
}

#[derive(Clone, Debug)]
enum ToolBehaviour {
    Returns { text: String, failed: bool },
    Stalls,
    Panics,
}

/// The end of a call: its text, whether it failed, and what the client sees of it.
pub type ScriptedToolResult = (String, bool, Option<HostedItem>);

impl ScriptedTool {
    /// A tool that returns a text; the client does not see its calls.
    pub fn new(name: &'static str, text: &str) -> Self {
        let text = text.to_owned();
        Self {
            name,
            shown: ShownCall::Nothing,
            behaviour: ToolBehaviour::Returns {
                text,
                failed: false,
            },
        }
    }

    /// Its calls are shown as `web_search_call`.
    #[must_use]
    pub fn shown_as_search(self) -> Self {
        Self {
            shown: ShownCall::Search,
            ..self
        }
    }

    /// Its calls are shown as `mcp_call`.
    #[must_use]
    pub fn shown_as_mcp(self) -> Self {
        Self {
            shown: ShownCall::Mcp,
            ..self
        }
    }

    /// Its calls fail with its text.
    #[must_use]
    pub fn failing(self) -> Self {
        let behaviour = match self.behaviour {
            ToolBehaviour::Returns { text, .. } => ToolBehaviour::Returns { text, failed: true },
            other @ (ToolBehaviour::Stalls | ToolBehaviour::Panics) => other,
        };
        Self { behaviour, ..self }
    }

    /// Its calls never end.
    #[must_use]
    pub fn stalling(self) -> Self {
        Self {
            behaviour: ToolBehaviour::Stalls,
            ..self
        }
    }

    /// Its calls panic.
    #[must_use]
    pub fn panicking(self) -> Self {
        Self {
            behaviour: ToolBehaviour::Panics,
            ..self
        }
    }
}

/// Lowers the count of running calls when the call ends or is dropped.
struct RunningCall<'t>(&'t ScriptedTools);

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

impl ScriptedTools {
    /// These tools.
    pub fn new(tools: impl Into<Vec<ScriptedTool>>) -> Self {
        Self {
            tools: tools.into(),
            calls: Mutex::default(),
            running: watch::Sender::new(0),
        }
    }

    /// The definitions for the model.
    pub fn definitions(&self) -> Vec<ProxyTool> {
        let tools = self.tools.iter();
        tools
            .map(|tool| ProxyTool {
                name: tool.name.to_owned(),
                description: format!("The tool {} of the proxy.", tool.name),
                parameters: r#"{"type":"object","properties":{"q":{"type":"string"}}}"#.to_owned(),
                ..ProxyTool::default()
            })
            .collect()
    }

    /// What the client sees of a call that begins.
    pub fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        self.item(call, None)
    }

    /// Runs a call.
    pub async fn run(&self, call: &WithheldCall) -> ScriptedToolResult {
        self.running.send_modify(|count| *count += 1);
        let _running = RunningCall(self);
        if let Ok(mut calls) = self.calls.lock() {
            calls.push(call.clone());
        }
        let behaviour = self.tool(call).map(|tool| tool.behaviour.clone());
        match behaviour {
            Some(ToolBehaviour::Returns { text, failed }) => {
                let item = self.item(call, Some((&text, failed)));
                (text, failed, item)
            }
            Some(ToolBehaviour::Stalls) => std::future::pending().await,
            Some(ToolBehaviour::Panics) | None => {
                // After an await, so that it happens while the engine waits.
                tokio::time::sleep(Duration::from_millis(1)).await;
                std::panic::resume_unwind(Box::new("a defect in a tool"))
            }
        }
    }

    /// The calls that were run.
    pub fn calls(&self) -> Vec<WithheldCall> {
        self.calls
            .lock()
            .map(|calls| calls.clone())
            .unwrap_or_default()
    }

    /// Waits until this many calls run.
    pub async fn wait_running(&self, count: usize) {
        let mut running = self.running.subscribe();
        // The sender lives as long as `self`.
        let _ = running.wait_for(|running| *running == count).await;
    }

    fn tool(&self, call: &WithheldCall) -> Option<&ScriptedTool> {
        self.tools.iter().find(|tool| tool.name == call.name)
    }

    fn item(&self, call: &WithheldCall, result: Option<(&str, bool)>) -> Option<HostedItem> {
        match self.tool(call)?.shown {
            ShownCall::Nothing => None,
            ShownCall::Search => Some(HostedItem::WebSearchCall {
                action: json!({"type": "search", "query": call.arguments}).to_string(),
                results: None,
            }),
            ShownCall::Mcp => Some(HostedItem::McpCall {
                server_label: "scripted".to_owned(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                output: result
                    .filter(|(_, failed)| !failed)
                    .map(|(text, _)| text.to_owned()),
                error: result
                    .filter(|(_, failed)| *failed)
                    .map(|(text, _)| McpCallError::Execution(text.to_owned())),
                approval_request_id: None,
            }),
        }
    }
}
