//! The open connections, whose number is limited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::net::ClientConnection;

/// How long a new connection has for its first request while others wait.
const FIRST_REQUEST_TIME: Duration = Duration::from_millis(500);
/// How often a connection that waits for a place looks for another one that can give way.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The connections that are open. Made by the listener, which waits here with each connection that
/// it has accepted; others wait in the kernel's queue.
///
/// Beyond the limit each new connection takes the place of the oldest one without a known owner, if
/// that one has had [`FIRST_REQUEST_TIME`]. In a burst of connections all are younger, so up to
/// twice the limit may be open: nobody waits until the first one of the burst is old enough.
pub(super) struct OpenConnections {
    limit: usize,
    open: Mutex<Numbered>,
    /// Tells the listener that a place is free.
    freed: Notify,
}

/// Connections with their numbers, which count up.
#[derive(Default)]
struct Numbered {
    last: u64,
    /// How many places are taken.
    taken: usize,
    /// With the time at which each one was opened, and without those that were told to close.
    connections: BTreeMap<u64, (Instant, ClientConnection)>,
}

/// The place of a connection among the open ones, until it is dropped.
pub(super) struct ConnectionPlace {
    connections: Arc<OpenConnections>,
    number: u64,
}

impl OpenConnections {
    /// Room for `limit` connections, and for twice as many in a burst.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Waits for a place.
    pub(super) async fn place(self: &Arc<Self>, connection: &ClientConnection) -> ConnectionPlace {
        loop {
            if let Some(number) = self.take_place(connection) {
                return ConnectionPlace {
                    connections: Arc::clone(self),
                    number,
                };
            }
            // Woken or not, it looks again.
            let _ = timeout(LOOK_AGAIN, self.freed.notified()).await;
        }
    }

    /// The number of the connection, if there is a place for it.
    fn take_place(&self, connection: &ClientConnection) -> Option<u64> {
        let mut open = self.open.lock();
        if open.taken >= self.limit {
            let is_crowded = open.taken >= self.limit.saturating_mul(2);
            open.close_oldest(if is_crowded {
                Duration::ZERO
            } else {
                FIRST_REQUEST_TIME
            });
            if is_crowded || open.identified() >= self.limit {
                return None;
            }
        }
        open.last += 1;
        open.taken += 1;
        let number = open.last;
        let opened = (Instant::now(), connection.clone());
        open.connections.insert(number, opened);
        Some(number)
    }

    /// Closes the oldest connection without a known owner, if there is one, since the system has no
    /// room for another one.
    pub(super) fn make_room(&self) {
        self.open.lock().close_oldest(Duration::ZERO);
    }
}

impl Numbered {
    /// The connections with a known owner.
    fn identified(&self) -> usize {
        let connections = self.connections.values();
        connections
            .filter(|(_, connection)| connection.is_identified())
            .count()
    }

    /// Closes the oldest connection without a known owner, if it is open for at least this time.
    fn close_oldest(&mut self, least_age: Duration) {
        let now = Instant::now();
        let mut connections = self.connections.iter();
        let oldest = connections.find(|(_, (_, connection))| !connection.is_identified());
        if let Some((&number, (opened, _))) = oldest
            && now.duration_since(*opened) >= least_age
            && let Some((_, connection)) = self.connections.remove(&number)
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
        open.taken -= 1;
        drop(open);
        self.connections.freed.notify_one();
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

    /// This many connections, and their clients.
    async fn some(count: usize) -> Vec<(ClientConnection, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut opened = Vec::new();
        for _ in 0..count {
            opened.push(connection(&listener).await);
        }
        opened
    }

    fn is_open(connection: &ClientConnection) -> bool {
        !connection.has_left()
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_burst_of_connections_without_a_request() {
        let opened = some(3).await;
        let connections = OpenConnections::new(2);
        let mut places = Vec::new();
        let begun = Instant::now();
        for (connection, _) in &opened {
            places.push(connections.place(connection).await);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(opened.iter().all(|(connection, _)| is_open(connection)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_gives_way_when_it_has_had_time_for_a_request() {
        let opened = some(3).await;
        let connections = OpenConnections::new(2);
        let mut places = Vec::new();
        for (connection, _) in &opened[..2] {
            places.push(connections.place(connection).await);
        }
        tokio::time::advance(FIRST_REQUEST_TIME).await;
        opened[0].0.set_identified(true);
        places.push(connections.place(&opened[2].0).await);
        opened[1].0.left().await;
        assert!(is_open(&opened[0].0) && is_open(&opened[2].0));
    }

    #[tokio::test(start_paused = true)]
    async fn known_owners_have_no_more_connections_than_the_limit() {
        let opened = some(2).await;
        let connections = OpenConnections::new(1);
        let first = connections.place(&opened[0].0).await;
        opened[0].0.set_identified(true);
        let second = connections.place(&opened[1].0);
        tokio::pin!(second);
        let waited = timeout(Duration::from_hours(1), &mut second).await;
        assert!(waited.is_err());
        drop(first);
        second.await;
    }

    #[tokio::test(start_paused = true)]
    async fn twice_the_limit_is_never_exceeded() {
        let opened = some(3).await;
        let connections = OpenConnections::new(1);
        let first = connections.place(&opened[0].0).await;
        let _second = connections.place(&opened[1].0).await;
        let first_ends = async {
            opened[0].0.left().await;
            drop(first);
        };
        let (_third, ()) = tokio::join!(connections.place(&opened[2].0), first_ends);
        assert!(is_open(&opened[1].0));
        assert_eq!(connections.open.lock().taken, 2);
    }
}
