//! The real program as a process of its own, in a folder of its own, in front of
//! a scripted player.
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kit::player::Player;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Notify;

/// Headers of a request by Codex.
pub const CODEX: &[(&str, &str)] = &[("originator", "codex_exec")];

/// What the program is started with.
#[derive(Clone, Default)]
pub struct Setup {
    server: String,
    provider: String,
    rest: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl Setup {
    pub fn new() -> Self {
        Self::default()
    }

    /// More lines of `[server]`.
    #[must_use]
    pub fn server(mut self, toml: &str) -> Self {
        let _ = writeln!(self.server, "{toml}");
        self
    }

    /// More lines of `[providers.up]`.
    #[must_use]
    pub fn provider(mut self, toml: &str) -> Self {
        let _ = writeln!(self.provider, "{toml}");
        self
    }

    /// More tables.
    #[must_use]
    pub fn tables(mut self, toml: &str) -> Self {
        let _ = writeln!(self.rest, "{toml}");
        self
    }

    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file beside the configuration.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// The configuration file with `up` in front of this address.
    pub fn config(&self, base_url: &str) -> String {
        let Self {
            server,
            provider,
            rest,
            ..
        } = self;
        let key = if provider.contains("api_key") {
            ""
        } else {
            "key_required = false"
        };
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{server}\n\
             [providers.up]\nwire = \"chat\"\nbase_url = \"{base_url}\"\n{key}\n{provider}\n{rest}\n"
        )
    }

    /// A folder with this configuration and the other files.
    pub fn folder(&self, base_url: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "proxy-config.toml", &self.config(base_url));
        for (path, text) in &self.files {
            write(folder.path(), path, text);
        }
        folder
    }

    /// The program in this folder, which sees nothing of the environment of the test.
    pub fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_respondent"));
        command
            .current_dir(folder)
            .env_clear()
            .env("HOME", folder)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs the program to its end: exit code, standard output, standard error.
    pub async fn run(&self, folder: &Path) -> (i32, String, String) {
        let output = self.command(folder).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

pub fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The running program; it is killed on drop.
pub struct Proxy {
    pub address: SocketAddr,
    pub folder: TempDir,
    child: Child,
    said: Arc<Said>,
}

/// What the program wrote so far, on both streams.
#[derive(Default)]
struct Said {
    text: Mutex<String>,
    more: Notify,
}

impl Said {
    async fn keep(self: Arc<Self>, from: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut text = self.text.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
            drop(text);
            self.more.notify_waiters();
        }
    }
}

impl Proxy {
    /// With nothing but the provider `up`, which is the player.
    pub async fn start(player: &Player) -> Self {
        Self::with(player, Setup::new()).await
    }

    pub async fn with(player: &Player, setup: Setup) -> Self {
        Self::at(&player.base_url(), setup).await
    }

    /// In front of any address.
    pub async fn at(base_url: &str, setup: Setup) -> Self {
        Self::within(setup.folder(base_url), &setup).await
    }

    /// In a folder that holds its configuration.
    pub async fn within(folder: TempDir, setup: &Setup) -> Self {
        let mut child = setup.command(folder.path()).spawn().unwrap();
        let said = Arc::<Said>::default();
        tokio::spawn(Arc::clone(&said).keep(child.stderr.take().unwrap()));
        let mut greeting = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        greeting.read_line(&mut line).await.unwrap();
        let address = line
            .trim_end()
            .rsplit_once("http://")
            .and_then(|(_, rest)| rest.strip_suffix("/v1"))
            .and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let mut rest = String::new();
            let _ = greeting.read_to_string(&mut rest).await;
            let status = child.wait().await;
            panic!(
                "not started, {status:?}: {line}{rest}{}",
                said.text.lock().unwrap()
            );
        };
        tokio::spawn(Arc::clone(&said).keep(greeting));
        Self {
            address,
            folder,
            child,
            said,
        }
    }

    /// All that it logged.
    pub fn log(&self) -> String {
        self.said.text.lock().unwrap().clone()
    }

    /// Waits until it logged this.
    pub async fn logged(&self, what: &str) {
        loop {
            let more = self.said.more.notified();
            if self.log().contains(what) {
                return;
            }
            more.await;
        }
    }

    /// Sends a turn and reads the whole answer.
    pub async fn post(&self, body: &Value) -> Reply {
        self.post_with(body, &[]).await
    }

    pub async fn post_with(&self, body: &Value, headers: &[(&str, &str)]) -> Reply {
        self.raw(body.to_string(), headers).await
    }

    /// Sends a body to another path.
    pub async fn post_at(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
        let open = self.open_at(path, body.to_string(), headers).await;
        open.rest().await
    }

    /// Sends any bytes as a turn.
    pub async fn raw(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Reply {
        self.open(body, headers).await.rest().await
    }

    /// The answer to a turn, not read yet.
    pub async fn open(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Open {
        self.open_at("/v1/responses", body, headers).await
    }

    async fn open_at(&self, path: &str, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Open {
        let mut request = Request::post(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, body.into()).await
    }

    /// Sends a body to another path.
    pub async fn post_to(&self, path: &str, body: &Value) -> Reply {
        let request = Request::post(path).header("content-type", "application/json");
        let body = Bytes::from(body.to_string());
        self.send(request, body).await.rest().await
    }

    pub async fn get(&self, path: &str) -> Reply {
        let request = Request::get(path);
        self.send(request, Bytes::new()).await.rest().await
    }

    async fn send(&self, request: http::request::Builder, body: Bytes) -> Open {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let request = request
            .header("host", self.address.to_string())
            .body(Full::new(body))
            .unwrap();
        let answer = sender
            .send_request(request)
            .await
            .unwrap_or_else(|error| panic!("no answer: {error}\n{}", self.log()));
        let (head, body) = answer.into_parts();
        Open {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            text: String::new(),
            connection: Abort(connection.abort_handle()),
        }
    }

    /// A streamed turn to its end, checked.
    pub async fn stream(&self, body: &Value) -> kit::strict::CheckedStream {
        self.stream_with(body, &[]).await
    }

    pub async fn stream_with(
        &self,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> kit::strict::CheckedStream {
        self.post_with(&streaming(body), headers).await.stream()
    }

    /// A turn that is not streamed, checked: the response object.
    pub async fn whole(&self, body: &Value) -> Value {
        let reply = self.post(body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        kit::strict::check_response_or_panic(&reply.body)
    }

    /// The figures of `/metrics`.
    pub async fn metrics(&self) -> String {
        self.get("/metrics").await.body
    }

    /// The sum of a figure over all labels that contain this.
    pub async fn figure(&self, name: &str, labels: &str) -> f64 {
        let metrics = self.metrics().await;
        let lines = metrics
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains(labels));
        lines
            .filter_map(|line| line.rsplit_once(' '))
            .filter(|(key, _)| key.split('{').next() == Some(name))
            .filter_map(|(_, value)| value.parse::<f64>().ok())
            .sum()
    }

    /// Asks again until a figure is this. A gauge goes back when the program sees
    /// the end of a connection, which nobody tells us.
    pub async fn until(&self, name: &str, labels: &str, value: f64) {
        while (self.figure(name, labels).await - value).abs() > f64::EPSILON {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Resident memory at its peak, in KiB.
    pub fn memory(&self) -> Memory {
        let status = self.proc("status");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.unwrap().parse().unwrap()
        };
        Memory { peak: of("VmHWM:") }
    }

    /// Clock ticks that it has computed.
    pub fn ticks(&self) -> u64 {
        let stat = self.proc("stat");
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Waits until it does nothing any more.
    pub async fn at_rest(&self) {
        let mut before = u64::MAX;
        loop {
            let now = self.ticks();
            if now == before {
                return;
            }
            before = now;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// How many files and sockets it has open.
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.child.id().unwrap());
        std::fs::read_dir(path).unwrap().count()
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id().unwrap())).unwrap()
    }

    /// Asks it to stop.
    pub async fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.child.id().unwrap());
        let status = Command::new("/bin/sh").args(["-c", &kill]).status().await;
        assert!(status.unwrap().success());
    }

    /// Ends it at once, as `kill -9` does.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }
}

/// KiB of resident memory at its peak.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub peak: u64,
}

/// The same turn, streamed.
pub fn streaming(body: &Value) -> Value {
    let mut body = body.clone();
    body["stream"] = true.into();
    body
}

/// Ends a connection with its owner.
struct Abort(tokio::task::AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body is read piece by piece; dropping it closes the connection.
pub struct Open {
    pub status: u16,
    pub headers: HeaderMap,
    /// What was read so far.
    pub text: String,
    body: Incoming,
    #[expect(dead_code, reason = "it is dropped")]
    connection: Abort,
}

impl Open {
    /// Reads on; false at the end of the body.
    pub async fn more(&mut self) -> bool {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                self.text.push_str(std::str::from_utf8(&data).unwrap());
                true
            }
            Some(Err(error)) => panic!("the answer broke off, {error}: {}", self.text),
            None => false,
        }
    }

    /// Reads until this was said.
    pub async fn until(&mut self, what: &str) {
        while !self.text.contains(what) {
            assert!(self.more().await, "{what} was not said: {}", self.text);
        }
    }

    /// Reads to the end.
    pub async fn rest(mut self) -> Reply {
        while self.more().await {}
        Reply {
            status: self.status,
            headers: std::mem::take(&mut self.headers),
            body: std::mem::take(&mut self.text),
        }
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as a stream that keeps all rules.
    #[track_caller]
    pub fn stream(&self) -> kit::strict::CheckedStream {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("text/event-stream; charset=utf-8")
        );
        kit::strict::check_or_panic(&self.body)
    }

    /// The same for Codex, to whom a torn item stays open.
    #[track_caller]
    pub fn stream_for_codex(&self) -> kit::strict::CheckedStream {
        assert_eq!(self.status, 200, "{self:?}");
        kit::strict::check_for_codex_or_panic(&self.body)
    }

    /// The error of a refusal with this status: all four keys are there.
    #[track_caller]
    pub fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        kit::strict::check_error(&self.body).unwrap()
    }
}
