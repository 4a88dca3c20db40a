//! Artifacts read back: over HTTP, on the command line and by tools, from a server
//! in this process that has some.
use std::collections::HashMap;
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
use libtest_mimic::Trial;
use respondent::app::{AppState, routes};
use respondent::artifacts::Artifacts;
use respondent::artifacts::owner::LOCAL_OWNER;
use respondent::config::{self, Flags, Inputs, UserDirs};
use respondent::diagnostics::capture::TurnCapture;
use respondent::metrics::Metrics;
use respondent::serve::{
    self, BodyLimits, Edge, EdgeSettings, GuardSettings, ListenLimits, Shutdown, Token,
};
use respondent::store::NewArtifact;
use respondent::turn::Service;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("S2-Dc an artifact comes back byte for byte", read_back),
        case("S2-Dc an artifact is searched over HTTP", searched),
        case("S31 strangers' hosts get no artifacts", strange_host),
        case("S32 strangers' pages get no artifacts", strange_origin),
        case("strangers' tokens get no artifacts", strange_token),
        case("S2-Dc artifacts on the command line", command_line),
        case("a reader that has enough is no failure", enough),
        case("S2-Dc tools read artifacts over HTTP", tools_over_http),
        case("MCP over HTTP has no streams and no sessions", no_streams),
        case(
            "S2-Dc tools read artifacts on standard input",
            tools_on_stdio,
        ),
        case(
            "S2-Bc S2-Dc what was shortened is read back, with and without a server",
            shortened,
        ),
        case(
            "S2-Df S2-Ta outputs lie in the store below the home of the test, or nowhere",
            places,
        ),
    ]
}

const TOKEN: &str = "the-token-of-the-server";

/// A server with these artifacts, in a folder that has its configuration.
struct Server {
    address: SocketAddr,
    folder: TempDir,
    ids: Vec<String>,
    shutdown: Shutdown,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.drain.cancel();
    }
}

async fn server(texts: &[&str]) -> Server {
    let folder = Setup::new()
        .server("token_file = \"token\"\ndata_dir = \"data\"")
        .file("token", TOKEN)
        .folder("http://127.0.0.1:1/v1");
    let inputs = Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::<String, String>::new()),
        dirs: UserDirs::under(folder.path()),
    };
    let config = config::load(&inputs).unwrap();
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
            .keep(LOCAL_OWNER, "a session", vec![new])
            .wait()
            .await;
    }
    let shutdown = Shutdown::new(std::time::Duration::ZERO);
    let service = Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        shutdown.ending.clone(),
        Arc::new(TurnCapture::default()),
        artifacts,
    );
    let app = AppState {
        service: Arc::new(service),
        capture: TurnCapture::default(),
        started_ms: 0,
    };
    let settings = EdgeSettings {
        guard: GuardSettings {
            port: address.port(),
            token: Some(Token::new(TOKEN).unwrap()),
            ..GuardSettings::default()
        },
        body: BodyLimits::default(),
    };
    let settings = Arc::new(ArcSwap::from_pointee(settings));
    let edge = Edge::new(routes(app.clone()), settings, app);
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
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    #[track_caller]
    fn code(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = kit::strict::check_error(&self.body).unwrap();
        error["code"].as_str().unwrap().to_owned()
    }
}

impl Server {
    /// A request with these headers and the usual others that are not among them.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let host = self.address.to_string();
        let bearer = format!("Bearer {TOKEN}");
        let usual = [
            ("host", &*host),
            ("authorization", &*bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let mut request = Request::builder().method(method).uri(path);
        let new = |name: &str| !headers.iter().any(|(given, _)| *given == name);
        let usual = usual.into_iter().filter(|(name, _)| new(name));
        for (name, value) in usual.chain(headers.iter().copied()) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned())));
        let (head, body) = sender
            .send_request(request.unwrap())
            .await
            .unwrap()
            .into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("accept", "*/*")], "").await
    }

    /// A message of the protocol: the answer.
    async fn mcp(&self, message: &Value) -> Answer {
        self.ask("POST", "/mcp", &[], &message.to_string()).await
    }

    /// The text that a tool gives back.
    async fn tool(&self, name: &str, arguments: Value) -> String {
        let answer = self.mcp(&call(7, name, arguments)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json");
        told(&answer.json())
    }

    fn setup(&self) -> Setup {
        Setup::new().arg("--listen").arg(&self.address.to_string())
    }

    /// Runs a command beside the server: exit code, output, errors.
    async fn run(&self, args: &str) -> (i32, String, String) {
        let setup = args.split(' ').fold(self.setup(), Setup::arg);
        setup.run(self.folder.path()).await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn call(id: u64, name: &str, arguments: Value) -> Value {
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

/// The text in an answer to a call.
#[track_caller]
fn told(answer: &Value) -> String {
    let content = &answer["result"]["content"];
    assert_eq!(content.as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(content[0]["type"], "text", "{answer}");
    content[0]["text"].as_str().unwrap().to_owned()
}

/// A log of some 200,000 bytes, in which not all is ASCII.
fn log() -> String {
    (0..5_000)
        .map(|n| match n {
            4_711 => "error: das Maß ist voll\r\n".to_owned(),
            n => format!("step {n}: 漢字, all is well\n"),
        })
        .collect()
}

async fn read_back() {
    let log = log();
    let server = server(&[&log, "small"]).await;
    let path = format!("/v1/artifacts/{}", server.ids[0]);
    let whole = server.get(&path).await;
    assert_eq!(whole.status, 200);
    assert!(whole.body == log, "not what was kept");
    assert_eq!(artifact_id(&whole.body), server.ids[0]);
    let head = server.ask("HEAD", &path, &[("accept", "*/*")], "").await;
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(head.header("content-length"), log.len().to_string());
    let mut parts = String::new();
    while parts.len() < log.len() {
        let range = format!("bytes={}-{}", parts.len(), parts.len() + 77_776);
        let part = server.ask("GET", &path, &[("range", &range)], "").await;
        assert_eq!(part.status, 206);
        parts += &part.body;
    }
    assert!(parts == log, "the parts are not the whole");
    let line = server.get(&format!("{path}?lines=4712-4712")).await;
    assert_eq!(line.body, "error: das Maß ist voll\r\n");
    let list = server.get("/v1/artifacts").await.json();
    assert_eq!(list["data"][0]["id"], *server.ids[1]);
    assert_eq!(list["data"][1]["bytes"], log.len());
    let gone = server.ask("DELETE", &path, &[], "").await;
    assert_eq!(gone.status, 200);
    assert_eq!(server.get(&path).await.code(404), "artifact_not_found");
}

async fn searched() {
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
    assert_eq!(bad.code(400), "invalid_value");
}

async fn refused(headers: &[(&str, &str)], status: u16, code: &str) {
    let server = server(&["secret"]).await;
    let path = format!("/v1/artifacts/{}", server.ids[0]);
    let message = call(1, "artifact_list", json!({})).to_string();
    for (method, path, body) in [
        ("GET", "/v1/artifacts", ""),
        ("GET", &path, ""),
        ("DELETE", &path, ""),
        ("POST", "/mcp", &message),
    ] {
        let answer = server.ask(method, path, headers, body).await;
        assert_eq!(answer.code(status), code, "{method} {path}");
        assert!(!answer.body.contains("secret"));
    }
    assert_eq!(server.get(&path).await.body, "secret");
}

async fn strange_host() {
    refused(&[("host", "evil.example")], 403, "host_not_allowed").await;
}

async fn strange_origin() {
    refused(
        &[("origin", "https://evil.example")],
        403,
        "origin_not_allowed",
    )
    .await;
}

async fn strange_token() {
    refused(
        &[("authorization", "Bearer another")],
        401,
        "invalid_api_key",
    )
    .await;
}

async fn enough() {
    let server = server(&[&log()]).await;
    let setup = ["artifacts", "show", &server.ids[0]]
        .into_iter()
        .fold(server.setup(), Setup::arg);
    let mut child = setup.command(server.folder.path()).spawn().unwrap();
    // More is said than the pipe holds.
    drop(child.stdout.take());
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert!(ended.status.success());
}

async fn command_line() {
    let log = log();
    let server = server(&[&log, "small"]).await;
    let id = &server.ids[0];
    let (code, out, err) = server.run("artifacts list").await;
    assert_eq!(code, 0, "{err}");
    let rows: Vec<&str> = out.lines().collect();
    assert_eq!(rows.len(), 3, "{out}");
    assert!(
        rows[1].starts_with(&*server.ids[1]) && rows[2].starts_with(id),
        "{out}"
    );
    let (_, json, _) = server.run("artifacts list --json --limit 1").await;
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&list["has_more"], &list["data"][0]["bytes"]),
        (&true.into(), &5.into())
    );
    let (code, whole, _) = server.run(&format!("artifacts show {id}")).await;
    assert_eq!(code, 0);
    assert!(whole == log, "not what was kept");
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
        .run(&format!("artifacts show {id} --lines 1-1 --json"))
        .await;
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(shown["text"], "step 0: 漢字, all is well\n");
    let (_, found, _) = server
        .run(&format!("artifacts search {id} MAß -i -C 1"))
        .await;
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found[1], "4712: error: das Maß ist voll");
    assert_eq!((found.len(), &found[0][..5]), (3, "4711-"));
    let (_, none, _) = server.run(&format!("artifacts search {id} absent")).await;
    assert_eq!(none, "No match.\n");
    let (code, out, err) = server
        .run(&format!("artifacts search {id} [ --regex"))
        .await;
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("no regular expression"), "{err}");
    let (_, out, _) = server.run(&format!("artifacts delete {id}")).await;
    assert_eq!(out, format!("Deleted {id}.\n"));
    let (code, out, err) = server.run(&format!("artifacts show {id}")).await;
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("30 days after their last use"), "{err}");
    let (_, out, _) = server.run("artifacts gc").await;
    assert_eq!(out, "Deleted 0 artifacts, 0 bytes.\n");
    let (code, _, _) = server.run("artifacts show").await;
    assert_eq!(code, 64);
}

/// Reads an artifact page by page through calls.
async fn pages<F: Future<Output = String>>(id: &str, tool: impl Fn(Value) -> F) -> String {
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

async fn tools_over_http() {
    let log = log();
    let server = server(&[&log]).await;
    let begun = server.mcp(&initialize(1)).await;
    let result = &begun.json()["result"];
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
    let whole = pages(id, |arguments| server.tool("artifact_read", arguments)).await;
    assert!(whole == log, "not what was kept");
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
    let missing = call(3, "artifact_read", json!({"id": format!("art_{:032x}", 1)}));
    let missing = server.mcp(&missing).await.json();
    assert_eq!(missing["result"]["isError"], true);
    assert!(told(&missing).contains("30 days"), "{missing}");
}

async fn no_streams() {
    let server = server(&[]).await;
    for method in ["GET", "DELETE"] {
        let answer = server.ask(method, "/mcp", &[], "").await;
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
        let answer = server.ask("POST", "/mcp", &[], broken).await;
        assert!(answer.status < 500, "{broken}: {answer:?}");
    }
}

/// The program on standard input and output.
struct Piped {
    child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Piped {
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

    /// The answer: the next line.
    async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        let line = self.lines.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], message["id"], "{line}");
        answer
    }

    async fn begin(&mut self) {
        let begun = self.ask(&initialize(1)).await;
        assert_eq!(begun["result"]["serverInfo"]["name"], "respondent");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    /// Ends the input: the program ends well and says no more.
    async fn end(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.lines.next_line().await.unwrap(), None);
        assert!(self.child.wait().await.unwrap().success());
    }
}

async fn tools_on_stdio() {
    let log = log();
    let server = server(&[&log]).await;
    let mut stdio = Piped::start(server.setup(), server.folder.path());
    stdio.begin().await;
    let tools = stdio
        .ask(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        .await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 3);
    let id = server.ids[0].clone();
    let stdio = tokio::sync::Mutex::new(stdio);
    let whole = pages(&id, |arguments| async {
        told(
            &stdio
                .lock()
                .await
                .ask(&call(3, "artifact_read", arguments))
                .await,
        )
    })
    .await;
    assert!(whole == log, "not what was kept");
    stdio.into_inner().end().await;
}

/// A turn whose tool output is too long, through the real program: what the model is
/// shown leads to the whole of it.
async fn shortened() {
    let log: String = log().repeat(2);
    let player = player().await;
    player.push(answer(json!([{"text": "I have seen it."}])));
    let setup = Setup::new().server("data_dir = \"data\"");
    let mut proxy = Proxy::with(&player, setup).await;
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    proxy.whole(&json!({"model": "m", "input": input})).await;
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
    assert!(whole == log, "not what the tool said");
    // Whoever has the data directory is to be asked.
    let (code, _, err) = show(None).run(proxy.folder.path()).await;
    assert_eq!(code, 1);
    assert!(err.contains("--listen"), "{err}");
    proxy.terminate().await;
    proxy.ended().await;
    let (code, whole, err) = show(None).run(proxy.folder.path()).await;
    assert_eq!(code, 0, "{err}");
    assert!(whole == log, "not what the tool said");
    let setup = Setup::new().arg("artifacts").arg("list");
    let (_, out, _) = setup.run(proxy.folder.path()).await;
    assert!(
        out.starts_with("No server runs on ") && out.contains(&id),
        "{out}"
    );
    let mut piped = Piped::start(Setup::new(), proxy.folder.path());
    piped.begin().await;
    let listed = piped.ask(&call(2, "artifact_list", json!({}))).await;
    assert!(told(&listed).contains(&id), "{listed}");
    piped.end().await;
}

async fn places() {
    let log = log().repeat(2);
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    for (mode, stored) in [("disk", true), ("memory", false), ("off", false)] {
        let player = player().await;
        player.push(answer(json!([{"text": "I have seen it."}])));
        let tables = format!("[artifacts]\nmode = \"{mode}\"");
        let proxy = Proxy::with(&player, Setup::new().tables(&tables)).await;
        proxy.whole(&json!({"model": "m", "input": input})).await;
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
