//! Writes recorded turns to disk, and compresses those that stay in memory, on a thread of its
//! own: replays, redaction and compression take time, and no turn may wait for a disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvError, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use adapters::stop_flag::StopFlag;
use anyhow::Context;

use super::finished::FinishedTurn;
use super::redacted::{redacted_turn, scrubber};
use crate::diagnostics::bundle::{Bundle, BundleFolder};
use crate::diagnostics::redact::Keep;
use crate::log;
use crate::log::SafeText;

/// How many turns may wait to be written; further ones are dropped.
const QUEUE_LENGTH: usize = 16;
/// How often [`BundleWriter::flush`] looks whether it has to stop.
const FLUSH_STEP: Duration = Duration::from_millis(50);

/// Queues turns for the writer thread, which starts with the first turn.
#[derive(Default)]
pub(super) struct BundleWriter {
    /// `None` inside if the thread could not be started.
    jobs: OnceLock<Option<Sender<WriteJob>>>,
    counts: Arc<TurnCounts>,
}

#[derive(Default)]
struct TurnCounts {
    /// Turns that wait to be written.
    waiting: AtomicUsize,
    /// Dropped turns that the log does not mention yet.
    dropped: AtomicUsize,
}

impl TurnCounts {
    /// Counts a turn as waiting, or as dropped if too many wait already. True if it may wait.
    fn try_queue(&self) -> bool {
        let waits = self.waiting.fetch_add(1, Ordering::Relaxed) < QUEUE_LENGTH;
        if !waits {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        waits
    }
}

enum WriteJob {
    Write(Arc<FinishedTurn>),
    /// A turn that may be evicted before its turn comes.
    Compress(Weak<FinishedTurn>),
    /// The writer drops the sender when all earlier jobs are done.
    Flush(SyncSender<()>),
}

impl BundleWriter {
    /// Queues a turn to be written if it `is_written` and not too many turns wait already. Queues
    /// any other turn to be compressed, if that is worth it. Does not block.
    pub(super) fn enqueue(&self, turn: &Arc<FinishedTurn>, is_written: bool) {
        let counts = &self.counts;
        let is_queued = is_written && counts.try_queue();
        let job = if is_queued {
            WriteJob::Write(Arc::clone(turn))
        } else if turn.is_worth_compressing() {
            WriteJob::Compress(Arc::downgrade(turn))
        } else {
            return;
        };
        let jobs = self.jobs.get_or_init(|| spawn_writer(Arc::clone(counts)));
        if let Some(jobs) = jobs {
            // Fails only if the thread has ended, with the process.
            let _ = jobs.send(job);
        }
    }

    /// Blocks until all queued turns are written, until the time has passed or until `stop` is
    /// raised. Returns how many turns are not written.
    pub(super) fn flush(&self, timeout: Duration, stop: &StopFlag) -> usize {
        let Some(Some(jobs)) = self.jobs.get() else {
            return 0;
        };
        let (done, written) = sync_channel(0);
        if jobs.send(WriteJob::Flush(done)).is_ok() {
            let until = Instant::now() + timeout;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                let step = left.min(FLUSH_STEP);
                let waits = written.recv_timeout(step) == Err(RecvTimeoutError::Timeout);
                if !waits || left.is_zero() || stop.is_raised() {
                    break;
                }
            }
        }
        self.counts.waiting.load(Ordering::Relaxed)
    }
}

/// Redacts a turn and stores it as a bundle with this turn alone.
fn write_bundle(turn: &FinishedTurn) -> anyhow::Result<PathBuf> {
    let config = &turn.config;
    let capture = &config.capture;
    let keep = Keep {
        images: capture.images,
        encrypted: capture.encrypted,
    };
    let scrubber = scrubber(config, keep);
    let turn = redacted_turn(turn, &[&scrubber], &StopFlag::default());
    let bundle = Bundle {
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        images: keep.images,
        encrypted: keep.encrypted,
        turns: vec![turn],
    };
    let bytes = bundle.to_bytes()?;
    let turn = bundle
        .turns
        .first()
        .context("the bundle dropped its turn")?;
    let path = BundleFolder::from_config(config).write(turn, &bytes, SystemTime::now())?;
    Ok(path)
}

fn spawn_writer(counts: Arc<TurnCounts>) -> Option<Sender<WriteJob>> {
    let (jobs, waiting) = channel();
    let thread = std::thread::Builder::new().name("capture".to_owned());
    match thread.spawn(move || run_writer(&waiting, &counts)) {
        Ok(_) => Some(jobs),
        Err(error) => {
            tracing::error!("failing turns are not kept: {error}");
            None
        }
    }
}

fn run_writer(jobs: &Receiver<WriteJob>, counts: &TurnCounts) {
    // The same failure, such as a full disk, is logged once.
    let mut last_warning = String::new();
    while let Ok(job) = next_job(jobs, counts) {
        let turn = match job {
            WriteJob::Write(turn) => {
                log_written(&turn, &mut last_warning);
                counts.waiting.fetch_sub(1, Ordering::Relaxed);
                Arc::downgrade(&turn)
            }
            WriteJob::Compress(turn) => turn,
            WriteJob::Flush(done) => {
                drop(done);
                continue;
            }
        };
        if let Some(turn) = turn.upgrade() {
            // A defect in it leaves the turn as it is.
            let _ = catch_unwind(AssertUnwindSafe(|| turn.compress()));
        }
    }
}

/// Writes a turn and logs where it is, or why it is nowhere unless `last_warning` says so already.
fn log_written(turn: &FinishedTurn, last_warning: &mut String) {
    let written = catch_unwind(AssertUnwindSafe(|| write_bundle(turn)));
    let reason = match written {
        Ok(Ok(path)) => {
            last_warning.clear();
            let path = path.display().to_string();
            tracing::debug!(target: log::CAPTURE_TARGET, "turn kept: {}", SafeText::new(&path));
            return;
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => "a defect".to_owned(),
    };
    if reason != *last_warning {
        tracing::warn!(
            target: log::CAPTURE_TARGET,
            "turns cannot be kept in {}, {} is the first: {}",
            SafeText::new(&turn.config.server.bundles_dir().display().to_string()),
            turn.listed.request_id,
            SafeText::new(&reason)
        );
        *last_warning = reason;
    }
}

/// The next job. When the queue is empty, the number of dropped turns is logged
/// before waiting.
fn next_job(jobs: &Receiver<WriteJob>, counts: &TurnCounts) -> Result<WriteJob, RecvError> {
    match jobs.try_recv() {
        Ok(job) => return Ok(job),
        Err(TryRecvError::Disconnected) => return Err(RecvError),
        Err(TryRecvError::Empty) => {}
    }
    let dropped = counts.dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        tracing::warn!(
            target: log::CAPTURE_TARGET,
            "turns came faster than they could be written: {dropped} were not kept"
        );
    }
    jobs.recv()
}
