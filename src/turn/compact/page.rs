//! What the client sees of a compaction: that it has begun, that it goes on, and
//! what came of it.

use std::pin::pin;
use std::time::Duration;

use adapters::event::{Event, Finish, Usage};
use adapters::fault::Fault;
use adapters::responses::assembler::Assembler;
use adapters::responses::event_buffer::EventBuffer;
use tokio::time::{Instant, sleep_until};

use crate::tap::Seen;
use crate::turn::ctx::Ctx;
use crate::turn::recent::Recent;
use crate::turn::record::Record;
use crate::turn::sink::Sink;
use crate::turn::told::Told;

/// The answer as it is written.
pub(super) struct Page<'p, S> {
    ctx: &'p Ctx,
    assembler: Box<Assembler>,
    frames: EventBuffer,
    heartbeat: Duration,
    sink: &'p mut S,
    begun: bool,
    last_sent: Instant,
}

impl<'p, S: Sink> Page<'p, S> {
    /// An answer that has not said anything yet.
    pub(super) fn new(
        ctx: &'p Ctx,
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

    /// Says at once that it has begun: a summary takes its time, and a client that
    /// hears nothing asks again.
    pub(super) async fn begin(&mut self, record: &mut Record) {
        self.assembler.begin(&mut self.frames);
        self.begun = true;
        if S::STREAMS {
            record.event();
            self.send().await;
        }
    }

    /// Waits for something, with signs of life.
    pub(super) async fn meanwhile<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            let sign = self.last_sent + self.heartbeat;
            tokio::select! {
                biased;
                output = &mut future => return output,
                () = sleep_until(sign), if S::STREAMS => {
                    self.assembler.heartbeat(&mut self.frames);
                    self.send().await;
                }
            }
        }
    }

    /// Writes something that is sent with what follows it.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Assembler, &mut EventBuffer)) {
        write(&mut self.assembler, &mut self.frames);
    }

    /// Ends the answer as completed, with these counts.
    pub(super) async fn complete(
        mut self,
        usage: Usage,
        recent: Option<&Recent>,
        record: &mut Record,
        told: &Told,
    ) {
        let now = self.ctx.clock.unix();
        for event in [Event::Usage(usage), Event::Finish(Finish::Stop)] {
            // Neither of them can fail.
            let _ = self.assembler.event(event, now, &mut self.frames);
        }
        if let Some(recent) = recent {
            recent.keep(&self.ctx.owner, self.assembler.items());
        }
        self.ended(record);
        told.notes(&record.notes);
        self.send().await;
    }

    /// Ends the answer with a fault that the record knows of. It is returned where
    /// nothing was sent.
    pub(super) async fn fail(
        mut self,
        fault: Fault,
        record: &mut Record,
        told: &Told,
    ) -> Result<(), Fault> {
        if !S::STREAMS {
            told.notes(&record.notes);
            return Err(fault);
        }
        self.assembler.fail(&fault, &mut self.frames);
        self.ended(record);
        self.send().await;
        Ok(())
    }

    /// Leaves the answer to another writer, and tells whether it has begun.
    pub(super) fn leave(self) -> (Box<Assembler>, bool) {
        (self.assembler, self.begun)
    }

    /// Sends what was written.
    pub(super) async fn send(&mut self) {
        if S::STREAMS {
            self.ctx.saw(Seen::ClientAnswer(self.frames.bytes()));
        }
        self.sink.send(&mut self.frames).await;
        self.last_sent = Instant::now();
    }

    /// Told before the last event goes out: a client may leave with it.
    fn ended(&self, record: &mut Record) {
        record.usage = self.assembler.usage();
        record.notes.extend(self.assembler.notes());
        if let Some(outcome) = self.assembler.final_status() {
            record.ended(outcome);
        }
    }
}
