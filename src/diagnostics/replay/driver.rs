//! Drives a replayed turn in lock-step with its recording.
//!
//! Three parties run in one thread, on a runtime whose clock is paused. Time is in one
//! of two states: it *stands still* while bytes are on their way, because the driver
//! polls and the runtime is never idle; it *moves* only while the driver sleeps and
//! nothing is on its way, when the paused clock jumps from timer to timer. So the
//! result does not depend on the speed of the machine.
//!
//! ```text
//!  turn (engine)                      driver                     loopback upstream
//!      |                                |                                |
//!      |-- attempt n begins ----------->| advance_to(any, begun)         |  time moves
//!      |                                |                                |
//!      |-- request, over the socket ------------------------------------>|
//!      |                                |<-- connection -----------------|  still
//!      |                                |                                |
//!      |                                | advance_to(head.at_us)         |  time moves
//!      |                                |-- send_head ------------------>|
//!      |<-- head, over the socket ---------------------------------------|
//!      |-- observed: head_at ---------->| send_until_seen                |  still
//!      |                                |                                |
//!      |                                | advance_to(chunk.at_us)        |  time moves  -+
//!      |                                |-- send_chunk ----------------->|               | for each
//!      |<-- chunk, over the socket --------------------------------------|               | recorded
//!      |-- observed: upstream_chunks -->| send_until_seen                |  still        | chunk
//!      |                                |                                |              -+
//!      |                                | advance_to(attempt.end_us)     |  time moves
//!      |                                |-- end_body or cut_off -------->|
//!      |-- observed: attempts_over ---->| send_until_seen                |  still
//!      |                                |                                |
//!      |-- attempt n+1, or turn over -->| next round                     |
//! ```
//!
//! - The engine waits for bytes on the socket and for its own timers, never for the
//!   driver. The driver waits for the engine by reading [`TurnProgress`], which the
//!   observer of the turn updates.
//! - Every wait also ends when the attempt or the turn is over: the replay may take
//!   another course than the recording.
//! - A shutdown, or a client that leaves, happens at its recorded time during an
//!   `advance_to`.
//! - An error response is read whole by the engine, so it is sent in one step. A
//!   connection that failed is not played: the director of the turn reports it.
//! - The recording decides not only about times but also about the order of events. A
//!   heartbeat that was recorded before a chunk is waited for; one that was not is
//!   prevented by stopping shortly before it is due. While recording, a busy machine
//!   may have fired timers late, or a slow client may have held up the turn.

use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use adapters::fault::Kind;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::env::{
    ReplayEnv, SILENCE_AFTER_HEARTBEAT, TIMER_MARGIN, TurnProgress, chunks_before, connect_failure,
};
use super::error::ReplayError;
use super::upstream::{EXTRA_ATTEMPT_BODY, ReplayUpstream, UpstreamConnection};
use crate::diagnostics::bundle::{BundleAttempt, BundleResponseHead, BundleTurn};
use crate::turn::Outcome;

/// Real time after which the replay is given up if a wait in standing time does not end.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How often to poll before pausing between polls.
const BUSY_POLLS: u32 = 200;
/// The pause between polls, in real time.
const POLL_PAUSE: Duration = Duration::from_micros(100);
/// How often to yield until the tasks that a timer woke have run.
const SETTLE_YIELDS: u32 = 8;
/// The resolution of timers, and so the shortest time that can be slept.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// How far time moves at most if the recording does not say when something happens.
const LONG_WAIT: Duration = Duration::from_hours(1);
/// How much later than recorded a heartbeat may come: timers have a resolution of
/// milliseconds.
const HEARTBEAT_LATENESS: Duration = Duration::from_millis(3);
/// The longest delay between head and body of an error response: the engine waits ten
/// seconds for it.
const MAX_ERROR_BODY_DELAY_US: u64 = 9_900_000;

/// Bytes that the response may have in addition to [`MAX_GROWTH`] times the recorded
/// bytes.
const EXTRA_BYTES: u64 = 16 << 20;
/// How many times larger than all recorded responses the response may be.
const MAX_GROWTH: u64 = 8;

/// An event from outside that ends a turn.
#[derive(Clone, Copy)]
enum ExternalStop {
    Shutdown,
    /// The client closes its connection.
    ClientLeaves,
}

/// Drives one replayed turn; [`ReplayDriver::run`] consumes it.
pub(super) struct ReplayDriver {
    recorded: Arc<BundleTurn>,
    env: Arc<ReplayEnv>,
    upstream: ReplayUpstream,
    ending: CancellationToken,
    client: JoinHandle<()>,
    /// Whether the client asked for a stream.
    streams: bool,
    /// A longer response counts as endless and is given up.
    max_client_bytes: u64,
    /// The events that are still to come, with their recorded times, the next one last.
    stops: Vec<(u64, ExternalStop)>,
    /// An instant of the paused clock and the recorded time that it corresponds to.
    time_base: (Instant, u64),
}

impl ReplayDriver {
    /// A driver for a turn that begins now; the task `client` runs it.
    pub(super) fn new(
        recorded: &Arc<BundleTurn>,
        env: &Arc<ReplayEnv>,
        upstream: ReplayUpstream,
        ending: CancellationToken,
        client: JoinHandle<()>,
        streams: bool,
    ) -> Self {
        let answers = recorded.attempts.iter().map(|attempt| &attempt.pieces);
        let pieces = answers.chain([&recorded.answer.pieces]).flatten();
        let bytes = pieces.fold(0_u64, |sum, piece| sum.saturating_add(piece.length as u64));
        let mut stops = Vec::new();
        if recorded
            .outcome
            .is_none_or(|outcome| outcome == Outcome::Disconnected)
        {
            stops.push((recorded.took_us, ExternalStop::ClientLeaves));
        }
        if let Some(at) = recorded.ending_us {
            stops.push((at, ExternalStop::Shutdown));
        }
        // Taken from the end.
        stops.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            recorded: Arc::clone(recorded),
            env: Arc::clone(env),
            upstream,
            ending,
            client,
            streams,
            max_client_bytes: EXTRA_BYTES.saturating_add(bytes.saturating_mul(MAX_GROWTH)),
            stops,
            time_base: (Instant::now(), 0),
        }
    }

    /// Drives the turn to its end. An error means that the replay got stuck or endless;
    /// a turn that takes another course than recorded is no error.
    pub(super) async fn run(mut self) -> Result<(), ReplayError> {
        let recorded = Arc::clone(&self.recorded);
        for index in 0.. {
            run_ready_tasks().await;
            if self
                .advance_to(u64::MAX, |now| now.attempts_begun > index)
                .await
            {
                break;
            }
            if self.env.progress().attempts_begun <= index {
                break;
            }
            match recorded.attempts.get(index) {
                Some(attempt) => {
                    self.time_base = (Instant::now(), attempt.at_us);
                    self.play_attempt(index, attempt).await?;
                }
                None => self.play_extra_attempt(index).await?,
            }
        }
        if !self.env.progress().ended {
            self.client.abort();
        }
        let env = Arc::clone(&self.env);
        let _ = poll_in_still_time(
            &env,
            "before the end of the answer",
            &mut self.client,
            |_| false,
        )
        .await?;
        if self.env.progress().client_bytes > self.max_client_bytes {
            return Err(ReplayError::Endless);
        }
        Ok(())
    }

    /// Plays the provider's side of a recorded attempt.
    async fn play_attempt(
        &mut self,
        index: usize,
        attempt: &BundleAttempt,
    ) -> Result<(), ReplayError> {
        let over = |now: &TurnProgress| now.attempts_over > index;
        if connect_failure(&self.recorded, index + 1).is_some() {
            self.advance_to(u64::MAX, over).await;
            return Ok(());
        }
        let Some(mut connection) = self.await_request(index).await? else {
            return Ok(());
        };
        let Some(head) = &attempt.head else {
            self.advance_to(u64::MAX, over).await;
            return Ok(());
        };
        if !self.advance_to(head.at_us, over).await {
            return Ok(());
        }
        connection.send_head(head);
        self.send_until_seen("before the head of an answer", ready(()), |now| {
            now.head_at.is_some() || over(now)
        })
        .await?;
        if !(200..300).contains(&head.status) {
            return self.send_error_body(index, attempt, head, connection).await;
        }
        let mut rest = attempt.answer.as_slice();
        for (number, chunk) in attempt.pieces.iter().enumerate() {
            let (bytes, behind) = rest
                .split_at_checked(chunk.length)
                .ok_or(ReplayError::Damaged("an answer is shorter than its pieces"))?;
            rest = behind;
            if !self.advance_to(chunk.at_us, over).await {
                return Ok(());
            }
            self.send_until_seen(
                "in the midst of an answer",
                connection.send_chunk(bytes),
                |now| now.upstream_chunks > number || over(now),
            )
            .await?;
        }
        let fault = attempt.fault.as_ref();
        let is_cut = fault.is_some_and(|fault| fault.kind == Kind::Cut);
        if attempt.ended || is_cut {
            if !self.advance_to(attempt.end_us, over).await {
                return Ok(());
            }
            if attempt.ended {
                connection.end_body();
            } else {
                connection.cut_off();
            }
            self.send_until_seen("at the end of an answer", ready(()), over)
                .await?;
        } else {
            // Either the attempt is over, or the engine waits for more until it times out.
            let stop = self.stops.last();
            if stop.is_none_or(|(at, _)| *at > attempt.end_us) {
                self.wait_out_silence(index, attempt.end_us).await;
            }
            self.advance_to(u64::MAX, over).await;
        }
        Ok(())
    }

    /// Lets time pass without data until the engine gives the attempt up, with the
    /// recorded heartbeats on the way and no others. A heartbeat that was due shortly
    /// before the end may be missing in the recording, because timers fire late.
    async fn wait_out_silence(&mut self, index: usize, end_us: u64) {
        let over = |now: &TurnProgress| now.attempts_over > index;
        let due = chunks_before(&self.recorded, end_us);
        self.advance_to(u64::MAX, |now| over(now) || now.client_chunks >= due)
            .await;
        // The engine may be at work on the last chunk: time moves once it has nothing to do.
        sleep(SHORTEST_SLEEP).await;
        let now = self.env.progress();
        if !over(&now) && !now.ended {
            // A chunk that was recorded late makes the recorded silence too short.
            let end = self.silence_ends(&now).max(Some(self.at(end_us)));
            let target = end.unwrap_or_else(Instant::now) + HEARTBEAT_LATENESS;
            advance(target.saturating_duration_since(Instant::now())).await;
            run_ready_tasks().await;
        }
    }

    /// Sends the body of an error response in one step: the engine reads it whole before
    /// the observer sees it.
    async fn send_error_body(
        &mut self,
        index: usize,
        attempt: &BundleAttempt,
        head: &BundleResponseHead,
        mut connection: UpstreamConnection,
    ) -> Result<(), ReplayError> {
        let over = |now: &TurnProgress| now.attempts_over > index;
        let Some(chunk) = attempt.pieces.first() else {
            self.advance_to(u64::MAX, over).await;
            return Ok(());
        };
        let at_us = chunk
            .at_us
            .min(head.at_us.saturating_add(MAX_ERROR_BODY_DELAY_US));
        if !self.advance_to(at_us, over).await {
            return Ok(());
        }
        let body = async {
            connection.send_chunk(&attempt.answer).await;
            connection.end_body();
        };
        self.send_until_seen("in the midst of a refusal", body, over)
            .await
    }

    /// Refuses an attempt that the recorded turn did not make.
    async fn play_extra_attempt(&mut self, index: usize) -> Result<(), ReplayError> {
        let Some(mut connection) = self.await_request(index).await? else {
            return Ok(());
        };
        let head = BundleResponseHead {
            status: 500,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..BundleResponseHead::default()
        };
        let answer = async {
            connection.send_head(&head);
            connection.send_chunk(EXTRA_ATTEMPT_BODY.as_bytes()).await;
            connection.end_body();
        };
        self.send_until_seen("at a further attempt", answer, |now| {
            now.attempts_over > index
        })
        .await
    }

    /// Waits for the request of an attempt; `None` if the attempt ends without one.
    async fn await_request(
        &mut self,
        index: usize,
    ) -> Result<Option<UpstreamConnection>, ReplayError> {
        let request = self.upstream.accept_request();
        let over =
            |now: &TurnProgress| now.attempts_over > index || is_over(now, self.max_client_bytes);
        let connection =
            poll_in_still_time(&self.env, "before a request to the provider", request, over)
                .await?;
        Ok(connection.transpose()?)
    }

    /// Sends something and waits until the observer has seen it. Time stands still.
    async fn send_until_seen(
        &self,
        instant_of: &'static str,
        sending: impl Future<Output = ()>,
        seen: impl Fn(&TurnProgress) -> bool,
    ) -> Result<(), ReplayError> {
        let sent = async {
            sending.await;
            pending::<()>().await;
        };
        let seen = |now: &TurnProgress| seen(now) || is_over(now, self.max_client_bytes);
        poll_in_still_time(&self.env, instant_of, sent, seen)
            .await
            .map(|_| ())
    }

    /// Lets time pass until the recorded time `goal`, or for [`LONG_WAIT`] if it is
    /// `u64::MAX`. Returns false if `done`, or the end of the turn, came first.
    async fn advance_to(&mut self, goal: u64, done: impl Fn(&TurnProgress) -> bool) -> bool {
        let max_bytes = self.max_client_bytes;
        let done = |now: &TurnProgress| done(now) || is_over(now, max_bytes);
        while let Some((at, stop)) = self.stops.last().copied()
            && at < goal
        {
            if !self.sleep_to(at, &done).await {
                return false;
            }
            self.stops.pop();
            match stop {
                ExternalStop::Shutdown => self.ending.cancel(),
                ExternalStop::ClientLeaves => self.client.abort(),
            }
            run_ready_tasks().await;
        }
        self.sleep_to(goal, &done).await
    }

    async fn sleep_to(&mut self, goal: u64, done: &impl Fn(&TurnProgress) -> bool) -> bool {
        let far_ahead = Instant::now() + LONG_WAIT;
        loop {
            let now = self.env.progress();
            if done(&now) {
                return false;
            }
            let target = if goal == u64::MAX {
                far_ahead
            } else {
                self.next_wakeup(goal, &now)
            };
            if target <= Instant::now() {
                break;
            }
            tokio::select! {
                biased;
                () = self.env.changed.notified() => {}
                () = sleep_until(target) => {}
            }
            run_ready_tasks().await;
        }
        self.time_base = (Instant::now(), goal);
        true
    }

    /// Until when time may pass next on the way to `goal`.
    fn next_wakeup(&self, goal: u64, now: &TurnProgress) -> Instant {
        let target = self.at(goal);
        if self.streams && now.client_chunks < chunks_before(&self.recorded, goal) {
            return target + HEARTBEAT_LATENESS;
        }
        let heartbeat = match (now.last_client_chunk, now.head_at) {
            _ if !self.streams => None,
            (Some(last), _) => Some(last + Duration::from_millis(self.recorded.heartbeat_ms)),
            (None, head) => {
                head.map(|head| head + Duration::from_millis(self.recorded.commit_after_ms))
            }
        };
        let limits = [heartbeat, self.silence_ends(now)].into_iter().flatten();
        let limit = limits
            .filter_map(|limit| limit.checked_sub(TIMER_MARGIN))
            .min();
        limit.map_or(target, |limit| target.min(limit))
    }

    /// The instant that corresponds to a recorded time.
    fn at(&self, at_us: u64) -> Instant {
        let (instant, stands_for) = self.time_base;
        instant + Duration::from_micros(at_us.saturating_sub(stands_for))
    }

    /// When the silence of the provider will end; `None` if no attempt is under way. Before the
    /// head of the answer, the timeouts for connecting and for the first byte end it. After the
    /// head, the idle timeout does, or later if the engine has to send further heartbeats, as
    /// [`SILENCE_AFTER_HEARTBEAT`] says.
    fn silence_ends(&self, now: &TurnProgress) -> Option<Instant> {
        if now.attempts_over == now.attempts_begun {
            return None;
        }
        let attempt = self
            .recorded
            .attempts
            .get(now.attempts_begun.checked_sub(1)?)?;
        let routes = &self.recorded.settings.routes;
        let route = routes
            .iter()
            .find(|route| route.full_name() == attempt.route)?;
        let timeouts = &route.timeouts;
        let Some(began) = now.last_upstream_chunk.or(now.head_at) else {
            return Some(now.request_at? + timeouts.connect + timeouts.first_byte);
        };
        let heartbeat = now.last_client_chunk.filter(|last| *last > began);
        let extended = heartbeat.map(|last| last + SILENCE_AFTER_HEARTBEAT);
        Some((began + timeouts.idle).max(extended.unwrap_or(began)))
    }
}

/// Whether the turn is over, or its response is endless: a hostile bundle can ask for a
/// heartbeat every millisecond during hours of silence.
fn is_over(now: &TurnProgress, max_bytes: u64) -> bool {
    now.ended || now.client_bytes > max_bytes
}

/// Lets all tasks run that are ready. Time stands still.
async fn run_ready_tasks() {
    for _ in 0..SETTLE_YIELDS {
        yield_now().await;
    }
}

/// Waits for the future, or for `seen` if that becomes true first (then `None`). Time
/// stands still, because the runtime is never idle meanwhile.
async fn poll_in_still_time<F: Future>(
    env: &ReplayEnv,
    at: &'static str,
    future: F,
    seen: impl Fn(&TurnProgress) -> bool,
) -> Result<Option<F::Output>, ReplayError> {
    let mut future = pin!(future);
    let began = std::time::Instant::now();
    let mut polls = 0_u32;
    loop {
        let ready = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = ready {
            return Ok(Some(output));
        }
        if seen(&env.progress()) {
            return Ok(None);
        }
        yield_now().await;
        polls = polls.saturating_add(1);
        if polls > BUSY_POLLS {
            // The turn runs in this thread, so only the kernel can make progress now.
            std::thread::sleep(POLL_PAUSE);
        }
        if began.elapsed() > STALL_TIMEOUT {
            return Err(ReplayError::Stuck {
                at,
                seconds: STALL_TIMEOUT.as_secs(),
            });
        }
    }
}
