//! Accepts connections, limits them, and ends them at a shutdown.
use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
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

use super::client_stream::ClientStream;
use super::connections::OpenConnections;
use super::websocket::{UpgradeSlot, WebSocket};
use crate::net::ClientConnection;

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenLimits {
    /// Time for the head of a request to arrive, also on an idle connection.
    pub header_timeout: Duration,
    /// Largest number of connections at once; others wait in the kernel's queue. When others wait,
    /// those without an accepted request are closed.
    pub connections: usize,
    /// How long a client may take no byte of a response before its connection ends.
    pub write_timeout: Duration,
}

impl Default for ListenLimits {
    /// 10 s, 1024 connections, 5 minutes.
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            connections: 1024,
            write_timeout: Duration::from_mins(5),
        }
    }
}

/// Largest read buffer in bytes, which limits the head of a request. It may have 100 header fields:
/// hyper's default limit, up to which it parses without allocating.
const READ_BUFFER: usize = 64 * 1024;
/// How long the peer may stay silent after our last byte, how long it may go on sending, and
/// how many bytes.
const LINGER_SILENT: Duration = Duration::from_secs(1);
const LINGER_SENDING: Duration = Duration::from_secs(10);
const LINGER_BYTES: usize = 64 << 20;
/// Connections that have their answer, and wait only for their peers to end, have places of their
/// own: one for this many of the others. Beyond that they are closed at once.
const CONNECTIONS_PER_LINGERING: usize = 8;

/// The stages of a shutdown.
///
/// The caller cancels [`drain`](Self::drain): the server stops accepting, and open
/// requests may run for [`grace`](Self::grace). Then the server cancels
/// [`ending`](Self::ending), and streams write their last event. Connections that are
/// still open after [`last`](Self::last) are dropped.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// Cancelled by the caller to begin the shutdown.
    pub drain: CancellationToken,
    /// Cancelled by [`serve`] when the grace is over, or by the caller to end the grace early.
    pub ending: CancellationToken,
    /// How long open requests may go on after the drain.
    pub grace: Duration,
    /// How long streams may take to end after the grace.
    pub last: Duration,
}

impl Shutdown {
    /// A shutdown that has not begun, with five seconds for streams to end: on a busy machine, many
    /// streams need some of them to write their last event. The server waits only until the last
    /// connection is closed.
    pub fn new(grace: Duration) -> Self {
        Self {
            drain: CancellationToken::new(),
            ending: CancellationToken::new(),
            grace,
            last: Duration::from_secs(5),
        }
    }
}

/// A source of connections: a listener, or in a test a script.
pub trait Accept: Send {
    /// Accepts the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl Accept for TcpListener {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        TcpListener::accept(self).await
    }
}

/// Serves until the shutdown is complete. Returns when no connection is left.
pub async fn serve<L, S, B>(listener: L, service: S, limits: ListenLimits, shutdown: Shutdown)
where
    L: Accept,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Unpin + 'static,
    S::Future: Send + Unpin,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let open = OpenConnections::new(limits.connections);
    let lingering = limits.connections.div_ceil(CONNECTIONS_PER_LINGERING);
    let lingering = Arc::new(Semaphore::new(lingering));
    let tasks = TaskTracker::new();
    let dropped = CancellationToken::new();
    let builder = builder(&limits);
    let accepting = async {
        let mut pause = MIN_PAUSE;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    pause = MIN_PAUSE;
                    let client = ClientConnection::new(stream);
                    let place = open.place(&client).await;
                    // Boxed, because every future that contains this one would have room
                    // for a copy of it as long as the connection lives.
                    let connection = Box::pin(connection(
                        builder.clone(),
                        client,
                        limits.write_timeout,
                        service.clone(),
                        shutdown.drain.clone(),
                    ));
                    let (dropped, lingering) = (dropped.clone(), Arc::clone(&lingering));
                    tasks.spawn(async move {
                        let ended = dropped.run_until_cancelled(connection).await;
                        // A connection that has its answer takes no place of those that wait for
                        // one.
                        drop(place);
                        if let (Some(Some(stream)), Ok(_place)) = (ended, lingering.try_acquire()) {
                            dropped.run_until_cancelled(linger(stream)).await;
                        }
                    });
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    // Out of descriptors or memory: wait until others close.
                    open.make_room();
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    };
    shutdown.drain.run_until_cancelled(accepting).await;
    drop(listener);
    tasks.close();
    let grace_over = timeout(shutdown.grace, shutdown.ending.cancelled());
    let is_idle = tokio::select! {
        () = tasks.wait() => true,
        _ = grace_over => false,
    };
    if !is_idle {
        shutdown.ending.cancel();
        if timeout(shutdown.last, tasks.wait()).await.is_err() {
            dropped.cancel();
            tasks.wait().await;
        }
    }
}

/// How long to wait before accepting again after a failure; doubled each time.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Whether accepting failed because of the new connection alone, so that the next one
/// can be accepted at once.
fn concerns_one_connection(error: &io::Error) -> bool {
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
        .max_buf_size(READ_BUFFER)
        .keep_alive(true);
    builder
}

/// Serves a connection to its end. Returns what it was served on, whose peer may still send.
async fn connection<S, B>(
    builder: http1::Builder,
    client: ClientConnection,
    write_timeout: Duration,
    service: S,
    drain: CancellationToken,
) -> Option<ClientStream>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Unpin,
    S::Future: Send + Unpin,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static,
{
    // Events are small and must not wait for the acknowledgement of earlier ones.
    if let Err(error) = client.socket().set_nodelay(true) {
        tracing::debug!(%error, "connection lost before its first request");
        return None;
    }
    let slot = UpgradeSlot::default();
    let service = ClientService {
        service,
        client: client.clone(),
        slot: slot.clone(),
    };
    let stream = TokioIo::new(ClientStream::new(client.clone(), write_timeout));
    let mut connection = builder.serve_connection(stream, service);
    let served = {
        let mut left = pin!(client.left());
        let serving = serve_until_left(&mut connection, left.as_mut());
        if let Some(served) = drain.run_until_cancelled(serving).await {
            served
        } else {
            Pin::new(&mut connection).graceful_shutdown();
            serve_until_left(&mut connection, left).await
        }
    };
    // Drops the request that is being answered, if there is one.
    let parts = connection.into_parts();
    match (served, slot.take()) {
        (Err(error), _) => tracing::debug!(%error, "connection ended early"),
        (Ok(()), Some(upgrade)) => {
            let limits = upgrade.limits;
            let socket = WebSocket::new(client, parts.read_buf, limits, write_timeout, drain);
            (upgrade.serve)(socket).await;
        }
        (Ok(()), None) => {}
    }
    Some(parts.io.into_inner())
}

/// Serves until the connection has ended or the client has left. hyper does not notice a client
/// that left while there are unread bytes behind its request.
async fn serve_until_left<S, B>(
    connection: &mut http1::Connection<TokioIo<ClientStream>, ClientService<S>>,
    mut left: Pin<&mut impl Future<Output = ()>>,
) -> hyper::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Unpin,
    S::Future: Unpin,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    poll_fn(|cx| match connection.poll_without_shutdown(cx) {
        Poll::Ready(served) => Poll::Ready(served),
        Poll::Pending => left.as_mut().poll(cx).map(Ok),
    })
    .await
}

/// Puts the connection of the client into the extensions of each request, and the slot for an
/// upgrade.
struct ClientService<S> {
    service: S,
    client: ClientConnection,
    slot: UpgradeSlot,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for ClientService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.client.set_write_deadline(None);
        request.extensions_mut().insert(self.client.clone());
        request.extensions_mut().insert(self.slot.clone());
        self.service.call(request)
    }
}

/// Closes our side and discards what the peer still sends. Closing a socket with unread
/// bytes resets the connection, and the peer may lose the error response.
async fn linger(mut stream: ClientStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut discarded = vec![0; 16 * 1024];
    let mut room = LINGER_BYTES;
    let reading = async {
        while let Ok(Ok(read @ 1..)) = timeout(LINGER_SILENT, stream.read(&mut discarded)).await
            && read < room
        {
            room -= read;
        }
    };
    let _ = timeout(LINGER_SENDING, reading).await;
}

#[cfg(test)]
mod tests {
    use http_body_util::channel::{Channel, Sender};
    use hyper::service::service_fn;

    use super::*;

    /// An answer whose last part is written some time after the grace is over.
    async fn write(mut sender: Sender<Bytes>, ending: CancellationToken, late: Duration) {
        sender.send_data(Bytes::from("begun ")).await.unwrap();
        ending.cancelled().await;
        sleep(late).await;
        // Fails if the connection was dropped.
        sender.send_data(Bytes::from("and ended")).await.ok();
    }

    /// What a client reads of such an answer when the server stops meanwhile, with a clock that
    /// goes on whenever nothing else happens.
    async fn read_at_shutdown(late: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new(Duration::from_secs(1));
        let ending = shutdown.ending.clone();
        let service = service_fn(move |_request: Request<Incoming>| {
            let (sender, body) = Channel::<Bytes>::new(1);
            tokio::spawn(write(sender, ending.clone(), late));
            Box::pin(async { Ok(Response::new(body)) })
        });
        let limits = ListenLimits::default();
        let server = tokio::spawn(serve(listener, service, limits, shutdown.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"begun \r\n") {
            client.read_buf(&mut read).await.unwrap();
        }
        tokio::time::pause();
        shutdown.drain.cancel();
        client.read_to_end(&mut read).await.unwrap();
        server.await.unwrap();
        String::from_utf8(read).unwrap()
    }

    #[tokio::test]
    async fn streams_have_seconds_for_their_last_event() {
        let read = read_at_shutdown(Duration::from_secs(4)).await;
        assert!(read.ends_with("and ended\r\n0\r\n\r\n"), "{read}");
    }

    #[tokio::test]
    async fn a_stream_that_never_ends_keeps_no_server_from_ending() {
        let read = read_at_shutdown(Duration::from_hours(1)).await;
        assert!(read.ends_with("begun \r\n"), "{read}");
    }
}
