//! When the reading of an upstream answer is looked at although nothing arrives.

use std::pin::Pin;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::net::patience;

/// How long the pieces of a text wait for more in a background response.
const COALESCE_FOR: Duration = Duration::from_millis(100);
/// How long after the finish reason the token counts may come.
const COUNTS_AFTER_FINISH: Duration = Duration::from_secs(1);
/// How long after the token counts the end of the stream may come.
const END_AFTER_COUNTS: Duration = Duration::from_millis(100);

/// The timer of one upstream answer, and what it is set by. Made when the answer begins to be read.
pub(super) struct ReadTimer {
    /// The longest silence of the provider.
    idle: Duration,
    /// When the client gets the head of its answer at the latest.
    pub(super) commit_at: Instant,
    /// When the turn has taken as long as it may.
    deadline: Instant,
    /// When the provider sent something, moved on by the time in which it was not read.
    last_chunk: Instant,
    /// When reading went on.
    read_since: Instant,
    /// When a complete answer ends whose connection stays open, and how much of it there was.
    end_at: Option<(Instant, usize)>,
    /// When the pieces of text that wait for more are sent.
    flush_at: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl ReadTimer {
    /// The timer of an answer that is read from now on. It is due at `first`, or earlier.
    pub(super) fn new(
        idle: Duration,
        commit_at: Instant,
        deadline: Instant,
        now: Instant,
        first: Instant,
    ) -> Self {
        Self {
            idle,
            commit_at,
            deadline,
            last_chunk: now,
            read_since: now,
            end_at: None,
            flush_at: None,
            sleep: Box::pin(sleep_until(first.min(now + idle).min(deadline))),
        }
    }

    /// Ends when something is due.
    pub(super) fn due(&mut self) -> Pin<&mut Sleep> {
        self.sleep.as_mut()
    }

    /// Whether the answer may be read before the timer is looked at.
    pub(super) fn allows_reading(&self) -> bool {
        self.last_chunk < self.sleep.deadline()
    }

    /// If the timer is noticed late, nobody has read meanwhile: that is no silence of the provider.
    pub(super) fn excuse_lateness(&mut self, now: Instant) {
        if patience::is_late(self.sleep.deadline(), now) {
            self.last_chunk += now - self.read_since;
        }
    }

    /// Whether the pieces of text that wait have to be sent; they do not wait any more then.
    pub(super) fn take_flush(&mut self, now: Instant) -> bool {
        self.flush_at.take_if(|at| now >= *at).is_some()
    }

    /// Until when the provider may be silent.
    pub(super) fn silence_ends(&self) -> Instant {
        self.end_at
            .map_or(self.last_chunk + self.idle, |(at, _)| at)
    }

    /// The provider may be silent at least until then, unless its answer is complete.
    pub(super) fn extend_silence(&mut self, until: Instant) {
        let last_chunk = until.checked_sub(self.idle);
        self.last_chunk = self.last_chunk.max(last_chunk.unwrap_or(self.last_chunk));
    }

    /// The fault of a provider that was silent for too long.
    pub(super) fn silence_fault(&self) -> Fault {
        let predicate = format!("was silent for {} seconds.", self.idle.as_secs());
        Fault::of_provider(Kind::Timeout, predicate)
    }

    /// Reading goes on. The provider is not blamed for the time from `since` until now, in which
    /// events were sent and nothing was read. Returns the present time.
    pub(super) fn read_on(&mut self, since: Instant) -> Instant {
        self.read_since = Instant::now();
        self.last_chunk += self.read_since - since;
        self.read_since
    }

    /// Sets the timer to the next thing that is due, among them a heartbeat if there are any.
    pub(super) fn set(&mut self, heartbeat: Option<Instant>) {
        let next = self.silence_ends();
        let next = next.min(heartbeat.unwrap_or(next));
        let next = next.min(self.flush_at.unwrap_or(next));
        self.sleep.as_mut().reset(next.min(self.deadline));
    }

    /// A chunk arrived and was decoded. `has_pieces` says whether pieces of text wait for more.
    pub(super) fn arrived(&mut self, has_pieces: bool) {
        self.last_chunk = Instant::now();
        self.read_since = self.last_chunk;
        if !has_pieces {
            self.flush_at = None;
        } else if self.flush_at.is_none() {
            let at = self.last_chunk + COALESCE_FOR;
            self.flush_at = Some(at);
            // The timer stays as it is when the pieces go earlier: to set it again for each event
            // would cost more than to wake now and then for nothing.
            if self.sleep.deadline() > at {
                self.sleep.as_mut().reset(at);
            }
        }
    }

    /// The answer is complete with the chunk that arrived, and has this many bytes. Its connection
    /// may stay open, for what is still missing.
    pub(super) fn completed(&mut self, received: usize, has_counts: bool) {
        // Content behind a finish reason shows that it was none yet.
        let mut end = match self.end_at {
            Some((end, before)) if before == received => end,
            Some(_) | None => self.last_chunk + self.idle.min(COUNTS_AFTER_FINISH),
        };
        if has_counts {
            end = end.min(self.last_chunk + END_AFTER_COUNTS);
        }
        self.end_at = Some((end, received));
        self.sleep.as_mut().reset(end.min(self.deadline));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const IDLE: Duration = Duration::from_mins(1);

    /// A timer that is looked at after two seconds.
    fn timer() -> (ReadTimer, Instant) {
        let now = Instant::now();
        let hour = now + Duration::from_hours(1);
        let first = now + Duration::from_secs(2);
        (ReadTimer::new(IDLE, hour, hour, now, first), now)
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_read_is_no_silence() {
        let (mut timer, now) = timer();
        timer.due().await;
        timer.excuse_lateness(Instant::now());
        assert_eq!(timer.silence_ends(), now + IDLE, "in time");
        timer.read_on(Instant::now());
        timer.set(None);
        assert_eq!(timer.sleep.deadline(), now + IDLE);
        advance(IDLE * 2).await;
        timer.excuse_lateness(Instant::now());
        assert_eq!(timer.silence_ends() - now, IDLE * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_complete_answer_waits_a_moment_for_its_counts_and_again_after_content() {
        let (mut timer, now) = timer();
        timer.arrived(false);
        timer.completed(10, false);
        assert_eq!(timer.silence_ends(), now + COUNTS_AFTER_FINISH);
        advance(END_AFTER_COUNTS).await;
        timer.arrived(false);
        timer.completed(10, false);
        assert_eq!(timer.silence_ends(), now + COUNTS_AFTER_FINISH);
        timer.completed(20, false);
        let again = now + END_AFTER_COUNTS + COUNTS_AFTER_FINISH;
        assert_eq!(timer.silence_ends(), again);
        timer.completed(20, true);
        assert_eq!(timer.silence_ends(), now + END_AFTER_COUNTS * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_of_text_wait_for_a_limited_time() {
        let (mut timer, now) = timer();
        timer.arrived(true);
        advance(COALESCE_FOR / 2).await;
        timer.arrived(true);
        assert_eq!(timer.sleep.deadline(), now + COALESCE_FOR);
        assert!(!timer.take_flush(Instant::now()));
        timer.due().await;
        assert!(timer.take_flush(Instant::now()));
        assert!(!timer.take_flush(Instant::now()));
    }
}
