//! A batch of artifacts on its way to the disk.

use tokio::sync::{mpsc, oneshot};

use super::writer::{self, StoreWrite, UnwrittenBatch, WrittenBatch};
use super::{ArtifactBatch, StoreError};

type BatchAnswer = oneshot::Receiver<Result<WrittenBatch, UnwrittenBatch>>;

/// A batch that was handed to the store and may not be written yet. Made by
/// [`Store::write`](super::Store::write); the batch is written even if this is dropped, unless the
/// queue was full.
pub struct PendingWrite(PendingState);

enum PendingState {
    Queued(BatchAnswer),
    /// The queue was full, or it is gone, because the writer thread has ended.
    NotQueued(ArtifactBatch, Option<mpsc::WeakSender<StoreWrite>>),
}

impl PendingWrite {
    pub(super) fn queue(queue: Option<&mpsc::Sender<StoreWrite>>, batch: ArtifactBatch) -> Self {
        Self(match queue.map(mpsc::Sender::try_reserve) {
            Some(Ok(room)) => PendingState::Queued(send(room, batch)),
            Some(Err(_)) | None => {
                PendingState::NotQueued(batch, queue.map(mpsc::Sender::downgrade))
            }
        })
    }

    /// Waits until the whole batch is on the disk. On failure the artifacts come back, so that
    /// they can be kept elsewhere.
    pub async fn done(self) -> Result<WrittenBatch, UnwrittenBatch> {
        let closed = |artifacts| UnwrittenBatch {
            artifacts,
            error: StoreError::Closed,
        };
        let answer = match self.0 {
            PendingState::Queued(answer) => answer,
            PendingState::NotQueued(batch, queue) => {
                let Some(queue) = queue.and_then(|queue| queue.upgrade()) else {
                    return Err(closed(batch.artifacts));
                };
                match queue.reserve().await {
                    Ok(room) => send(room, batch),
                    Err(_) => return Err(closed(batch.artifacts)),
                }
            }
        };
        answer.await.unwrap_or_else(|_| Err(closed(Vec::new())))
    }
}

fn send(room: mpsc::Permit<'_, StoreWrite>, batch: ArtifactBatch) -> BatchAnswer {
    let (write, answer) = writer::alone(|writer| writer.write_batch(batch));
    room.send(write);
    answer
}
