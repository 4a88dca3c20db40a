//! Artifacts can be read over HTTP, on the command line and by MCP tools. Most tests use a
//! server in this process that already stores some artifacts.
pub mod in_turns;
mod reads;
mod searches;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use adapters::plan::output::{OutputKind, artifact_id};
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use kit::player::PlayerWire;
use respondent::app::{AppState, routes};
use respondent::artifacts::Artifacts;
use respondent::config::{self, Inputs, LoadPurpose};
use respondent::diagnostics::capture::TurnCapture;
use respondent::metrics::Metrics;
use respondent::metrics::spent::SpentToday;
use respondent::metrics::usage::{DailyUsage, UsageLog};
use respondent::net::LOCAL_OWNER;
use respondent::net::memory::ProcessMemory;
use respondent::responses::ResponseStore;
use respondent::secrets::Token;
use respondent::serve::{self, Edge, EdgeSettings, GuardSettings, ListenLimits, Shutdown};
use respondent::store::NewArtifact;
use respondent::tools::live::LiveWebTools;
use respondent::turn::Service;
use respondent::upstream::discovery::keeper::DiscoveryKeeper;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};

const TOKEN: &str = "the-token-of-the-server";

/// A server in this process. It stops when it is dropped.
struct Server {
    address: SocketAddr,
    /// The folder with its configuration.
    folder: TempDir,
    /// The ids of its artifacts, in the order of the texts.
    ids: Vec<String>,
    shutdown: Shutdown,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.drain.cancel();
    }
}

/// Starts a server that stores an artifact for each of these texts.
async fn server(texts: &[&str]) -> Server {
    let folder = Setup::new()
        .server("token_file = \"token\"\ndata_dir = \"data\"")
        .file("token", TOKEN)
        .folder("http://127.0.0.1:1/v1");
    let inputs = Inputs::under(folder.path());
    let config = config::load(&inputs, LoadPurpose::Serve).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let artifacts = Artifacts::memory(1 << 26);
    let mut ids = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let new = NewArtifact {
            id: artifact_id(text),
            call_id: format!("call_{number}"),
            kind: OutputKind::CommandOutput,
            chars: text.chars().count(),
            lines: text.lines().count(),
            text: (*text).to_owned(),
        };
        ids.push(new.id.clone());
        artifacts
            .keep(LOCAL_OWNER, "a session", vec![new], BTreeSet::new())
            .wait()
            .await;
    }
    let shutdown = Shutdown::new(std::time::Duration::ZERO);
    let live = Arc::new(ArcSwap::from_pointee(config));
    let discovery = Arc::new(DiscoveryKeeper::new(Arc::clone(&live)));
    let metrics = Arc::new(Metrics::new());
    let web = LiveWebTools::new(Arc::clone(&live), &metrics);
    let web = Arc::new(web);
    let service = Service::new(
        live,
        metrics,
        shutdown.ending.clone(),
        Arc::new(TurnCapture::default()),
        artifacts,
        ResponseStore::default(),
    );
    let app = AppState {
        service: Arc::new(service),
        capture: TurnCapture::default(),
        started_ms: 0,
        memory: ProcessMemory::unlimited(),
        usage: UsageLog::new(DailyUsage::default(), SpentToday::default(), None),
        discovery,
        jobs: None,
        temporary: false,
        web,
    };
    let settings = EdgeSettings {
        guard: GuardSettings {
            token: Some(Token::new(TOKEN).unwrap()),
            ..GuardSettings::default()
        },
        ..EdgeSettings::default()
    };
    let settings = Arc::new(ArcSwap::from_pointee(settings));
    let edge = Edge::new(routes(&app), settings, app);
    tokio::spawn(serve::serve(
        listener,
        edge,
        ListenLimits::default(),
        shutdown.clone(),
    ));
    Server {
        address,
        folder,
        ids,
        shutdown,
    }
}

#[derive(Debug)]
struct HttpReply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl HttpReply {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Checks the status and returns the code of the error.
    #[track_caller]
    fn error_code(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = kit::strict::check_error(&self.body).unwrap();
        error["code"].as_str().unwrap().to_owned()
    }
}

impl Server {
    /// Sends a request with these headers, and with default headers where they are not given.
    async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpReply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let host = self.address.to_string();
        let bearer = format!("Bearer {TOKEN}");
        let defaults = [
            ("host", &*host),
            ("authorization", &*bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let mut request = Request::builder().method(method).uri(path);
        let is_missing = |name: &str| !headers.iter().any(|(given, _)| *given == name);
        let missing = defaults.into_iter().filter(|(name, _)| is_missing(name));
        for (name, value) in missing.chain(headers.iter().copied()) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned())));
        let (head, body) = sender
            .send_request(request.unwrap())
            .await
            .unwrap()
            .into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        HttpReply {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> HttpReply {
        self.request("GET", path, &[("accept", "*/*")], "").await
    }

    /// Sends an MCP message and returns the reply.
    async fn mcp(&self, message: &Value) -> HttpReply {
        self.request("POST", "/mcp", &[], &message.to_string())
            .await
    }

    /// Calls a tool and returns its text.
    async fn tool(&self, name: &str, arguments: Value) -> String {
        let answer = self.mcp(&tool_call(7, name, arguments)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json");
        tool_text(&answer.json())
    }

    fn setup(&self) -> Setup {
        Setup::new().arg("--listen").arg(&self.address.to_string())
    }

    /// Runs a command that talks to the server. Returns exit code, standard output and standard
    /// error.
    async fn run(&self, args: &str) -> (i32, String, String) {
        let setup = args.split(' ').fold(self.setup(), Setup::arg);
        setup.run(self.folder.path()).await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn tool_call(id: u64, name: &str, arguments: Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    })
}

fn initialize(id: u64) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "trial", "version": "1"},
        },
    })
}

/// The text in the reply to a tool call.
#[track_caller]
fn tool_text(answer: &Value) -> String {
    let content = &answer["result"]["content"];
    assert_eq!(content.as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(content[0]["type"], "text", "{answer}");
    content[0]["text"].as_str().unwrap().to_owned()
}

/// A log of about 200,000 bytes that is not pure ASCII.
fn log() -> String {
    (0..5_000)
        .map(|n| match n {
            4_711 => "error: das Maß ist voll\r\n".to_owned(),
            n => format!("step {n}: 漢字, all is well\n"),
        })
        .collect()
}

/// Promise: An artifact can be read byte for byte, read in ranges and searched: over HTTP, on the
/// command line, through MCP, by the real Codex, and after the program was killed.
#[kit::test]
async fn an_artifact_comes_back_byte_for_byte() {
    let log = log();
    let server = server(&[&log, "small"]).await;
    let path = format!("/v1/artifacts/{}", server.ids[0]);
    let whole = server.get(&path).await;
    assert_eq!(whole.status, 200);
    assert!(whole.body == log, "the text is not the stored one");
    assert_eq!(artifact_id(&whole.body), server.ids[0]);
    let head = server
        .request("HEAD", &path, &[("accept", "*/*")], "")
        .await;
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(head.header("content-length"), log.len().to_string());
    let mut parts = String::new();
    while parts.len() < log.len() {
        let range = format!("bytes={}-{}", parts.len(), parts.len() + 77_776);
        let part = server.request("GET", &path, &[("range", &range)], "").await;
        assert_eq!(part.status, 206);
        parts += &part.body;
    }
    assert!(parts == log, "the ranges do not add up to the whole text");
    let line = server.get(&format!("{path}?lines=4712-4712")).await;
    assert_eq!(line.body, "error: das Maß ist voll\r\n");
    let list = server.get("/v1/artifacts").await.json();
    assert_eq!(list["data"][0]["id"], *server.ids[1]);
    assert_eq!(list["data"][1]["bytes"], log.len());
    let deleted = server.request("DELETE", &path, &[], "").await;
    assert_eq!(deleted.status, 200);
    assert_eq!(
        server.get(&path).await.error_code(404),
        "artifact_not_found"
    );
}

#[kit::test]
async fn an_artifact_is_searched_over_http() {
    let server = server(&[&log()]).await;
    let path = format!("/v1/artifacts/{}/search", server.ids[0]);
    let found = server
        .get(&format!("{path}?q=ma%C3%9F&ignore_case=true&context=1"))
        .await;
    let found = found.json();
    assert_eq!(found["matches"], 1, "{found}");
    assert_eq!(found["lines"][1]["line"], 4712);
    assert_eq!(found["lines"][1]["text"], "error: das Maß ist voll");
    let bad = server.get(&format!("{path}?q=%5B&regex=true")).await;
    assert_eq!(bad.error_code(400), "invalid_value");
}

/// Checks that requests with these headers are refused and do not reveal an artifact.
async fn check_refused(headers: &[(&str, &str)], status: u16, code: &str) {
    let server = server(&["secret"]).await;
    let path = format!("/v1/artifacts/{}", server.ids[0]);
    let message = tool_call(1, "artifact_list", json!({})).to_string();
    for (method, path, body) in [
        ("GET", "/v1/artifacts", ""),
        ("GET", &path, ""),
        ("DELETE", &path, ""),
        ("POST", "/mcp", &message),
    ] {
        let answer = server.request(method, path, headers, body).await;
        assert_eq!(answer.error_code(status), code, "{method} {path}");
        assert!(!answer.body.contains("secret"));
    }
    assert_eq!(server.get(&path).await.body, "secret");
}

#[kit::test]
async fn a_page_of_another_origin_gets_no_artifacts() {
    check_refused(
        &[("origin", "https://evil.example")],
        403,
        "origin_not_allowed",
    )
    .await;
}

#[kit::test]
async fn a_request_with_a_wrong_token_gets_no_artifacts() {
    check_refused(
        &[("authorization", "Bearer another")],
        401,
        "invalid_api_key",
    )
    .await;
}

#[kit::test]
async fn a_closed_output_pipe_is_not_an_error() {
    let server = server(&[&log()]).await;
    let setup = ["artifacts", "show", &server.ids[0]]
        .into_iter()
        .fold(server.setup(), Setup::arg);
    let mut child = setup.command(server.folder.path()).spawn().unwrap();
    // The output is larger than the buffer of the pipe.
    drop(child.stdout.take());
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert!(ended.status.success());
}

/// The characters of an id that a list shows.
fn short(id: &str) -> &str {
    &id["art_".len()..][..8]
}

#[kit::test]
async fn artifacts_on_the_command_line() {
    let log = log();
    let server = server(&[&log, "small"]).await;
    let id = &server.ids[0];
    let (code, out, err) = server.run("artifacts list").await;
    assert_eq!(code, 0, "{err}");
    let rows: Vec<&str> = out.lines().collect();
    assert_eq!(rows.len(), 3, "{out}");
    assert!(
        rows[1].starts_with(short(&server.ids[1])) && rows[2].starts_with(short(id)),
        "{out}"
    );
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{out}");
    let (_, json, _) = server.run("artifacts list --json --limit 1").await;
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&list["has_more"], &list["data"][0]["bytes"]),
        (&true.into(), &5.into())
    );
    let (code, whole, _) = server.run(&format!("artifacts show {id}")).await;
    assert_eq!(code, 0);
    assert!(whole == log, "the text is not the stored one");
    for (args, text) in [
        (
            "--lines 1-2",
            "step 0: 漢字, all is well\nstep 1: 漢字, all is well\n",
        ),
        ("--bytes 0-3", "step"),
    ] {
        let (_, part, _) = server.run(&format!("artifacts show {id} {args}")).await;
        assert_eq!(part, text);
    }
    let (_, json, _) = server
        .run(&format!("artifacts show {} --lines 1-1 --json", short(id)))
        .await;
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(shown["text"], "step 0: 漢字, all is well\n");
    let (_, found, _) = server
        .run(&format!("artifacts search {id} MAß -i -C 1"))
        .await;
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found[1], "4712: error: das Maß ist voll");
    assert_eq!((found.len(), &found[0][..5]), (3, "4711-"));
    let (code, none, _) = server.run(&format!("artifacts search {id} absent")).await;
    assert_eq!((code, &*none), (1, "No match.\n"));
    let (code, out, err) = server
        .run(&format!("artifacts search {id} [ --regex"))
        .await;
    assert_eq!((code, &*out), (1, ""));
    assert!(
        err.contains("cannot search for `[`: this is not a regular expression"),
        "{err}"
    );
    let (_, out, _) = server.run(&format!("artifacts delete {id}")).await;
    assert_eq!(out, format!("Deleted {id}.\n"));
    let (code, out, err) = server.run(&format!("artifacts show {id}")).await;
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("30 days after their last use"), "{err}");
    let (code, out, err) = server.run(&format!("artifacts show {}", short(id))).await;
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("begins with"), "{err}");
    let (_, out, _) = server.run("artifacts gc").await;
    assert_eq!(out, "Deleted 0 artifacts, 0 bytes.\n");
    let (code, _, _) = server.run("artifacts show").await;
    assert_eq!(code, 2);
}

/// Reads an artifact page by page through tool calls.
async fn read_all_pages<F: Future<Output = String>>(id: &str, tool: impl Fn(Value) -> F) -> String {
    let (mut whole, mut from) = (String::new(), 0_u64);
    loop {
        let page = tool(json!({"id": id, "from_byte": from})).await;
        let (head, rest) = page.split_once('\n').unwrap();
        let (_, bytes) = head.split_once("bytes ").unwrap();
        let (bytes, size) = bytes.trim_end_matches(']').split_once(" of ").unwrap();
        let to: u64 = bytes.split_once('-').unwrap().1.parse().unwrap();
        whole += &rest[..usize::try_from(to + 1 - from).unwrap()];
        from = to + 1;
        if from.to_string() == size {
            return whole;
        }
    }
}

#[kit::test]
async fn tools_read_artifacts_over_http() {
    let log = log();
    let server = server(&[&log]).await;
    let initialized = server.mcp(&initialize(1)).await;
    let result = &initialized.json()["result"];
    assert_eq!(result["serverInfo"]["name"], "respondent");
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert!(
        result["instructions"]
            .as_str()
            .unwrap()
            .contains("artifact_read")
    );
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.mcp(&ready).await.status, 202);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let tools = server.mcp(&list).await.json();
    let tools = tools["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["artifact_read", "artifact_search", "artifact_list"]);
    assert!(
        tools
            .iter()
            .all(|tool| tool["annotations"]["readOnlyHint"] == true)
    );
    let id = &server.ids[0];
    let whole = read_all_pages(id, |arguments| server.tool("artifact_read", arguments)).await;
    assert!(whole == log, "the text is not the stored one");
    let found = server
        .tool("artifact_search", json!({"query": "Maß"}))
        .await;
    let line = format!("[artifact {id} search \"Maß\": 1 match]\n4712: error: das Maß ist voll\n");
    assert!(found.starts_with(&line), "{found}");
    let listed = server.tool("artifact_list", json!({})).await;
    assert!(
        listed.contains(&**id) && listed.contains("call call_0"),
        "{listed}"
    );
    let missing = tool_call(3, "artifact_read", json!({"id": format!("art_{:032x}", 1)}));
    let missing = server.mcp(&missing).await.json();
    assert_eq!(missing["result"]["isError"], true);
    assert!(tool_text(&missing).contains("30 days"), "{missing}");
}

#[kit::test]
async fn mcp_over_http_offers_neither_streams_nor_sessions() {
    let server = server(&[]).await;
    for method in ["GET", "DELETE"] {
        let answer = server.request(method, "/mcp", &[], "").await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, "POST"),
            "{method}"
        );
    }
    let answer = server.mcp(&initialize(1)).await;
    assert!(!answer.headers.contains_key("mcp-session-id"));
    for broken in [
        "",
        "{",
        "[]",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}",
    ] {
        let answer = server.request("POST", "/mcp", &[], broken).await;
        assert!(answer.status < 500, "{broken}: {answer:?}");
    }
    let too_long = format!("{{\"jsonrpc\":\"{}\"}}", "2".repeat(1 << 20));
    for (broken, status, code) in [
        ("", 400, -32_700),
        ("{", 400, -32_700),
        ("{\"jsonrpc\":\"2.0\",}", 400, -32_700),
        ("[]", 400, -32_600),
        ("[\"2.0\",1,\"tools/list\",{}]", 400, -32_600),
        ("{\"jsonrpc\":\"2.0\"}", 400, -32_600),
        (&too_long, 413, -32_600),
    ] {
        let answer = server.request("POST", "/mcp", &[], broken).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json");
        let json = answer.json();
        assert_eq!(json["jsonrpc"], "2.0");
        assert_eq!(json["id"], Value::Null);
        assert_eq!(json["error"]["code"], code, "{json}");
    }
}

/// `respondent mcp` with pipes for standard input and output.
struct StdioClient {
    child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl StdioClient {
    fn start(setup: Setup, folder: &Path) -> Self {
        let mut command = setup.arg("mcp").command(folder);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a request and returns the reply, which is the next line.
    async fn request(&mut self, message: &Value) -> Value {
        self.send(message).await;
        let line = self.lines.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], message["id"], "{line}");
        answer
    }

    async fn initialize(&mut self) {
        let reply = self.request(&initialize(1)).await;
        assert_eq!(reply["result"]["serverInfo"]["name"], "respondent");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    /// Closes standard input and checks that the program exits successfully without more output.
    async fn close(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.lines.next_line().await.unwrap(), None);
        assert!(self.child.wait().await.unwrap().success());
    }
}

#[kit::test]
async fn tools_read_artifacts_over_standard_input_and_output() {
    let log = log();
    let server = server(&[&log]).await;
    let mut stdio = StdioClient::start(server.setup(), server.folder.path());
    stdio.initialize().await;
    let tools = stdio
        .request(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        .await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 3);
    let id = server.ids[0].clone();
    let stdio = tokio::sync::Mutex::new(stdio);
    let whole = read_all_pages(&id, |arguments| async {
        tool_text(
            &stdio
                .lock()
                .await
                .request(&tool_call(3, "artifact_read", arguments))
                .await,
        )
    })
    .await;
    assert!(whole == log, "the text is not the stored one");
    stdio.into_inner().close().await;
}

/// Sends a turn with a long tool output through the real program. The id in the shortened
/// output leads to the complete text.
#[kit::test]
async fn a_shortened_output_can_be_read_completely_with_and_without_a_server() {
    let log: String = log().repeat(2);
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "I have seen it."}])));
    let setup = Setup::new().server("data_dir = \"data\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    proxy.response(&json!({"model": "m", "input": input})).await;
    let id = artifact_id(&log);
    let sent = player.requests()[0].body.clone();
    assert!(sent.len() < 20_000 && sent.contains(&id), "{sent}");
    let show = |listen: Option<String>| {
        let mut setup = Setup::new();
        if let Some(address) = listen {
            setup = setup.arg("--listen").arg(&address);
        }
        ["artifacts", "show", &*id]
            .into_iter()
            .fold(setup, Setup::arg)
    };
    let listen = Some(proxy.address.to_string());
    let (code, whole, err) = show(listen).run(proxy.folder.path()).await;
    assert_eq!(code, 0, "{err}");
    assert!(whole == log, "the text is not the tool's output");
    // The running server owns the data directory, so the command has to ask the server.
    let (code, _, err) = show(None).run(proxy.folder.path()).await;
    assert_eq!(code, 1);
    assert!(err.contains("--listen"), "{err}");
    proxy.terminate();
    proxy.wait_for_exit().await;
    let (code, whole, err) = show(None).run(proxy.folder.path()).await;
    assert_eq!(code, 0, "{err}");
    assert!(whole == log, "the text is not the tool's output");
    let setup = Setup::new().arg("artifacts").arg("list");
    let (_, out, _) = setup.run(proxy.folder.path()).await;
    assert!(
        out.starts_with("No server runs on ") && out.contains(short(&id)),
        "{out}"
    );
    let mut client = StdioClient::start(Setup::new(), proxy.folder.path());
    client.initialize().await;
    let listed = client
        .request(&tool_call(2, "artifact_list", json!({})))
        .await;
    assert!(tool_text(&listed).contains(&id), "{listed}");
    client.close().await;
}

/// Promise: Tests never touch the home directory of the user who runs them; they store data only in
/// folders of their own.
#[kit::test]
async fn outputs_are_stored_below_the_home_of_the_test_or_not_at_all() {
    let log = log().repeat(2);
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    for (mode, stored) in [("disk", true), ("memory", false), ("off", false)] {
        let player = player(PlayerWire::Chat).await;
        player.push(answer(json!([{"text": "I have seen it."}])));
        let tables = format!("[artifacts]\nmode = \"{mode}\"");
        let proxy = Proxy::start_with(&player, Setup::new().tables(&tables)).await;
        proxy.response(&json!({"model": "m", "input": input})).await;
        assert!(
            player.requests()[0]
                .body
                .contains("[Tool output shortened]")
        );
        let home = proxy.folder.path();
        let data = home.join(".local/share/respondent");
        assert_eq!(
            data.join("artifacts/artifacts.db").exists(),
            stored,
            "{mode}"
        );
        let mut folders = vec![home.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let bytes = std::fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains("step 4999: "), "{mode}: {}", path.display());
            }
        }
    }
}
