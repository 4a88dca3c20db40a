//! The connection of a client, as the requests on it see it.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::fairness::{FairPlaces, OwnerPlace};

/// The readiness that tells that the peer has closed its side. The kernel reports it even if there
/// are unread bytes before the end.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSED: Interest = Interest::PRIORITY;
/// Other kernels tell only of a reset. The end of a connection is seen there when the bytes before
/// it have been read.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSED: Interest = Interest::ERROR;

/// The connection that a request came on. The listener makes it and puts it into the extensions of
/// each request; clones share it, and the socket closes with the last of them.
#[derive(Debug, Clone)]
pub struct ClientConnection(Arc<SharedConnection>);

#[derive(Debug)]
struct SharedConnection {
    socket: TcpStream,
    write_deadline: Mutex<Option<Instant>>,
    /// The place of the owner whose requests come on it.
    place: Mutex<Option<OwnerPlace>>,
    is_identified: AtomicBool,
}

impl ClientConnection {
    /// A connection that was just accepted.
    pub fn new(socket: TcpStream) -> Self {
        Self(Arc::new(SharedConnection {
            socket,
            write_deadline: Mutex::default(),
            place: Mutex::default(),
            is_identified: AtomicBool::new(false),
        }))
    }

    /// The socket. Only the task that serves the connection reads and writes it, all others watch
    /// it.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.0.socket
    }

    /// Takes a place among the connections for the owner of a request, if the connection has none
    /// of theirs yet. False if there is none for this owner now.
    pub(crate) fn belongs_to(&self, owner: &Arc<str>, connections: &Arc<FairPlaces>) -> bool {
        let mut place = self.0.place.lock();
        if place.as_ref().is_some_and(|place| place.is_of(owner)) {
            return true;
        }
        *place = None;
        *place = connections.try_take(owner);
        place.is_some()
    }

    /// Whether it is known whose the newest request on it was. The edge sets it.
    pub(crate) fn is_identified(&self) -> bool {
        self.0.is_identified.load(Ordering::Relaxed)
    }

    /// Sets whether it is known whose the newest request was.
    pub(crate) fn set_identified(&self, is_identified: bool) {
        self.0.is_identified.store(is_identified, Ordering::Relaxed);
    }

    /// Waits until the client has closed or reset the connection, even if there are unread bytes
    /// before that.
    pub(crate) async fn left(&self) {
        // The kernel may report other things as well, and then it is asked again.
        while let Ok(ready) = self.socket().ready(CLOSED).await
            && !(ready.is_read_closed() || ready.is_error())
        {}
    }

    /// Whether the client has closed or reset the connection.
    pub(crate) fn has_left(&self) -> bool {
        self.left().now_or_never().is_some()
    }

    /// Ends the connection at this time if it waits for the client to take bytes then. `None` sets
    /// no such time.
    pub(crate) fn set_write_deadline(&self, deadline: Option<Instant>) {
        *self.0.write_deadline.lock() = deadline;
    }

    /// When a write that makes no progress has to end, if the request says so.
    pub(crate) fn write_deadline(&self) -> Option<Instant> {
        *self.0.write_deadline.lock()
    }

    /// Closes our side of the connection.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        socket2::SockRef::from(self.socket()).shutdown(Shutdown::Write)
    }

    /// Closes the connection for the task that serves it, as if the client had left.
    pub(crate) fn close(&self) {
        // It fails if the client has left.
        socket2::SockRef::from(self.socket())
            .shutdown(Shutdown::Both)
            .ok();
    }
}
