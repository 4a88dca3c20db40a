//! Runs a workflow as a step of an answer: the nodes before the last one, then the question of the
//! last one as a round like any other, whose answer the client gets.
//!
//! | file | what it does |
//! |---|---|
//! | `node` | runs the calls of one node |
//! | `approval` | asks a person, and goes on with what the person has decided |
//! | `resumed` | what a run is given that an earlier process has begun |
//!
//! The events about the nodes are all that is kept of a run in the background. They are on the disk
//! before what follows from them begins, so that no node runs again that has ended, and none that
//! may have effects runs twice.

mod approval;
mod node;
mod resumed;

use std::sync::Arc;

use adapters::cited_source::CitedSource;
use adapters::fault::{Fault, Kind};
use adapters::stop_flag::StopReason;
use adapters::workflow::{
    NodeKind, NodeProgress, NodeStatus, StateDetail, WorkflowNode, WorkflowRun,
};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

pub(super) use approval::continued_run;
use node::{EndedNode, NodeCalls, NodeFuture};
pub use resumed::ResumedResponse;

use super::engine::{Answer, Step};
use super::routed_history::RoutedHistory;

/// The most nodes that run at the same time.
const MAX_AT_ONCE: usize = 4;
/// The most bytes of one text that a node returns, and of all texts of a run. Pages and answers
/// beyond them are cut.
const MAX_OUTPUT_BYTES: usize = 256 << 10;
const MAX_RUN_BYTES: usize = 8 << 20;

/// A workflow that runs. Made when its request is prepared; it ends with the answer of its last
/// node, when it has failed, or when it waits for a person.
pub(super) struct WorkflowStep {
    run: WorkflowRun,
    /// The request. The question of the last node is added to it.
    history: RoutedHistory,
    /// The node with which the server ended too often.
    worn_out: Option<String>,
}

impl WorkflowStep {
    /// The run of a prepared request.
    pub(super) fn new(
        run: WorkflowRun,
        history: RoutedHistory,
        resumed: Option<&ResumedResponse>,
    ) -> Self {
        Self {
            run,
            history,
            worn_out: resumed.and_then(ResumedResponse::worn_out),
        }
    }

    /// Runs the nodes before the last one, and returns the step that follows.
    pub(super) async fn run(mut self: Box<Self>, answer: &mut Answer<'_>) -> Result<Step, Fault> {
        self.show_state(answer);
        answer.open_stream().await;
        if let Some((id, why)) = self.why_not_resumed() {
            return Err(self.node_failed(answer, &id, &why).await);
        }
        let decided = self.run.approval.as_ref();
        let decided = decided.map(|approval| approval.node.clone());
        self.run.progress.ask_again(decided.as_deref());
        self.take_decision(answer).await?;
        self.run_nodes(answer).await?;
        if let Some(waiting) = self.waiting_node() {
            return self.pause(answer, &waiting).await;
        }
        let Some(last) = self.run.definition.last().cloned() else {
            return Err(Fault::new(Kind::Internal, "The workflow has no nodes."));
        };
        if self.run.progress.of(&last.id).is_some() {
            return self.end_refused(answer);
        }
        if !self.run.progress.may_end(&self.run.definition) {
            let message = "The nodes of the workflow have not all ended.";
            return Err(Fault::new(Kind::Internal, message));
        }
        self.run_last(answer, &last).await
    }

    /// The node for which a run that an earlier process has begun cannot go on, and the reason.
    /// Otherwise nodes that were running begin again.
    fn why_not_resumed(&mut self) -> Option<(String, String)> {
        let (progress, definition) = (&mut self.run.progress, &self.run.definition);
        if let Some(id) = self.worn_out.take() {
            return Some((id, "the server ended each time while it ran".to_owned()));
        }
        if let Some(node) = progress.restart(definition) {
            let why = "the server ended while it ran, and its tools may have had effects. Run the workflow again if they had none";
            return Some((node.id.clone(), why.to_owned()));
        }
        let failed = progress.failed(definition)?;
        Some((failed.id.clone(), failed.error.clone().unwrap_or_default()))
    }

    /// Runs all nodes that may run before the last one and need no person. If one fails, those that
    /// run come to their end, because they may have effects, and no others begin.
    async fn run_nodes(&mut self, answer: &mut Answer<'_>) -> Result<(), Fault> {
        let mut running: FuturesUnordered<NodeFuture<'_>> = FuturesUnordered::new();
        let mut failed: Option<Fault> = None;
        loop {
            let mut begun = Vec::new();
            if failed.is_none() {
                self.skip_nodes(answer);
                let ready = self.run.progress.ready(&self.run.definition);
                let ready = ready
                    .into_iter()
                    .filter(|node| node.kind != NodeKind::Approve);
                begun.extend(ready.take(MAX_AT_ONCE - running.len()).cloned());
            }
            for node in &begun {
                self.tell(answer, NodeStatus::Running, node, |_| ());
            }
            answer.send().await;
            let has_begun = !begun.is_empty();
            if has_begun {
                self.keep(answer).await?;
            }
            for node in begun {
                let ended = match self.run.calls(&node) {
                    Ok(calls) => {
                        running.push(self.node_future(answer, &node, calls)?);
                        Ok(())
                    }
                    Err(why) => {
                        self.end_node(answer, EndedNode::failed(&node.id, why))
                            .await
                    }
                };
                failed = failed.or(ended.err());
            }
            if let Some(ended) = answer.wait_with_heartbeat(running.next()).await? {
                let ended = self.end_node(answer, ended).await;
                failed = failed.or(ended.err());
            } else if let Some(fault) = failed {
                return Err(fault);
            } else if !has_begun {
                return self.keep(answer).await;
            }
        }
    }

    /// Skips the nodes that need a node that was refused or skipped.
    fn skip_nodes(&mut self, answer: &mut Answer<'_>) {
        loop {
            let skipped = self.run.progress.to_skip(&self.run.definition);
            let skipped: Vec<WorkflowNode> = skipped.into_iter().cloned().collect();
            if skipped.is_empty() {
                return;
            }
            for node in skipped {
                self.tell(answer, NodeStatus::Skipped, &node, |_| ());
            }
        }
    }

    /// Takes what a node has returned. A node that failed ends the workflow, unless it is optional.
    async fn end_node(&mut self, answer: &mut Answer<'_>, ended: EndedNode) -> Result<(), Fault> {
        let Some(node) = self.run.definition.node(&ended.id).cloned() else {
            return Ok(());
        };
        if answer.goes_on_later() {
            // The next process runs it again, and shows its calls.
            return Err(StopReason::ShuttingDown.fault());
        }
        for call in &ended.calls {
            answer.show_node_call(call);
        }
        let texts: Vec<String> = ended.texts().map(|text| self.cut_output(text)).collect();
        let error = ended.error().map(str::to_owned);
        match error {
            Some(why) if texts.is_empty() && !node.optional => {
                return Err(self.node_failed(answer, &node.id, &why).await);
            }
            Some(why) if texts.is_empty() => {
                answer.record.notes.add("workflow_node_failed", &node.id);
                self.tell(answer, NodeStatus::Failed, &node, |it| it.error = Some(why));
            }
            error => {
                if error.is_some() {
                    answer.record.notes.add("workflow_call_failed", &node.id);
                }
                self.tell(answer, NodeStatus::Completed, &node, |it| {
                    it.output = texts;
                    it.sources = ended.sources();
                    it.error = error;
                });
            }
        }
        answer.send().await;
        Ok(())
    }

    /// Tells of a node that has failed, and returns the fault with which the answer ends.
    async fn node_failed(&mut self, answer: &mut Answer<'_>, id: &str, why: &str) -> Fault {
        let why = why.trim_end_matches('.');
        let known = self.run.progress.of(id).map(|node| node.status);
        if let Some(node) = self.run.definition.node(id).cloned()
            && known != Some(NodeStatus::Failed)
        {
            let error = why.to_owned();
            self.tell(answer, NodeStatus::Failed, &node, |it| {
                it.error = Some(error);
            });
        }
        answer.show_end_of_workflow();
        answer.send().await;
        Fault::new(Kind::Internal, format!("{} {why}.", self.failure_of(id)))
    }

    /// How the message begins that tells that a node has failed.
    fn failure_of(&self, id: &str) -> String {
        format!("The node '{id}' of the workflow '{}' failed:", self.run.id)
    }

    /// Writes the event that tells what became of a node, which `change` completes.
    fn tell(
        &mut self,
        answer: &mut Answer<'_>,
        status: NodeStatus,
        node: &WorkflowNode,
        change: impl FnOnce(&mut NodeProgress),
    ) {
        let now = answer.ctx.environment.clock.unix();
        let known = self.run.progress.of(&node.id).cloned();
        let begun = || NodeProgress::begun(node, status, now);
        let mut progress = match status {
            NodeStatus::Running | NodeStatus::AwaitingApproval => begun(),
            NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::Refused
            | NodeStatus::Skipped => known.unwrap_or_else(begun).ended(status, now),
        };
        change(&mut progress);
        let json = serde_json::to_string(&progress).unwrap_or_default();
        self.run.progress.put(progress);
        let name = status.event_name();
        answer
            .assembler
            .workflow_event(name, &json, &mut answer.events);
        self.show_state(answer);
    }

    /// Sets what the response says of the workflow while it runs.
    fn show_state(&self, answer: &mut Answer<'_>) {
        let snapshot = self.run.snapshot();
        answer
            .assembler
            .set_workflow_state(&snapshot.state(StateDetail::Brief));
        answer.workflow_so_far = Some(snapshot);
    }

    /// Waits until the events so far are on the disk, if they are kept there.
    async fn keep(&self, answer: &mut Answer<'_>) -> Result<(), Fault> {
        if answer.checkpoint().await? {
            return Ok(());
        }
        let message =
            "The progress of the workflow cannot be stored: look at the disk of the server.";
        Err(Fault::new(Kind::Storage, message))
    }

    fn node_future<'c>(
        &self,
        answer: &Answer<'c>,
        node: &WorkflowNode,
        calls: Vec<(&'static str, String)>,
    ) -> Result<NodeFuture<'c>, Fault> {
        let ctx = answer.ctx;
        let Some(runner) = ctx.environment.tools.clone() else {
            return Err(Fault::new(Kind::Internal, "The workflow has no tools."));
        };
        let response = &answer.assembler.response().id;
        Ok(node::run(NodeCalls {
            ctx,
            runner,
            session: self.history.session.id.clone(),
            calls: node::withheld(response, &node.id, calls),
            node: node.id.clone(),
            call_timeout: self.history.config.tools.call_timeout,
        }))
    }

    /// Begins the round of the last node.
    async fn run_last(
        mut self: Box<Self>,
        answer: &mut Answer<'_>,
        last: &WorkflowNode,
    ) -> Result<Step, Fault> {
        self.tell(answer, NodeStatus::Running, last, |_| ());
        answer.send().await;
        self.keep(answer).await?;
        let message = match self.run.last_message() {
            Ok(message) => message,
            Err(why) => return Err(self.node_failed(answer, &last.id, &why).await),
        };
        let sources: Vec<CitedSource> = self.run.progress.sources().cloned().collect();
        answer.assembler.add_sources(sources.iter().cloned());
        answer.assembler.begin_round();
        let source = self.history.source.clone();
        self.history.source = source.with_round([Arc::from(message)], &sources);
        if let Some(tools) = &mut answer.tools {
            tools.history.source = self.history.source.clone();
        }
        let round = self.history.further_round(answer.ctx);
        answer.workflow = Some(self);
        Ok(Step::Upstream(Box::new(round?)))
    }

    /// Ends the answer, which the last node has written. An error says that it wrote nothing.
    pub(super) async fn end(mut self: Box<Self>, answer: &mut Answer<'_>) -> Result<(), Fault> {
        let last = self.run.definition.last().cloned();
        let is_running = |node: &WorkflowNode| {
            let known = self.run.progress.of(&node.id);
            known.is_some_and(|known| known.status == NodeStatus::Running)
        };
        if let Some(last) = last.filter(is_running) {
            let text = answer.assembler.answer_text();
            let ends_early = answer.assembler.ends_early();
            if text.trim().is_empty() && !ends_early {
                let why = "the model wrote nothing";
                return Err(self.node_failed(answer, &last.id, why).await);
            }
            let status = if ends_early {
                NodeStatus::Failed
            } else {
                NodeStatus::Completed
            };
            let output = self.cut_output(&text);
            self.tell(answer, status, &last, |it| {
                it.output = vec![output];
                it.error = ends_early.then(|| "the answer of the model is incomplete".to_owned());
            });
        }
        answer.show_end_of_workflow();
        let now = answer.ctx.environment.clock.unix();
        answer.assembler.end_held(now, &mut answer.events);
        answer.headers.add_notes(&answer.record.notes);
        answer.send().await;
        Ok(())
    }

    /// Takes the fault with which the last node has failed, and names the node in it.
    pub(super) fn fail(mut self: Box<Self>, answer: &mut Answer<'_>, fault: &mut Fault) {
        if let Some(last) = self.run.definition.last().cloned() {
            let why = fault.client_message().into_owned();
            fault.message = format!("{} {}", self.failure_of(&last.id), fault.message);
            self.tell(answer, NodeStatus::Failed, &last, |it| {
                it.error = Some(why);
            });
        }
        answer.show_end_of_workflow();
    }

    /// A text that a node returns, not too long.
    fn cut_output(&self, text: &str) -> String {
        let room = MAX_RUN_BYTES.saturating_sub(self.run.progress.output_bytes());
        let end = text.floor_char_boundary(MAX_OUTPUT_BYTES.min(room));
        match text.get(..end) {
            Some(begin) if end < text.len() => {
                let rest = text.len() - end;
                format!("{begin}\n[The rest of this text, {rest} bytes, is left out.]")
            }
            _ => text.to_owned(),
        }
    }
}
