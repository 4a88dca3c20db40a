//! Reads an upstream answer to its end: decodes its body, keeps the client's stream alive and
//! ends a silent answer.

use std::pin::pin;
use std::time::Duration;

use adapters::event::Event;
use adapters::fault::{Fault, Kind};
use adapters::reader::UpstreamReader;
use adapters::stop_flag::StopReason;
use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use super::{Answer, Round};
use crate::net::patience;
use crate::turn::director::TurnDirector;
use crate::turn::observer::TurnEvent;
use crate::turn::sink::Sink;
use crate::upstream::UpstreamResponse;

/// The most bytes of an answer that are decoded before other streams have their turn.
const PIECE: usize = 128 * 1024;
/// How long the pieces of a text wait for more in a background answer.
const COALESCE_FOR: Duration = Duration::from_millis(100);
/// How long after the finish reason the token counts may come.
const COUNTS_AFTER_FINISH: Duration = Duration::from_secs(1);
/// How long after the token counts the end of the stream may come.
const END_AFTER_COUNTS: Duration = Duration::from_millis(100);

impl<S: Sink> Answer<'_, S> {
    pub(super) async fn read_answer(
        &mut self,
        round: &mut Round,
        mut answer: UpstreamResponse,
    ) -> Result<(), Fault> {
        let idle = round.attempt.upstream.provider().timeouts.idle;
        let commit_at = Instant::now() + self.timing.commit_after;
        let mut reader = UpstreamReader::new(&round.attempt.route.dialect.quirks);
        // `last_chunk` is when the provider sent something, moved on by the time in which it was
        // not read; `read_since` is when reading went on.
        let mut last_chunk = Instant::now();
        let mut read_since = last_chunk;
        // When a complete answer ends whose connection stays open, and how much of it there was.
        let mut end_at: Option<(Instant, usize)> = None;
        let ctx = self.ctx;
        let mut shutdown = pin!(ctx.shutdown.cancelled());
        let heartbeat = self.timing.heartbeat;
        let mut flush_at = None;
        let mut timer = pin!(sleep_until(
            self.next_heartbeat(commit_at)
                .min(last_chunk + heartbeat)
                .min(last_chunk + idle)
                .min(ctx.deadline)
        ));
        loop {
            let chunk_len = ctx.director().and_then(TurnDirector::next_chunk_len);
            let chunk = tokio::select! {
                biased;
                () = &mut shutdown => return Err(self.stop_fault(StopReason::ShuttingDown)),
                // Not when the timer is due: an answer with always more to read would keep it from
                // being looked at.
                chunk = answer.read(chunk_len), if last_chunk < timer.deadline() => match chunk {
                    Ok(chunk) => chunk,
                    // After the finish reason only token counts can be missing.
                    Err(_) if reader.is_complete() => None,
                    Err(fault) => return Err(fault),
                },
                () = &mut timer => {
                    self.check_deadline()?;
                    let now = Instant::now();
                    let is_replay = ctx.director().is_some_and(TurnDirector::sets_time);
                    if !is_replay && patience::is_late(timer.deadline(), now) {
                        last_chunk += now - read_since;
                    }
                    if flush_at.is_some_and(|at| now >= at) {
                        flush_at = None;
                        self.flush_pieces()?;
                        self.send_round(round).await;
                    }
                    let silence_ends = end_at.map_or(last_chunk + idle, |(at, _)| at);
                    if now >= silence_ends {
                        if !reader.is_complete() {
                            let predicate = format!("was silent for {} seconds.", idle.as_secs());
                            return Err(Fault::of_provider(Kind::Timeout, predicate));
                        }
                        self.decode_chunk(round, &mut reader, None)?;
                        self.end_round(round);
                        self.send_round(round).await;
                        return Ok(());
                    }
                    if S::STREAMS && now >= self.next_heartbeat(commit_at) {
                        self.send_heartbeat().await;
                    }
                    // Sending may have taken as long as the client wanted.
                    read_since = Instant::now();
                    last_chunk += read_since - now;
                    let mut next = end_at.map_or(last_chunk + idle, |(at, _)| at);
                    if S::STREAMS {
                        let heartbeat = read_since + heartbeat;
                        next = next.min(self.next_heartbeat(commit_at)).min(heartbeat);
                    }
                    let next = next.min(flush_at.unwrap_or(next));
                    timer.as_mut().reset(next.min(ctx.deadline));
                    continue;
                }
            };
            self.record.received(chunk.as_ref().map_or(0, Bytes::len));
            match &chunk {
                Some(bytes) => ctx.observe(TurnEvent::UpstreamBody(bytes)),
                None => ctx.observe(TurnEvent::UpstreamEnd),
            }
            let mut rest = chunk;
            loop {
                let piece = rest
                    .as_mut()
                    .map(|rest| rest.split_to(rest.len().min(PIECE)));
                if self.decode_chunk(round, &mut reader, piece.as_ref())? {
                    // Before the last event is sent: the client may disconnect when it has that
                    // event, which drops this future.
                    answer.drain();
                    self.end_round(round);
                    self.send_round(round).await;
                    return Ok(());
                }
                self.memory
                    .set_answer(self.assembler.received_bytes() + reader.held_bytes());
                self.send_round(round).await;
                if rest.as_ref().is_none_or(Bytes::is_empty) {
                    break;
                }
                // Other streams on this thread have their turn.
                tokio::task::yield_now().await;
            }
            last_chunk = Instant::now();
            read_since = last_chunk;
            if !self.coalescer.as_ref().is_some_and(|it| it.is_waiting()) {
                flush_at = None;
            } else if flush_at.is_none() {
                let at = last_chunk + COALESCE_FOR;
                flush_at = Some(at);
                // The timer stays as it is when the pieces go earlier: to set it again for each
                // event would cost more than to wake now and then for nothing.
                if timer.deadline() > at {
                    timer.as_mut().reset(at);
                }
            }
            if reader.is_complete() {
                // Content behind a finish reason shows that it was none yet.
                let received = round.assembler(&self.assembler).received_bytes();
                let mut end = match end_at {
                    Some((end, before)) if before == received => end,
                    Some(_) | None => last_chunk + idle.min(COUNTS_AFTER_FINISH),
                };
                if reader.has_counts() {
                    end = end.min(last_chunk + END_AFTER_COUNTS);
                }
                end_at = Some((end, received));
                timer.as_mut().reset(end.min(ctx.deadline));
            }
        }
    }

    /// Decodes a piece of the answer, or its end. True when the answer is complete.
    fn decode_chunk(
        &mut self,
        round: &mut Round,
        reader: &mut UpstreamReader,
        chunk: Option<&Bytes>,
    ) -> Result<bool, Fault> {
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
            feed(reader, chunk, &mut emit)
        } else {
            feed(reader, chunk, &mut take)
        };
        self.record.usage_so_far = Some(assembler.usage_so_far());
        read?;
        // The first content, not an opened stream, shows that the provider works.
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
            round.attempt.request.body = Bytes::new();
            let response_id = &assembler.response().id;
            round.failover.commit_route(&round.attempt, response_id);
            let may_go_on = self.tools.is_some() || self.compaction.is_some();
            if !may_go_on && round.hidden.is_none() && self.stored.is_none() {
                self.memory.free_bodies();
            }
            round.attempt.upstream.health().record_success();
            self.record.provider_down(false);
        }
        if ended && let Some((patch, is_true)) = reader.observed_patch() {
            let (failover, route) = (&round.failover, &round.attempt.route);
            if is_true {
                failover.learn_patch(route, patch);
            } else {
                failover.forget_patch(route, patch);
            }
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(ended),
        }
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

/// Decodes a piece of the answer, or its end.
fn feed(
    reader: &mut UpstreamReader,
    chunk: Option<&Bytes>,
    emit: &mut impl FnMut(Event<'_>),
) -> Result<(), Fault> {
    match chunk {
        Some(bytes) => reader.feed(bytes, emit),
        None => reader.end(emit),
    }
}
