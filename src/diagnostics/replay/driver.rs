//! Drives a replayed turn in lock-step with what was recorded.
//!
//! Time stands still while bytes travel: the driver keeps the runtime busy until
//! the tap has seen what the upstream sent. Time moves while the driver sleeps,
//! and then no byte is on its way: the paused clock of the runtime jumps from
//! timer to timer in their order, however slow the machine is.
//!
//! What was recorded tells the order of things, not only their times. A sign of
//! life that the recording has before a piece is waited for, and one that it does
//! not have is not given time to come: a busy machine lets timers fire late, and
//! a slow client makes the turn wait.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use adapters::fault::Kind;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep_until};
use tokio_util::sync::CancellationToken;

use super::env::{ReplayEnv, TurnProgress, connect_failure};
use super::error::ReplayError;
use super::upstream::{EXTRA_ATTEMPT_BODY, ReplayUpstream, UpstreamConnection};
use crate::diagnostics::bundle::{BundleAttempt, BundleResponseHead, BundleTurn};
use crate::metrics::Outcome;

/// Real time without any progress after which the replay is given up.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Looks at the runtime before a pause between them.
const BUSY_POLLS: u32 = 200;
/// That pause, in real time.
const POLL_PAUSE: Duration = Duration::from_micros(100);
/// Turns of the runtime after which all that a timer began has been done.
const SETTLE_YIELDS: u32 = 8;
/// Time for a timer that is to fire where nothing is recorded of when.
const LONG_WAIT: Duration = Duration::from_hours(1);
/// How much later than recorded a sign of life may come: timers count in
/// milliseconds.
const HEARTBEAT_LATENESS: Duration = Duration::from_millis(3);
/// How long before it is due time stops for a timer that did not fire.
const TIMER_MARGIN: Duration = Duration::from_millis(2);
/// The most time that a refusal's body gets: ten seconds is what it is waited for.
const MAX_ERROR_BODY_DELAY_US: u64 = 9_900_000;

/// Bytes that the answer may have besides those that are in proportion to what
/// was recorded.
const EXTRA_BYTES: u64 = 16 << 20;
/// How much larger it may be than all that was recorded.
const MAX_GROWTH: u64 = 8;

/// Something that happens to the turn from outside.
#[derive(Clone, Copy)]
enum ExternalStop {
    /// The program is about to end.
    Shutdown,
    /// The client goes away.
    ClientLeaves,
}

/// Drives one turn.
pub(super) struct ReplayDriver {
    recorded: Arc<BundleTurn>,
    env: Arc<ReplayEnv>,
    upstream: ReplayUpstream,
    ending: CancellationToken,
    client: JoinHandle<()>,
    /// The client wants a stream.
    streams: bool,
    /// Bytes of an answer that is given up.
    max_client_bytes: u64,
    /// What is still to happen from outside, by its time.
    stops: Vec<(u64, ExternalStop)>,
    /// An instant and the recorded time that it stands for.
    time_base: (Instant, u64),
}

impl ReplayDriver {
    /// A turn that begins now; `client` runs it.
    pub(super) fn new(
        recorded: &Arc<BundleTurn>,
        env: &Arc<ReplayEnv>,
        upstream: ReplayUpstream,
        ending: CancellationToken,
        client: JoinHandle<()>,
        streams: bool,
    ) -> Self {
        let answers = recorded.attempts.iter().map(|attempt| &attempt.answer);
        let answers = answers.chain([&recorded.answer.body]);
        let bytes: u64 = answers.map(|answer| answer.len() as u64).sum();
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
        // The last one is the next one.
        stops.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            recorded: Arc::clone(recorded),
            env: Arc::clone(env),
            upstream,
            ending,
            client,
            streams,
            max_client_bytes: EXTRA_BYTES + MAX_GROWTH * bytes,
            stops,
            time_base: (Instant::now(), 0),
        }
    }

    /// Drives the turn to its end.
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

    /// An attempt as it was recorded.
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
        let Some(mut peer) = self.await_request(index).await? else {
            return Ok(());
        };
        let Some(head) = &attempt.head else {
            self.advance_to(u64::MAX, over).await;
            return Ok(());
        };
        if !self.advance_to(head.at_us, over).await {
            return Ok(());
        }
        self.send_until_seen(
            "before the head of an answer",
            peer.send_head(head),
            |now| now.head_at.is_some() || over(now),
        )
        .await?;
        if !(200..300).contains(&head.status) {
            return self.send_error_body(index, attempt, head, peer).await;
        }
        let mut rest = attempt.answer.as_slice();
        for (place, piece) in attempt.pieces.iter().enumerate() {
            let (bytes, behind) = rest
                .split_at_checked(piece.length)
                .ok_or(ReplayError::Damaged("an answer is shorter than its pieces"))?;
            rest = behind;
            if !self.advance_to(piece.at_us, over).await {
                return Ok(());
            }
            self.send_until_seen("in the midst of an answer", peer.send_chunk(bytes), |now| {
                now.upstream_chunks > place || over(now)
            })
            .await?;
        }
        let fault = attempt.fault.as_ref();
        let is_cut = fault.is_some_and(|fault| fault.kind == Kind::Cut);
        if attempt.ended || is_cut {
            if !self.advance_to(attempt.end_us, over).await {
                return Ok(());
            }
            let end = async {
                if attempt.ended {
                    peer.end_body().await;
                } else {
                    peer.cut_off().await;
                }
            };
            self.send_until_seen("at the end of an answer", end, over)
                .await?;
        } else {
            // Either it is over, or it waits for more than came.
            let stop = self.stops.last();
            if stop.is_none_or(|(at, _)| *at > attempt.end_us) {
                self.wait_out_silence(index, attempt.end_us).await;
            }
            self.advance_to(u64::MAX, over).await;
        }
        Ok(())
    }

    /// Lets the silence last until the turn has enough of it, with the recorded
    /// signs of life on the way and no others: one that was due shortly before may
    /// not have gone out, as timers fire late.
    async fn wait_out_silence(&mut self, index: usize, end_us: u64) {
        let over = |now: &TurnProgress| now.attempts_over > index;
        let due = self.client_chunks_before(end_us);
        self.advance_to(u64::MAX, |now| over(now) || now.client_chunks >= due)
            .await;
        let now = self.env.progress();
        if !over(&now) && !now.ended {
            // A piece that was taken down late makes the recorded silence short.
            let end = self.idle_deadline(&now).max(Some(self.at(end_us)));
            let target = end.unwrap_or_else(Instant::now) + HEARTBEAT_LATENESS;
            advance(target.saturating_duration_since(Instant::now())).await;
            run_ready_tasks().await;
        }
    }

    /// The body of an answer that is none. It is read whole before it is seen.
    async fn send_error_body(
        &mut self,
        index: usize,
        attempt: &BundleAttempt,
        head: &BundleResponseHead,
        mut peer: UpstreamConnection,
    ) -> Result<(), ReplayError> {
        let over = |now: &TurnProgress| now.attempts_over > index;
        let Some(piece) = attempt.pieces.first() else {
            self.advance_to(u64::MAX, over).await;
            return Ok(());
        };
        let at_us = piece
            .at_us
            .min(head.at_us.saturating_add(MAX_ERROR_BODY_DELAY_US));
        if !self.advance_to(at_us, over).await {
            return Ok(());
        }
        let body = async {
            peer.send_chunk(&attempt.answer).await;
            peer.end_body().await;
        };
        self.send_until_seen("in the midst of a refusal", body, over)
            .await
    }

    /// An attempt that the recorded turn did not make.
    async fn play_extra_attempt(&mut self, index: usize) -> Result<(), ReplayError> {
        let Some(mut peer) = self.await_request(index).await? else {
            return Ok(());
        };
        let head = BundleResponseHead {
            status: 500,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..BundleResponseHead::default()
        };
        let answer = async {
            peer.send_head(&head).await;
            peer.send_chunk(EXTRA_ATTEMPT_BODY.as_bytes()).await;
            peer.end_body().await;
        };
        self.send_until_seen("at a further attempt", answer, |now| {
            now.attempts_over > index
        })
        .await
    }

    /// The request of an attempt; none if the attempt ends without one.
    async fn await_request(
        &mut self,
        index: usize,
    ) -> Result<Option<UpstreamConnection>, ReplayError> {
        let request = self.upstream.accept_request();
        let over =
            |now: &TurnProgress| now.attempts_over > index || is_over(now, self.max_client_bytes);
        let peer = poll_in_still_time(&self.env, "before a request to the provider", request, over)
            .await?;
        Ok(peer.transpose()?)
    }

    /// Sends something and waits until it was seen. Time stands still.
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

    /// Lets time pass until the recorded time `goal`. False when `done` came
    /// first, or the end of the turn.
    async fn advance_to(&mut self, goal: u64, done: impl Fn(&TurnProgress) -> bool) -> bool {
        let most = self.max_client_bytes;
        let done = |now: &TurnProgress| done(now) || is_over(now, most);
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
        let far = Instant::now() + LONG_WAIT;
        loop {
            let now = self.env.progress();
            if done(&now) {
                return false;
            }
            let target = if goal == u64::MAX {
                far
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

    /// Until when time is to pass on the way to `goal`.
    fn next_wakeup(&self, goal: u64, now: &TurnProgress) -> Instant {
        let target = self.at(goal);
        if self.streams && now.client_chunks < self.client_chunks_before(goal) {
            return target + HEARTBEAT_LATENESS;
        }
        let sign = match (now.last_client_chunk, now.head_at) {
            _ if !self.streams => None,
            (Some(last), _) => Some(last + Duration::from_millis(self.recorded.heartbeat_ms)),
            (None, head) => {
                head.map(|head| head + Duration::from_millis(self.recorded.commit_after_ms))
            }
        };
        let limits = [sign, self.idle_deadline(now)].into_iter().flatten();
        let limit = limits
            .filter_map(|limit| limit.checked_sub(TIMER_MARGIN))
            .min();
        limit.map_or(target, |limit| target.min(limit))
    }

    /// The instant of a recorded time.
    fn at(&self, at_us: u64) -> Instant {
        let (instant, stands_for) = self.time_base;
        instant + Duration::from_micros(at_us.saturating_sub(stands_for))
    }

    /// The pieces of our answer that came before a recorded time.
    fn client_chunks_before(&self, at_us: u64) -> usize {
        let answers = &self.recorded.answer.pieces;
        answers.partition_point(|piece| piece.at_us < at_us)
    }

    /// When the provider will have been silent for too long.
    fn idle_deadline(&self, now: &TurnProgress) -> Option<Instant> {
        let attempt = self
            .recorded
            .attempts
            .get(now.attempts_begun.checked_sub(1)?)?;
        let routes = &self.recorded.settings.routes;
        let route = routes
            .iter()
            .find(|route| route.full_name() == attempt.route)?;
        Some(now.last_upstream_chunk.or(now.head_at)? + route.timeouts.idle)
    }
}

/// The turn is over, or says more and more: in a silence of hours a bundle may
/// want a sign of life every millisecond.
fn is_over(now: &TurnProgress, most: u64) -> bool {
    now.ended || now.client_bytes > most
}

/// Lets everything run that can. Time stands still.
async fn run_ready_tasks() {
    for _ in 0..SETTLE_YIELDS {
        yield_now().await;
    }
}

/// Waits for the future, or for `seen` if that comes first. Time stands still:
/// the runtime is never idle meanwhile.
async fn poll_in_still_time<F: Future>(
    env: &ReplayEnv,
    at: &'static str,
    future: F,
    seen: impl Fn(&TurnProgress) -> bool,
) -> Result<Option<F::Output>, ReplayError> {
    let mut future = pin!(future);
    let began = std::time::Instant::now();
    let mut looks = 0_u32;
    loop {
        let ready = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = ready {
            return Ok(Some(output));
        }
        if seen(&env.progress()) {
            return Ok(None);
        }
        yield_now().await;
        looks = looks.saturating_add(1);
        if looks > BUSY_POLLS {
            // The turn runs in this thread: nothing but the kernel works meanwhile.
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
