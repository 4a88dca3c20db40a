//! The database of artifacts, and the only SQL.
//!
//! | module | noun |
//! |---|---|
//! | [`place`] | the files, and who may write them |
//! | `schema` | opening, and the steps from older versions |
//! | `writer` | the one thread that writes |
//! | `put` | writing texts and whose they are |
//! | `chunks` | texts in compressed pieces |
//! | `find` | what there is, and parts of it |
//! | `sweep` | deleting, and giving the disk back |

mod chunks;
mod error;
mod find;
pub mod place;
mod put;
mod schema;
mod sweep;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use error::Error;
pub use place::{Claim, InUse, Place};
pub use put::Set;
pub use sweep::{Limits, Step};
pub use writer::{Refused, Written};

use crate::artifacts::{Entry, Filter, Part, Piece};
use writer::Command;

/// Commands that wait for the thread at most.
const QUEUE: usize = 64;

/// Connections that read at a time.
const READERS: usize = 3;

/// An open database. Dropping it waits until all that was asked for is written.
pub struct Store {
    place: Place,
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    readers: Arc<Readers>,
}

struct Readers {
    place: Place,
    turns: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

/// A set on its way to the disk.
pub struct Putting(State);

enum State {
    Asked(oneshot::Receiver<Result<Written, Refused>>),
    /// The queue was full.
    Full(Set, mpsc::WeakSender<Command>),
    Closed(Set),
}

impl Store {
    /// Opens the database, and makes it if there is none. One that is damaged is
    /// moved aside, to the path that is told. Blocks.
    pub fn open(place: &Place, now: u64) -> Result<(Self, Option<PathBuf>), Error> {
        place.prepare()?;
        let doubt = place.doubt();
        let doubted = doubt.exists();
        let opened = schema::writer(place).and_then(|connection| {
            if doubted && !schema::is_sound(&connection)? {
                return Err(Error::Damaged("it does not fit together"));
            }
            Ok(connection)
        });
        let (connection, aside) = match opened {
            Err(error) if error.is_corrupt() => {
                let aside = place.move_aside(now)?;
                place.prepare()?;
                (schema::writer(place)?, Some(aside))
            }
            opened => (opened?, None),
        };
        if doubted {
            std::fs::remove_file(doubt)?;
        }
        Ok((Self::start(place, connection)?, aside))
    }

    /// Opens a database that is there, and leaves it as it is if that fails.
    /// Blocks.
    pub fn open_sound(place: &Place) -> Result<Self, Error> {
        Self::start(place, schema::writer(place)?)
    }

    fn start(place: &Place, connection: Connection) -> Result<Self, Error> {
        let reader = schema::reader(place)?;
        let (commands, asked) = mpsc::channel(QUEUE);
        Ok(Self {
            thread: Some(writer::start(connection, place.clone(), asked)?),
            commands: Some(commands),
            readers: Arc::new(Readers {
                place: place.clone(),
                turns: Semaphore::new(READERS),
                idle: Mutex::new(vec![reader]),
            }),
            place: place.clone(),
        })
    }

    /// Begins to write a set. Never blocks.
    pub fn put(&self, set: Set) -> Putting {
        let Some(commands) = &self.commands else {
            return Putting(State::Closed(set));
        };
        let (reply, answer) = oneshot::channel();
        Putting(match commands.try_send(Command::Put(set, reply)) {
            Ok(()) => State::Asked(answer),
            Err(TrySendError::Full(command)) => match command.into_set() {
                Some(set) => State::Full(set, commands.downgrade()),
                None => State::Asked(answer),
            },
            Err(TrySendError::Closed(command)) => match command.into_set() {
                Some(set) => State::Closed(set),
                None => State::Asked(answer),
            },
        })
    }

    /// These references were shown again. Gives back what cannot be taken down now.
    /// Never blocks.
    pub fn shown(&self, numbers: Vec<i64>, now: u64) -> Result<(), Vec<i64>> {
        let Some(commands) = &self.commands else {
            return Err(numbers);
        };
        let sent = commands.try_send(Command::Shown(numbers, now));
        sent.map_err(|unsent| match unsent.into_inner() {
            Command::Shown(numbers, _) => numbers,
            Command::Put(..) | Command::Accessed(..) | Command::Delete(..) | Command::Sweep(..) => {
                Vec::new()
            }
        })
    }

    /// An artifact was read. Waits for a place in the queue, not for the disk.
    pub async fn accessed(&self, owner: &str, id: &str, now: u64) {
        if let Some(commands) = &self.commands {
            let command = Command::Accessed(owner.to_owned(), id.to_owned(), now);
            commands.send(command).await.ok();
        }
    }

    /// The owner's artifacts.
    pub async fn list(&self, owner: &str, filter: &Filter) -> Result<Vec<Entry>, Error> {
        let (owner, filter) = (owner.to_owned(), filter.clone());
        self.reading(move |connection| find::list(connection, &owner, &filter))
            .await
    }

    /// A part of an artifact.
    pub async fn read(&self, owner: &str, id: &str, part: &Part) -> Result<Option<Piece>, Error> {
        let (owner, id, part) = (owner.to_owned(), id.to_owned(), part.clone());
        self.reading(move |connection| find::read(connection, &owner, &id, &part))
            .await
    }

    /// Deletes an artifact; false when there is none.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, Error> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Delete(owner.to_owned(), id.to_owned(), reply))
            .await?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Takes a step of a sweep.
    pub async fn sweep(&self, limits: Limits) -> Result<Step, Error> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Sweep(limits, reply)).await?;
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn ask(&self, command: Command) -> Result<(), Error> {
        let commands = self.commands.as_ref().ok_or(Error::Closed)?;
        commands.send(command).await.map_err(|_| Error::Closed)
    }

    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = Arc::clone(&self.readers);
        let _turn = self
            .readers
            .turns
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        let read = move || {
            let mut connection = readers.take()?;
            let result = read(&mut connection);
            if result.is_ok() {
                readers.give(connection);
            }
            result
        };
        let result = tokio::task::spawn_blocking(read).await;
        writer::checked(&self.place, result.unwrap_or(Err(Error::Closed)))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Readers {
    fn take(&self) -> Result<Connection, Error> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        idle.map_or_else(|| schema::reader(&self.place), Ok)
    }

    fn give(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

impl Putting {
    /// Ends when all of the set is on the disk.
    pub async fn done(self) -> Result<Written, Refused> {
        let closed = |new| Refused {
            new,
            error: Error::Closed,
        };
        let answer = match self.0 {
            State::Asked(answer) => answer,
            State::Closed(set) => return Err(closed(set.new)),
            State::Full(set, commands) => {
                let Some(commands) = commands.upgrade() else {
                    return Err(closed(set.new));
                };
                let (reply, answer) = oneshot::channel();
                if let Err(unsent) = commands.send(Command::Put(set, reply)).await {
                    let set = unsent.0.into_set();
                    return Err(closed(set.map_or_else(Vec::new, |set| set.new)));
                }
                answer
            }
        };
        answer.await.unwrap_or_else(|_| Err(closed(Vec::new())))
    }
}

impl Command {
    fn into_set(self) -> Option<Set> {
        match self {
            Self::Put(set, _) => Some(set),
            Self::Shown(..) | Self::Accessed(..) | Self::Delete(..) | Self::Sweep(..) => None,
        }
    }
}

/// What a test does to a database behind the back of the store.
#[cfg(test)]
pub(crate) fn meddle(place: &Place, sql: &str) {
    schema::writer(place)
        .and_then(|connection| Ok(connection.execute_batch(sql)?))
        .unwrap();
}

/// Rows of a table.
#[cfg(test)]
pub(crate) fn count(place: &Place, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    let connection = schema::reader(place).unwrap();
    connection.query_row(&count, [], |row| row.get(0)).unwrap()
}
