//! Writes turns to disk, on a thread of its own: scrubbing takes its time, and no
//! turn waits for a disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;

use super::choice::clean;
use super::raw::Raw;
use crate::diagnostics::bundle::{Bundle, Folder};
use crate::diagnostics::line::Line;
use crate::diagnostics::redact::Keep;

/// Turns that wait to be written; more are let go.
const WAITING: usize = 16;
/// How long the end of the program waits for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes turns in their order.
#[derive(Default)]
pub(super) struct Keeper(OnceLock<Option<SyncSender<Job>>>);

enum Job {
    Keep(Arc<Raw>),
    /// Everything before is written when this is dropped.
    Flush(SyncSender<()>),
}

impl Keeper {
    /// Has a turn written.
    pub(super) fn keep(&self, raw: Arc<Raw>) {
        let Some(jobs) = self.0.get_or_init(begin) else {
            return;
        };
        match jobs.try_send(Job::Keep(raw)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                tracing::warn!("turns fail faster than they are written: one was not kept");
            }
        }
    }

    /// Waits until everything is written, for a while.
    pub(super) fn flush(&self) {
        let Some(Some(jobs)) = self.0.get() else {
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

fn begin() -> Option<SyncSender<Job>> {
    let (jobs, waiting) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("capture".to_owned());
    match thread.spawn(move || work(&waiting)) {
        Ok(_) => Some(jobs),
        Err(error) => {
            tracing::error!("failing turns are not kept: {error}");
            None
        }
    }
}

fn work(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Keep(raw) => {
                let written = catch_unwind(AssertUnwindSafe(|| write(&raw)));
                let id = &raw.request_id;
                match written {
                    Ok(Ok(path)) => {
                        let path = path.display().to_string();
                        tracing::info!("{id} is kept as {}", Line::new(&path));
                    }
                    Ok(Err(error)) => tracing::warn!("{id} cannot be kept: {error:#}"),
                    Err(_) => tracing::error!("{id} cannot be kept: a defect"),
                }
            }
            Job::Flush(done) => drop(done),
        }
    }
}
