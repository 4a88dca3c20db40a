//! Nodes that wait for a person: the response ends with an `mcp_approval_request`, and a later
//! request with the `mcp_approval_response` goes on from there.

use std::sync::Arc;

use adapters::event::{Event, Finish, Fragment, Usage};
use adapters::fault::{Fault, Kind};
use adapters::json;
use adapters::responses::assembler::HostedItem;
use adapters::turn::APPROVAL_NOT_FOUND;
use adapters::workflow::{
    APPROVAL_LABEL, NodeKind, NodeStatus, WorkflowApproval, WorkflowDecisions, WorkflowNode,
    WorkflowRun, continued, decisions,
};

use super::WorkflowStep;
use crate::clock::{Clock as _, System};
use crate::responses::storage_fault;
use crate::store::PausedRun;
use crate::turn::engine::{Answer, Step};
use crate::turn::service::Service;
use crate::turn::tool_runner::APPROVAL_SECONDS;
use crate::turn::turn_memory::ReceivedBody;

/// Rewrites the body of a request that answers the question of a run, so that it continues the run.
/// Returns whether it did.
pub(in crate::turn) async fn continued_run(
    service: &Service,
    owner: &Arc<str>,
    body: &mut ReceivedBody,
) -> Result<bool, Fault> {
    let WorkflowDecisions { prompt, approvals } = decisions(&body.text);
    let store = service
        .responses()
        .store()
        .filter(|_| !approvals.is_empty());
    let Some(store) = store else {
        return Ok(false);
    };
    for decision in approvals {
        let waiting = store.waiting_run(owner, &decision.request).await;
        let waiting = waiting.map_err(|error| storage_fault(&error))?;
        let Some(waiting) = waiting else {
            continue;
        };
        let run: Option<WorkflowRun> = serde_json::from_str(&waiting.run).ok();
        let run = run.filter(|run| prompt.as_ref().is_none_or(|id| *id == run.id));
        let Some(run) = run else {
            continue;
        };
        if let Some(by) = &waiting.taken_by {
            return Err(not_waiting(
                &decision,
                &format!("was answered before, in {by}"),
            ));
        }
        if System.unix() > waiting.created.saturating_add(APPROVAL_SECONDS) {
            return Err(not_waiting(&decision, "is older than 24 hours"));
        }
        let Some(text) = continued(&body.text, run, decision) else {
            return Ok(false);
        };
        body.text = text;
        body.memory.set(body.text.len().saturating_mul(2));
        return Ok(true);
    }
    Ok(false)
}

fn not_waiting(decision: &WorkflowApproval, why: &str) -> Fault {
    let id: String = decision.request.chars().take(80).collect();
    let message =
        format!("The 'mcp_approval_request' '{id}' of a workflow {why}: run the workflow again.");
    Fault::invalid("input", message).with_code(APPROVAL_NOT_FOUND)
}

impl WorkflowStep {
    /// Takes what the person has decided, once.
    pub(super) async fn take_decision(&mut self, answer: &mut Answer<'_>) -> Result<(), Fault> {
        let Some(decision) = self.run.approval.clone() else {
            return Ok(());
        };
        let waits = self.run.progress.of(&decision.node);
        let waits = waits.is_some_and(|node| node.status == NodeStatus::AwaitingApproval);
        let node = self.run.definition.node(&decision.node).cloned();
        let Some(node) = node.filter(|_| waits) else {
            return Ok(());
        };
        let by = answer.assembler.response().id.clone();
        if let Some(store) = self.history.shared.responses.store() {
            let taken = store.take_run(&answer.ctx.owner, &decision.request, &by);
            let taken = answer.wait_with_heartbeat(taken).await?;
            if !taken.map_err(|error| storage_fault(&error))? {
                return Err(not_waiting(&decision, "was answered before"));
            }
        }
        if !decision.approve {
            let reason = decision.reason.unwrap_or_default();
            self.tell(answer, NodeStatus::Refused, &node, |it| {
                it.output = vec![reason];
            });
            answer.send().await;
            return Ok(());
        }
        let call = |output| HostedItem::McpCall {
            server_label: APPROVAL_LABEL.to_owned(),
            name: node.id.clone(),
            arguments: self.run.approval_arguments(&node).unwrap_or_default(),
            output,
            error: None,
            approval_request_id: Some(decision.request.clone()),
        };
        let (open, done) = (call(None), call(Some("approved".to_owned())));
        answer.assembler.open_item(open, &mut answer.events);
        answer
            .assembler
            .close_item(Some(done), false, &mut answer.events);
        self.tell(answer, NodeStatus::Completed, &node, |it| {
            it.output = vec!["approved".to_owned()];
        });
        answer.send().await;
        Ok(())
    }

    /// The node that a person is asked about next, if there is one.
    pub(super) fn waiting_node(&self) -> Option<WorkflowNode> {
        let ready = self.run.progress.ready(&self.run.definition);
        let mut ready = ready.into_iter();
        ready.find(|node| node.kind == NodeKind::Approve).cloned()
    }

    /// Asks a person, and ends the response. What the run has done is stored with it.
    pub(super) async fn pause(
        mut self: Box<Self>,
        answer: &mut Answer<'_>,
        node: &WorkflowNode,
    ) -> Result<Step, Fault> {
        let arguments = self.run.approval_arguments(node);
        let arguments = arguments.map_err(|why| Fault::new(Kind::Internal, why))?;
        let asked = (APPROVAL_LABEL, node.id.as_str());
        self.tell(answer, NodeStatus::AwaitingApproval, node, |_| ());
        let request =
            answer
                .assembler
                .write_approval_request(asked, &arguments, &mut answer.events);
        answer.show_end_of_workflow();
        self.run.approval = None;
        if let Some(stored) = &mut answer.stored {
            stored.paused = Some(PausedRun {
                approval: request,
                run: self.run.to_json(),
            });
        }
        answer.end_empty().await;
        Ok(Step::Done)
    }

    /// Ends the answer of a workflow whose last node is left out, because a person has refused.
    pub(super) fn end_refused(self: Box<Self>, answer: &mut Answer<'_>) -> Result<Step, Fault> {
        let text = self.run.refusal();
        let text = text.map_err(|why| Fault::new(Kind::Internal, why))?;
        let text = Fragment::from_escaped(json::escape(&text));
        answer.write(Event::Usage(Usage::default()))?;
        answer.write(Event::Text(text, None))?;
        answer.write(Event::Finish(Finish::Stop))?;
        answer.workflow = Some(self);
        Ok(Step::WorkflowEnd)
    }
}
