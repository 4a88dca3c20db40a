//! Group commit: changes that wait at the same time are made in one transaction, because a commit
//! takes longer than what most of them write.

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::StoreError;
use super::writer::{StoreWrite, WriterState};

/// The most changes of one transaction: each of them is answered when all are on the disk.
pub(super) const MAX_CHANGES: usize = 64;

/// A change of the database that may share its transaction with others.
pub(super) trait SharedChange: Send {
    /// Makes the change in a transaction, and keeps its result. Is called again if the transaction
    /// could not be committed.
    fn make(&mut self, connection: &Connection) -> Result<(), StoreError>;

    /// Tells the waiting caller that the change is on the disk, or why it is not.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct WaitingChange<T, C> {
    work: C,
    made: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, C> SharedChange for WaitingChange<T, C>
where
    T: Send,
    C: Fn(&Connection) -> Result<T, StoreError> + Send,
{
    fn make(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.made = Some((self.work)(connection)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let made = self.made.ok_or(StoreError::Closed);
        // The caller may no longer wait for the result.
        self.reply.send(committed.and(made)).ok();
    }
}

/// A change for the thread that writes, and where its result arrives when it is on the disk.
pub(super) fn change<T: Send + 'static>(
    work: impl Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
) -> (StoreWrite, oneshot::Receiver<Result<T, StoreError>>) {
    let (reply, answer) = oneshot::channel();
    let change = WaitingChange {
        work,
        made: None,
        reply,
    };
    (StoreWrite::Shared(Box::new(change)), answer)
}

/// Makes changes in one transaction, in their order. If one of them cannot be made, each gets a
/// transaction of its own, so that it does not fail the others.
pub(super) fn commit(writer: &mut WriterState, mut changes: Vec<Box<dyn SharedChange>>) {
    if changes.len() > 1 && make(writer, &mut changes).is_ok() {
        for change in changes {
            change.answer(Ok(()));
        }
        return;
    }
    for mut change in changes {
        let made = make(writer, std::slice::from_mut(&mut change));
        change.answer(made);
    }
}

fn make(writer: &mut WriterState, changes: &mut [Box<dyn SharedChange>]) -> Result<(), StoreError> {
    writer.write(|writer| {
        writer.in_transaction(|connection| {
            changes
                .iter_mut()
                .try_for_each(|change| change.make(connection))
        })
    })
}
