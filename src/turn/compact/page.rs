//! The client's stream during a compaction: its beginning, the heartbeats while the summary is
//! made, and its end.

use std::pin::pin;
use std::time::Duration;

use adapters::event::{Event, Finish, Usage};
use adapters::fault::Fault;
use adapters::responses::assembler::Assembler;
use adapters::responses::event_buffer::EventBuffer;
use tokio::time::{Instant, sleep_until};

use crate::turn::context::TurnContext;
use crate::turn::item_cache::ItemCache;
use crate::turn::record::Record;
use crate::turn::response_headers::ResponseHeaders;
use crate::turn::sink::Sink;

/// The answer of a compaction as it is written.
pub(super) struct Page<'p, S> {
    ctx: &'p TurnContext,
    assembler: Box<Assembler>,
    frames: EventBuffer,
    heartbeat: Duration,
    sink: &'p mut S,
    /// `response.created` was written.
    begun: bool,
    last_sent: Instant,
}

impl<'p, S: Sink> Page<'p, S> {
    /// An answer of which nothing was written.
    pub(super) fn new(
        ctx: &'p TurnContext,
        assembler: Box<Assembler>,
        heartbeat: Duration,
        sink: &'p mut S,
    ) -> Self {
        Self {
            ctx,
            assembler,
            frames: EventBuffer::default(),
            heartbeat,
            sink,
            begun: false,
            last_sent: Instant::now(),
        }
    }

    /// Sends `response.created` at once. A summary takes long, and a client that gets no event
    /// sends its request again.
    pub(super) async fn begin(&mut self, record: &mut Record) {
        self.assembler.begin(&mut self.frames);
        self.begun = true;
        if S::STREAMS {
            record.mark_event();
            self.send().await;
        }
    }

    /// Waits for a future and sends heartbeats meanwhile.
    pub(super) async fn wait_with_heartbeat<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            let heartbeat = self.last_sent + self.heartbeat;
            tokio::select! {
                biased;
                output = &mut future => return output,
                () = sleep_until(heartbeat), if S::STREAMS => {
                    self.assembler.heartbeat(&mut self.frames);
                    self.send().await;
                }
            }
        }
    }

    /// Writes events without sending them.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Assembler, &mut EventBuffer)) {
        write(&mut self.assembler, &mut self.frames);
    }

    /// Ends the answer as completed, with this usage.
    pub(super) async fn complete(
        mut self,
        usage: Usage,
        items: Option<&ItemCache>,
        record: &mut Record,
        headers: &ResponseHeaders,
    ) {
        let now = self.ctx.clock.unix();
        for event in [Event::Usage(usage.into()), Event::Finish(Finish::Stop)] {
            // Neither of these two events can fail.
            let _ = self.assembler.event(event, now, &mut self.frames);
        }
        if let Some(items) = items {
            items.keep(&self.ctx.owner, self.assembler.items());
        }
        self.update_record(record);
        headers.add_notes(&record.notes);
        self.send().await;
    }

    /// Ends the answer with a fault that the record already has. Returns it if nothing was sent.
    pub(super) async fn fail(
        mut self,
        fault: Fault,
        record: &mut Record,
        headers: &ResponseHeaders,
    ) -> Result<(), Fault> {
        if !S::STREAMS {
            headers.add_notes(&record.notes);
            return Err(fault);
        }
        self.assembler.fail(&fault, &mut self.frames);
        self.update_record(record);
        self.send().await;
        Ok(())
    }

    /// Hands the answer over to the engine: the assembler, and whether `response.created` was
    /// written.
    pub(super) fn into_assembler(self) -> (Box<Assembler>, bool) {
        (self.assembler, self.begun)
    }

    /// Sends the events that were written.
    pub(super) async fn send(&mut self) {
        self.sink.send(&mut self.frames, self.ctx).await;
        self.last_sent = Instant::now();
    }

    /// Completes the record before the last event is sent: the client may disconnect when it has
    /// that event, which drops this future.
    fn update_record(&self, record: &mut Record) {
        record.usage = self.assembler.usage();
        record.notes.extend(self.assembler.notes());
        if let Some(outcome) = self.assembler.final_status() {
            record.answer_ended(outcome);
        }
    }
}
