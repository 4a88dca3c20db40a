//! The answer to a client's turn: what lives from its first event to its last, whatever number of
//! rounds it takes.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use adapters::coalescer::Coalescer;
use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::responses::assembler::{Assembler, ResponseStatus};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::response_object::IncompleteReason;
use adapters::stop_flag::StopReason;
use adapters::workflow::{StateDetail, WorkflowSnapshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Compaction, StreamTiming, ToolLoop};
use crate::net::memory;
use crate::responses::{self, ConnectionTurn, StoredTurn};
use crate::store::NewResponse;
use crate::turn::context::TurnContext;
use crate::turn::director::TurnDirector;
use crate::turn::observer::TurnEvent;
use crate::turn::record::{Record, SpentStorage};
use crate::turn::response_headers::ResponseHeaders;
use crate::turn::shared::SharedState;
use crate::turn::sink::{Sink, log_events};
use crate::turn::turn_memory::TurnMemory;
use crate::turn::workflow::WorkflowStep;

/// How often an answer is in memory when it ends: its text, its items, what is stored of them, and
/// what is compressed or sent of that.
const COPIES_AT_END: usize = 4;

/// The answer to one turn of a client. Made when the turn was prepared; it ends with its last
/// event, or when the client leaves and its future is dropped.
pub(in crate::turn) struct Answer<'a> {
    pub(in crate::turn) ctx: &'a TurnContext,
    pub(in crate::turn) record: &'a mut Record,
    pub(in crate::turn) headers: &'a ResponseHeaders,
    pub(in crate::turn) assembler: Box<Assembler>,
    /// The events that were written and not yet sent.
    pub(in crate::turn) events: EventBuffer,
    pub(super) timing: StreamTiming,
    /// `response.created` was written.
    pub(super) begun: bool,
    pub(super) last_sent: Instant,
    /// The tools that run in the proxy, if there are any.
    pub(in crate::turn) tools: Option<Box<ToolLoop>>,
    /// The compaction that may follow the answer.
    pub(super) compaction: Option<Box<Compaction>>,
    /// The workflow whose last node is being answered.
    pub(in crate::turn) workflow: Option<Box<WorkflowStep>>,
    /// The workflow that the answer runs, as it is now.
    pub(in crate::turn) workflow_so_far: Option<WorkflowSnapshot>,
    pub(super) memory: TurnMemory,
    /// Joins pieces of text, if the answer runs in the background.
    pub(super) coalescer: Option<Box<Coalescer>>,
    sink: Sink<'a>,
    /// Where the answer's items are remembered, if the client may refer to them by id and they are
    /// not stored.
    keeps_items: Option<Arc<SharedState>>,
    /// What is stored when the answer ends.
    pub(in crate::turn) stored: Option<Box<StoredTurn>>,
    /// What its connection keeps when it ends.
    pub(super) connection: Option<Box<ConnectionTurn>>,
}

/// What an answer is written with. Made when the turn is prepared.
pub(in crate::turn) struct AnswerParts {
    pub(in crate::turn) assembler: Box<Assembler>,
    /// The tools that run in the proxy, if there are any.
    pub(in crate::turn) tools: Option<Box<ToolLoop>>,
    /// The compaction that may follow the answer.
    pub(in crate::turn) compaction: Option<Box<Compaction>>,
    /// Where the answer's items are remembered, if the client may refer to them by id and they are
    /// not stored.
    pub(in crate::turn) keeps_items: Option<Arc<SharedState>>,
    /// What is stored when the answer ends.
    pub(in crate::turn) stored: Option<Box<StoredTurn>>,
    /// What its connection keeps when it ends.
    pub(in crate::turn) connection: Option<Box<ConnectionTurn>>,
}

impl<'a> Answer<'a> {
    /// An answer before anything of it was written.
    pub(in crate::turn) fn new(
        ctx: &'a TurnContext,
        mut parts: AnswerParts,
        memory: TurnMemory,
        timing: StreamTiming,
        record: &'a mut Record,
        headers: &'a ResponseHeaders,
        sink: Sink<'a>,
    ) -> Self {
        if !sink.streams() {
            parts.assembler.hold_all();
        }
        Self {
            ctx,
            record,
            headers,
            assembler: parts.assembler,
            tools: parts.tools,
            compaction: parts.compaction,
            workflow: None,
            workflow_so_far: None,
            keeps_items: parts.keeps_items,
            stored: parts.stored,
            connection: parts.connection,
            coalescer: ctx.job.is_some().then(Box::default),
            memory,
            events: EventBuffer::default(),
            timing,
            begun: false,
            last_sent: Instant::now(),
            sink,
        }
    }

    /// Whether the client gets each event at once.
    pub(in crate::turn) fn streams(&self) -> bool {
        self.sink.streams()
    }

    /// Writes `response.created` and `response.in_progress`, unless they were written.
    pub(in crate::turn) fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.assembler.begin(&mut self.events);
        }
    }

    /// Waits for a future and sends heartbeats meanwhile, if the stream has begun. Fails if the
    /// turn has taken too long, or the process shuts down.
    pub(in crate::turn) async fn wait_with_heartbeat<F: Future>(
        &mut self,
        future: F,
    ) -> Result<F::Output, Fault> {
        let mut future = pin!(future);
        let mut output = None;
        let ctx = self.ctx;
        let mut shutdown = pin!(ctx.shutdown.cancelled());
        loop {
            if !self.waits_for_heartbeat()
                && let Some(output) = output.take()
            {
                return Ok(output);
            }
            let wake = if self.streams() && self.begun {
                (self.last_sent + self.timing.heartbeat).min(ctx.deadline)
            } else {
                ctx.deadline
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return Err(self.stop_fault(StopReason::ShuttingDown)),
                ready = &mut future, if output.is_none() => output = Some(ready),
                () = sleep_until(wake) => {
                    self.check_deadline()?;
                    self.send_heartbeat().await;
                }
            }
        }
    }

    /// Waits before an attempt, and sends heartbeats, as the recorded turn did if this is a replay.
    pub(super) async fn wait_as_recorded(&mut self) -> Result<(), Fault> {
        if self.waits_for_heartbeat() {
            self.wait_with_heartbeat(ready(())).await?;
        }
        let director = self.ctx.director();
        if let Some(pause) = director.and_then(TurnDirector::pause_before_attempt) {
            self.wait_with_heartbeat(sleep(pause)).await?;
        }
        Ok(())
    }

    /// Whether a replay is to send a heartbeat before it goes on.
    fn waits_for_heartbeat(&self) -> bool {
        let director = self.ctx.director();
        self.streams() && self.begun && director.is_some_and(TurnDirector::waits_for_heartbeat)
    }

    /// The fault of a turn that has to end for this reason.
    pub(super) fn stop_fault(&self, reason: StopReason) -> Fault {
        if reason == StopReason::ShuttingDown {
            self.ctx.observe(TurnEvent::ShuttingDown);
        }
        reason.fault()
    }

    /// Fails if the turn has taken as long as it may.
    pub(super) fn check_deadline(&self) -> Result<(), Fault> {
        if Instant::now() < self.ctx.deadline {
            Ok(())
        } else {
            Err(StopReason::TurnTimeout.fault())
        }
    }

    /// Sends `response.created` if that was not sent yet, else a heartbeat event.
    pub(super) async fn send_heartbeat(&mut self) {
        if self.begun {
            self.assembler.heartbeat(&mut self.events);
        } else {
            self.begin();
        }
        self.send().await;
    }

    /// Sends what was written. With the last event, first completes the record and the caches: the
    /// client may disconnect when it has that event, which drops this future.
    pub(in crate::turn) async fn send(&mut self) {
        self.record.mark_event();
        self.ask_for_approvals();
        if let Some(status) = self.assembler.final_status() {
            if status == ResponseStatus::Failed {
                let usage = self.assembler.usage();
                self.record.usage = usage.filter(|usage| *usage != Usage::default());
            }
            self.record.notes.extend(self.assembler.notes());
            self.record.answer_ended(status);
            let response = self.assembler.response();
            if response.incomplete_details == Some(IncompleteReason::MaxOutputTokens) {
                self.record.cut_at_limit();
            }
            self.memory
                .set_answer(self.assembler.received_bytes() * COPIES_AT_END);
            if let Some(shared) = &self.keeps_items {
                let (owner, session) = (&self.ctx.owner, &self.record.session.id);
                let items = self.assembler.items();
                shared.memory.keep_items(owner, session, items);
            }
            self.store_response().await;
            if !self.streams() {
                // The headers go out with the whole answer, so they have its notes as well.
                self.headers.add_notes(&self.record.notes);
            }
            if let Some(turn) = self.connection.take() {
                turn.ended(self.assembler.response());
            }
        }
        let pending = self.events.own_len();
        if pending >= memory::STEP {
            // The events, and a copy of them on its way to the client.
            let received = self.assembler.received_bytes();
            self.memory.set_answer(received + 2 * pending);
        }
        self.sink.send(&mut self.events, self.ctx).await;
        self.last_sent = Instant::now();
    }

    /// Stores the response, which has ended. One that cannot be stored says so.
    async fn store_response(&mut self) {
        let now = self.ctx.environment.clock.unix();
        let response = self.assembler.response();
        let stored = self.stored.take();
        let spent = self.record.spent(now);
        if let Some(job) = &self.ctx.job {
            job.has_ended.store(true, Relaxed);
            // Only the terminal event is stored together with the response.
            let before = self.events.len().saturating_sub(1);
            log_events(&*job.log, &mut self.events, before).await;
            let record = match &stored {
                Some(stored) => stored.record(response, now),
                None => responses::unstarted_record(&self.ctx.owner, response, now),
            };
            let record = NewResponse { spent, ..record };
            // An end that cannot be stored now is tried again, with what was used.
            self.record.spent_storage = SpentStorage::WithResponse;
            let is_stored = job.log.finish(&self.events, record).await;
            self.record.metrics.stored_response(is_stored);
        } else if let Some(stored) = stored {
            // The client may leave meanwhile, which does not stop what is being written.
            self.record.spent_storage = SpentStorage::WithResponse;
            let committed = stored.commit(response, now, spent).await;
            self.record.metrics.stored_response(committed.is_ok());
            if let Err(error) = committed {
                self.record.spent_storage = SpentStorage::Counted;
                responses::report_unstored(&error);
                self.record.notes.add("not_stored", error.to_string());
                self.assembler.set_stored(false, &mut self.events);
            }
        }
    }

    /// Ends the answer without output.
    pub(in crate::turn) async fn end_empty(&mut self) {
        self.begin();
        let now = self.ctx.environment.clock.unix();
        self.assembler.end_empty(now, &mut self.events);
        self.send().await;
    }

    /// Sets what the response says of its workflow when it ends, if it runs one.
    pub(in crate::turn) fn show_end_of_workflow(&mut self) {
        if let Some(workflow) = &self.workflow_so_far {
            let state = workflow.state(StateDetail::Final);
            self.assembler.set_workflow_state(&state);
        }
    }

    /// Whether the process shuts down, and the next one goes on with the answer: a workflow in the
    /// background.
    pub(in crate::turn) fn goes_on_later(&self) -> bool {
        let response = self.assembler.response();
        self.ctx.shutdown.is_cancelled()
            && self.ctx.job.is_some()
            && response.workflow_state.is_some()
            && response.status.is_none()
    }

    /// Leaves the answer to the next process.
    pub(super) fn leave(&self) {
        if let Some(job) = &self.ctx.job {
            job.is_left.store(true, Relaxed);
        }
    }

    /// Ends the answer because the client cancelled it.
    pub(super) async fn cancel(&mut self) {
        self.begin();
        self.flush_pieces().ok();
        self.show_end_of_workflow();
        self.assembler.cancel(&mut self.events);
        self.send().await;
    }

    /// Ends the answer with a fault: writes it to the record, and to the stream if the client has
    /// to get it there. Else returns it.
    pub(super) async fn fail(&mut self, mut fault: Fault) -> Result<(), Fault> {
        self.record.failed(&mut fault);
        // What the model has read is kept before the client can ask again.
        self.tools = None;
        let in_stream = self.begun || fault.is_reported_in_stream(self.ctx.caller.codex);
        if self.streams() && (in_stream || self.ctx.job.is_some()) {
            self.begin();
            self.flush_pieces().ok();
            self.show_end_of_workflow();
            if let Some(workflow) = self.workflow.take() {
                workflow.fail(self, &mut fault);
            }
            self.assembler.fail(&fault, &mut self.events);
            self.send().await;
            Ok(())
        } else {
            self.record.notes.extend(self.assembler.notes());
            self.headers.add_notes(&self.record.notes);
            Err(fault)
        }
    }
}
