//! The HTTP edge with a small application behind it, and a client that sends raw bytes.
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use respondent::secrets::Secret;
use respondent::serve::routes::{delete, get, post};
use respondent::serve::{
    DecodedRequest, Edge, EdgeSettings, ListenLimits, RefusalObserver, RefusalReason, RouteService,
    RouteTable, Shutdown, listen, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running edge.
pub struct Server {
    pub addr: SocketAddr,
    pub log: Arc<AppLog>,
    pub settings: Arc<ArcSwap<EdgeSettings>>,
    pub shutdown: Shutdown,
    pub serving: JoinHandle<()>,
}

/// The bytes of the answer to "large answer".
pub const LARGE_ANSWER: usize = 32 << 20;

/// What the application has received.
#[derive(Default)]
pub struct AppLog {
    pub turns: AtomicUsize,
    pub models: AtomicUsize,
    pub refused: Mutex<Vec<&'static str>>,
    /// Notified when a turn begins.
    pub begun: Notify,
    /// Notified when a turn is dropped before its response.
    pub dropped: Notify,
}

#[derive(Clone)]
struct TestApp {
    log: Arc<AppLog>,
    ending: CancellationToken,
}

/// Notifies when the turn that holds it is dropped.
struct DropNotifier(Arc<AppLog>);

impl Drop for DropNotifier {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

fn routes(app: &TestApp) -> RouteService {
    RouteTable::new()
        .under(
            &["/v1", "/openai/v1", ""],
            app,
            [
                post("/responses", turn)
                    .or_websocket(|| async { respondent::serve::error::upgrade_required() }),
                get("/models", models),
                get("/models/{*id}", model),
                get("/items/{id}", item),
                delete("/items/{id}", item),
            ],
        )
        .under(&[""], app, [get("/healthz", || async { "ok" })])
        .into_service(|path, served| format!("Nothing at \"{path}\". Served: {served}"))
}

async fn turn(State(app): State<TestApp>, request: DecodedRequest) -> Response<Body> {
    app.log.turns.fetch_add(1, SeqCst);
    app.log.begun.notify_one();
    match request.body.as_str() {
        // Unlike panic!, this does not print a trace of the intended panic.
        "panic" => std::panic::resume_unwind(Box::new("intended panic")),
        "stuck" => {
            let _notifier = DropNotifier(Arc::clone(&app.log));
            std::future::pending().await
        }
        "stream" => Response::new(Body::new(UntilEnding::new(&app.ending))),
        "stubborn" => Response::new(Body::new(UntilEnding::new(&CancellationToken::new()))),
        "large answer" => Response::new(Body::from(vec![b'x'; LARGE_ANSWER])),
        "flood" => Response::new(Body::new(Flood(DropNotifier(Arc::clone(&app.log))))),
        "broken stream" => Response::new(Body::new(PanicStream)),
        body => Response::new(Body::from(format!("{} bytes", body.len()))),
    }
}

async fn models(State(app): State<TestApp>) -> &'static str {
    app.log.models.fetch_add(1, SeqCst);
    "models"
}

async fn model(axum::extract::Path(id): axum::extract::Path<String>) -> String {
    format!("model {id}")
}

async fn item(axum::extract::Path(id): axum::extract::Path<String>) -> String {
    format!("item {id}")
}

impl RefusalObserver for TestApp {
    fn presented(&self, _: &Secret) {}

    fn refused(
        &self,
        reason: RefusalReason,
        request_headers: &HeaderMap,
        status: StatusCode,
    ) -> StatusCode {
        self.log.refused.lock().unwrap().push(reason.label());
        if request_headers.contains_key("x-impatient") {
            StatusCode::BAD_REQUEST
        } else {
            status
        }
    }
}

/// Sends `begin` at once and `end` when the server is ending.
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

/// Sends without an end, and notifies when it is dropped.
struct Flood(#[allow(dead_code, reason = "dropped with the body")] DropNotifier);

impl http_body::Body for Flood {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(
            &[b'x'; 16 * 1024],
        )))))
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
        std::panic::resume_unwind(Box::new("intended panic"))
    }
}

impl Server {
    /// With default settings and limits.
    pub async fn start() -> Self {
        Self::with(EdgeSettings::default(), ListenLimits::default()).await
    }

    /// With these settings and limits.
    pub async fn with(settings: EdgeSettings, limits: ListenLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        Self::on(listener, addr, settings, limits, Duration::from_secs(30))
    }

    /// On a source of connections, with a grace period for the shutdown.
    pub fn on(
        source: impl listen::Accept + Sync + 'static,
        addr: SocketAddr,
        settings: EdgeSettings,
        limits: ListenLimits,
        grace: Duration,
    ) -> Self {
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let shutdown = Shutdown::new(grace);
        let log = Arc::new(AppLog::default());
        let app = TestApp {
            log: Arc::clone(&log),
            ending: shutdown.ending.clone(),
        };
        let edge = Edge::new(routes(&app), Arc::clone(&settings), app);
        let serving = tokio::spawn(serve(source, edge, limits, shutdown.clone()));
        Self {
            addr,
            log,
            settings,
            shutdown,
            serving,
        }
    }

    /// How many turns reached the application.
    pub fn turns(&self) -> usize {
        self.log.turns.load(SeqCst)
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Sends these bytes, with `{host}` replaced by the address of the server, and reads
    /// until it closes the connection.
    pub async fn send_raw(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        // An error response may arrive before everything is written.
        let _ = stream.write_all(&self.fill(request)).await;
        read_to_close(&mut stream).await
    }

    /// Sends a request with these headers in addition to `Host` and `Connection`.
    pub async fn request(&self, line: &str, headers: &str, body: &[u8]) -> Reply {
        let head =
            format!("{line} HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n{headers}\r\n");
        self.send_raw(&[head.as_bytes(), body].concat()).await
    }

    /// Posts a turn with this body.
    pub async fn post_turn(&self, body: &[u8], headers: &str) -> Reply {
        let length = body.len();
        let headers =
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}");
        self.request("POST /v1/responses", &headers, body).await
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

/// Reads until the server closes or resets the connection.
pub async fn read_to_close(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        bytes.extend_from_slice(&buffer[..read]);
    }
    Reply {
        text: String::from_utf8(bytes).unwrap(),
    }
}

/// All bytes that arrived until the connection closed.
#[derive(Debug)]
pub struct Reply {
    pub text: String,
}

impl Reply {
    /// The status of the first response; 0 if the connection closed without one.
    pub fn status(&self) -> u16 {
        let status = self
            .text
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        status.map_or(0, |status| status.parse().unwrap())
    }

    /// Number of responses.
    pub fn responses(&self) -> usize {
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

    /// Checks that this is an error of the edge with this status and code: a body with all
    /// four keys, the headers of every response, no CORS permission. Returns its message.
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status(), status, "{self:?}");
        let body: serde_json::Value = serde_json::from_str(self.body()).unwrap();
        let error = body["error"].as_object().unwrap();
        let keys: Vec<&String> = error.keys().collect();
        assert_eq!(keys, ["message", "type", "param", "code"]);
        assert_eq!(error["code"], code);
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty());
        self.assert_sealed();
        assert_eq!(self.header("access-control-allow-origin"), None);
        message.to_owned()
    }

    /// Checks that the first response is 200 with this body.
    #[track_caller]
    pub fn assert_ok(&self, body: &str) {
        assert_eq!((self.status(), self.body()), (200, body), "{self:?}");
        self.assert_sealed();
    }

    /// Checks the headers of every response.
    #[track_caller]
    pub fn assert_sealed(&self) {
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
