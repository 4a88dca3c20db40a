//! Work on recorded turns for clients: one at a time, since each copies and runs turns again; it
//! counts its memory, and ends soon when its client does not wait for it any more.

use adapters::stop_flag::StopFlag;

use super::TurnCapture;
use crate::diagnostics::bundle::BundleError;
use crate::net::blocking::run_stoppable;
use crate::net::memory::{MemoryFull, MemoryKind, MemoryShare, ProcessMemory, STEP};

/// How many copies of a turn there are at most while it is run again: the recording, those of its
/// replay, and the redacted ones.
const COPIES: usize = 6;

/// The work of one request. Made by [`TurnCapture::run_work`]; the default one is for a program
/// that does nothing else.
pub struct CaptureWork {
    pub(super) stop: StopFlag,
    memory: MemoryShare,
    /// The bytes of the turns that are done.
    done: usize,
}

/// Why there is no result of work on recorded turns.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureWorkError {
    /// There is no memory for it now.
    #[error(transparent)]
    MemoryFull(#[from] MemoryFull),
    /// It panicked.
    #[error("the work on recorded turns failed")]
    Failed,
}

impl TurnCapture {
    /// Runs work on a blocking thread when the work before it has ended. It is stopped when this
    /// future is dropped.
    pub async fn run_work<T: Send + 'static>(
        &self,
        memory: &ProcessMemory,
        work: impl FnOnce(&Self, &mut CaptureWork) -> T + Send + 'static,
    ) -> Result<T, CaptureWorkError> {
        let permit = self.0.permit().await.ok_or(CaptureWorkError::Failed)?;
        let mut memory = memory.share(MemoryKind::Recordings);
        memory.request(STEP).await?;
        let capture = self.clone();
        let result = run_stoppable(move |stop| {
            // Kept until the work has really ended.
            let _permit = permit;
            let mut bounds = CaptureWork {
                stop: stop.clone(),
                memory,
                done: 0,
            };
            work(&capture, &mut bounds)
        });
        result.await.ok_or(CaptureWorkError::Failed)
    }
}

impl CaptureWork {
    /// An error if the client does not wait for the work any more.
    pub(super) fn check(&self) -> Result<(), BundleError> {
        if self.stop.is_raised() {
            return Err(BundleError::Stopped);
        }
        Ok(())
    }

    /// Counts a turn whose bodies have `bytes` bytes, and its copies, while it is worked on.
    pub(super) fn begin_turn(&mut self, bytes: usize) {
        let copies = bytes.saturating_mul(COPIES);
        self.memory.set(self.done.saturating_add(copies));
    }

    /// Counts a turn that stays until the work has ended.
    pub(super) fn keep_turn(&mut self, bytes: usize) {
        self.done = self.done.saturating_add(bytes);
        self.memory.set(self.done);
    }
}

/// Work that is never stopped, in a budget without a limit.
impl Default for CaptureWork {
    fn default() -> Self {
        Self {
            stop: StopFlag::default(),
            memory: ProcessMemory::unlimited().share(MemoryKind::Recordings),
            done: 0,
        }
    }
}
