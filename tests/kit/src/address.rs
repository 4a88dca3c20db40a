//! Addresses on which nothing listens.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// An address of this machine on which nothing listens. Until this is dropped, no program gets its
/// port by chance; one that is told the address can listen there.
#[derive(Debug)]
pub struct ReservedAddress {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedAddress {
    /// Reserves a free port on 127.0.0.1.
    ///
    /// # Errors
    /// If the system gives no port.
    pub fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // A port can be shared with a listener if both have this option, see `socket(7)`.
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Self {
            address: socket.local_addr()?,
            _socket: socket,
        })
    }

    /// The address.
    #[must_use]
    pub fn get(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Display for ReservedAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(formatter)
    }
}
