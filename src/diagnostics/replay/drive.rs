//! Drives a replayed turn in lock-step with what was recorded.
//!
//! Time stands still while bytes travel: the driver keeps the runtime busy until
//! the observer has seen what the upstream sent. Time moves while the driver sleeps,
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

use super::error::ReplayError;
use super::stage::{Progress, Stage, unreached};
use super::upstream::{NEVER_MADE, Peer, Upstream};
use crate::diagnostics::bundle::{Attempt, Head, Turn};
use crate::turn::Outcome;

/// Real time without any progress after which the replay is given up.
const PATIENCE: Duration = Duration::from_mins(1);
/// Looks at the runtime before a pause between them.
const EAGER: u32 = 200;
/// That pause, in real time.
const NAP: Duration = Duration::from_micros(100);
/// Turns of the runtime after which all that a timer began has been done.
const SETTLED: u32 = 8;
/// Time for a timer that is to fire where nothing is recorded of when.
const FAR: Duration = Duration::from_hours(1);
/// How much later than recorded a sign of life may come: timers count in
/// milliseconds.
const LATE: Duration = Duration::from_millis(3);
/// How long before it is due time stops for a timer that did not fire.
const SHORTLY: Duration = Duration::from_millis(2);
/// The most time that a refusal's body gets: ten seconds is what it is waited for.
const REFUSAL: u64 = 9_900_000;

/// Bytes that the answer may have besides those that are in proportion to what
/// was recorded.
const SURPLUS: u64 = 16 << 20;
/// How much larger it may be than all that was recorded.
const PROPORTION: u64 = 8;

/// Something that happens to the turn from outside.
#[derive(Clone, Copy)]
enum Stop {
    /// The program is about to end.
    Ending,
    /// The client goes away.
    Leaving,
}

/// Drives one turn.
pub(super) struct Drive {
    recorded: Arc<Turn>,
    stage: Arc<Stage>,
    upstream: Upstream,
    ending: CancellationToken,
    client: JoinHandle<()>,
    /// The client wants a stream.
    streams: bool,
    /// Bytes of an answer that is given up.
    most: u64,
    /// What is still to happen from outside, by its time.
    stops: Vec<(u64, Stop)>,
    /// An instant and the recorded time that it stands for.
    base: (Instant, u64),
}

impl Drive {
    /// A turn that begins now; `client` runs it.
    pub(super) fn new(
        recorded: &Arc<Turn>,
        stage: &Arc<Stage>,
        upstream: Upstream,
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
            stops.push((recorded.took_us, Stop::Leaving));
        }
        if let Some(at) = recorded.ending_us {
            stops.push((at, Stop::Ending));
        }
        // The last one is the next one.
        stops.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            recorded: Arc::clone(recorded),
            stage: Arc::clone(stage),
            upstream,
            ending,
            client,
            streams,
            most: SURPLUS + PROPORTION * bytes,
            stops,
            base: (Instant::now(), 0),
        }
    }

    /// Drives the turn to its end.
    pub(super) async fn run(mut self) -> Result<(), ReplayError> {
        let recorded = Arc::clone(&self.recorded);
        for index in 0.. {
            settle().await;
            if self.reach(u64::MAX, |now| now.begun > index).await {
                break;
            }
            if self.stage.progress().begun <= index {
                break;
            }
            match recorded.attempts.get(index) {
                Some(attempt) => {
                    self.base = (Instant::now(), attempt.at_us);
                    self.attempt(index, attempt).await?;
                }
                None => self.surplus(index).await?,
            }
        }
        if !self.stage.progress().ended {
            self.client.abort();
        }
        let stage = Arc::clone(&self.stage);
        let _ = still(
            &stage,
            "before the end of the answer",
            &mut self.client,
            |_| false,
        )
        .await?;
        if self.stage.progress().said > self.most {
            return Err(ReplayError::Endless);
        }
        Ok(())
    }

    /// An attempt as it was recorded.
    async fn attempt(&mut self, index: usize, attempt: &Attempt) -> Result<(), ReplayError> {
        let over = |now: &Progress| now.over > index;
        if unreached(&self.recorded, index + 1).is_some() {
            self.reach(u64::MAX, over).await;
            return Ok(());
        }
        let Some(mut peer) = self.request(index).await? else {
            return Ok(());
        };
        let Some(head) = &attempt.head else {
            self.reach(u64::MAX, over).await;
            return Ok(());
        };
        if !self.reach(head.at_us, over).await {
            return Ok(());
        }
        self.send("before the head of an answer", peer.head(head), |now| {
            now.head.is_some() || over(now)
        })
        .await?;
        if !(200..300).contains(&head.status) {
            return self.refusal(index, attempt, head, peer).await;
        }
        let mut rest = attempt.answer.as_slice();
        for (place, piece) in attempt.pieces.iter().enumerate() {
            let (bytes, behind) = rest
                .split_at_checked(piece.length)
                .ok_or(ReplayError::Damaged("an answer is shorter than its pieces"))?;
            rest = behind;
            if !self.reach(piece.at_us, over).await {
                return Ok(());
            }
            self.send("in the midst of an answer", peer.piece(bytes), |now| {
                now.pieces > place || over(now)
            })
            .await?;
        }
        let fault = attempt.fault.as_ref();
        let is_cut = fault.is_some_and(|fault| fault.kind == Kind::Cut);
        if attempt.ended || is_cut {
            if !self.reach(attempt.end_us, over).await {
                return Ok(());
            }
            let end = async {
                if attempt.ended {
                    peer.end().await;
                } else {
                    peer.cut().await;
                }
            };
            self.send("at the end of an answer", end, over).await?;
        } else {
            // Either it is over, or it waits for more than came.
            let stop = self.stops.last();
            if stop.is_none_or(|(at, _)| *at > attempt.end_us) {
                self.silence(index, attempt.end_us).await;
            }
            self.reach(u64::MAX, over).await;
        }
        Ok(())
    }

    /// Lets the silence last until the turn has enough of it, with the recorded
    /// signs of life on the way and no others: one that was due shortly before may
    /// not have gone out, as timers fire late.
    async fn silence(&mut self, index: usize, end_us: u64) {
        let over = |now: &Progress| now.over > index;
        let due = self.due(end_us);
        self.reach(u64::MAX, |now| over(now) || now.answers >= due)
            .await;
        let now = self.stage.progress();
        if !over(&now) && !now.ended {
            // A piece that was taken down late makes the recorded silence short.
            let end = self.limit(&now).max(Some(self.at(end_us)));
            let target = end.unwrap_or_else(Instant::now) + LATE;
            advance(target.saturating_duration_since(Instant::now())).await;
            settle().await;
        }
    }

    /// The body of an answer that is none. It is read whole before it is seen.
    async fn refusal(
        &mut self,
        index: usize,
        attempt: &Attempt,
        head: &Head,
        mut peer: Peer,
    ) -> Result<(), ReplayError> {
        let over = |now: &Progress| now.over > index;
        let Some(piece) = attempt.pieces.first() else {
            self.reach(u64::MAX, over).await;
            return Ok(());
        };
        let at_us = piece.at_us.min(head.at_us.saturating_add(REFUSAL));
        if !self.reach(at_us, over).await {
            return Ok(());
        }
        let body = async {
            peer.piece(&attempt.answer).await;
            peer.end().await;
        };
        self.send("in the midst of a refusal", body, over).await
    }

    /// An attempt that the recorded turn did not make.
    async fn surplus(&mut self, index: usize) -> Result<(), ReplayError> {
        let Some(mut peer) = self.request(index).await? else {
            return Ok(());
        };
        let head = Head {
            status: 500,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..Head::default()
        };
        let answer = async {
            peer.head(&head).await;
            peer.piece(NEVER_MADE.as_bytes()).await;
            peer.end().await;
        };
        self.send("at a further attempt", answer, |now| now.over > index)
            .await
    }

    /// The request of an attempt; none if the attempt ends without one.
    async fn request(&mut self, index: usize) -> Result<Option<Peer>, ReplayError> {
        let request = self.upstream.request();
        let over = |now: &Progress| now.over > index || is_over(now, self.most);
        let peer = still(
            &self.stage,
            "before a request to the provider",
            request,
            over,
        )
        .await?;
        Ok(peer.transpose()?)
    }

    /// Sends something and waits until it was seen. Time stands still.
    async fn send(
        &self,
        at: &'static str,
        sending: impl Future<Output = ()>,
        seen: impl Fn(&Progress) -> bool,
    ) -> Result<(), ReplayError> {
        let sent = async {
            sending.await;
            pending::<()>().await;
        };
        let seen = |now: &Progress| seen(now) || is_over(now, self.most);
        still(&self.stage, at, sent, seen).await.map(|_| ())
    }

    /// Lets time pass until the recorded time `goal`. False when `done` came
    /// first, or the end of the turn.
    async fn reach(&mut self, goal: u64, done: impl Fn(&Progress) -> bool) -> bool {
        let most = self.most;
        let done = |now: &Progress| done(now) || is_over(now, most);
        while let Some((at, stop)) = self.stops.last().copied()
            && at < goal
        {
            if !self.pass(at, &done).await {
                return false;
            }
            self.stops.pop();
            match stop {
                Stop::Ending => self.ending.cancel(),
                Stop::Leaving => self.client.abort(),
            }
            settle().await;
        }
        self.pass(goal, &done).await
    }

    async fn pass(&mut self, goal: u64, done: &impl Fn(&Progress) -> bool) -> bool {
        let far = Instant::now() + FAR;
        loop {
            let now = self.stage.progress();
            if done(&now) {
                return false;
            }
            let target = if goal == u64::MAX {
                far
            } else {
                self.aim(goal, &now)
            };
            if target <= Instant::now() {
                break;
            }
            tokio::select! {
                biased;
                () = self.stage.news.notified() => {}
                () = sleep_until(target) => {}
            }
            settle().await;
        }
        self.base = (Instant::now(), goal);
        true
    }

    /// Until when time is to pass on the way to `goal`.
    fn aim(&self, goal: u64, now: &Progress) -> Instant {
        let target = self.at(goal);
        if self.streams && now.answers < self.due(goal) {
            return target + LATE;
        }
        let sign = match (now.last_answer, now.head) {
            _ if !self.streams => None,
            (Some(last), _) => Some(last + Duration::from_millis(self.recorded.heartbeat_ms)),
            (None, head) => {
                head.map(|head| head + Duration::from_millis(self.recorded.commit_after_ms))
            }
        };
        let limits = [sign, self.limit(now)].into_iter().flatten();
        let limit = limits.filter_map(|limit| limit.checked_sub(SHORTLY)).min();
        limit.map_or(target, |limit| target.min(limit))
    }

    /// The instant of a recorded time.
    fn at(&self, at_us: u64) -> Instant {
        let (instant, stands_for) = self.base;
        instant + Duration::from_micros(at_us.saturating_sub(stands_for))
    }

    /// The pieces of our answer that came before a recorded time.
    fn due(&self, at_us: u64) -> usize {
        let answers = &self.recorded.answer.pieces;
        answers.partition_point(|piece| piece.at_us < at_us)
    }

    /// When the provider will have been silent for too long.
    fn limit(&self, now: &Progress) -> Option<Instant> {
        let attempt = self.recorded.attempts.get(now.begun.checked_sub(1)?)?;
        let routes = &self.recorded.settings.routes;
        let route = routes
            .iter()
            .find(|route| route.full_name() == attempt.route)?;
        Some(now.last_piece.or(now.head)? + route.timeouts.idle)
    }
}

/// The turn is over, or says more and more: in a silence of hours a bundle may
/// want a sign of life every millisecond.
fn is_over(now: &Progress, most: u64) -> bool {
    now.ended || now.said > most
}

/// Lets everything run that can. Time stands still.
async fn settle() {
    for _ in 0..SETTLED {
        yield_now().await;
    }
}

/// Waits for the future, or for `seen` if that comes first. Time stands still:
/// the runtime is never idle meanwhile.
async fn still<F: Future>(
    stage: &Stage,
    at: &'static str,
    future: F,
    seen: impl Fn(&Progress) -> bool,
) -> Result<Option<F::Output>, ReplayError> {
    let mut future = pin!(future);
    let began = std::time::Instant::now();
    let mut looks = 0_u32;
    loop {
        let ready = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = ready {
            return Ok(Some(output));
        }
        if seen(&stage.progress()) {
            return Ok(None);
        }
        yield_now().await;
        looks = looks.saturating_add(1);
        if looks > EAGER {
            // The turn runs in this thread: nothing but the kernel works meanwhile.
            std::thread::sleep(NAP);
        }
        if began.elapsed() > PATIENCE {
            return Err(ReplayError::Stuck {
                at,
                seconds: PATIENCE.as_secs(),
            });
        }
    }
}
