//! Writes recorded turns to disk on a thread of its own: redaction takes time, and
//! no turn may wait for a disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;

use super::recorded_turn::RecordedTurn;
use super::redacted::{redacted_turn, scrubber};
use crate::diagnostics::bundle::{Bundle, BundleFolder};
use crate::diagnostics::redact::Keep;
use crate::log;
use crate::log::SafeText;

/// How many turns may wait to be written; further ones are dropped.
const QUEUE_LENGTH: usize = 16;
/// How long [`BundleWriter::flush`] waits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Queues turns for the writer thread, which starts with the first turn.
#[derive(Default)]
pub(super) struct BundleWriter {
    /// `None` inside if the thread could not be started.
    jobs: OnceLock<Option<SyncSender<WriteJob>>>,
    /// Dropped turns that the log does not mention yet.
    dropped: Arc<AtomicUsize>,
}

enum WriteJob {
    Write(Arc<RecordedTurn>),
    /// The writer drops the sender when all earlier jobs are done.
    Flush(SyncSender<()>),
}

impl BundleWriter {
    /// Queues a turn; drops it if the queue is full. Does not block.
    pub(super) fn enqueue(&self, turn: Arc<RecordedTurn>) {
        let Some(jobs) = self
            .jobs
            .get_or_init(|| spawn_writer(Arc::clone(&self.dropped)))
        else {
            return;
        };
        if jobs.try_send(WriteJob::Write(turn)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Blocks until all queued turns are written, or [`FLUSH_TIMEOUT`] has passed.
    pub(super) fn flush(&self) {
        let Some(Some(jobs)) = self.jobs.get() else {
            return;
        };
        let (done, written) = sync_channel(0);
        if jobs.send(WriteJob::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Redacts a turn and stores it as a bundle with this turn alone.
fn write_bundle(turn: &RecordedTurn) -> anyhow::Result<PathBuf> {
    let config = &turn.config;
    let capture = &config.capture;
    let keep = Keep {
        images: capture.images,
        encrypted: capture.encrypted,
    };
    let turn = redacted_turn(turn, &[&scrubber(config, keep)]);
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

fn spawn_writer(dropped: Arc<AtomicUsize>) -> Option<SyncSender<WriteJob>> {
    let (jobs, waiting) = sync_channel(QUEUE_LENGTH);
    let thread = std::thread::Builder::new().name("capture".to_owned());
    match thread.spawn(move || run_writer(&waiting, &dropped)) {
        Ok(_) => Some(jobs),
        Err(error) => {
            tracing::error!("failing turns are not kept: {error}");
            None
        }
    }
}

fn run_writer(jobs: &Receiver<WriteJob>, dropped: &AtomicUsize) {
    // The same failure, such as a full disk, is logged once.
    let mut last_warning = String::new();
    while let Ok(job) = next_job(jobs, dropped) {
        match job {
            WriteJob::Write(turn) => {
                let written = catch_unwind(AssertUnwindSafe(|| write_bundle(&turn)));
                let reason = match written {
                    Ok(Ok(path)) => {
                        last_warning.clear();
                        let path = path.display().to_string();
                        tracing::info!(target: log::CAPTURE_TARGET, "turn kept: {}", SafeText::new(&path));
                        continue;
                    }
                    Ok(Err(error)) => format!("{error:#}"),
                    Err(_) => "a defect".to_owned(),
                };
                if reason != last_warning {
                    tracing::warn!(
                        target: log::CAPTURE_TARGET,
                        "turns cannot be kept in {}, {} is the first: {}",
                        SafeText::new(&turn.config.server.bundles_dir().display().to_string()),
                        turn.request_id,
                        SafeText::new(&reason)
                    );
                    last_warning = reason;
                }
            }
            WriteJob::Flush(done) => drop(done),
        }
    }
}

/// The next job. When the queue is empty, the number of dropped turns is logged
/// before waiting.
fn next_job(jobs: &Receiver<WriteJob>, dropped: &AtomicUsize) -> Result<WriteJob, RecvError> {
    match jobs.try_recv() {
        Ok(job) => return Ok(job),
        Err(TryRecvError::Disconnected) => return Err(RecvError),
        Err(TryRecvError::Empty) => {}
    }
    let dropped = dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        tracing::warn!(
            target: log::CAPTURE_TARGET,
            "turns came faster than they could be written: {dropped} were not kept"
        );
    }
    jobs.recv()
}
