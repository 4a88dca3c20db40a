//! Reads an answer to its end.

use std::pin::pin;
use std::time::Duration;

use adapters::chat::reader::Reader;
use adapters::event::Event;
use adapters::fault::{Fault, Kind};
use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use super::Engine;
use crate::tap::Seen;
use crate::turn::sink::Sink;
use crate::upstream::UpstreamResponse;

/// How long token counts and the end of the stream may come after the finish
/// reason.
const AFTER_FINISH: Duration = Duration::from_secs(5);

impl<S: Sink> Engine<'_, S> {
    pub(super) async fn read(&mut self, mut answer: UpstreamResponse) -> Result<(), Fault> {
        let idle = self.way.upstream.provider().timeouts.idle;
        let commit_at = Instant::now() + self.pace.commit_after;
        let mut reader = Reader::new(&self.way.route.dialect.quirks);
        let mut last_piece = Instant::now();
        let ctx = self.ctx;
        let mut ending = pin!(ctx.ending.cancelled());
        let heartbeat = self.pace.heartbeat;
        let mut timer = pin!(sleep_until(
            self.next_sign(commit_at)
                .min(last_piece + heartbeat)
                .min(last_piece + idle)
        ));
        loop {
            let border = ctx.tap.as_ref().and_then(|tap| tap.next_piece());
            let piece = tokio::select! {
                biased;
                () = &mut ending => return Err(self.ending()),
                piece = answer.read(border) => match piece {
                    Ok(piece) => piece,
                    // Only token counts can be missing.
                    Err(_) if reader.is_complete() => None,
                    Err(fault) => return Err(fault),
                },
                () = &mut timer => {
                    let now = Instant::now();
                    if now >= last_piece + patience(&reader, idle) {
                        if !reader.is_complete() {
                            return Err(Fault::new(
                                Kind::Timeout,
                                format!("The provider was silent for {} seconds.", idle.as_secs()),
                            ));
                        }
                        self.take(&mut reader, None)?;
                        self.send().await;
                        return Ok(());
                    }
                    if S::STREAMS && now >= self.next_sign(commit_at) {
                        self.sign_of_life().await;
                    }
                    let next = if S::STREAMS {
                        self.next_sign(commit_at).min(now + heartbeat)
                    } else {
                        last_piece + idle
                    };
                    timer.as_mut().reset(next.min(last_piece + patience(&reader, idle)));
                    continue;
                }
            };
            last_piece = Instant::now();
            if piece.is_none() {
                ctx.saw(Seen::UpstreamEnd);
            }
            if self.take(&mut reader, piece.as_ref())? {
                // Before the last event goes out: a client may leave with it.
                answer.drain();
                self.send().await;
                return Ok(());
            }
            if !self.output.frames.is_empty() {
                self.send().await;
            }
            if reader.is_complete() {
                timer.as_mut().reset(last_piece + patience(&reader, idle));
            }
        }
    }

    /// Decodes a piece of the answer, or its end. True when the answer is
    /// complete.
    fn take(&mut self, reader: &mut Reader, piece: Option<&Bytes>) -> Result<bool, Fault> {
        let now = self.ctx.clock.unix();
        let output = &mut self.output;
        let mut failed = None;
        let mut emit = |event: Event<'_>| match event {
            _ if failed.is_some() => {}
            Event::Failed(fault) => failed = Some(fault),
            event => {
                output.begin();
                output.content |= event.is_content();
                failed = output.assembler.event(event, now, &mut output.frames).err();
            }
        };
        match piece {
            Some(bytes) => {
                self.ctx.saw(Seen::UpstreamAnswer(bytes));
                reader.feed(bytes, &mut emit)?;
            }
            None => reader.end(&mut emit)?,
        }
        // A provider is well that answers, not one that opens a stream.
        if self.output.content && !self.way.body.is_empty() {
            self.way.body = Bytes::new();
            self.ways.close(&self.way);
            self.way.upstream.health().record_success();
            self.record.down(false);
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(self.output.assembler.outcome().is_some()),
        }
    }

    /// When the client must hear something.
    fn next_sign(&self, commit_at: Instant) -> Instant {
        if self.output.begun {
            self.last_sent + self.pace.heartbeat
        } else {
            commit_at
        }
    }
}

/// How much silence of the provider is borne.
fn patience(reader: &Reader, idle: Duration) -> Duration {
    if reader.is_complete() {
        idle.min(AFTER_FINISH)
    } else {
        idle
    }
}
