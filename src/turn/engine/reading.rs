//! Reads an upstream answer to its end: decodes its body, keeps the client's stream alive and
//! ends a silent answer.

use std::pin::pin;

use adapters::event::Event;
use adapters::fault::{Fault, Kind};
use adapters::reader::UpstreamReader;
use adapters::stop_flag::StopReason;
use bytes::Bytes;
use tokio::time::Instant;

use super::read_timer::ReadTimer;
use super::{Answer, Round};
use crate::turn::director::TurnDirector;
use crate::turn::observer::TurnEvent;
use crate::upstream::UpstreamResponse;

/// The most bytes of an answer that are decoded before other streams have their turn.
const PIECE: usize = 128 * 1024;

impl Answer<'_> {
    pub(super) async fn read_answer(
        &mut self,
        round: &mut Round,
        mut answer: UpstreamResponse,
    ) -> Result<(), Fault> {
        let ctx = self.ctx;
        let mut timer = self.read_timer(round);
        let mut reader = UpstreamReader::new(&round.attempt.route.dialect.quirks);
        let mut shutdown = pin!(ctx.shutdown.cancelled());
        loop {
            let chunk_len = ctx.director().and_then(TurnDirector::next_chunk_len);
            let chunk = tokio::select! {
                // What has arrived is read before anything else is looked at, so that an event
                // does not pay for that.
                biased;
                // Not when the timer is due: an answer with always more to read would keep it from
                // being looked at.
                chunk = answer.read(chunk_len), if timer.allows_reading() => match chunk {
                    Ok(chunk) => chunk,
                    // After the finish reason only token counts can be missing.
                    Err(_) if reader.is_complete() => None,
                    Err(fault) => return Err(self.broken_off(round, &mut reader, fault)),
                },
                () = &mut shutdown => return Err(self.stop_fault(StopReason::ShuttingDown)),
                () = timer.due() => {
                    if self.do_what_is_due(round, &mut reader, &mut timer).await? {
                        return Ok(());
                    }
                    continue;
                }
            };
            self.record.received(chunk.as_ref().map_or(0, Bytes::len));
            match &chunk {
                Some(bytes) => ctx.observe(TurnEvent::UpstreamBody(bytes)),
                None => ctx.observe(TurnEvent::UpstreamEnd),
            }
            if self.decode_chunk(round, &mut reader, chunk).await? {
                // Before the last event is sent: the client may disconnect when it has that event,
                // which drops this future.
                answer.drain();
                self.finish_round(round).await;
                return Ok(());
            }
            timer.arrived(self.coalescer.as_ref().is_some_and(|it| it.is_waiting()));
            if reader.is_complete() {
                let received = round.assembler(&self.assembler).received_bytes();
                timer.completed(received, reader.has_counts());
            }
        }
    }

    /// The timer of an answer that begins to be read.
    fn read_timer(&self, round: &Round) -> ReadTimer {
        let now = Instant::now();
        let idle = round.attempt.upstream.provider().timeouts.idle;
        let commit_at = now + self.timing.commit_after;
        let heartbeat = self.next_heartbeat(commit_at);
        let first = heartbeat.min(now + self.timing.heartbeat);
        ReadTimer::new(idle, commit_at, self.ctx.deadline, now, first)
    }

    /// Does what the timer was set for: ends a turn that takes too long or a silent answer, or
    /// sends what waits or a heartbeat. True if the answer was complete, and has ended.
    async fn do_what_is_due(
        &mut self,
        round: &mut Round,
        reader: &mut UpstreamReader,
        timer: &mut ReadTimer,
    ) -> Result<bool, Fault> {
        self.check_deadline()?;
        let now = Instant::now();
        match self.ctx.director() {
            Some(director) if director.sets_time() => {
                if self.streams()
                    && let Some(longer) = director.silence_after_heartbeat()
                {
                    timer.extend_silence(self.next_heartbeat(timer.commit_at) + longer);
                }
            }
            Some(_) | None => timer.excuse_lateness(now),
        }
        if timer.take_flush(now) {
            self.flush_pieces()?;
            self.send_round(round).await;
        }
        if now >= timer.silence_ends() {
            if !reader.is_complete() {
                return Err(self.broken_off(round, reader, timer.silence_fault()));
            }
            self.decode_piece(round, reader, None)?;
            self.finish_round(round).await;
            return Ok(true);
        }
        if self.streams() && now >= self.next_heartbeat(timer.commit_at) {
            self.send_heartbeat().await;
        }
        let read_since = timer.read_on(now);
        let heartbeat = self.streams().then(|| {
            let next = self.next_heartbeat(timer.commit_at);
            next.min(read_since + self.timing.heartbeat)
        });
        timer.set(heartbeat);
        Ok(false)
    }

    /// Decodes a chunk of the answer, or its end, and sends what comes of it. True when the answer
    /// is complete; then its last events are not sent yet.
    async fn decode_chunk(
        &mut self,
        round: &mut Round,
        reader: &mut UpstreamReader,
        mut rest: Option<Bytes>,
    ) -> Result<bool, Fault> {
        loop {
            let piece = rest
                .as_mut()
                .map(|rest| rest.split_to(rest.len().min(PIECE)));
            if self.decode_piece(round, reader, piece.as_ref())? {
                return Ok(true);
            }
            self.memory
                .set_answer(self.assembler.received_bytes() + reader.held_bytes());
            self.send_round(round).await;
            if rest.as_ref().is_none_or(Bytes::is_empty) {
                return Ok(false);
            }
            // Other streams on this thread have their turn.
            tokio::task::yield_now().await;
        }
    }

    /// Ends a round whose answer is complete, and sends its last events.
    async fn finish_round(&mut self, round: &mut Round) {
        self.end_round(round);
        self.send_round(round).await;
    }

    /// Decodes a piece of the answer, or its end. True when the answer is complete.
    fn decode_piece(
        &mut self,
        round: &mut Round,
        reader: &mut UpstreamReader,
        piece: Option<&Bytes>,
    ) -> Result<bool, Fault> {
        let next = piece.map_or(ReadNext::End, ReadNext::Piece);
        let failed = self.assemble(round, reader, next)?;
        let assembler = round.assembler(&self.assembler);
        let is_complete = assembler.final_status().is_some() || assembler.awaits_end();
        let ended = is_complete || assembler.awaits_tools();
        let is_shown = assembler.has_shown();
        // An answer that cannot be used is asked for again unless the client has something of it:
        // calls and white space may have been held back.
        if failed
            .as_ref()
            .is_some_and(|fault| fault.kind == Kind::BadReply)
        {
            round.has_content = is_shown;
        }
        if (is_shown || ended) && !round.attempt.request.body.is_empty() {
            self.content_has_begun(round);
        }
        if ended && let Some((patch, is_true)) = reader.observed_patch() {
            round.failover.observe(&round.attempt, patch, is_true);
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(ended),
        }
    }

    /// Takes what is still held of an answer that broke off with this fault: what has arrived of it
    /// decides whether it may be asked for again. Returns the fault.
    fn broken_off(
        &mut self,
        round: &mut Round,
        reader: &mut UpstreamReader,
        fault: Fault,
    ) -> Fault {
        match self.assemble(round, reader, ReadNext::Broken(fault.clone())) {
            Ok(None) => fault,
            Ok(Some(fault)) | Err(fault) => fault,
        }
    }

    /// Passes the events of what is read next to the assembler of the round. Returns the fault of
    /// an event, if there is one; what is behind it is not read.
    fn assemble(
        &mut self,
        round: &mut Round,
        reader: &mut UpstreamReader,
        next: ReadNext<'_>,
    ) -> Result<Option<Fault>, Fault> {
        let now = self.ctx.environment.clock.unix();
        let coalescer = self.coalescer.as_deref_mut();
        let coalescer = coalescer.filter(|_| round.hidden.is_none());
        // The first events of a hidden answer have no reader, so they are not written.
        let mut hidden_begun = true;
        let (assembler, events, begun) = match &mut round.hidden {
            Some(hidden) => (&mut hidden.assembler, &mut hidden.events, &mut hidden_begun),
            None => (&mut self.assembler, &mut self.events, &mut self.begun),
        };
        let has_content = &mut round.has_content;
        let mut failed = None;
        let mut take = |event: Event<'_>| match event {
            _ if failed.is_some() => {}
            Event::Failed(fault) => failed = Some(fault),
            event => {
                if !std::mem::replace(begun, true) {
                    assembler.begin(events);
                }
                *has_content |= event.is_content();
                failed = assembler.event(event, now, events).err();
            }
        };
        let read = if let Some(coalescer) = coalescer {
            let mut emit = |event: Event<'_>| coalescer.push(event, &mut take);
            feed(reader, next, &mut emit)
        } else {
            feed(reader, next, &mut take)
        };
        self.record.usage_so_far = Some(assembler.usage_so_far());
        read.map(|()| failed)
    }

    /// The first content of a round, not an opened stream, shows that the provider works: the
    /// request is not sent again.
    fn content_has_begun(&mut self, round: &mut Round) {
        round.attempt.request.body = Bytes::new();
        let response = round.assembler(&self.assembler).response();
        let response_id = response.id.clone();
        let learned = round.failover.commit_route(&round.attempt, &response_id);
        self.record.learned(learned);
        let may_go_on = self.tools.is_some() || self.compaction.is_some();
        let keeps_request = self.stored.is_some() || self.connection.is_some();
        if !may_go_on && round.hidden.is_none() && !keeps_request {
            self.memory.free_bodies();
        }
        round.attempt.upstream.health().record_success();
        self.record.provider_down(false);
    }

    /// Writes the pieces of text that wait for more.
    pub(super) fn flush_pieces(&mut self) -> Result<(), Fault> {
        let now = self.ctx.environment.clock.unix();
        let mut failed = None;
        if let Some(coalescer) = &mut self.coalescer {
            let (assembler, events) = (&mut self.assembler, &mut self.events);
            coalescer.flush(|event| failed = assembler.event(event, now, events).err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends what the round wrote, if anything.
    async fn send_round(&mut self, round: &mut Round) {
        if let Some(hidden) = &mut round.hidden {
            if !hidden.events.is_empty() {
                self.record.mark_event();
                hidden.discard_events();
            }
        } else if !self.events.is_empty() {
            self.send().await;
        }
    }

    /// When the client must get an event at the latest.
    fn next_heartbeat(&self, commit_at: Instant) -> Instant {
        if self.begun {
            self.last_sent + self.timing.heartbeat
        } else {
            commit_at
        }
    }
}

/// What is read of an answer next.
enum ReadNext<'b> {
    /// These bytes.
    Piece(&'b Bytes),
    /// Its end.
    End,
    /// Nothing: it broke off.
    Broken(Fault),
}

/// Decodes what is read of the answer next.
fn feed(
    reader: &mut UpstreamReader,
    next: ReadNext<'_>,
    emit: &mut impl FnMut(Event<'_>),
) -> Result<(), Fault> {
    match next {
        ReadNext::Piece(bytes) => reader.feed(bytes, emit),
        ReadNext::End => reader.end(emit),
        ReadNext::Broken(fault) => {
            reader.break_off(fault, emit);
            Ok(())
        }
    }
}
