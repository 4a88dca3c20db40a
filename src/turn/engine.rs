//! Sends a prepared turn and turns the upstream's answer into events.
//!
//! The commit point: until the first event goes out, a fault is returned and
//! becomes an HTTP status; afterwards the stream ends in `response.failed`. A
//! turn is tried again until the first content event, never after it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::chat::reader::Reader;
use adapters::event::Event;
use adapters::fault::{Fault, Kind, Retry};
use adapters::responses::assembler::Assembler;
use adapters::responses::frames::Frames;
use bytes::Bytes;
use futures_util::FutureExt;
use registry::Quirks;
use tokio::time::{Instant, sleep, sleep_until};

use super::ctx::{Ctx, Seen};
use super::prepare::Prepared;
use super::recent::Recent;
use super::record::Record;
use super::sink::Sink;
use crate::secrets::Redactor;
use crate::upstream::{self, Answer, Upstream};

/// The longest pause that a provider may ask for before a turn is tried
/// again; a longer one is the client's decision.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The first pause of our own; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// How long token counts and the end of the stream may come after the finish
/// reason.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// Times of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Silence towards the client before a sign of life.
    pub(super) heartbeat: Duration,
    /// From the upstream's headers to ours at the latest.
    pub(super) commit_after: Duration,
}

/// Runs a turn to its end. An error means that nothing was sent.
pub(super) async fn run<S: Sink>(
    ctx: &Ctx,
    prepared: Prepared,
    pace: Pace,
    redactor: impl Fn() -> Redactor + Send + Sync,
    record: &mut Record,
    sink: &mut S,
) -> Result<(), Fault> {
    let mut engine = Engine {
        ctx,
        upstream: &prepared.upstream,
        pace,
        record,
        sink,
        output: Output {
            assembler: prepared.assembler,
            frames: Frames::default(),
            begun: false,
            content: false,
        },
        body: Some(prepared.body),
        quirks: prepared.route.dialect.quirks,
        recent: prepared.recent,
        another_key: false,
        session: prepared.session.affinity(),
        last_sent: Instant::now(),
    };
    // A defect costs this turn alone, and its stream still gets an end.
    let result = std::panic::AssertUnwindSafe(engine.turn())
        .catch_unwind()
        .await;
    let fault = match result {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => {
            engine.output.frames.drop_open();
            let message = "Respondent ran into a defect while it answered this request.";
            Some(Fault::new(Kind::Internal, message))
        }
    };
    engine.end(fault, &redactor).await
}

struct Engine<'e, S> {
    ctx: &'e Ctx,
    upstream: &'e Upstream,
    pace: Pace,
    record: &'e mut Record,
    sink: &'e mut S,
    output: Output,
    /// The upstream request, until it is certain that it is not sent again.
    body: Option<Bytes>,
    /// The last attempt failed for its key, and another key is awake.
    another_key: bool,
    /// Chooses among keys.
    session: u64,
    /// How the model speaks.
    quirks: Quirks,
    /// Where the answer's items are kept, if at all.
    recent: Option<Arc<Recent>>,
    last_sent: Instant,
}

/// The answer as it is written.
struct Output {
    assembler: Box<Assembler>,
    frames: Frames,
    /// Something was written: `response.created` at least.
    begun: bool,
    /// Content was written.
    content: bool,
}

impl Output {
    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.assembler.begin(&mut self.frames);
        }
    }
}

impl<S: Sink> Engine<'_, S> {
    async fn turn(&mut self) -> Result<(), Fault> {
        let mut tries = 0;
        loop {
            self.another_key = false;
            let Err(fault) = self.attempt().await else {
                return Ok(());
            };
            if self.output.content || tries >= self.upstream.provider().max_retries {
                return Err(fault);
            }
            let Some(pause) = self.pause(&fault, tries) else {
                return Err(fault);
            };
            tries += 1;
            self.record.retry(&fault);
            self.patiently(sleep(pause)).await?;
        }
    }

    /// How long to wait before the next try; `None` when there is no point.
    fn pause(&self, fault: &Fault, tries: u32) -> Option<Duration> {
        if self.another_key {
            return Some(Duration::ZERO);
        }
        let own = FIRST_PAUSE * 2_u32.saturating_pow(tries);
        match fault.retry {
            Retry::Never => None,
            Retry::Soon => Some(own.mul_f64(0.75 + self.ctx.jitter() / 2.0)),
            Retry::After(pause) => (pause <= LONGEST_PAUSE).then_some(pause),
        }
    }

    /// Sends the request once and reads the answer to its end.
    async fn attempt(&mut self) -> Result<(), Fault> {
        // It goes with the first content, after which nothing is tried again.
        let Some(body) = self.body.clone() else {
            return Err(Fault::new(Kind::Internal, "The request is gone already."));
        };
        self.ctx
            .tap
            .saw(&self.ctx.request_id, Seen::UpstreamRequest(&body));
        let upstream = self.upstream;
        let place = self.patiently(upstream.place()).await??;
        let key = upstream.keys().choose(self.session);
        // Boxed: it would weigh on the stream that follows it.
        let opening = Box::pin(upstream::open(upstream, place, key, body));
        let result = match self.patiently(opening).await? {
            Ok(answer) => self.read(answer).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &result {
            self.another_key = upstream.failed(key, fault);
        }
        result
    }

    async fn read(&mut self, mut answer: Answer) -> Result<(), Fault> {
        let idle = self.upstream.provider().timeouts.idle;
        let commit_at = Instant::now() + self.pace.commit_after;
        let mut reader = Reader::new(&self.quirks);
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
            let piece = tokio::select! {
                biased;
                () = &mut ending => return Err(draining()),
                piece = answer.chunk() => match piece {
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
            if self.take(&mut reader, piece.as_ref())? {
                // Before the last event goes out: a client may leave with it.
                answer.release();
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
                self.ctx
                    .tap
                    .saw(&self.ctx.request_id, Seen::UpstreamAnswer(bytes));
                reader.feed(bytes, &mut emit)?;
            }
            None => reader.end(&mut emit)?,
        }
        // A provider is well that answers, not one that opens a stream.
        if self.output.content && self.body.take().is_some() {
            self.upstream.health().success();
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(self.output.assembler.outcome().is_some()),
        }
    }

    /// Waits for something, with signs of life once the stream has begun.
    async fn patiently<F: Future>(&mut self, future: F) -> Result<F::Output, Fault> {
        let mut future = pin!(future);
        let ctx = self.ctx;
        let mut ending = pin!(ctx.ending.cancelled());
        loop {
            let sign = self.last_sent + self.pace.heartbeat;
            tokio::select! {
                biased;
                () = &mut ending => return Err(draining()),
                output = &mut future => return Ok(output),
                () = sleep_until(sign), if S::STREAMS && self.output.begun => self.sign_of_life().await,
            }
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

    async fn sign_of_life(&mut self) {
        if self.output.begun {
            self.output.assembler.heartbeat(&mut self.output.frames);
        } else {
            self.output.begin();
        }
        self.send().await;
    }

    async fn send(&mut self) {
        self.record.event();
        if let Some(outcome) = self.output.assembler.outcome() {
            // Told before the last event goes out: a client may leave with it.
            self.record.usage = self.output.assembler.usage();
            self.record.notes.extend(self.output.assembler.notes());
            self.record.ended(outcome);
            if let Some(recent) = &self.recent {
                recent.keep(&self.ctx.owner, self.output.assembler.items());
            }
        }
        self.ctx.tap.saw(
            &self.ctx.request_id,
            Seen::ClientEvents(self.output.frames.bytes()),
        );
        self.sink.send(&mut self.output.frames).await;
        self.last_sent = Instant::now();
    }

    /// Tells the record how it went, and the client if it was promised a
    /// stream.
    async fn end(
        mut self,
        fault: Option<Fault>,
        redactor: &(impl Fn() -> Redactor + Send + Sync),
    ) -> Result<(), Fault> {
        let Some(mut fault) = fault else {
            return Ok(());
        };
        self.upstream.date(&mut fault);
        self.record.failed(&mut fault, &redactor());
        let in_stream = self.output.begun || fault.is_told_in_stream(self.ctx.caller.codex);
        if S::STREAMS && in_stream {
            self.output.begin();
            self.output.assembler.fail(&fault, &mut self.output.frames);
            self.send().await;
            Ok(())
        } else {
            self.record.notes.extend(self.output.assembler.notes());
            Err(fault)
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

fn draining() -> Fault {
    Fault::new(
        Kind::Draining,
        "Respondent is shutting down; send the request again in a moment.",
    )
}
