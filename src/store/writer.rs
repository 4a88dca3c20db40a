//! The one thread that writes.

use std::fs::File;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::Error;
use super::place::Place;
use super::put::{self, Set};
use super::sweep::{self, Limits, Step};
use crate::artifacts::New;

/// What the thread is asked for.
pub(super) enum Command {
    Put(Set, oneshot::Sender<Result<Written, Refused>>),
    Shown(Vec<i64>, u64),
    Accessed(String, String, u64),
    Delete(String, String, oneshot::Sender<Result<bool, Error>>),
    Sweep(Limits, oneshot::Sender<Result<Step, Error>>),
}

/// Artifacts that are on the disk.
pub struct Written {
    /// The number of each reference.
    pub numbers: Vec<i64>,
    /// Bytes of all texts that are kept, as stored.
    pub total: u64,
}

/// Artifacts that could not be written.
pub struct Refused {
    /// They.
    pub new: Vec<New>,
    /// Why.
    pub error: Error,
}

/// Starts the thread. It ends when nobody can ask it any more.
pub(super) fn start(
    connection: Connection,
    place: Place,
    commands: mpsc::Receiver<Command>,
) -> Result<JoinHandle<()>, Error> {
    let thread = thread::Builder::new().name("artifacts".to_owned());
    Ok(thread.spawn(move || run(connection, &place, commands))?)
}

fn run(mut connection: Connection, place: &Place, mut commands: mpsc::Receiver<Command>) {
    let connection = &mut connection;
    // Of all texts, as long as it is known.
    let mut total: Option<u64> = None;
    // Nobody may wait for an answer any more.
    while let Some(command) = commands.blocking_recv() {
        match command {
            Command::Put(set, reply) => {
                let done = put::put(connection, &set).and_then(|(numbers, stored)| {
                    let before = match total {
                        Some(before) => before + stored,
                        None => sweep::total(connection)?,
                    };
                    Ok(Written {
                        numbers,
                        total: *total.insert(before),
                    })
                });
                let done = checked(place, done).map_err(|error| Refused {
                    new: set.new,
                    error,
                });
                reply.send(done).ok();
            }
            Command::Shown(numbers, now) => {
                checked(place, put::shown(connection, &numbers, now)).ok();
            }
            Command::Accessed(owner, id, now) => {
                checked(place, put::accessed(connection, &owner, &id, now)).ok();
            }
            Command::Delete(owner, id, reply) => {
                total = None;
                let done = sweep::delete(connection, &owner, &id);
                reply.send(checked(place, done)).ok();
            }
            Command::Sweep(limits, reply) => {
                total = None;
                let done = sweep::step(connection, limits);
                reply.send(checked(place, done)).ok();
            }
        }
    }
}

/// Leaves a sign where the database proves to be damaged.
pub(super) fn checked<T>(place: &Place, result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result
        && error.is_corrupt()
    {
        File::create(place.doubt()).ok();
    }
    result
}
