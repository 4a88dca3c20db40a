//! The environments of a replayed turn: clock, randomness and faults as they
//! were, and an observer that tells the driver how far the turn is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::{Clock, Random, System};
use crate::config::Config;
use crate::diagnostics::bundle::Turn;
use crate::diagnostics::capture::{Raw, Room, Shelf, Tape};
use crate::turn::{TurnEnvironment, TurnEnvironmentFactory};
use crate::turn::{TurnEvent, TurnObserver};

/// How far a turn is, as its taps saw it.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// Attempts that began.
    pub(super) begun: usize,
    /// Attempts that are over.
    pub(super) over: usize,
    /// When the head of the answer of the current attempt came.
    pub(super) head: Option<Instant>,
    /// Pieces of it that came.
    pub(super) pieces: usize,
    /// When its last piece came.
    pub(super) last_piece: Option<Instant>,
    /// Pieces of our answer.
    pub(super) answers: usize,
    /// Bytes of them.
    pub(super) said: u64,
    /// When the last of them went out.
    pub(super) last_answer: Option<Instant>,
    /// The turn is over.
    pub(super) ended: bool,
}

/// Where the turn runs, and what is seen of it from there.
pub(super) struct Stage {
    recorded: Arc<Turn>,
    progress: Mutex<Progress>,
    /// Told at every step of the turn.
    pub(super) news: Notify,
    /// The turn itself begins: what comes before it only prepares the memory.
    armed: AtomicBool,
    taped: Arc<Taped>,
}

/// The turn that was taped.
#[derive(Default)]
pub(super) struct Taped(Mutex<Option<Raw>>);

impl Taped {
    /// The last turn that is over.
    pub(super) fn take(&self) -> Option<Turn> {
        let raw = self.0.lock();
        let raw = raw.unwrap_or_else(PoisonError::into_inner).take();
        raw.map(|raw| raw.turn())
    }
}

impl Shelf for Taped {
    fn put(&self, raw: Raw) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(raw);
    }
}

impl Stage {
    pub(super) fn new(recorded: &Arc<Turn>) -> Arc<Self> {
        Arc::new(Self {
            recorded: Arc::clone(recorded),
            progress: Mutex::default(),
            news: Notify::new(),
            armed: AtomicBool::new(false),
            taped: Arc::default(),
        })
    }

    /// The next turn is the one that is replayed.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    /// How far the turn is.
    pub(super) fn progress(&self) -> Progress {
        *self.lock()
    }

    /// The taped turn, once it is over.
    pub(super) fn taped(&self) -> Option<Turn> {
        self.taped.take()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saw(&self, seen: &TurnEvent<'_>) {
        let mut progress = self.lock();
        match seen {
            TurnEvent::UpstreamRequest { .. } => {
                progress.begun += 1;
                progress.head = None;
                progress.pieces = 0;
                progress.last_piece = None;
            }
            TurnEvent::UpstreamHead { .. } => progress.head = Some(Instant::now()),
            TurnEvent::UpstreamBody(_) => {
                progress.pieces += 1;
                progress.last_piece = Some(Instant::now());
            }
            TurnEvent::AttemptEnd(_) => progress.over = progress.begun,
            TurnEvent::ClientBody(bytes) => {
                progress.answers += 1;
                progress.said += bytes.len() as u64;
                progress.last_answer = Some(Instant::now());
            }
            TurnEvent::Ended { .. } => progress.ended = true,
            TurnEvent::ClientRequest { .. }
            | TurnEvent::Routes { .. }
            | TurnEvent::State(_)
            | TurnEvent::Baggage(_)
            | TurnEvent::Key(_)
            | TurnEvent::UpstreamEnd
            | TurnEvent::ShuttingDown
            | TurnEvent::ClientHead { .. } => {}
        }
        drop(progress);
        self.news.notify_one();
    }
}

/// [`Stage`] as the environments of its service.
pub(super) struct OnStage(pub(super) Arc<Stage>);

impl TurnEnvironmentFactory for OnStage {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let stage = &self.0;
        if !stage.armed.load(Ordering::Relaxed) {
            return System.create(request_id, config);
        }
        let memory = Arc::new(Memory {
            recorded: Arc::clone(&stage.recorded),
            readings: Mutex::default(),
        });
        let taped: Arc<Taped> = Arc::clone(&stage.taped);
        let tape = Arc::new(Tape::new(
            request_id,
            config,
            (Arc::clone(&memory) as _, memory),
            &Arc::new(Room::default()),
            taped,
        ));
        TurnEnvironment {
            clock: Arc::clone(&tape) as _,
            random: Arc::clone(&tape) as _,
            observer: Some(Arc::new(Watched {
                stage: Arc::clone(stage),
                tape,
            })),
        }
    }
}

/// A tape that the driver looks at.
struct Watched {
    stage: Arc<Stage>,
    tape: Arc<Tape>,
}

impl TurnObserver for Watched {
    fn on_event(&self, event: TurnEvent<'_>) {
        self.stage.saw(&event);
        self.tape.on_event(event);
    }

    fn injected_failure(&self) -> Option<(Duration, Fault)> {
        unreached(&self.stage.recorded, self.stage.progress().begun)
    }

    fn next_chunk_len(&self) -> Option<usize> {
        let progress = self.stage.progress();
        let attempt = progress.begun.checked_sub(1)?;
        let attempt = self.stage.recorded.attempts.get(attempt)?;
        attempt
            .pieces
            .get(progress.pieces)
            .map(|piece| piece.length)
    }
}

/// After how long, and with which fault, the attempt of this number, counted
/// from 1, ended before its answer had a head. One that the end of the program
/// broke off is not meant: that is played, not told.
pub(super) fn unreached(turn: &Turn, number: usize) -> Option<(Duration, Fault)> {
    let attempt = turn.attempts.get(number.checked_sub(1)?)?;
    let fault = attempt.fault.as_ref()?;
    let told = attempt.head.is_none() && fault.kind != Kind::Draining;
    let after = Duration::from_micros(attempt.end_us.saturating_sub(attempt.at_us));
    told.then(|| (after, fault.clone()))
}

/// Clock and randomness as they were read. Where the turn reads on, the clock
/// stands still and the randomness counts.
struct Memory {
    recorded: Arc<Turn>,
    readings: Mutex<Readings>,
}

#[derive(Default)]
struct Readings {
    clock: u64,
    random: usize,
}

impl Memory {
    fn readings(&self) -> MutexGuard<'_, Readings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Memory {
    fn unix(&self) -> u64 {
        let mut readings = self.readings();
        let changes = &self.recorded.clock;
        let after = changes.partition_point(|(before, _)| *before <= readings.clock);
        readings.clock += 1;
        let change = after.checked_sub(1).and_then(|index| changes.get(index));
        change.map_or(self.recorded.began_ms / 1000, |(_, now)| *now)
    }
}

impl Random for Memory {
    fn bits(&self) -> u128 {
        let mut readings = self.readings();
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
