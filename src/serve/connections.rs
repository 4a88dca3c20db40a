//! The open connections, whose number is limited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::net::ClientConnection;

/// How often a connection that waits for a place looks for another one that can give way.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The connections that are open. Made by the listener, which waits here with each connection that
/// it has accepted; others wait in the kernel's queue.
pub(super) struct OpenConnections {
    places: Arc<Semaphore>,
    open: Mutex<Numbered>,
}

/// Connections with their numbers, which count up.
#[derive(Default)]
struct Numbered {
    last: u64,
    connections: BTreeMap<u64, ClientConnection>,
}

/// The place of a connection among the open ones, until it is dropped.
pub(super) struct ConnectionPlace {
    connections: Arc<OpenConnections>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl OpenConnections {
    /// Room for `places` connections.
    pub(super) fn new(places: usize) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(places)),
            open: Mutex::default(),
        })
    }

    /// Waits for a place. While all are taken, connections without a known owner are closed, the
    /// oldest first: they count for no owner. `None` if there are no places any more, which does
    /// not happen.
    pub(super) async fn place(
        self: &Arc<Self>,
        connection: &ClientConnection,
    ) -> Option<ConnectionPlace> {
        let permit = loop {
            if self.places.available_permits() == 0 {
                self.close_oldest();
            }
            let permit = Arc::clone(&self.places).acquire_owned();
            if let Ok(permit) = timeout(LOOK_AGAIN, permit).await {
                break permit.ok()?;
            }
        };
        let mut open = self.open.lock();
        open.last += 1;
        let number = open.last;
        open.connections.insert(number, connection.clone());
        Some(ConnectionPlace {
            connections: Arc::clone(self),
            number,
            _permit: permit,
        })
    }

    /// Closes the oldest connection without a known owner, if there is one.
    fn close_oldest(&self) {
        let mut open = self.open.lock();
        let mut connections = open.connections.iter();
        let oldest = connections.find(|(_, connection)| !connection.is_identified());
        if let Some((&number, _)) = oldest
            && let Some(connection) = open.connections.remove(&number)
        {
            tracing::debug!("closed a connection without an accepted request, since others wait");
            connection.close();
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.connections.remove(&self.number);
    }
}
