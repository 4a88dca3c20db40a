//! Connections: accepting, their limits, and their end at a shutdown.
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Body;

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenLimits {
    /// Time for the head of a request, also the first or next on an idle connection.
    pub header_timeout: Duration,
    /// Most bytes read ahead, which bounds the head of a request: 8 KiB or more.
    pub buffer: usize,
    /// Most header fields in a request.
    pub headers: usize,
    /// Most connections at once; more wait in the kernel's queue.
    pub connections: usize,
}

impl Default for ListenLimits {
    /// 10 s, 64 KiB, 100 header fields, 1024 connections.
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            buffer: 64 * 1024,
            headers: HYPER_HEADERS,
            connections: 1024,
        }
    }
}

/// The number that hyper allows by itself, and parses without allocating.
const HYPER_HEADERS: usize = 100;
/// How long a peer may be silent after our last byte, and go on sending.
const LINGER_SILENT: Duration = Duration::from_secs(1);
const LINGER_SENDING: Duration = Duration::from_secs(10);

/// How serving comes to its end.
///
/// [`drain`](Self::drain), cancelled by the caller, stops accepting and lets open
/// requests run for [`grace`](Self::grace). Then [`ending`](Self::ending) is
/// cancelled here: whoever streams writes its last event. Whatever is still open
/// [`last`](Self::last) later is dropped.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// Cancelled by the caller to begin.
    pub drain: CancellationToken,
    /// Cancelled by [`serve`] when the grace is over.
    pub ending: CancellationToken,
    /// How long open requests may go on.
    pub grace: Duration,
    /// How long endings may take.
    pub last: Duration,
}

impl Shutdown {
    /// Fresh tokens, and half a second for endings.
    pub fn new(grace: Duration) -> Self {
        Self {
            drain: CancellationToken::new(),
            ending: CancellationToken::new(),
            grace,
            last: Duration::from_millis(500),
        }
    }
}

/// Where connections come from: a listener, or in a test a script.
pub trait Accept: Send {
    /// The next connection.
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl Accept for TcpListener {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        TcpListener::accept(self).await
    }
}

/// Serves until the shutdown is over. Returns when no connection is left.
pub async fn serve<L, S>(listener: L, service: S, limits: ListenLimits, shutdown: Shutdown)
where
    L: Accept,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Unpin + 'static,
    S::Future: Send + Unpin,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let tasks = TaskTracker::new();
    let dropped = CancellationToken::new();
    let builder = builder(&limits);
    let accepting = async {
        let mut pause = FIRST_PAUSE;
        // The semaphore is never closed.
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    pause = FIRST_PAUSE;
                    // Boxed: a future that is moved into others is kept once
                    // in each, as long as the connection lives.
                    let connection = Box::pin(connection(
                        builder.clone(),
                        stream,
                        service.clone(),
                        shutdown.drain.clone(),
                    ));
                    let dropped = dropped.clone();
                    tasks.spawn(async move {
                        let _ = dropped.run_until_cancelled(connection).await;
                        drop(slot);
                    });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // Out of descriptors or memory: others must close first.
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    };
    shutdown.drain.run_until_cancelled(accepting).await;
    drop(listener);
    tasks.close();
    if timeout(shutdown.grace, tasks.wait()).await.is_err() {
        shutdown.ending.cancel();
        if timeout(shutdown.last, tasks.wait()).await.is_err() {
            dropped.cancel();
            tasks.wait().await;
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether an accept failed for the connection that was about to come, not for us.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

fn builder(limits: &ListenLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // Without a timer hyper's header timeout never fires.
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.buffer.max(8 * 1024))
        .keep_alive(true);
    if limits.headers != HYPER_HEADERS {
        builder.max_headers(limits.headers);
    }
    builder
}

async fn connection<S>(
    builder: http1::Builder,
    stream: TcpStream,
    service: S,
    drain: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Unpin,
    S::Future: Send + Unpin,
{
    // Events are small and must not wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection lost before its first request");
        return;
    }
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut serving = poll_fn(|cx| connection.poll_without_shutdown(cx));
    let served = if let Some(served) = drain.run_until_cancelled(&mut serving).await {
        served
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        poll_fn(|cx| connection.poll_without_shutdown(cx)).await
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended early");
    }
    linger(connection.into_parts().io.into_inner()).await;
}

/// Closes our side and throws away what the peer still sends. Closing with unread
/// bytes resets the connection, and the peer may lose the refusal that says why.
async fn linger(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = vec![0; 4096];
    let reading =
        async { while let Ok(Ok(1..)) = timeout(LINGER_SILENT, stream.read(&mut rest)).await {} };
    let _ = timeout(LINGER_SENDING, reading).await;
}
