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
    Put(Set, oneshot::Sender<Result<Vec<i64>, Refused>>),
    Shown(Vec<i64>, u64),
    Accessed(String, String, u64),
    Delete(String, String, oneshot::Sender<Result<bool, Error>>),
    Sweep(Limits, oneshot::Sender<Result<Step, Error>>),
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
    // Nobody may wait for an answer any more.
    while let Some(command) = commands.blocking_recv() {
        match command {
            Command::Put(set, reply) => {
                let done = checked(place, put::put(connection, &set));
                let done = done.map_err(|error| Refused {
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
                let done = sweep::delete(connection, &owner, &id);
                reply.send(checked(place, done)).ok();
            }
            Command::Sweep(limits, reply) => {
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
