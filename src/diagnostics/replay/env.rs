//! The environment of a replayed turn: clock and randomness as recorded, a director that
//! lets the turn go as it did, and an observer that reports its progress to the driver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use adapters::stop_flag::StopFlag;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::tools::RecordedTools;
use crate::clock::{Clock, Random, System};
use crate::config::Config;
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::capture::{FinishedTurnSink, MemoryBudget, RecordedTurn, Recorder};
use crate::turn::{TurnDirector, TurnEnvironment, TurnEnvironmentFactory, TurnEvent, TurnObserver};

/// How long before a timer is due time stops, if the timer did not fire in the
/// recording.
pub(super) const TIMER_MARGIN: Duration = Duration::from_millis(2);

/// The shortest time between a heartbeat and the end of its silence, so that the new recording has
/// them in this order.
pub(super) const SILENCE_AFTER_HEARTBEAT: Duration = Duration::from_millis(5);

/// How far the replayed turn is, as its observer saw it.
#[derive(Clone, Copy, Default)]
pub(super) struct TurnProgress {
    pub(super) attempts_begun: usize,
    pub(super) attempts_over: usize,
    /// When the request of the current attempt was sent.
    pub(super) request_at: Option<Instant>,
    /// When the head of the current attempt's response arrived.
    pub(super) head_at: Option<Instant>,
    /// Chunks of the current attempt's response that arrived.
    pub(super) upstream_chunks: usize,
    /// When the last of these chunks arrived.
    pub(super) last_upstream_chunk: Option<Instant>,
    /// Chunks that were sent to the client.
    pub(super) client_chunks: usize,
    /// Bytes that were sent to the client.
    pub(super) client_bytes: u64,
    /// When the last chunk was sent to the client.
    pub(super) last_client_chunk: Option<Instant>,
    pub(super) ended: bool,
}

/// The state that the replayed turn and its driver share: the recording, the progress, and the
/// new recording once the turn is over. It directs the replayed turn.
pub(super) struct ReplayEnv {
    recorded: Arc<BundleTurn>,
    progress: Mutex<TurnProgress>,
    /// Notified whenever the progress changes.
    pub(super) changed: Notify,
    /// Whether the next turn is the replayed one. Earlier ones only restore the state of
    /// the service.
    armed: AtomicBool,
    finished: Arc<LastTurn>,
    /// Ends the replay early.
    pub(super) stop: StopFlag,
}

/// Keeps the recording of the last turn that finished.
#[derive(Default)]
pub(super) struct LastTurn(Mutex<Option<RecordedTurn>>);

impl LastTurn {
    /// Takes out the last finished turn.
    pub(super) fn take_bundle_turn(&self) -> Option<BundleTurn> {
        let turn = self.0.lock();
        let turn = turn.unwrap_or_else(PoisonError::into_inner).take();
        turn.map(|turn| turn.to_bundle_turn())
    }
}

impl FinishedTurnSink for LastTurn {
    fn add(&self, turn: RecordedTurn) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }
}

impl ReplayEnv {
    pub(super) fn new(recorded: &Arc<BundleTurn>, stop: StopFlag) -> Arc<Self> {
        Arc::new(Self {
            recorded: Arc::clone(recorded),
            progress: Mutex::default(),
            changed: Notify::new(),
            armed: AtomicBool::new(false),
            finished: Arc::default(),
            stop,
        })
    }

    /// Makes the next turn the replayed one.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> TurnProgress {
        *self.lock_progress()
    }

    /// Takes out the replayed turn once it is over.
    pub(super) fn finished_turn(&self) -> Option<BundleTurn> {
        self.finished.take_bundle_turn()
    }

    fn lock_progress(&self) -> MutexGuard<'_, TurnProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_progress(&self, event: &TurnEvent<'_>) {
        let mut progress = self.lock_progress();
        match event {
            TurnEvent::UpstreamRequest { .. } => {
                progress.attempts_begun += 1;
                progress.request_at = Some(Instant::now());
                progress.head_at = None;
                progress.upstream_chunks = 0;
                progress.last_upstream_chunk = None;
            }
            TurnEvent::UpstreamHead { .. } => progress.head_at = Some(Instant::now()),
            TurnEvent::UpstreamBody(_) => {
                progress.upstream_chunks += 1;
                progress.last_upstream_chunk = Some(Instant::now());
            }
            TurnEvent::AttemptEnd(_) => progress.attempts_over = progress.attempts_begun,
            TurnEvent::ClientBody(bytes) => {
                progress.client_chunks += 1;
                progress.client_bytes += bytes.len() as u64;
                progress.last_client_chunk = Some(Instant::now());
            }
            TurnEvent::Ended { .. } => progress.ended = true,
            TurnEvent::ClientRequest { .. }
            | TurnEvent::Routes { .. }
            | TurnEvent::State(_)
            | TurnEvent::Baggage(_)
            | TurnEvent::Unkept(_)
            | TurnEvent::CacheDiagnostics(_)
            | TurnEvent::Key(_)
            | TurnEvent::UpstreamEnd
            | TurnEvent::ShuttingDown
            | TurnEvent::ToolCall { .. }
            | TurnEvent::ToolResult { .. }
            | TurnEvent::ToolResultShortened { .. }
            | TurnEvent::ClientHead { .. } => {}
        }
        drop(progress);
        self.changed.notify_one();
    }
}

/// Gives the turns of a service their environment: [`ReplayEnv`] for the replayed turn, the
/// system's environment for turns before it.
pub(super) struct ReplayEnvFactory(pub(super) Arc<ReplayEnv>);

impl TurnEnvironmentFactory for ReplayEnvFactory {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let env = &self.0;
        if !env.armed.load(Ordering::Relaxed) {
            return System.create(request_id, config);
        }
        let readings = Arc::new(RecordedReadings {
            recorded: Arc::clone(&env.recorded),
            next: Mutex::default(),
        });
        let finished: Arc<LastTurn> = Arc::clone(&env.finished);
        let recorded = TurnEnvironment {
            clock: Arc::clone(&readings) as _,
            random: readings,
            observer: None,
            director: Some(Arc::clone(env) as _),
            tools: RecordedTools::of(&env.recorded),
        };
        let budget = Arc::new(MemoryBudget::default());
        let mut turn = Recorder::environment(request_id, config, recorded, &budget, finished);
        turn.observer = turn.observer.map(|recorder| {
            let env = Arc::clone(env);
            Arc::new(ObservedRecorder { env, recorder }) as _
        });
        turn
    }

    fn stop_flag(&self) -> StopFlag {
        self.0.stop.clone()
    }
}

/// A recorder whose events also update the progress for the driver.
struct ObservedRecorder {
    env: Arc<ReplayEnv>,
    recorder: Arc<dyn TurnObserver>,
}

impl TurnObserver for ObservedRecorder {
    fn on_event(&self, event: TurnEvent<'_>) {
        self.env.update_progress(&event);
        self.recorder.on_event(event);
    }
}

/// The turn goes as it was recorded.
impl TurnDirector for ReplayEnv {
    fn injected_failure(&self) -> Option<(Duration, Fault)> {
        connect_failure(&self.recorded, self.progress().attempts_begun)
    }

    fn sets_time(&self) -> bool {
        true
    }

    fn next_chunk_len(&self) -> Option<usize> {
        let progress = self.progress();
        let attempt = progress.attempts_begun.checked_sub(1)?;
        let attempt = self.recorded.attempts.get(attempt)?;
        attempt
            .pieces
            .get(progress.upstream_chunks)
            .map(|piece| piece.length)
    }

    fn waits_for_heartbeat(&self) -> bool {
        let progress = self.progress();
        // During an attempt the driver waits for the recorded heartbeats.
        let heartbeats = &self.recorded.heartbeats_between_attempts;
        progress.attempts_over == progress.attempts_begun
            && heartbeats.binary_search(&progress.client_chunks).is_ok()
    }

    fn silence_after_heartbeat(&self) -> Option<Duration> {
        let (progress, recorded) = (self.progress(), &self.recorded);
        let attempt = progress.attempts_begun.checked_sub(1)?;
        let attempt = recorded.attempts.get(attempt)?;
        let next = attempt.pieces.get(progress.upstream_chunks);
        let silence_ends = next.map_or(attempt.end_us, |piece| piece.at_us);
        let due = chunks_before(recorded, silence_ends);
        (progress.client_chunks < due).then_some(SILENCE_AFTER_HEARTBEAT)
    }

    /// The recorded time between the last chunk for the client and the attempt, less what has
    /// passed. It ends before the next heartbeat is due, because none was recorded here.
    fn pause_before_attempt(&self) -> Option<Duration> {
        let (progress, recorded) = (self.progress(), &self.recorded);
        let attempt = recorded.attempts.get(progress.attempts_begun)?;
        let sent = progress.client_chunks.checked_sub(1)?;
        let sent_us = recorded.answer.pieces.get(sent)?.at_us;
        let pause = Duration::from_micros(attempt.at_us.saturating_sub(sent_us));
        let heartbeat = Duration::from_millis(recorded.heartbeat_ms);
        let longest = heartbeat.saturating_sub(TIMER_MARGIN);
        let passed = progress.last_client_chunk?.elapsed();
        pause.min(longest).checked_sub(passed)
    }
}

/// How many chunks were sent to the client before a recorded time.
pub(super) fn chunks_before(turn: &BundleTurn, at_us: u64) -> usize {
    turn.answer
        .pieces
        .partition_point(|chunk| chunk.at_us < at_us)
}

/// The fault of an attempt, numbered from 1, that ended without the head of a response,
/// and after how long. Not for attempts that a shutdown ended: the replay plays the
/// shutdown itself.
pub(super) fn connect_failure(turn: &BundleTurn, number: usize) -> Option<(Duration, Fault)> {
    let attempt = turn.attempts.get(number.checked_sub(1)?)?;
    let fault = attempt.fault.as_ref()?;
    let failed_to_connect = attempt.head.is_none() && fault.kind != Kind::Draining;
    let after = Duration::from_micros(attempt.end_us.saturating_sub(attempt.at_us));
    failed_to_connect.then(|| (after, fault.clone()))
}

/// Returns the recorded readings of clock and randomness. After the last one, the clock
/// stands still and the random bits come from a counter.
struct RecordedReadings {
    recorded: Arc<BundleTurn>,
    next: Mutex<NextReading>,
}

#[derive(Default)]
struct NextReading {
    clock: u64,
    random: usize,
}

impl RecordedReadings {
    fn lock_next(&self) -> MutexGuard<'_, NextReading> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for RecordedReadings {
    fn unix(&self) -> u64 {
        let mut readings = self.lock_next();
        let changes = &self.recorded.clock;
        let after = changes.partition_point(|(before, _)| *before <= readings.clock);
        readings.clock += 1;
        let change = after.checked_sub(1).and_then(|index| changes.get(index));
        change.map_or(self.recorded.began_ms / 1000, |(_, now)| *now)
    }
}

impl Random for RecordedReadings {
    fn bits(&self) -> u128 {
        let mut readings = self.lock_next();
        let index = readings.random;
        readings.random += 1;
        let recorded = self.recorded.random.get(index);
        recorded
            .and_then(|digits| u128::from_str_radix(digits, 16).ok())
            // The factor is odd, so no two of these values are equal.
            .unwrap_or_else(|| {
                (index as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
            })
    }
}
