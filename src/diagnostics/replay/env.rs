//! The surroundings of a replayed turn: clock, randomness and faults as they
//! were, and a tap that tells the driver how far the turn is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Config;
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::capture::{FinishedTurnSink, MemoryBudget, RecordedTurn, Recorder};
use crate::tap::{Seen, Tap};
use crate::turn::{Clock, Random, Surrounding, Surroundings, System};

/// How far a turn is, as its taps saw it.
#[derive(Clone, Copy, Default)]
pub(super) struct TurnProgress {
    /// Attempts that began.
    pub(super) attempts_begun: usize,
    /// Attempts that are over.
    pub(super) attempts_over: usize,
    /// When the head of the answer of the current attempt came.
    pub(super) head_at: Option<Instant>,
    /// Pieces of it that came.
    pub(super) upstream_chunks: usize,
    /// When its last piece came.
    pub(super) last_upstream_chunk: Option<Instant>,
    /// Pieces of our answer.
    pub(super) client_chunks: usize,
    /// Bytes of them.
    pub(super) client_bytes: u64,
    /// When the last of them went out.
    pub(super) last_client_chunk: Option<Instant>,
    /// The turn is over.
    pub(super) ended: bool,
}

/// Where the turn runs, and what is seen of it from there.
pub(super) struct ReplayEnv {
    recorded: Arc<BundleTurn>,
    progress: Mutex<TurnProgress>,
    /// Told at every step of the turn.
    pub(super) changed: Notify,
    /// The turn itself begins: what comes before it only prepares the readings.
    armed: AtomicBool,
    finished: Arc<LastTurn>,
}

/// The turn that was finished.
#[derive(Default)]
pub(super) struct LastTurn(Mutex<Option<RecordedTurn>>);

impl LastTurn {
    /// The last turn that is over.
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
    pub(super) fn new(recorded: &Arc<BundleTurn>) -> Arc<Self> {
        Arc::new(Self {
            recorded: Arc::clone(recorded),
            progress: Mutex::default(),
            changed: Notify::new(),
            armed: AtomicBool::new(false),
            finished: Arc::default(),
        })
    }

    /// The next turn is the one that is replayed.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    /// How far the turn is.
    pub(super) fn progress(&self) -> TurnProgress {
        *self.lock_progress()
    }

    /// The finished turn, once it is over.
    pub(super) fn finished_turn(&self) -> Option<BundleTurn> {
        self.finished.take_bundle_turn()
    }

    fn lock_progress(&self) -> MutexGuard<'_, TurnProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_progress(&self, seen: &Seen<'_>) {
        let mut progress = self.lock_progress();
        match seen {
            Seen::UpstreamRequest { .. } => {
                progress.attempts_begun += 1;
                progress.head_at = None;
                progress.upstream_chunks = 0;
                progress.last_upstream_chunk = None;
            }
            Seen::UpstreamHead { .. } => progress.head_at = Some(Instant::now()),
            Seen::UpstreamAnswer(_) => {
                progress.upstream_chunks += 1;
                progress.last_upstream_chunk = Some(Instant::now());
            }
            Seen::AttemptEnd(_) => progress.attempts_over = progress.attempts_begun,
            Seen::ClientAnswer(bytes) => {
                progress.client_chunks += 1;
                progress.client_bytes += bytes.len() as u64;
                progress.last_client_chunk = Some(Instant::now());
            }
            Seen::Ended { .. } => progress.ended = true,
            Seen::ClientRequest { .. }
            | Seen::Routes { .. }
            | Seen::Given(_)
            | Seen::Baggage(_)
            | Seen::Key(_)
            | Seen::UpstreamEnd
            | Seen::Ending
            | Seen::ClientHead { .. } => {}
        }
        drop(progress);
        self.changed.notify_one();
    }
}

/// [`Stage`] as the surroundings of its service.
pub(super) struct ReplayEnvFactory(pub(super) Arc<ReplayEnv>);

impl Surroundings for ReplayEnvFactory {
    fn of(&self, request_id: &Arc<str>, config: &Arc<Config>) -> Surrounding {
        let env = &self.0;
        if !env.armed.load(Ordering::Relaxed) {
            return System.of(request_id, config);
        }
        let readings = Arc::new(RecordedReadings {
            recorded: Arc::clone(&env.recorded),
            next: Mutex::default(),
        });
        let finished: Arc<LastTurn> = Arc::clone(&env.finished);
        let recorder = Arc::new(Recorder::new(
            request_id,
            config,
            (Arc::clone(&readings) as _, readings),
            &Arc::new(MemoryBudget::default()),
            finished,
        ));
        Surrounding {
            clock: Arc::clone(&recorder) as _,
            random: Arc::clone(&recorder) as _,
            tap: Some(Arc::new(ObservedRecorder {
                env: Arc::clone(env),
                recorder: recorder,
            })),
        }
    }
}

/// A recorder that the driver looks at.
struct ObservedRecorder {
    env: Arc<ReplayEnv>,
    recorder: Arc<Recorder>,
}

impl Tap for ObservedRecorder {
    fn saw(&self, seen: Seen<'_>) {
        self.env.update_progress(&seen);
        self.recorder.saw(seen);
    }

    fn unreached(&self) -> Option<(Duration, Fault)> {
        connect_failure(&self.env.recorded, self.env.progress().attempts_begun)
    }

    fn next_piece(&self) -> Option<usize> {
        let progress = self.env.progress();
        let attempt = progress.attempts_begun.checked_sub(1)?;
        let attempt = self.env.recorded.attempts.get(attempt)?;
        attempt
            .pieces
            .get(progress.upstream_chunks)
            .map(|piece| piece.length)
    }
}

/// After how long, and with which fault, the attempt of this number, counted
/// from 1, ended before its answer had a head. One that the end of the program
/// broke off is not meant: that is played, not told.
pub(super) fn connect_failure(turn: &BundleTurn, number: usize) -> Option<(Duration, Fault)> {
    let attempt = turn.attempts.get(number.checked_sub(1)?)?;
    let fault = attempt.fault.as_ref()?;
    let told = attempt.head.is_none() && fault.kind != Kind::Draining;
    let after = Duration::from_micros(attempt.end_us.saturating_sub(attempt.at_us));
    told.then(|| (after, fault.clone()))
}

/// Clock and randomness as they were read. Where the turn reads on, the clock
/// stands still and the randomness counts.
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
            // An odd factor: no two of these are the same.
            .unwrap_or_else(|| {
                (index as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
            })
    }
}
