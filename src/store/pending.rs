//! A batch of artifacts on its way to the disk.

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::writer::{UnwrittenBatch, WriteCommand, WrittenBatch};
use super::{ArtifactBatch, StoreError};

/// A batch that was handed to the store and may not be written yet. Made by
/// [`Store::write`](super::Store::write); the batch is written even if this is dropped, unless the
/// queue was full.
pub struct PendingWrite(PendingState);

enum PendingState {
    Queued(oneshot::Receiver<Result<WrittenBatch, UnwrittenBatch>>),
    /// The queue was full.
    NotQueued(ArtifactBatch, mpsc::WeakSender<WriteCommand>),
    Closed(ArtifactBatch),
}

impl PendingWrite {
    pub(super) fn queue(
        commands: Option<&mpsc::Sender<WriteCommand>>,
        batch: ArtifactBatch,
    ) -> Self {
        let Some(commands) = commands else {
            return Self(PendingState::Closed(batch));
        };
        let (reply, answer) = oneshot::channel();
        Self(match commands.try_send(WriteCommand::Write(batch, reply)) {
            Ok(()) => PendingState::Queued(answer),
            Err(TrySendError::Full(command)) => match command.into_batch() {
                Some(batch) => PendingState::NotQueued(batch, commands.downgrade()),
                None => PendingState::Queued(answer),
            },
            Err(TrySendError::Closed(command)) => match command.into_batch() {
                Some(batch) => PendingState::Closed(batch),
                None => PendingState::Queued(answer),
            },
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
            PendingState::Closed(batch) => return Err(closed(batch.artifacts)),
            PendingState::NotQueued(batch, commands) => {
                let Some(commands) = commands.upgrade() else {
                    return Err(closed(batch.artifacts));
                };
                let (reply, answer) = oneshot::channel();
                if let Err(unsent) = commands.send(WriteCommand::Write(batch, reply)).await {
                    let batch = unsent.0.into_batch();
                    return Err(closed(batch.map_or_else(Vec::new, |batch| batch.artifacts)));
                }
                answer
            }
        };
        answer.await.unwrap_or_else(|_| Err(closed(Vec::new())))
    }
}
