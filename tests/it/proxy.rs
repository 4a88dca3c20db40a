//! Runs the real program as a separate process, in a temporary folder and with a scripted player
//! as its provider.
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
use kit::player::{Player, PlayerWire};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::child;
use crate::counted::{self, LiveBytes};

/// The file of the program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_respondent");

/// The headers of a request that make the client Codex.
pub const CODEX: &[(&str, &str)] = &[("originator", "codex_exec")];

/// The configuration, files, arguments and environment with which the program is started.
#[derive(Clone, Default)]
pub struct Setup {
    server: String,
    provider: String,
    /// The wire of the provider `up`; that of its player if absent, and Chat Completions if the
    /// player speaks all.
    wire: Option<&'static str>,
    tables_toml: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: Vec<(String, String)>,
    /// Whether the program has to find its configuration in the working directory.
    is_unnamed: bool,
    /// Whether the providers are asked for their models.
    is_discovering: bool,
    /// Whether an allocator counts its bytes.
    is_counted: bool,
    /// The shell command that starts the program, as `exec "$0" "$@"` does.
    shell: Option<&'static str>,
}

impl Setup {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds lines to `[server]`.
    #[must_use]
    pub fn server(mut self, toml: &str) -> Self {
        let _ = writeln!(self.server, "{toml}");
        self
    }

    /// Adds lines to `[providers.up]`.
    #[must_use]
    pub fn provider(mut self, toml: &str) -> Self {
        let _ = writeln!(self.provider, "{toml}");
        self
    }

    /// Sets the wire of `[providers.up]`.
    #[must_use]
    pub fn wire(mut self, wire: &'static str) -> Self {
        self.wire = Some(wire);
        self
    }

    /// Sets the wire of `[providers.up]` to that of its player, unless it is set.
    #[must_use]
    pub fn wire_of(mut self, player: &Player) -> Self {
        let spoken = player.wire().map(PlayerWire::name);
        self.wire = self.wire.or(spoken);
        self
    }

    /// Adds a provider without a key. `more` are further lines of its table.
    #[must_use]
    pub fn other(self, id: &str, player: &Player, more: &str) -> Self {
        let wire = player.wire().map_or("chat", PlayerWire::name);
        let base_url = player.base_url();
        let discover = self.discover();
        self.tables(&format!(
            "[providers.{id}]\nwire = \"{wire}\"\nbase_url = \"{base_url}\"\nkey_required = false\n{discover}{more}"
        ))
    }

    /// Adds tables to the configuration.
    #[must_use]
    pub fn tables(mut self, toml: &str) -> Self {
        let _ = writeln!(self.tables_toml, "{toml}");
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

    /// Lets the program ask the providers for their models.
    #[must_use]
    pub fn discovering(mut self) -> Self {
        self.is_discovering = true;
        self
    }

    /// Lets a shell start the program.
    #[must_use]
    pub fn shell(mut self, command: &'static str) -> Self {
        self.shell = Some(command);
        self
    }

    /// Starts a server whose bytes are counted, see [`Proxy::live_bytes`].
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.is_counted = true;
        self
    }

    /// Does not name the configuration to the program.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.is_unnamed = true;
        self
    }

    /// Adds a file next to the configuration.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// The configuration file, with this base URL for the provider `up`.
    pub fn config(&self, base_url: &str) -> String {
        let Self {
            server,
            provider,
            tables_toml,
            ..
        } = self;
        let wire = self.wire.unwrap_or("chat");
        let discover = self.discover();
        // Nothing that a test starts searches the web, unless it says where.
        let search = if tables_toml.contains("[search") {
            ""
        } else {
            "[search]\nmode = \"off\"\n"
        };
        let key = if provider.contains("api_key") {
            ""
        } else {
            "key_required = false"
        };
        // Tests look for the details of turns.
        let log = if server.contains("log = ") {
            ""
        } else {
            "log = \"info,respondent::turn=debug\""
        };
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{server}\n{log}\n\
             [providers.up]\nwire = \"{wire}\"\nbase_url = \"{base_url}\"\n{key}\n{discover}{provider}\n{tables_toml}\n{search}"
        )
    }

    /// Whether a provider is asked for its models, as a line of its table. Players count their
    /// connections, so most are not.
    fn discover(&self) -> &'static str {
        if self.is_discovering {
            ""
        } else {
            "discover = \"off\"\n"
        }
    }

    /// Creates a folder with this configuration and the other files.
    pub fn folder(&self, base_url: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "proxy-config.toml", &self.config(base_url));
        for (path, text) in &self.files {
            write(folder.path(), path, text);
        }
        folder
    }

    /// A command that runs the program in this folder, without the environment of the test.
    pub fn command(&self, folder: &Path) -> Command {
        let mut command = match self.shell {
            None if self.is_counted => child::Child::Serves.command().into(),
            None => Command::new(PROGRAM),
            Some(start) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", start, PROGRAM]);
                shell
            }
        };
        command.current_dir(folder).env_clear().env("HOME", folder);
        // Nothing that a test starts reaches the internet. Names that end in `invalid` never
        // exist.
        command
            .env("HTTPS_PROXY", "http://127.0.0.1:1")
            .env("NO_PROXY", "invalid");
        if self.is_counted {
            command.envs([child::Child::Serves.variable()]);
        }
        if !self.is_unnamed {
            command.env("RESPONDENT_CONFIG", "./proxy-config.toml");
        }
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs the program until it exits. Returns exit code, standard output and standard error.
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

/// Writes a file and creates its parent folders.
pub fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The running program. It is killed when it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    pub folder: TempDir,
    /// What the program printed before its greeting.
    pub first_line: Option<String>,
    child: Child,
    output: Arc<OutputLog>,
    /// They end with the streams of the program.
    output_readers: Vec<JoinHandle<()>>,
}

/// The output of the program so far, from both streams.
#[derive(Default)]
struct OutputLog {
    text: Mutex<String>,
    changed: Notify,
}

impl OutputLog {
    async fn collect(self: Arc<Self>, from: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut text = self.text.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
            drop(text);
            self.changed.notify_waiters();
        }
    }
}

impl Proxy {
    /// Starts the program with the player as its only provider, `up`.
    pub async fn start(player: &Player) -> Self {
        Self::start_with(player, Setup::new()).await
    }

    pub async fn start_with(player: &Player, setup: Setup) -> Self {
        let setup = setup.wire_of(player);
        Self::start_for_url(&player.base_url(), setup).await
    }

    /// Starts the program with this base URL for the provider `up`.
    pub async fn start_for_url(base_url: &str, setup: Setup) -> Self {
        Self::start_in_folder(setup.folder(base_url), &setup).await
    }

    /// Starts the program in a folder that contains its configuration.
    pub async fn start_in_folder(folder: TempDir, setup: &Setup) -> Self {
        let mut child = setup.command(folder.path()).spawn().unwrap();
        let output = Arc::<OutputLog>::default();
        let stderr = Arc::clone(&output).collect(child.stderr.take().unwrap());
        let stderr = tokio::spawn(stderr);
        let mut greeting = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        greeting.read_line(&mut line).await.unwrap();
        let mut first_line = None;
        if setup.is_unnamed || setup.is_counted {
            first_line = Some(line.trim_end().to_owned());
            while !line.is_empty() && !line.contains(" http://") {
                line.clear();
                greeting.read_line(&mut line).await.unwrap();
            }
        }
        let address = line
            .trim_end()
            .rsplit_once("http://")
            .and_then(|(_, address)| address.parse().ok());
        let Some(address) = address else {
            let mut rest = String::new();
            let _ = greeting.read_to_string(&mut rest).await;
            let status = child.wait().await;
            panic!(
                "not started, {status:?}: {line}{rest}{}",
                output.text.lock().unwrap()
            );
        };
        let stdout = tokio::spawn(Arc::clone(&output).collect(greeting));
        Self {
            address,
            folder,
            first_line,
            child,
            output,
            output_readers: vec![stdout, stderr],
        }
    }

    /// What the program has logged so far. It lags behind the replies, so a test that needs a line
    /// waits for it; after [`Self::wait_for_exit`] it is complete.
    pub fn log(&self) -> String {
        self.output.text.lock().unwrap().clone()
    }

    /// Ends the program, and returns all that it has logged.
    pub async fn whole_log(mut self) -> String {
        self.terminate();
        self.wait_for_exit().await;
        self.log()
    }

    /// Waits until the log contains this text, and returns the log.
    pub async fn wait_for_log(&self, what: &str) -> String {
        self.wait_for_log_times(what, 1).await
    }

    /// Waits until the log contains this text so many times, and returns the log.
    pub async fn wait_for_log_times(&self, what: &str, count: usize) -> String {
        loop {
            let changed = self.output.changed.notified();
            let log = self.log();
            if log.matches(what).count() >= count {
                return log;
            }
            changed.await;
        }
    }

    /// Sends a turn and reads the complete reply.
    pub async fn post(&self, body: &Value) -> Reply {
        self.post_with(body, &[]).await
    }

    pub async fn post_with(&self, body: &Value, headers: &[(&str, &str)]) -> Reply {
        self.post_bytes(body.to_string(), headers).await
    }

    /// Sends a body to this path and reads the complete reply.
    pub async fn post_to(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
        let open = self.open_at(path, body.to_string(), headers).await;
        open.read_to_end().await
    }

    /// Sends arbitrary bytes as a turn.
    pub async fn post_bytes(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Reply {
        self.open(body, headers).await.read_to_end().await
    }

    /// Sends a turn and returns the reply before its body is read.
    pub async fn open(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> OpenReply {
        self.open_at("/v1/responses", body, headers).await
    }

    /// Sends a body to this path and returns the reply before its body is read.
    pub async fn open_at(
        &self,
        path: &str,
        body: impl Into<Bytes>,
        headers: &[(&str, &str)],
    ) -> OpenReply {
        let mut request = Request::post(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, body.into()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.open_get(path, headers).await.read_to_end().await
    }

    /// Asks for this path and returns the reply before its body is read.
    pub async fn open_get(&self, path: &str, headers: &[(&str, &str)]) -> OpenReply {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, Bytes::new()).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.delete_with(path, &[]).await
    }

    pub async fn delete_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = Request::delete(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, Bytes::new()).await.read_to_end().await
    }

    /// Opens a stream of events that is there already.
    pub async fn open_events(&self, path: &str) -> OpenReply {
        self.send(Request::get(path), Bytes::new()).await
    }

    async fn send(&self, request: http::request::Builder, body: Bytes) -> OpenReply {
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
        OpenReply {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            text: String::new(),
            rest: Vec::new(),
            connection: AbortOnDrop(connection.abort_handle()),
        }
    }

    /// Sends a streaming turn, reads it to its end and checks the stream.
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

    /// Sends a turn without streaming, checks the reply and returns the response object.
    pub async fn response(&self, body: &Value) -> Value {
        let reply = self.post(body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        kit::strict::check_response_or_panic(&reply.body)
    }

    /// The text of `/metrics`.
    pub async fn metrics(&self) -> String {
        self.get("/metrics").await.body
    }

    /// The sum of a metric over all series whose labels contain this text.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
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

    /// Polls until a metric has this value. A gauge falls when the program notices that a
    /// connection has ended, and a test has no other way to see that.
    pub async fn wait_for_metric(&self, name: &str, labels: &str, value: f64) {
        while (self.metric(name, labels).await - value).abs() > f64::EPSILON {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The bytes that live in a server that counts them.
    pub fn live_bytes(&self) -> LiveBytes {
        counted::live_bytes(self.folder.path())
    }

    /// The memory use of the program.
    pub fn memory(&self) -> Memory {
        let status = self.read_proc("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.unwrap().parse().unwrap()
        };
        Memory {
            peak: field("VmHWM:"),
            file: field("RssFile:"),
        }
    }

    /// The CPU time that the program has used, in clock ticks.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = self.read_proc("stat");
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Waits until the program uses no CPU time.
    pub async fn wait_until_idle(&self) {
        let mut before = u64::MAX;
        loop {
            let now = self.cpu_ticks();
            if now == before {
                return;
            }
            before = now;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// The number of open files and sockets.
    pub fn open_descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.child.id().unwrap());
        std::fs::read_dir(path).unwrap().count()
    }

    fn read_proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id().unwrap())).unwrap()
    }

    /// Runs a command beside this server, in its folder and with its address: exit code, standard
    /// output and standard error.
    pub async fn run_command(&self, setup: &Setup, args: &[&str]) -> (i32, String, String) {
        let address = self.address.to_string();
        let setup = setup.clone().arg("--listen").arg(&address);
        let setup = args.iter().fold(setup, |setup, arg| setup.arg(arg));
        setup.run(self.folder.path()).await
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.send_signal(Signal::TERM);
    }

    pub fn send_signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Sends SIGKILL.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Ends the program, has its database in the folder `data` changed, and starts it again.
    pub async fn restart_with(mut self, setup: &Setup, change: impl FnOnce(&Connection)) -> Self {
        self.terminate();
        assert!(self.wait_for_exit().await.success());
        let database = self.folder.path().join("data/artifacts/artifacts.db");
        change(&Connection::open(database).unwrap());
        Self::start_in_folder(self.folder, setup).await
    }

    /// Waits until the program has exited and its log is complete.
    pub async fn wait_for_exit(&mut self) -> ExitStatus {
        let status = self.child.wait().await.unwrap();
        for reader in self.output_readers.drain(..) {
            reader.await.unwrap();
        }
        status
    }
}

/// The memory use of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The peak of the resident memory, in KiB.
    pub peak: u64,
    /// The pages of files that are mapped, of which the program itself is the largest; in KiB.
    pub file: u64,
}

impl Memory {
    /// The peak of what is not mapped from files, in bytes.
    pub fn own_peak(&self) -> usize {
        usize::try_from((self.peak - self.file) * 1024).unwrap()
    }
}

/// The same request with `stream: true`.
pub fn streaming(body: &Value) -> Value {
    let mut body = body.clone();
    body["stream"] = true.into();
    body
}

/// Ends the task of a connection when its owner is dropped.
pub struct AbortOnDrop(pub tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A reply whose body is read piece by piece. Dropping it closes the connection.
pub struct OpenReply {
    pub status: u16,
    pub headers: HeaderMap,
    /// The part of the body that was read so far.
    pub text: String,
    /// The beginning of a character whose end has not arrived.
    rest: Vec<u8>,
    body: Incoming,
    #[expect(dead_code, reason = "dropping it closes the connection")]
    connection: AbortOnDrop,
}

impl OpenReply {
    /// Reads the next piece. Returns false at the end of the body.
    pub async fn read_more(&mut self) -> bool {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                let is_bundle = |it: &http::HeaderValue| it == "application/zstd";
                if self.headers.get("content-type").is_some_and(is_bundle) {
                    self.text.push_str(&String::from_utf8_lossy(&data));
                } else {
                    self.rest.extend_from_slice(&data);
                    // A piece may end within a character.
                    let whole = match std::str::from_utf8(&self.rest) {
                        Ok(text) => text.len(),
                        Err(error) if error.error_len().is_none() => error.valid_up_to(),
                        Err(error) => panic!("{error}: {}", self.text),
                    };
                    let text: Vec<u8> = self.rest.drain(..whole).collect();
                    self.text.push_str(std::str::from_utf8(&text).unwrap());
                }
                true
            }
            Some(Err(error)) => panic!("the answer broke off, {error}: {}", self.text),
            None => false,
        }
    }

    /// Reads until the body contains this text.
    pub async fn read_until(&mut self, what: &str) {
        while !self.text.contains(what) {
            assert!(
                self.read_more().await,
                "the reply ended before {what}: {}",
                self.text
            );
        }
    }

    /// Reads the rest of the body.
    pub async fn read_to_end(mut self) -> Reply {
        while self.read_more().await {}
        Reply {
            status: self.status,
            headers: std::mem::take(&mut self.headers),
            body: std::mem::take(&mut self.text),
        }
    }
}

/// A complete reply.
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

    /// Checks the body against all rules of an event stream and returns the stream.
    #[track_caller]
    pub fn stream(&self) -> kit::strict::CheckedStream {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("text/event-stream; charset=utf-8")
        );
        kit::strict::check_or_panic(&self.body)
    }

    /// The same for a stream to Codex, in which an incomplete item stays open.
    #[track_caller]
    pub fn stream_for_codex(&self) -> kit::strict::CheckedStream {
        assert_eq!(self.status, 200, "{self:?}");
        kit::strict::check_for_codex_or_panic(&self.body)
    }

    /// Checks that the reply is an error with this status and all four keys, and returns the error.
    #[track_caller]
    pub fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        kit::strict::check_error(&self.body).unwrap()
    }
}
