//! The loader: it opens raw connections, sends requests and counts every event of the responses.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use memchr::memmem::find;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    clock::now_ns,
    conn::Conn,
    marker,
    measure::to_f64,
    request::Target,
    scan::{Scanner, StreamCounts},
    script::Script,
    socket::Socket,
    upstream::SMALL_TEXT,
};

/// The results of one or more streams.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Events that the requests asked for.
    pub(crate) expected: u64,
    /// Events that arrived.
    pub(crate) events: u64,
    /// Streams or requests with a wrong result.
    pub(crate) faults: u64,
    /// The reason of the first fault.
    pub(crate) reason: Option<String>,
    /// The time from the first byte of each request to the first event of its stream, ns.
    pub(crate) first_ns: Vec<u64>,
    /// The time of each event from the upstream to the loader, ns.
    pub(crate) latency_ns: Vec<u64>,
    /// The same of the last event of each delta, which has waited for no other.
    pub(crate) newest_latency_ns: Vec<u64>,
}

impl Tally {
    fn add(&mut self, expected: u64, stream: anyhow::Result<StreamResult>) {
        self.expected += expected;
        match stream {
            Ok(stream) => {
                self.events += stream.counts.events;
                self.first_ns.extend(stream.first_ns);
                if stream.counts.is_exact(expected) {
                    self.latency_ns.extend(stream.counts.latency_ns);
                    self.newest_latency_ns
                        .extend(stream.counts.newest_latency_ns);
                } else {
                    let seen = StreamCounts {
                        latency_ns: Vec::new(),
                        newest_latency_ns: Vec::new(),
                        ..stream.counts
                    };
                    self.fault(format!("expected {expected} events, saw {seen:?}"));
                }
            }
            Err(error) => self.fault(format!("{error:#}")),
        }
    }

    /// Adds the results of further streams.
    pub(crate) fn append(&mut self, more: Self) {
        self.expected += more.expected;
        self.events += more.events;
        self.faults += more.faults;
        self.reason = self.reason.take().or(more.reason);
        self.first_ns.extend(more.first_ns);
        self.latency_ns.extend(more.latency_ns);
        self.newest_latency_ns.extend(more.newest_latency_ns);
    }

    fn fault(&mut self, reason: String) {
        self.faults += 1;
        self.reason.get_or_insert(reason);
    }
}

struct StreamResult {
    first_ns: Option<u64>,
    counts: StreamCounts,
}

/// Runs `count` concurrent streams of `script`, each on its own connection. Their starts are spread
/// evenly over `stagger`.
pub(crate) async fn run_streams(
    target: Target,
    script: Script,
    count: u32,
    stagger: Duration,
) -> Tally {
    let request: Arc<[u8]> = target.stream_request(script, 0).into();
    let requests = vec![request; count as usize];
    run_requests(target, requests, script.events, stagger).await
}

/// Sends these requests concurrently, each on its own connection. Each response must have `events`
/// events; the starts are spread evenly over `stagger`.
pub(crate) async fn run_requests(
    target: Target,
    requests: Vec<Arc<[u8]>>,
    events: u64,
    stagger: Duration,
) -> Tally {
    let streams = requests.into_iter().map(|request| async move {
        let mut conn = Conn::open(target.addr).await?;
        run_stream(&mut conn, target, &request).await
    });
    run_all(streams, events, stagger).await
}

/// Asks for `count` concurrent streams of `script`, each on a WebSocket of its own. Their starts
/// are spread evenly over `stagger`.
pub(crate) async fn run_sockets(
    target: Target,
    script: Script,
    count: u32,
    stagger: Duration,
) -> Tally {
    let message: Arc<[u8]> = target.stream_message(script).into();
    let streams = vec![message; count as usize]
        .into_iter()
        .map(|message| async move {
            let mut socket = Socket::open(target.addr).await?;
            run_on_socket(&mut socket, target, &message).await
        });
    run_all(streams, script.events, stagger).await
}

/// Runs streams concurrently. Each must have `events` events; the starts are spread evenly over
/// `stagger`.
async fn run_all<S>(
    streams: impl ExactSizeIterator<Item = S>,
    events: u64,
    stagger: Duration,
) -> Tally
where
    S: Future<Output = anyhow::Result<StreamResult>> + Send + 'static,
{
    let start = Instant::now();
    let mut running = JoinSet::new();
    let count = streams.len() as u64;
    for (at, stream) in (0_u32..).zip(streams) {
        let due = start + stagger.mul_f64(f64::from(at) / to_f64(count));
        running.spawn(async move {
            tokio::time::sleep_until(due).await;
            stream.await
        });
    }
    let mut tally = Tally::default();
    while let Some(stream) = running.join_next().await {
        tally.add(events, stream.map_err(Into::into).flatten());
    }
    tally
}

/// Sends a request `count` times in sequence on one connection. Each response must have one event.
/// Waits for `pause` before each, so that what the server still does for one response does not
/// delay the next.
pub(crate) async fn run_in_sequence(
    target: Target,
    request: &[u8],
    count: u32,
    pause: Duration,
) -> Tally {
    let mut tally = Tally::default();
    let mut conn = None;
    for _ in 0..count {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let result = async {
            let mut open = match conn.take() {
                Some(open) => open,
                None => Conn::open(target.addr).await?,
            };
            let stream = run_stream(&mut open, target, request).await?;
            conn = Some(open);
            Ok(stream)
        };
        let result = result.await;
        tally.add(1, result);
    }
    tally
}

async fn run_stream(
    conn: &mut Conn,
    target: Target,
    request: &[u8],
) -> anyhow::Result<StreamResult> {
    let start = now_ns();
    let mut reply = conn.send(request).await?;
    if reply.status != 200 {
        let status = reply.status;
        let body = conn.read_to_end(reply).await?;
        bail!("status {status}: {}", String::from_utf8_lossy(&body));
    }
    let mut scanner = Scanner::new(target.wire);
    let mut first_ns = None;
    while conn
        .next_piece(&mut reply, |data, at| {
            scanner.feed(data, at);
            if first_ns.is_none() && scanner.counts.events > 0 {
                first_ns = Some(at.saturating_sub(start));
            }
        })
        .await?
    {}
    Ok(StreamResult {
        first_ns,
        counts: scanner.counts,
    })
}

/// Asks for a stream on a WebSocket, and reads it to its end.
async fn run_on_socket(
    socket: &mut Socket,
    target: Target,
    message: &[u8],
) -> anyhow::Result<StreamResult> {
    let start = now_ns();
    socket.send(message).await?;
    let mut scanner = Scanner::new(target.wire);
    let mut first_ns = None;
    while scanner.counts.done == 0 {
        let at = socket.read(&mut scanner).await?;
        if first_ns.is_none() && scanner.counts.events > 0 {
            first_ns = Some(at.saturating_sub(start));
        }
    }
    Ok(StreamResult {
        first_ns,
        counts: scanner.counts,
    })
}

/// Opens a WebSocket and, if `is_used`, runs a stream of one event on it, after which it is idle.
pub(crate) async fn idle_socket(target: Target, is_used: bool) -> anyhow::Result<Socket> {
    let mut socket = Socket::open(target.addr).await?;
    if is_used {
        let message = target.stream_message(Script::flood(1));
        let stream = run_on_socket(&mut socket, target, &message).await?;
        anyhow::ensure!(stream.counts.is_exact(1), "saw {:?}", stream.counts);
    }
    socket.free_buffer();
    Ok(socket)
}

/// Opens a connection and sends a request on it: for a stream of one event if `is_used`, for the
/// health otherwise. Afterwards it is idle.
pub(crate) async fn idle_connection(target: Target, is_used: bool) -> anyhow::Result<Conn> {
    let mut conn = Conn::open(target.addr).await?;
    if is_used {
        let request = target.stream_request(Script::flood(1), 0);
        let stream = run_stream(&mut conn, target, &request).await?;
        anyhow::ensure!(stream.counts.is_exact(1), "saw {:?}", stream.counts);
    } else {
        let reply = conn.send(&target.health_request()).await?;
        conn.read_to_end(reply).await?;
    }
    conn.free_buffer();
    Ok(conn)
}

/// Connections with streams that have sent their first event and are held open.
pub(crate) struct HeldStreams {
    /// Dropping a connection ends its stream.
    pub(crate) connections: Vec<Conn>,
    pub(crate) faults: u64,
    pub(crate) reason: Option<String>,
}

/// Opens `count` streams with requests of `size` bytes and holds each open after its first event.
pub(crate) async fn hold_streams(target: Target, count: u32, size: usize) -> HeldStreams {
    const OPENERS: u32 = 32;
    let script = Script::held(Duration::from_mins(10));
    let request: std::sync::Arc<[u8]> = target.stream_request(script, size).into();
    let mut openers = JoinSet::new();
    for at in 0..OPENERS {
        let request = request.clone();
        let share = count / OPENERS + u32::from(at < count % OPENERS);
        openers.spawn(async move {
            let mut open = Vec::new();
            for _ in 0..share {
                open.push(first_event(target, &request).await);
            }
            open
        });
    }
    let mut held = HeldStreams {
        connections: Vec::new(),
        faults: 0,
        reason: None,
    };
    for result in openers.join_all().await.into_iter().flatten() {
        match result {
            Ok(conn) => held.connections.push(conn),
            Err(error) => {
                held.faults += 1;
                held.reason.get_or_insert(format!("{error:#}"));
            }
        }
    }
    held
}

/// Sends a request, and returns its connection after the first event.
pub(crate) async fn first_event(target: Target, request: &[u8]) -> anyhow::Result<Conn> {
    let mut conn = Conn::open(target.addr).await?;
    let mut reply = conn.send(request).await?;
    anyhow::ensure!(reply.status == 200, "status {}", reply.status);
    let mut scanner = Scanner::new(target.wire);
    while scanner.counts.events == 0 {
        let more = conn
            .next_piece(&mut reply, |data, at| scanner.feed(data, at))
            .await?;
        anyhow::ensure!(more, "ended before its first event");
    }
    conn.free_buffer();
    Ok(conn)
}

/// Whether a body is the small reply. If the proxy streams from the upstream although its client
/// does not stream, the text is a marker instead.
fn is_small_reply(body: &[u8]) -> bool {
    let mut markers = 0;
    marker::for_each(body, |_| markers += 1);
    markers == 1 || find(body, SMALL_TEXT.as_bytes()).is_some()
}

/// Sends small requests without streaming in sequence on each of `count` connections, for `time`
/// and at least once on each connection.
///
/// Returns the number of answered requests and the seconds they took.
pub(crate) async fn run_small_requests(
    target: Target,
    count: u32,
    time: Duration,
) -> anyhow::Result<(u64, f64)> {
    let request: std::sync::Arc<[u8]> = target.small_request().into();
    let start = Instant::now();
    let end = start + time;
    let mut running = JoinSet::new();
    for _ in 0..count {
        let request = request.clone();
        running.spawn(async move {
            let mut conn = Conn::open(target.addr).await?;
            let mut answered = 0;
            loop {
                let reply = conn.send(&request).await?;
                let status = reply.status;
                let body = conn.read_to_end(reply).await?;
                if status != 200 || !is_small_reply(&body) {
                    bail!("status {status}: {}", String::from_utf8_lossy(&body));
                }
                answered += 1;
                if Instant::now() >= end {
                    return Ok(answered);
                }
            }
        });
    }
    let mut answered = 0;
    while let Some(share) = running.join_next().await {
        answered += share.context("a loader task ended")??;
    }
    Ok((answered, start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::{pass, scan::ClientApi, upstream};

    async fn listener() -> TcpListener {
        TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
    }

    /// An upstream, and a pass-through in front of it.
    async fn upstream_and_pass() -> [Target; 2] {
        let (first, second) = (listener().await, listener().await);
        let addrs = [&first, &second].map(|listener| listener.local_addr().unwrap());
        tokio::spawn(upstream::serve(first));
        tokio::spawn(pass::serve(second, addrs[0]));
        addrs.map(|addr| Target {
            addr,
            wire: ClientApi::Chat,
        })
    }

    /// A server that answers every connection with `reply` and closes it.
    async fn fixed_server(reply: &'static str) -> Target {
        let listener = listener().await;
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                // The request fits one read. Unread bytes would reset the connection.
                let _ = socket.read(&mut [0; 4096]).await;
                let _ = socket.write_all(reply.as_bytes()).await;
            }
        });
        Target {
            addr,
            wire: ClientApi::Chat,
        }
    }

    #[tokio::test]
    async fn every_event_is_counted_directly_and_through_the_pass() {
        let flood = Script::flood(3000);
        let paced = Script {
            burst: 3,
            ..Script::paced(20, Duration::from_millis(2))
        };
        for target in upstream_and_pass().await {
            for script in [flood, paced] {
                let tally = run_streams(target, script, 8, Duration::ZERO).await;
                assert_eq!(tally.reason, None);
                assert_eq!((tally.events, tally.faults), (8 * script.events, 0));
                assert_eq!(tally.first_ns.len(), 8);
            }
        }
    }

    #[tokio::test]
    async fn long_histories_small_requests_and_held_streams_work_through_the_pass() {
        for target in upstream_and_pass().await {
            let history = target.history_request(200_000);
            let tally = run_in_sequence(target, &history, 3, Duration::ZERO).await;
            assert_eq!((tally.events, tally.reason), (3, None));
            let (answered, _) = run_small_requests(target, 4, Duration::from_millis(20))
                .await
                .unwrap();
            assert!(answered >= 4);
            let held = hold_streams(target, 40, 1024).await;
            assert_eq!((held.connections.len(), held.reason), (40, None));
        }
    }

    #[tokio::test]
    async fn cut_refused_and_short_streams_are_faults() {
        const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for reply in [
            "",
            HEAD,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
        ] {
            let target = fixed_server(reply).await;
            let tally = run_streams(target, Script::flood(1), 2, Duration::ZERO).await;
            assert_eq!((tally.events, tally.faults), (0, 2), "{reply:?}");
        }
    }
}
