//! The socket of a client below the HTTP connection: gives up on a client that takes no bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::net::ClientConnection;

/// Reads and writes the socket of a [`ClientConnection`], which others watch meanwhile. A write
/// that makes no progress for too long fails, which ends the connection and what it waits for.
pub(super) struct ClientStream {
    connection: ClientConnection,
    write_timeout: Duration,
    /// Runs while a write waits for the client; absent otherwise, because most connections never
    /// need it.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl ClientStream {
    pub(super) fn new(connection: ClientConnection, write_timeout: Duration) -> Self {
        Self {
            connection,
            write_timeout,
            stalled: None,
        }
    }

    /// Writes with `attempt`, which returns how many bytes it wrote of `length`.
    fn poll_attempt(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
        attempt: impl Fn(&tokio::net::TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let socket = self.connection.socket();
            if socket.poll_write_ready(cx)?.is_pending() {
                return self.poll_stalled(cx);
            }
            let written = transfer(socket, Interest::WRITABLE, length, || attempt(socket));
            if !matches!(&written, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                self.stalled = None;
                return Poll::Ready(written);
            }
        }
    }

    /// Fails when the client has taken nothing for too long.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (connection, timeout) = (&self.connection, self.write_timeout);
        let timer = self.stalled.get_or_insert_with(|| {
            let idle = Instant::now() + timeout;
            let limit = connection.write_deadline();
            Box::pin(sleep_until(limit.map_or(idle, |limit| limit.min(idle))))
        });
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client has taken no bytes for too long",
        )))
    }
}

/// Reads or writes up to `length` bytes. Fewer mean that the socket is empty or full, so it counts
/// as not ready until the kernel reports it again; this saves a system call that would say so.
fn transfer(
    socket: &tokio::net::TcpStream,
    interest: Interest,
    length: usize,
    attempt: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = None;
    let result = socket.try_io(interest, || {
        let bytes = attempt()?;
        done = Some(bytes);
        if 0 < bytes && bytes < length {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(())
        }
    });
    match done {
        Some(bytes) => Ok(bytes),
        None => result.map(|()| 0),
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let socket = self.connection.socket();
            ready!(socket.poll_read_ready(cx))?;
            let room = buffer.remaining_mut();
            let read = transfer(socket, Interest::READABLE, room, || {
                socket.try_read_buf(buffer)
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_attempt(cx, bytes.len(), |socket| socket.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.poll_attempt(cx, length, |socket| socket.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.connection.shut_down())
    }
}
