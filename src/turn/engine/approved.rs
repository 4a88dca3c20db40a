//! The calls that a person has approved: they run before the model is asked, and their results are
//! part of what it is asked.

use std::sync::Arc;

use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::{HostedItem, McpCallError, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::ApprovalCall;
use tokio::time::Instant;

use super::tool_loop::ToolLoop;
use super::tools::{MAX_CALLS_AT_ONCE, NOT_RECORDED, NOT_RUN, outputs, run_call, status_of};
use super::{Answer, Step};
use crate::turn::tool_runner::{ToolEffect, ToolResult};

/// What a person has decided on calls that a request names, and the step that follows.
pub(in crate::turn) struct ApprovedCalls {
    calls: Vec<ApprovalCall>,
    /// The ids of the calls that were refused.
    refused: Vec<String>,
    then: Step,
}

impl ApprovedCalls {
    /// A step that runs the approved calls of a turn before `then`, which was prepared without
    /// their results.
    pub(in crate::turn) fn before(
        calls: Vec<ApprovalCall>,
        refused: Vec<String>,
        then: Step,
    ) -> Step {
        if calls.is_empty() && refused.is_empty() {
            return then;
        }
        Step::Approved(Box::new(Self {
            calls,
            refused,
            then,
        }))
    }

    /// Runs the calls one after the other, and prepares the step that follows again.
    pub(super) async fn run(self: Box<Self>, answer: &mut Answer<'_>) -> Result<Step, Fault> {
        let Some(mut tools) = answer.tools.take() else {
            return Err(Fault::new(Kind::Internal, "The answer has no tools."));
        };
        let session = tools.history.session.id.clone();
        if !self.refused.is_empty() {
            let refusing = tools.tools.refuse(answer.ctx, &session, &self.refused);
            answer.wait_with_heartbeat(refusing).await?;
        }
        if self.calls.is_empty() {
            answer.tools = Some(tools);
            return Ok(self.then);
        }
        answer.open_stream().await;
        tools.hash_conversation(answer.ctx)?;
        let calls: Vec<_> = self
            .calls
            .iter()
            .map(|call| withheld(call, &tools))
            .collect();
        let mut texts = Vec::with_capacity(calls.len());
        for (place, (approved, call)) in self.calls.iter().zip(&calls).enumerate() {
            let may_run = place < MAX_CALLS_AT_ONCE;
            texts.push(
                answer
                    .run_approved(&mut tools, approved, call, may_run)
                    .await?,
            );
        }
        let results = answer.shorten_results(&mut tools, &calls, texts).await?;
        let results = outputs(&calls, &results);
        tools.record_round(&[], &results);
        tools.hidden.entries.extend(tools.shown.take());
        tools.remember();
        answer.checkpoint().await?;
        let history = &mut tools.history;
        history.source = history.source.clone().with_round(results, &[]);
        answer.assembler.begin_round();
        let next = match self.then {
            Step::Upstream(_) => Step::Upstream(Box::new(history.further_round(answer.ctx)?)),
            Step::Summarize(mut compaction) => {
                compaction.history.source = history.source.clone();
                Step::Summarize(compaction)
            }
            then => then,
        };
        answer.tools = Some(tools);
        Ok(next)
    }
}

/// An approved call as it is stored and recorded: with the name of its function. A tool that is not
/// offered any more has none.
fn withheld(call: &ApprovalCall, tools: &ToolLoop) -> WithheldCall {
    let function = tools.approved_tool(call).map(|tool| tool.name.clone());
    WithheldCall {
        id: call.id.clone(),
        name: function.unwrap_or_else(|| ProxyTool::server_prefix(&call.server_label) + &call.name),
        arguments: call.arguments.clone(),
        items: Vec::new(),
    }
}

/// What the client sees of an approved call that has no result.
fn shown(call: &ApprovalCall) -> HostedItem {
    HostedItem::McpCall {
        server_label: call.server_label.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        output: None,
        error: None,
        approval_request_id: Some(call.id.clone()),
    }
}

impl Answer<'_> {
    /// Runs one call, and shows it to the client. Returns what the model gets.
    async fn run_approved(
        &mut self,
        tools: &mut ToolLoop,
        approved: &ApprovalCall,
        call: &WithheldCall,
        may_run: bool,
    ) -> Result<String, Fault> {
        let shown = shown(approved);
        self.assembler.open_item(shown.clone(), &mut self.events);
        self.send().await;
        let (ctx, runner) = (self.ctx, Arc::clone(&tools.tools));
        let session = tools.history.session.id.clone();
        let most = tools.history.config.tools.call_timeout;
        let effect = ToolEffect {
            is_read_only: false,
            timeout: runner.effect(&call.name).timeout.min(most),
        };
        let mut not_run = if may_run {
            tools.check_approved(approved).err()
        } else {
            Some(NOT_RUN.to_owned())
        };
        if not_run.is_none() && !self.begin_call(tools, call, effect).await? {
            not_run = Some(NOT_RECORDED.to_owned());
        }
        let (result, times) = if let Some(why) = not_run {
            let now = Instant::now();
            (ToolResult::failure(why), now..now)
        } else {
            tools.calls += 1;
            let run = || runner.run_approved(ctx, &session, approved);
            let running = run_call(ctx, call, effect, Some(&shown), run);
            self.wait_with_heartbeat(running).await?
        };
        let status = status_of(&result);
        let took = times.end.duration_since(times.start);
        self.record.tool_called("mcp", result.failed, took);
        let item = result.item.clone();
        let item =
            item.unwrap_or_else(|| shown.with_error(McpCallError::Execution(result.text.clone())));
        self.assembler
            .close_item(Some(item), result.failed, &mut self.events);
        tools.show_last(&self.assembler);
        self.send().await;
        self.record_call(tools, call, status, &result, times);
        self.checkpoint().await?;
        Ok(result.text)
    }

    /// Tells the tools for which calls of the answer a person is asked.
    pub(super) fn ask_for_approvals(&mut self) {
        let asked = self.assembler.take_approval_requests();
        if let Some(tools) = &self.tools {
            for call in &asked {
                tools.tools.ask(self.ctx, &tools.history.session.id, call);
            }
        }
    }
}
