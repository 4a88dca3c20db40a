//! `respondent run codex` with a program that plays Codex: the server, the settings and the
//! signals. The real Codex is run by `tests/clients`.
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kit::player::PlayerWire;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::faults::{answer, repeating_player};
use crate::proxy::{Proxy, Setup, write};

/// Prints its arguments and its token, waits for a line, and ends with 7.
const CODEX: &str = r#"#!/bin/sh
if [ "$1" = debug ]; then
  echo '{"models":[{"slug":"gpt","base_instructions":"You are Codex."}]}'
  exit
fi
for argument in "$@"; do printf '%s\n' "$argument"; done
echo "token $RESPONDENT_TOKEN"
read line
exit 7
"#;

/// A running `respondent run codex` whose Codex waits.
struct CodexRun {
    folder: TempDir,
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    /// The settings that Codex got.
    settings: toml::Table,
    /// Its other arguments.
    rest: Vec<String>,
    token: String,
}

impl CodexRun {
    async fn start(setup: &Setup, base_url: &str) -> Self {
        let folder = setup.folder(base_url);
        write(folder.path(), "codex", CODEX);
        let program = folder.path().join("codex");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        let mut command = setup.command(folder.path());
        command.args(["run", "codex", "--codex", "./codex", "exec", "--json", "go"]);
        command
            .env("TMPDIR", folder.path().join("tmp"))
            .env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut settings, mut rest) = (String::new(), Vec::new());
        let token = loop {
            let line = output
                .next_line()
                .await
                .unwrap()
                .expect("Codex was not run");
            if let Some(token) = line.strip_prefix("token ") {
                break token.to_owned();
            } else if line == "-c" {
                settings += &output.next_line().await.unwrap().unwrap();
                settings.push('\n');
            } else {
                rest.push(line);
            }
        };
        Self {
            folder,
            child,
            output,
            settings: settings.parse().unwrap(),
            rest,
            token,
        }
    }

    fn provider(&self) -> &toml::Value {
        &self.settings["model_providers"]["respondent"]
    }

    /// The address of the server that Codex was given.
    fn address(&self) -> String {
        let url = self.provider()["base_url"].as_str().unwrap();
        let address = url
            .strip_prefix("http://")
            .and_then(|url| url.strip_suffix("/v1"));
        address.unwrap().to_owned()
    }

    fn catalog(&self) -> PathBuf {
        self.settings["model_catalog_json"].as_str().unwrap().into()
    }

    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Lets Codex end. Returns the exit code of respondent.
    async fn end(&mut self) -> Option<i32> {
        if let Some(mut input) = self.child.stdin.take() {
            // Fails if Codex has ended already.
            input.write_all(b"\n").await.ok();
        }
        let status = self.child.wait().await.unwrap();
        assert_eq!(self.output.next_line().await.unwrap(), None);
        status.code()
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Sends a turn, and returns the whole reply.
async fn post(address: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    connection.read_to_string(&mut reply).await.unwrap();
    reply
}

/// Promise: `respondent run codex` runs Codex with a server that ends with it, or with the one that
/// runs already; if that one ends with another Codex, a new one takes its place. It writes none of
/// Codex's files, hides the token from other users, and returns Codex's exit code.
#[kit::test]
async fn codex_runs_with_a_server_that_ends_with_it() {
    let player =
        repeating_player(PlayerWire::Chat, answer(json!([{"text": "Good morning."}]))).await;
    let setup = Setup::new().tables("[[providers.up.models]]\nid = \"m\"");
    let mut run = CodexRun::start(&setup, &player.base_url()).await;
    assert_eq!(run.rest, ["exec", "--json", "go"]);
    assert_eq!(run.settings["model"].as_str(), Some("m"));
    assert_eq!(run.settings["model_provider"].as_str(), Some("respondent"));
    assert_eq!(run.token, "");
    let catalog = run.catalog();
    let private = catalog.parent().unwrap().to_owned();
    assert_eq!(
        private.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    let models: Value = serde_json::from_str(&fs::read_to_string(&catalog).unwrap()).unwrap();
    assert_eq!(models["models"][0]["slug"], "m");
    assert_eq!(models["models"][0]["base_instructions"], "You are Codex.");
    let address = run.address();
    let reply = post(&address, &json!({"model": "m", "input": "go"})).await;
    assert!(
        reply.starts_with("HTTP/1.1 200 OK") && reply.contains("Good morning."),
        "{reply}"
    );

    assert_eq!(run.end().await, Some(7));
    assert!(TcpStream::connect(address).is_err());
    assert!(!private.exists());
    assert!(files(&run.folder.path().join("tmp")).is_empty());
    let log = run.folder.path().join(".local/share/respondent/run.log");
    assert!(fs::read_to_string(log).unwrap().contains(" m \u{2713} "));
    let mut left = files(run.folder.path());
    left.sort();
    assert_eq!(left, [".local", "codex", "proxy-config.toml", "tmp"]);
}

#[kit::test]
async fn codex_runs_with_the_server_that_runs_already() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let guarded = Setup::new()
        .env("RESPONDENT_TOKEN", "sesame-1234")
        .tables("[[providers.up.models]]\nid = \"m\"");
    let proxy = Proxy::start_with(&player, guarded).await;
    // It has no provider of its own, and asks the server for the models.
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "sesame-1234")
        .env("RESPONDENT_CONFIG", "/dev/null")
        .arg("--listen")
        .arg(&proxy.address.to_string());
    let mut run = CodexRun::start(&setup, "http://127.0.0.1:9/v1").await;
    assert_eq!(run.address(), proxy.address.to_string());
    assert_eq!(run.settings["model"].as_str(), Some("m"));
    // The arguments of a process can be read by every user.
    assert_eq!(run.provider()["env_key"].as_str(), Some("RESPONDENT_TOKEN"));
    assert!(!run.settings.to_string().contains("sesame"));
    assert_eq!(run.token, "sesame-1234");
    assert_eq!(run.end().await, Some(7));
    assert_eq!(proxy.get("/healthz").await.status, 200);
    assert!(!run.folder.path().join(".local").exists());
}

#[kit::test]
async fn the_server_of_another_codex_is_succeeded() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let setup = Setup::new().tables("[[providers.up.models]]\nid = \"m\"");
    let mut first = CodexRun::start(&setup, &player.base_url()).await;
    let address = first.address();
    let setup = setup.arg("--listen").arg(&address);
    let mut second = CodexRun::start(&setup, &player.base_url()).await;
    assert_eq!(second.address(), address);
    assert_eq!(first.end().await, Some(7));
    // Codex waits until it reaches a server again, and so does this.
    while TcpStream::connect(&address).is_err() {
        tokio::task::yield_now().await;
    }
    let reply = post(&address, &json!({"model": "m", "input": "go"})).await;
    assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
    assert_eq!(second.end().await, Some(7));
    assert!(TcpStream::connect(&address).is_err());
}

#[kit::test]
async fn codex_runs_although_another_program_has_the_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    drop(std::thread::spawn(move || {
        // It answers nothing that a respondent would.
        while let Ok((stream, _)) = taken.accept() {
            drop(stream);
        }
    }));
    let setup = Setup::new()
        .tables("[[providers.up.models]]\nid = \"m\"")
        .arg("--listen")
        .arg(&listen);
    let mut run = CodexRun::start(&setup, "http://127.0.0.1:9/v1").await;
    assert_ne!(run.address(), listen);
    assert_eq!(run.end().await, Some(7));
}

/// Promise: Signals reach Codex, and respondent ends after it.
#[kit::test]
async fn signals_reach_codex_which_respondent_outlives() {
    let setup = Setup::new().tables("[[providers.up.models]]\nid = \"m\"");
    let mut run = CodexRun::start(&setup, "http://127.0.0.1:9/v1").await;
    // A terminal sends it to both, and Codex decides what it means.
    run.send(Signal::INT);
    assert_eq!(run.end().await, Some(7));

    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut run = CodexRun::start(&setup, "http://127.0.0.1:9/v1").await;
        let input = run.child.stdin.take();
        run.send(signal);
        assert_eq!(run.end().await, Some(code));
        assert!(files(&run.folder.path().join("tmp")).is_empty());
        drop(input);
    }
}

#[kit::test]
async fn what_is_missing_is_named_with_its_remedy() {
    let empty = Setup::new()
        .unnamed()
        .env("PATH", "/usr/bin:/bin")
        .arg("--listen=127.0.0.1:0");
    for (arguments, expected) in [
        ("--codex /nonexistent", "npm install -g @openai/codex"),
        (
            "--codex true",
            "no provider has a key: set one, such as OPENAI_API_KEY",
        ),
        (
            "--codex true --model nope",
            "The model 'nope' does not exist",
        ),
    ] {
        let setup = arguments
            .split(' ')
            .fold(empty.clone().arg("run").arg("codex"), Setup::arg);
        let folder = tempfile::tempdir().unwrap();
        let (code, out, err) = setup.run(folder.path()).await;
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

/// Promise: `respondent run codex` gives Codex the models of `[codex.agents]` for this run, but for
/// roles that the user wrote.
#[kit::test]
async fn codex_runs_with_the_models_of_sub_agents() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let setup = Setup::new()
        .tables("[[providers.up.models]]\nid = \"m\"\n[[providers.up.models]]\nid = \"small\"")
        .tables("[codex.agents]\ndefault = \"small\"\nexplorer = \"small\"\nworker = \"m\"")
        .file(".codex/agents/w.toml", "name = \"worker\"\n");
    let mut run = CodexRun::start(&setup, &player.base_url()).await;
    let agents = run.settings["agents"].as_table().unwrap();
    let names: Vec<_> = agents.keys().map(String::as_str).collect();
    assert_eq!(names, ["default_subagent_model", "explorer"]);
    assert_eq!(agents["default_subagent_model"].as_str(), Some("small"));
    let file = agents["explorer"]["config_file"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(Path::new(&file).parent(), run.catalog().parent());
    let role: toml::Table = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(role["model"].as_str(), Some("small"));
    assert_eq!(run.end().await, Some(7));
    assert!(!Path::new(&file).exists());
}
