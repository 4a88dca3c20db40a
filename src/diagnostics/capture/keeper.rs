//! Writes turns to disk, on a thread of its own: scrubbing takes its time, and no
//! turn waits for a disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;

use super::choice::clean;
use super::raw::Raw;
use crate::diagnostics::bundle::{Bundle, Folder};
use crate::diagnostics::line::Line;
use crate::diagnostics::log;
use crate::diagnostics::redact::Keep;

/// Turns that wait to be written; more are let go.
const WAITING: usize = 16;
/// How long the end of the program waits for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes turns in their order.
#[derive(Default)]
pub(super) struct Keeper {
    jobs: OnceLock<Option<SyncSender<Job>>>,
    /// Turns that were let go, and are still to be told of.
    lost: Arc<AtomicUsize>,
}

enum Job {
    Keep(Arc<Raw>),
    /// Everything before is written when this is dropped.
    Flush(SyncSender<()>),
}

impl Keeper {
    /// Has a turn written.
    pub(super) fn keep(&self, raw: Arc<Raw>) {
        let Some(jobs) = self.jobs.get_or_init(|| begin(Arc::clone(&self.lost))) else {
            return;
        };
        if jobs.try_send(Job::Keep(raw)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is written, for a while.
    pub(super) fn flush(&self) {
        let Some(Some(jobs)) = self.jobs.get() else {
            return;
        };
        let (done, written) = sync_channel(0);
        if jobs.send(Job::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

/// Redacts a turn and writes it as a bundle of its own.
fn write(raw: &Raw) -> anyhow::Result<PathBuf> {
    let config = &raw.config;
    let capture = &config.capture;
    let keep = Keep {
        images: capture.images,
        encrypted: capture.encrypted,
    };
    let turn = clean(raw, keep);
    let bundle = Bundle {
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        images: keep.images,
        encrypted: keep.encrypted,
        turns: vec![turn],
    };
    let bytes = bundle.to_bytes()?;
    let turn = bundle.turns.first().context("the bundle lost its turn")?;
    let path = Folder::of(config).put(turn, &bytes, SystemTime::now())?;
    Ok(path)
}

fn begin(lost: Arc<AtomicUsize>) -> Option<SyncSender<Job>> {
    let (jobs, waiting) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("capture".to_owned());
    match thread.spawn(move || work(&waiting, &lost)) {
        Ok(_) => Some(jobs),
        Err(error) => {
            tracing::error!("failing turns are not kept: {error}");
            None
        }
    }
}

fn work(jobs: &Receiver<Job>, lost: &AtomicUsize) {
    // Of a disk that is full one line is enough.
    let mut told = String::new();
    while let Ok(job) = next(jobs, lost) {
        match job {
            Job::Keep(raw) => {
                let written = catch_unwind(AssertUnwindSafe(|| write(&raw)));
                let why = match written {
                    Ok(Ok(path)) => {
                        told.clear();
                        let path = path.display().to_string();
                        tracing::info!(target: log::CAPTURE, "turn kept: {}", Line::new(&path));
                        continue;
                    }
                    Ok(Err(error)) => format!("{error:#}"),
                    Err(_) => "a defect".to_owned(),
                };
                if why != told {
                    tracing::warn!(
                        target: log::CAPTURE,
                        "turns cannot be kept in {}, {} is the first: {}",
                        Line::new(&raw.config.server.bundles_dir().display().to_string()),
                        raw.request_id,
                        Line::new(&why)
                    );
                    told = why;
                }
            }
            Job::Flush(done) => drop(done),
        }
    }
}

/// The next job. Before it is waited for, it is told how many turns were let go.
fn next(jobs: &Receiver<Job>, lost: &AtomicUsize) -> Result<Job, RecvError> {
    match jobs.try_recv() {
        Ok(job) => return Ok(job),
        Err(TryRecvError::Disconnected) => return Err(RecvError),
        Err(TryRecvError::Empty) => {}
    }
    let lost = lost.swap(0, Ordering::Relaxed);
    if lost > 0 {
        tracing::warn!(
            target: log::CAPTURE,
            "turns came faster than they could be written: {lost} were not kept"
        );
    }
    jobs.recv()
}
