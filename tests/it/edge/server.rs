//! The edge with a tiny app behind it, and a client that speaks in raw bytes.
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body::Frame;
use respondent::serve::{
    App, Body, Edge, EdgeSettings, ListenLimits, Reason, Shutdown, listen, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running edge.
pub struct Server {
    pub addr: SocketAddr,
    pub seen: Arc<Seen>,
    pub settings: Arc<ArcSwap<EdgeSettings>>,
    pub shutdown: Shutdown,
    pub serving: JoinHandle<()>,
}

/// What the app saw.
#[derive(Default)]
pub struct Seen {
    pub turns: AtomicUsize,
    pub models: AtomicUsize,
    pub refused: Mutex<Vec<&'static str>>,
    /// A turn has begun.
    pub begun: Notify,
    /// A turn was dropped before it answered.
    pub dropped: Notify,
}

struct Tiny {
    seen: Arc<Seen>,
    ending: CancellationToken,
}

/// Tells when the turn that holds it goes away.
struct Held(Arc<Seen>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

impl App for Tiny {
    async fn responses(&self, _head: Parts, body: String) -> Response<Body> {
        self.seen.turns.fetch_add(1, SeqCst);
        self.seen.begun.notify_one();
        match body.as_str() {
            // Without the hook, which would print a trace for a wanted panic.
            "panic" => std::panic::resume_unwind(Box::new("as asked")),
            "stuck" => {
                let _held = Held(Arc::clone(&self.seen));
                std::future::pending().await
            }
            "stream" => Response::new(Body::stream(UntilEnding::new(&self.ending))),
            "stubborn" => Response::new(Body::stream(UntilEnding::new(&CancellationToken::new()))),
            "broken stream" => Response::new(Body::stream(PanicStream)),
            _ => Response::new(Body::full(format!("{} bytes", body.len()))),
        }
    }

    async fn models(&self, _head: Parts) -> Response<Body> {
        self.seen.models.fetch_add(1, SeqCst);
        Response::new(Body::full("models"))
    }

    async fn healthz(&self, _head: Parts) -> Response<Body> {
        Response::new(Body::full("ok"))
    }

    async fn metrics(&self, _head: Parts) -> Response<Body> {
        Response::new(Body::full("metrics"))
    }

    async fn turns(&self, _head: Parts) -> Response<Body> {
        Response::new(Body::full("turns"))
    }

    async fn bundle(&self, _head: Parts) -> Response<Body> {
        Response::new(Body::full("bundle"))
    }

    fn refused(&self, reason: Reason, head: &Parts, answer: &mut Response<Body>) {
        self.seen.refused.lock().unwrap().push(reason.label());
        if head.headers.contains_key("x-impatient") {
            *answer.status_mut() = http::StatusCode::BAD_REQUEST;
        }
    }
}

/// Says `begin` at once and `end` when it is told to end.
struct UntilEnding {
    begun: bool,
    ended: bool,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl UntilEnding {
    fn new(ending: &CancellationToken) -> Self {
        let ending = Box::pin(ending.clone().cancelled_owned());
        Self {
            begun: false,
            ended: false,
            ending,
        }
    }
}

impl http_body::Body for UntilEnding {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        if !body.begun {
            body.begun = true;
            return Poll::Ready(Some(Ok(Frame::data("begin".into()))));
        }
        if body.ended {
            return Poll::Ready(None);
        }
        std::task::ready!(body.ending.as_mut().poll(cx));
        body.ended = true;
        Poll::Ready(Some(Ok(Frame::data("end".into()))))
    }
}

struct PanicStream;

impl http_body::Body for PanicStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        std::panic::resume_unwind(Box::new("as asked"))
    }
}

impl Server {
    /// With default settings and limits.
    pub async fn start() -> Self {
        Self::with(EdgeSettings::default(), ListenLimits::default()).await
    }

    /// With these; the port in the guard's settings is filled in.
    pub async fn with(settings: EdgeSettings, limits: ListenLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        Self::on(listener, addr, settings, limits, Duration::from_secs(30))
    }

    /// On a source of connections, with a grace for its shutdown.
    pub fn on(
        source: impl listen::Accept + Sync + 'static,
        addr: SocketAddr,
        mut settings: EdgeSettings,
        limits: ListenLimits,
        grace: Duration,
    ) -> Self {
        settings.guard.port = addr.port();
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let shutdown = Shutdown::new(grace);
        let seen = Arc::new(Seen::default());
        let app = Tiny {
            seen: Arc::clone(&seen),
            ending: shutdown.ending.clone(),
        };
        let edge = Edge::new(app, Arc::clone(&settings));
        let serving = tokio::spawn(serve(source, edge, limits, shutdown.clone()));
        Self {
            addr,
            seen,
            settings,
            shutdown,
            serving,
        }
    }

    /// How many turns reached the app.
    pub fn turns(&self) -> usize {
        self.seen.turns.load(SeqCst)
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Sends these bytes, `{host}` replaced by our own, and reads until the close.
    pub async fn raw(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        // A refusal may come before all is written.
        let _ = stream.write_all(&self.fill(request)).await;
        rest(&mut stream).await
    }

    /// Asks with these lines after the request line and `Host`.
    pub async fn ask(&self, line: &str, headers: &str, body: &[u8]) -> Reply {
        let head =
            format!("{line} HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n{headers}\r\n");
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    /// A plain turn.
    pub async fn turn(&self, body: &[u8], headers: &str) -> Reply {
        let length = body.len();
        let headers =
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}");
        self.ask("POST /v1/responses", &headers, body).await
    }

    pub fn fill(&self, request: &[u8]) -> Vec<u8> {
        let host = self.addr.to_string();
        let mut filled = Vec::with_capacity(request.len());
        let mut left = request;
        while let Some(at) = left.windows(6).position(|window| window == b"{host}") {
            filled.extend_from_slice(&left[..at]);
            filled.extend_from_slice(host.as_bytes());
            left = &left[at + 6..];
        }
        filled.extend_from_slice(left);
        filled
    }
}

/// Reads until the server closes or resets.
pub async fn rest(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        bytes.extend_from_slice(&buffer[..read]);
    }
    Reply {
        text: String::from_utf8(bytes).unwrap(),
    }
}

/// All bytes that came until the close.
#[derive(Debug)]
pub struct Reply {
    pub text: String,
}

impl Reply {
    /// The status of the first answer; 0 if it closed without one.
    pub fn status(&self) -> u16 {
        let status = self
            .text
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        status.map_or(0, |status| status.parse().unwrap())
    }

    /// How many answers came.
    pub fn answers(&self) -> usize {
        self.text.matches("HTTP/1.1 ").count()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        head.lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub fn body(&self) -> &str {
        self.text
            .split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
    }

    /// Checks that this is a refusal of the edge with this status and code: an error
    /// body with all four keys, the headers of every answer, no CORS permission.
    #[track_caller]
    pub fn refuses(&self, status: u16, code: &str) {
        assert_eq!(self.status(), status, "{self:?}");
        let body: serde_json::Value = serde_json::from_str(self.body()).unwrap();
        let error = body["error"].as_object().unwrap();
        let keys: Vec<&String> = error.keys().collect();
        assert_eq!(keys, ["message", "type", "param", "code"]);
        assert_eq!(error["code"], code);
        assert!(!error["message"].as_str().unwrap().is_empty());
        self.is_sealed();
        assert_eq!(self.header("access-control-allow-origin"), None);
    }

    /// Checks that the first answer is 200 with this body.
    #[track_caller]
    pub fn says(&self, body: &str) {
        assert_eq!((self.status(), self.body()), (200, body), "{self:?}");
        self.is_sealed();
    }

    #[track_caller]
    pub fn is_sealed(&self) {
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        assert_eq!(
            self.header("x-content-type-options"),
            Some("nosniff"),
            "{self:?}"
        );
        let id = self.header("x-request-id").unwrap();
        assert!(id.starts_with("req_") && id.len() == 36, "{id}");
    }
}
