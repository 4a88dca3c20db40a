//! The open connections, whose number is limited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::net::ClientConnection;

/// How long a new connection has for its first request, however many others wait.
const FIRST_REQUEST_TIME: Duration = Duration::from_millis(500);
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
    /// With the time at which each one was opened.
    connections: BTreeMap<u64, (Instant, ClientConnection)>,
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
        let opened = (Instant::now(), connection.clone());
        open.connections.insert(number, opened);
        Some(ConnectionPlace {
            connections: Arc::clone(self),
            number,
            _permit: permit,
        })
    }

    /// Closes the oldest connection without a known owner, if there is one that has had the time
    /// for a request.
    fn close_oldest(&self) {
        let now = Instant::now();
        let mut open = self.open.lock();
        let mut connections = open.connections.iter();
        let oldest = connections.find(|(_, (_, connection))| !connection.is_identified());
        if let Some((&number, (opened, _))) = oldest
            && now.duration_since(*opened) >= FIRST_REQUEST_TIME
            && let Some((_, connection)) = open.connections.remove(&number)
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

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection of a client, and the client.
    async fn connection(listener: &TcpListener) -> (ClientConnection, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        (ClientConnection::new(accepted.unwrap().0), client.unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_time_for_its_first_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (first, _first_client) = connection(&listener).await;
        let (second, _second_client) = connection(&listener).await;
        let connections = OpenConnections::new(1);
        let place = connections.place(&first).await.unwrap();
        let begun = Instant::now();
        let first_ends = async {
            first.left().await;
            drop(place);
        };
        let (second, ()) = tokio::join!(connections.place(&second), first_ends);
        assert!(second.is_some());
        assert!(begun.elapsed() >= FIRST_REQUEST_TIME);
    }
}
