//! The engine: runs the steps of an [`Answer`] until its last event is sent.
//!
//! | file | what it does |
//! |---|---|
//! | `answer` | what lives for the whole answer: events, heartbeats, record |
//! | `round` | one upstream answer within it: attempts, retries, patches, failover |
//! | `waiting` | its pauses, and what the user of Codex sees of them |
//! | `reading` | reads the body of an upstream answer; `read_timer` is when it is not waited for |
//! | `tool_loop` | what an answer knows of its tools and their rounds |
//! | `tools` | between two rounds: runs the calls of tools that run in the proxy |
//! | `approved` | before the first round: runs the calls that a person has approved |
//!
//! The commit point: until the first event goes out, a fault is returned and becomes an HTTP
//! status; afterwards the stream ends in `response.failed`. A round is retried, adapted to the
//! provider or sent to another one until its first *content* event, never after it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use adapters::fault::Fault;
use adapters::stop_flag::StopReason;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::compact::Compaction;
use super::workflow::WorkflowStep;

mod answer;
mod approved;
mod read_timer;
mod reading;
mod round;
mod tool_loop;
mod tools;
mod waiting;

pub(super) use answer::{Answer, AnswerParts};
pub(super) use approved::ApprovedCalls;
pub(super) use round::Round;
pub(super) use tool_loop::ToolLoop;
pub(super) use tools::{run_call, status_of};

/// When a stream sends something although the provider is silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamTiming {
    /// The longest silence towards the client.
    pub(super) heartbeat: Duration,
    /// The longest time from the upstream's response headers to ours.
    pub(super) commit_after: Duration,
}

/// What an answer needs next. The contents are boxed, because the future of every stream has room
/// for the largest of them.
pub(super) enum Step {
    /// Replace the history by a summary; the turn itself follows if the client wants an answer.
    Summarize(Box<Compaction>),
    /// Send the request of a round and pass its answer on to the client.
    Upstream(Box<Round>),
    /// Run calls that a person has approved, before anything else.
    Approved(Box<ApprovedCalls>),
    /// Run the calls that ended the round.
    Tools,
    /// Run the nodes of a workflow. The answer of its last node follows as a round.
    Workflow(Box<WorkflowStep>),
    /// End the answer of a workflow, which is complete.
    WorkflowEnd,
    /// End the answer without asking a model.
    Nothing,
    /// The last event was sent.
    Done,
    /// The request itself is at fault, and the client gets this in a stream.
    Failed(Fault),
    /// There are no events: the answer is this JSON document, which is no response object.
    Document(Vec<u8>),
}

/// Runs an answer from its first step to its end. Returns the document if it is one. An error means
/// that nothing was sent to the client.
pub(super) async fn run(answer: &mut Answer<'_>, first: Step) -> Result<Option<Vec<u8>>, Fault> {
    let background = answer.ctx.job.clone();
    let cancelled = async {
        if let Some(job) = &background {
            job.cancelled.cancelled().await;
            if !job.has_ended.load(Relaxed) {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    // A panic ends this turn only, and its stream still gets a last event.
    let result = tokio::select! {
        biased;
        // The steps are dropped, and with them the request to the provider.
        () = cancelled => None,
        result = AssertUnwindSafe(run_steps(answer, first)).catch_unwind() => Some(result),
    };
    let Some(result) = result else {
        answer.cancel().await;
        return Ok(None);
    };
    let fault = match result {
        Ok(Ok(document)) => return Ok(document),
        Ok(Err(fault)) => match answer.ctx.stop.reason() {
            // The connection drops this future.
            Some(StopReason::ClientLeft) => std::future::pending().await,
            Some(reason) => answer.stop_fault(reason),
            None => fault,
        },
        Err(_) => {
            answer.events.discard_open_event();
            Fault::defect()
        }
    };
    if answer.goes_on_later() {
        answer.leave();
        return Ok(None);
    }
    answer.fail(fault).await.map(|()| None)
}

async fn run_steps(answer: &mut Answer<'_>, first: Step) -> Result<Option<Vec<u8>>, Fault> {
    let mut step = first;
    loop {
        step = match step {
            // Boxed to keep this rarely used future out of every stream's future size.
            Step::Summarize(compaction) => Box::pin(compaction.run(answer)).await?,
            Step::Upstream(mut round) => {
                answer.run_round(&mut round).await?;
                if answer.assembler.awaits_tools() {
                    Step::Tools
                } else if answer.workflow.is_some() && answer.assembler.awaits_end() {
                    Step::WorkflowEnd
                } else if answer.assembler.awaits_end() {
                    answer.compaction.take().map_or(Step::Done, Step::Summarize)
                } else {
                    Step::Done
                }
            }
            Step::Approved(calls) => Box::pin(calls.run(answer)).await?,
            Step::Tools => {
                let began = Instant::now();
                let next = Box::pin(answer.run_tools()).await?;
                answer.ctx.log_stage("tools", began);
                next
            }
            Step::Workflow(workflow) => Box::pin(workflow.run(answer)).await?,
            Step::WorkflowEnd => {
                if let Some(workflow) = answer.workflow.take() {
                    Box::pin(workflow.end(answer)).await?;
                }
                Step::Done
            }
            Step::Nothing => {
                answer.end_empty().await;
                Step::Done
            }
            Step::Failed(fault) => return Err(fault),
            Step::Done => return Ok(None),
            Step::Document(json) => return Ok(Some(json)),
        };
    }
}
