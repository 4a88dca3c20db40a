//! Shutdown, and failures of accept.
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use kit::address::ReservedAddress;
use respondent::serve::listen::Accept;
use respondent::serve::{EdgeSettings, ListenLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::routes::begun;
use super::server::{Server, read_to_close};

async fn stopping(grace: Duration) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    Server::on(
        listener,
        addr,
        EdgeSettings::default(),
        ListenLimits::default(),
        grace,
    )
}

const LONG: Duration = Duration::from_mins(10);

#[kit::test]
async fn a_drain_ends_idle_connections_and_accepts_no_more() {
    let reserved = ReservedAddress::new().unwrap();
    let addr = reserved.get();
    let listener = TcpListener::bind(addr).await.unwrap();
    // The drain must end the connection, not the idle timeout.
    let limits = ListenLimits {
        header_timeout: LONG,
        ..ListenLimits::default()
    };
    let server = Server::on(listener, addr, EdgeSettings::default(), limits, LONG);
    let mut idle = server.connect().await;
    let request = server.fill(b"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
    idle.write_all(&request).await.unwrap();
    let mut first = [0; 1];
    idle.read_exact(&mut first).await.unwrap();
    server.shutdown.drain.cancel();
    assert!(read_to_close(&mut idle).await.text.ends_with("ok"));
    drop(idle);
    server.serving.await.unwrap();
    assert!(TcpStream::connect(server.addr).await.is_err());
}

/// Promise: On SIGTERM the server accepts no new turns, lets running turns finish within the grace
/// period, ends the others with `response.failed`, and exits with code 0.
#[kit::test]
async fn a_turn_that_ends_within_the_grace_period_is_served_completely() {
    let server = stopping(LONG).await;
    let mut streaming = begun(&server, b"stream").await;
    server.shutdown.drain.cancel();
    // The application ends the stream long before the grace period is over.
    server.shutdown.ending.cancel();
    let reply = read_to_close(&mut streaming).await;
    assert!(reply.text.ends_with("0\r\n\r\n"), "{reply:?}");
    drop(streaming);
    server.serving.await.unwrap();
}

#[kit::test]
async fn streams_end_when_the_grace_period_is_over() {
    let server = stopping(Duration::from_millis(50)).await;
    let mut streaming = begun(&server, b"stream").await;
    server.shutdown.drain.cancel();
    let reply = read_to_close(&mut streaming).await;
    assert!(
        reply.text.contains("begin") && reply.text.contains("end"),
        "{reply:?}"
    );
    assert!(reply.text.ends_with("0\r\n\r\n"), "{reply:?}");
    drop(streaming);
    server.serving.await.unwrap();
}

#[kit::test]
async fn streams_that_do_not_end_are_dropped() {
    let server = stopping(Duration::from_millis(50)).await;
    let mut stubborn = begun(&server, b"stubborn").await;
    let _stuck = begun(&server, b"stuck").await;
    server.shutdown.drain.cancel();
    server.serving.await.unwrap();
    assert!(server.shutdown.ending.is_cancelled());
    assert!(
        !read_to_close(&mut stubborn)
            .await
            .text
            .ends_with("0\r\n\r\n")
    );
    server.log.dropped.notified().await;
}

#[kit::test]
async fn the_grace_period_can_be_ended_early() {
    let server = stopping(LONG).await;
    let _stuck = begun(&server, b"stuck").await;
    server.shutdown.drain.cancel();
    server.shutdown.ending.cancel();
    server.serving.await.unwrap();
}

/// Fails a few times with errors of Linux, then accepts.
struct Failing {
    listener: TcpListener,
    failures: AtomicUsize,
}

impl Accept for Failing {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        const EMFILE: i32 = 24;
        const ENFILE: i32 = 23;
        const ECONNABORTED: i32 = 103;
        match self.failures.fetch_add(1, SeqCst) {
            0 | 3 => Err(io::Error::from_raw_os_error(EMFILE)),
            1 => Err(io::Error::from_raw_os_error(ECONNABORTED)),
            2 => Err(io::Error::from_raw_os_error(ENFILE)),
            _ => self.listener.accept().await,
        }
    }
}

/// Promise: The server keeps accepting connections after it has run out of file descriptors.
#[kit::test]
async fn the_server_goes_on_after_accept_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let source = Failing {
        listener,
        failures: AtomicUsize::new(0),
    };
    let server = Server::on(
        source,
        addr,
        EdgeSettings::default(),
        ListenLimits::default(),
        LONG,
    );
    server.post_turn(b"{}", "").await.assert_ok("2 bytes");
    server.post_turn(b"{}", "").await.assert_ok("2 bytes");
}
