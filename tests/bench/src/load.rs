//! The loader: raw connections that count every event.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use memchr::memmem::find;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    clock::now_ns,
    conn::Conn,
    marker,
    measure::float,
    request::Target,
    scan::{Scanner, Seen},
    script::Script,
    upstream::SMALL_TEXT,
};

/// What one or many streams gave.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Events that were asked for.
    pub(crate) expected: u64,
    /// Events that came.
    pub(crate) events: u64,
    /// Streams or requests that were not exact, and the first reason why.
    pub(crate) faults: u64,
    pub(crate) reason: Option<String>,
    /// Time to first event of each stream, from the first byte of the request, ns.
    pub(crate) first_ns: Vec<u64>,
    /// One-way time of each event, ns.
    pub(crate) latency_ns: Vec<u64>,
}

impl Tally {
    fn add(&mut self, expected: u64, stream: anyhow::Result<Stream>) {
        self.expected += expected;
        match stream {
            Ok(stream) => {
                self.events += stream.seen.events;
                self.first_ns.extend(stream.first_ns);
                if stream.seen.is_exact(expected) {
                    self.latency_ns.extend(stream.seen.latency_ns);
                } else {
                    let seen = Seen {
                        latency_ns: Vec::new(),
                        ..stream.seen
                    };
                    self.fault(format!("expected {expected} events, saw {seen:?}"));
                }
            }
            Err(error) => self.fault(format!("{error:#}")),
        }
    }

    /// Takes in what further streams gave.
    pub(crate) fn append(&mut self, more: Self) {
        self.expected += more.expected;
        self.events += more.events;
        self.faults += more.faults;
        self.reason = self.reason.take().or(more.reason);
        self.first_ns.extend(more.first_ns);
        self.latency_ns.extend(more.latency_ns);
    }

    fn fault(&mut self, reason: String) {
        self.faults += 1;
        self.reason.get_or_insert(reason);
    }
}

struct Stream {
    first_ns: Option<u64>,
    seen: Seen,
}

/// `count` streams of `script` at once, each on its own connection, started evenly over `stagger`.
pub(crate) async fn streams(
    target: Target,
    script: Script,
    count: u32,
    stagger: Duration,
) -> Tally {
    let request: Arc<[u8]> = target.stream(script, 0).into();
    let requests = vec![request; count as usize];
    turns(target, requests, script.events, stagger).await
}

/// These requests at once, each on its own connection and with so many events in reply.
pub(crate) async fn turns(
    target: Target,
    requests: Vec<Arc<[u8]>>,
    events: u64,
    stagger: Duration,
) -> Tally {
    let start = Instant::now();
    let mut running = JoinSet::new();
    let count = requests.len() as u64;
    for (at, request) in (0_u32..).zip(requests) {
        let due = start + stagger.mul_f64(f64::from(at) / float(count));
        running.spawn(async move {
            tokio::time::sleep_until(due).await;
            let mut conn = Conn::open(target.addr).await?;
            stream(&mut conn, target, &request).await
        });
    }
    let mut tally = Tally::default();
    while let Some(stream) = running.join_next().await {
        tally.add(events, stream.map_err(Into::into).flatten());
    }
    tally
}

/// `count` streamed requests with one event each, one after the other on one connection.
pub(crate) async fn in_turn(target: Target, request: &[u8], count: u32) -> Tally {
    let mut tally = Tally::default();
    let mut conn = None;
    for _ in 0..count {
        let result = async {
            let mut open = match conn.take() {
                Some(open) => open,
                None => Conn::open(target.addr).await?,
            };
            let stream = stream(&mut open, target, request).await?;
            conn = Some(open);
            Ok(stream)
        };
        let result = result.await;
        tally.add(1, result);
    }
    tally
}

async fn stream(conn: &mut Conn, target: Target, request: &[u8]) -> anyhow::Result<Stream> {
    let start = now_ns();
    let mut reply = conn.send(request).await?;
    if reply.status != 200 {
        let status = reply.status;
        let body = conn.rest(reply).await?;
        bail!("status {status}: {}", String::from_utf8_lossy(&body));
    }
    let mut scanner = Scanner::new(target.wire);
    let mut first_ns = None;
    while conn
        .next(&mut reply, |data, at| {
            scanner.feed(data, at);
            if first_ns.is_none() && scanner.seen.events > 0 {
                first_ns = Some(at.saturating_sub(start));
            }
        })
        .await?
    {}
    Ok(Stream {
        first_ns,
        seen: scanner.seen,
    })
}

/// Connections whose streams have given their first event and then wait.
pub(crate) struct Held {
    /// Dropping a connection ends its stream.
    pub(crate) open: Vec<Conn>,
    pub(crate) faults: u64,
    pub(crate) reason: Option<String>,
}

/// `count` streams with requests of `size` bytes, each held open after its first event.
pub(crate) async fn hold(target: Target, count: u32, size: usize) -> Held {
    const OPENERS: u32 = 32;
    let script = Script::held(Duration::from_mins(10));
    let request: std::sync::Arc<[u8]> = target.stream(script, size).into();
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
    let mut held = Held {
        open: Vec::new(),
        faults: 0,
        reason: None,
    };
    for result in openers.join_all().await.into_iter().flatten() {
        match result {
            Ok(conn) => held.open.push(conn),
            Err(error) => {
                held.faults += 1;
                held.reason.get_or_insert(format!("{error:#}"));
            }
        }
    }
    held
}

async fn first_event(target: Target, request: &[u8]) -> anyhow::Result<Conn> {
    let mut conn = Conn::open(target.addr).await?;
    let mut reply = conn.send(request).await?;
    anyhow::ensure!(reply.status == 200, "status {}", reply.status);
    let mut scanner = Scanner::new(target.wire);
    while scanner.seen.events == 0 {
        let more = conn
            .next(&mut reply, |data, at| scanner.feed(data, at))
            .await?;
        anyhow::ensure!(more, "ended before its first event");
    }
    conn.shrink();
    Ok(conn)
}

/// A proxy may stream from the upstream for a client that does not: then the text is a marker.
fn is_small_reply(body: &[u8]) -> bool {
    let mut markers = 0;
    marker::each(body, |_| markers += 1);
    markers == 1 || find(body, SMALL_TEXT.as_bytes()).is_some()
}

/// Small requests without streaming, one after the other on each of `count` connections, for `time`
/// and at least one on each.
///
/// Returns the requests answered and the seconds they took.
pub(crate) async fn small(
    target: Target,
    count: u32,
    time: Duration,
) -> anyhow::Result<(u64, f64)> {
    let request: std::sync::Arc<[u8]> = target.small().into();
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
                let body = conn.rest(reply).await?;
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
    use crate::{pass, scan::Wire, upstream};

    async fn listener() -> TcpListener {
        TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
    }

    /// An upstream with a pass-through in front of it.
    async fn both() -> [Target; 2] {
        let (first, second) = (listener().await, listener().await);
        let addrs = [&first, &second].map(|listener| listener.local_addr().unwrap());
        tokio::spawn(upstream::serve(first));
        tokio::spawn(pass::serve(second, addrs[0]));
        addrs.map(|addr| Target {
            addr,
            wire: Wire::Chat,
        })
    }

    /// A server that answers every connection with `reply` and closes it.
    async fn canned(reply: &'static str) -> Target {
        let listener = listener().await;
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                // The request fits one read; what is not read would reset the connection.
                let _ = socket.read(&mut [0; 4096]).await;
                let _ = socket.write_all(reply.as_bytes()).await;
            }
        });
        Target {
            addr,
            wire: Wire::Chat,
        }
    }

    #[tokio::test]
    async fn every_event_is_counted_directly_and_through_the_pass() {
        let flood = Script::flood(3000);
        let paced = Script {
            burst: 3,
            ..Script::paced(20, Duration::from_millis(2))
        };
        for target in both().await {
            for script in [flood, paced] {
                let tally = streams(target, script, 8, Duration::ZERO).await;
                assert_eq!(tally.reason, None);
                assert_eq!((tally.events, tally.faults), (8 * script.events, 0));
                assert_eq!(tally.first_ns.len(), 8);
            }
        }
    }

    #[tokio::test]
    async fn long_histories_small_requests_and_held_streams_work_through_the_pass() {
        for target in both().await {
            let tally = in_turn(target, &target.history(200_000), 3).await;
            assert_eq!((tally.events, tally.reason), (3, None));
            let (answered, _) = small(target, 4, Duration::from_millis(20)).await.unwrap();
            assert!(answered >= 4);
            let held = hold(target, 40, 1024).await;
            assert_eq!((held.open.len(), held.reason), (40, None));
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
            let target = canned(reply).await;
            let tally = streams(target, Script::flood(1), 2, Duration::ZERO).await;
            assert_eq!((tally.events, tally.faults), (0, 2), "{reply:?}");
        }
    }
}
