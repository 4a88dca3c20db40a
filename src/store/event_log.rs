//! Appends events to the logs of background responses: those that wait at the same time in one
//! transaction, because a commit takes longer than what it writes.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::jobs::{append, number_of};
use super::writer::{self, WriterState};
use super::{EventBatch, Store, StoreError};

/// The events that wait for the thread that writes.
pub(super) type WaitingEvents = Arc<Mutex<Vec<EventAppend>>>;

/// Events of one response, on their way to its log.
pub(super) struct EventAppend {
    owner: String,
    id: String,
    events: EventBatch,
    answer: oneshot::Sender<Result<(), StoreError>>,
}

impl EventAppend {
    /// False if the owner has no such response.
    fn write(&self, connection: &Connection) -> Result<bool, StoreError> {
        let Some(number) = number_of(connection, &self.owner, &self.id)? else {
            return Ok(false);
        };
        append(connection, number, &self.events)?;
        Ok(true)
    }

    fn answer(self, written: Result<bool, StoreError>) {
        let written = match written {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Gone),
            Err(error) => Err(error),
        };
        // The caller may no longer wait.
        self.answer.send(written).ok();
    }
}

impl Store {
    /// Appends events to the log of a response. They are on the disk when this returns.
    pub async fn append_events(
        &self,
        owner: &str,
        id: &str,
        events: EventBatch,
    ) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        let room = jobs.reserve().await.map_err(|_| StoreError::Closed)?;
        let (answer, written) = oneshot::channel();
        self.waiting_events.lock().push(EventAppend {
            owner: owner.to_owned(),
            id: id.to_owned(),
            events,
            answer,
        });
        let waiting = Arc::clone(&self.waiting_events);
        // The first of these jobs finds all that waits, and the others find nothing.
        let (job, _) = writer::job(move |writer| {
            let appends = std::mem::take(&mut *waiting.lock());
            write_all(writer, appends);
        });
        room.send(job);
        written.await.map_err(|_| StoreError::Closed)?
    }
}

fn write_all(writer: &mut WriterState, appends: Vec<EventAppend>) {
    if appends.len() > 1 {
        let together = writer.write(|writer| {
            writer.in_transaction(|connection| {
                let found = appends.iter().map(|append| append.write(connection));
                found.collect::<Result<Vec<bool>, StoreError>>()
            })
        });
        if let Ok(found) = together {
            for (append, is_found) in appends.into_iter().zip(found) {
                append.answer(Ok(is_found));
            }
            return;
        }
        // Each by itself, so that one that cannot be written does not fail the others.
    }
    for append in appends {
        let written =
            writer.write(|writer| writer.in_transaction(|connection| append.write(connection)));
        append.answer(written);
    }
}
