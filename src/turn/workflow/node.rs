//! Runs the calls of one node of a workflow, all at the same time.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::cited_source::CitedSource;
use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::responses::request::TurnSource;
use adapters::tools::ProxyTool;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::turn::context::TurnContext;
use crate::turn::engine::{Answer, run_call, status_of};
use crate::turn::tool_runner::{CallRecord, ToolResult, ToolRunner, TurnTools};

/// The request for which the tools of a node begin: one that offers the search of the web.
const NODE_REQUEST: &str = r#"{"model":"workflow","input":"","tools":[{"type":"web_search"}]}"#;

/// A node that runs.
pub(super) type NodeFuture<'c> = Pin<Box<dyn Future<Output = EndedNode> + Send + 'c>>;

/// What became of a node.
pub(super) struct EndedNode {
    pub(super) id: String,
    pub(super) calls: Vec<EndedNodeCall>,
    /// Why it made no calls.
    no_calls: Option<String>,
}

/// A call of a node that has ended.
pub(in crate::turn) struct EndedNodeCall {
    pub(in crate::turn) call: WithheldCall,
    /// What the client sees of it at its beginning.
    pub(in crate::turn) shown: Option<HostedItem>,
    pub(in crate::turn) result: ToolResult,
    pub(in crate::turn) times: Range<Instant>,
    pub(in crate::turn) record: CallRecord,
    /// In US dollars.
    pub(in crate::turn) cost: f64,
}

impl EndedNode {
    /// A node that makes no calls, for this reason.
    pub(super) fn failed(id: &str, why: String) -> Self {
        Self {
            id: id.to_owned(),
            calls: Vec::new(),
            no_calls: Some(why),
        }
    }

    /// The results of the calls that did not fail.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let results = self.calls.iter().map(|call| &call.result);
        let good = results.filter(|result| !result.failed);
        good.map(|result| result.text.as_str())
    }

    /// The pages that the calls have found or read, without repetitions.
    pub(super) fn sources(&self) -> Vec<CitedSource> {
        let mut sources: Vec<CitedSource> = Vec::new();
        for source in self.calls.iter().flat_map(|call| &call.result.sources) {
            if !sources.contains(source) {
                sources.push(source.clone());
            }
        }
        sources
    }

    /// Why the first call that failed has failed, or why there was none.
    pub(super) fn error(&self) -> Option<&str> {
        let failed = self.calls.iter().find(|call| call.result.failed);
        let failed = failed.map(|call| call.result.text.as_str());
        failed.or(self.no_calls.as_deref())
    }
}

/// The calls of a node of the response with this id. Their ids are the same whenever it runs.
pub(super) fn withheld(
    response: &str,
    node: &str,
    calls: Vec<(&'static str, String)>,
) -> Vec<WithheldCall> {
    let token = response.rsplit('_').next().unwrap_or_default();
    let calls = calls.into_iter().enumerate();
    let calls = calls.map(|(number, (name, arguments))| WithheldCall {
        id: format!("call_{token}_{node}_{number}"),
        name: name.to_owned(),
        arguments,
        items: Vec::new(),
    });
    calls.collect()
}

/// The calls of a node that is to run.
pub(super) struct NodeCalls<'c> {
    pub(super) ctx: &'c TurnContext,
    pub(super) runner: Arc<dyn ToolRunner>,
    /// The session of the answer, which keeps the pages that are read.
    pub(super) session: String,
    /// The id of the node.
    pub(super) node: String,
    pub(super) calls: Vec<WithheldCall>,
    /// The most time for the call of a tool. A call that asks a model has the limits of its turn.
    pub(super) call_timeout: Duration,
}

/// Runs the calls of a node.
pub(super) fn run(node: NodeCalls<'_>) -> NodeFuture<'_> {
    Box::pin(async move {
        let NodeCalls {
            ctx,
            runner,
            session,
            node: id,
            calls,
            call_timeout,
        } = node;
        let source = TurnSource::new(NODE_REQUEST.to_owned());
        let tools = match source.turn() {
            Ok(turn) => runner.begin(ctx, &turn, &session),
            Err(fault) => return EndedNode::failed(&id, fault.client_message().into_owned()),
        };
        let calls = calls.into_iter();
        let calls = calls.map(|call| run_to_end(ctx, &*tools, call, call_timeout));
        EndedNode {
            calls: join_all(calls).await,
            id,
            no_calls: None,
        }
    })
}

async fn run_to_end(
    ctx: &TurnContext,
    tools: &dyn TurnTools,
    call: WithheldCall,
    call_timeout: Duration,
) -> EndedNodeCall {
    let shown = tools.shown(&call);
    let mut effect = tools.effect(&call.name);
    if call.name != ProxyTool::WORKFLOW_AGENT {
        effect.timeout = effect.timeout.min(call_timeout);
    }
    let run = || tools.run(ctx, &call);
    let (result, times) = run_call(ctx, &call, effect, shown.as_ref(), run).await;
    EndedNodeCall {
        record: tools.take_record(&call),
        cost: tools.take_cost(),
        call,
        shown,
        result,
        times,
    }
}

impl Answer<'_> {
    /// Shows the client a call that has ended, and records it.
    pub(super) fn show_node_call(&mut self, ended: &EndedNodeCall) {
        let EndedNodeCall {
            call,
            shown,
            result,
            ..
        } = ended;
        if let Some(shown) = shown {
            self.assembler.open_item(shown.clone(), &mut self.events);
            let item = result.item.clone();
            self.assembler
                .close_item(item, result.failed, &mut self.events);
        }
        self.record.tool_cost += ended.cost;
        let took = ended.times.end.duration_since(ended.times.start);
        self.record.tool_called(&call.name, result.failed, took);
        let status = status_of(result);
        let record = ended.record.clone();
        self.record_run(0, record, call, status, result, ended.times.clone());
    }
}
