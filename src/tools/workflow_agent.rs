//! The nodes of workflows that ask a model: each is a turn of its own, which is logged, counted and
//! recorded as such.

use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use adapters::cited_source::CitedSource;
use adapters::responses::answered_item::AnsweredItem;
use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use axum::body::Body;
use http::Response;
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;

use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::turn::{
    ReceivedBody, Service, ToolEffect, ToolFuture, ToolResult, ToolRunner, TurnContext,
    TurnRequest, TurnTools, respond,
};

/// The longest answer of a model, in bytes.
const MAX_ANSWER: usize = 16 << 20;
/// A turn ends at its own deadline.
const NO_TIMEOUT: Duration = Duration::from_hours(24);

/// Asks models for nodes of workflows. Made with the server, before its service.
#[derive(Default)]
pub struct WorkflowAgent {
    service: OnceLock<Weak<Service>>,
    memory: OnceLock<ProcessMemory>,
}

impl WorkflowAgent {
    /// Turns run in this service from now on, and take memory from this budget.
    pub fn run_in(&self, service: &Arc<Service>, memory: &ProcessMemory) {
        self.service.set(Arc::downgrade(service)).ok();
        self.memory.set(memory.clone()).ok();
    }
}

impl ToolRunner for WorkflowAgent {
    fn begin(&self, _: &TurnContext, _: &Turn<'_>, _: &str) -> Arc<dyn TurnTools> {
        let service = self.service.get().and_then(Weak::upgrade);
        Arc::new(AgentTurn {
            service,
            memory: self.memory.get().cloned(),
        })
    }
}

/// The same for one turn.
struct AgentTurn {
    service: Option<Arc<Service>>,
    memory: Option<ProcessMemory>,
}

impl TurnTools for AgentTurn {
    fn has(&self, name: &str) -> bool {
        name == ProxyTool::WORKFLOW_AGENT
    }

    fn effect(&self, _: &str) -> ToolEffect {
        ToolEffect {
            is_read_only: false,
            timeout: NO_TIMEOUT,
        }
    }

    fn shown(&self, _: &WithheldCall) -> Option<HostedItem> {
        None
    }

    fn run<'r>(&'r self, ctx: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(async move {
            match self.ask(ctx, call).await {
                Ok(result) => result,
                Err(why) => ToolResult::failure(why),
            }
        })
    }
}

impl AgentTurn {
    /// Runs the turn. An error says why there is no answer.
    async fn ask(&self, ctx: &TurnContext, call: &WithheldCall) -> Result<ToolResult, String> {
        let (Some(service), Some(memory)) = (&self.service, &self.memory) else {
            return Err("the server is stopping".to_owned());
        };
        let mut share = memory.of_owner(&ctx.owner).share(MemoryKind::Requests);
        let room = share.request(call.arguments.len().saturating_mul(2)).await;
        room.map_err(|_| "the server has not enough memory now".to_owned())?;
        let request = TurnRequest {
            id: format!("{}-{}", ctx.request_id, node_of(&call.id)).into(),
            owner: Arc::clone(&ctx.owner),
            is_part_of_turn: true,
            ..TurnRequest::default()
        };
        let body = ReceivedBody {
            text: call.arguments.clone(),
            memory: share,
        };
        let response = answer(Arc::clone(service), request, body).await;
        let is_response = response.status().is_success();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect();
        let body = body
            .await
            .map_err(|_| "the answer is too long".to_owned())?;
        let body = body.to_bytes();
        let answer: NodeAnswer = serde_json::from_slice(&body).unwrap_or_default();
        if is_response {
            answer.into_result()
        } else {
            Err(answer.error())
        }
    }
}

/// The node in the id of a call: each of its turns has an id of its own.
fn node_of(call_id: &str) -> &str {
    call_id.splitn(3, '_').nth(2).unwrap_or("node")
}

/// The future of a turn contains those of its tools, so one of them is boxed.
fn answer(
    service: Arc<Service>,
    request: TurnRequest,
    body: ReceivedBody,
) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
    Box::pin(async move { respond(&service, request, body).await })
}

/// What a node needs of a response, or of an error in its place.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAnswer {
    status: String,
    error: Option<NodeAnswerError>,
    incomplete_details: Option<NodeIncompleteAnswer>,
    output: Vec<AnsweredItem>,
}

#[derive(Deserialize)]
struct NodeAnswerError {
    message: String,
}

#[derive(Deserialize)]
struct NodeIncompleteAnswer {
    reason: String,
}

impl NodeAnswer {
    /// Why there is no answer.
    fn error(self) -> String {
        let why = self.error.map(|error| error.message);
        why.unwrap_or_else(|| "the model gave no answer".to_owned())
    }

    /// What the node gets. An error says why it gets nothing.
    fn into_result(self) -> Result<ToolResult, String> {
        match self.status.as_str() {
            "completed" => {}
            "incomplete" => {
                let reason = self.incomplete_details.map(|details| details.reason);
                let reason = reason.unwrap_or_else(|| "unknown".to_owned());
                return Err(format!("the answer of the model is incomplete ({reason})"));
            }
            _ => return Err(self.error()),
        }
        let (mut text, mut sources) = (String::new(), Vec::new());
        for part in AnsweredItem::parts_of_messages(self.output) {
            text.push_str(&part.text);
            let cited = part.annotations.into_iter();
            sources.extend(cited.filter_map(|citation| {
                Some(CitedSource {
                    url: citation.url?,
                    title: citation.title,
                    kept: None,
                })
            }));
        }
        if text.trim().is_empty() {
            return Err("the model wrote nothing".to_owned());
        }
        Ok(ToolResult {
            text,
            sources,
            ..ToolResult::default()
        })
    }
}
