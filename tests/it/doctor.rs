//! `respondent doctor`: what it measures of servers that it does not know, and the file that it
//! writes.
mod dialects;
mod made_dialects;
mod quirks;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kit::harness::rows;
use kit::player::{Player, PlayerScript, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use crate::adapting::run_tool_loop;
use crate::adapting::strict::{Preset, presets};
use crate::discovery::{ModelServer, Shape};
use crate::faults::player;
use crate::literals::root;
use crate::proxy::{Proxy, Setup};
use crate::status::learned_server;

/// The variable with the seed from which servers are drawn.
const SEED_VARIABLE: &str = "RESPONDENT_TEST_SEED";

/// The seed from which servers are drawn.
fn seed(usual: u64) -> u64 {
    let wanted = std::env::var(SEED_VARIABLE).ok();
    wanted.map_or(usual, |seed| seed.parse().unwrap())
}

/// The provider file that was written.
fn written(folder: &Path, id: &str) -> toml::Table {
    let path = folder.join(format!("providers/{id}.toml"));
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// An address at which nothing listens.
const UNUSED_URL: &str = "http://127.0.0.1:1/v1";

/// Runs the doctor. Returns its exit code and its report.
async fn doctor(setup: &Setup, folder: &Path, args: &[&str]) -> (i32, Value) {
    let setup = args
        .iter()
        .fold(setup.clone().arg("doctor").arg("--json"), |setup, arg| {
            setup.arg(arg)
        });
    let (code, out, err) = setup.run(folder).await;
    let report = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code}: {out}{err}"));
    (code, report)
}

/// The check of a provider, or of this machine if `provider` is `None`.
fn check<'a>(report: &'a Value, provider: Option<usize>, name: &str) -> &'a Value {
    let checks = match provider {
        Some(at) => &report["providers"][at]["checks"],
        None => &report["checks"],
    };
    let checks = checks.as_array().unwrap().iter();
    let mut found = checks.filter(|check| check["check"] == name);
    found
        .next()
        .unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

/// What the server refused.
fn refusals(player: &Player) -> String {
    let requests = player.requests();
    let line = |head: &str| head.lines().next().unwrap_or_default().to_owned();
    let told = requests
        .iter()
        .map(|sent| format!("{} {}\n", line(&sent.head), sent.refusal));
    told.collect()
}

/// Promise: On the file that the doctor writes, no request of a tool loop is refused, for each
/// strict preset.
#[test]
fn a_tool_loop_runs_on_the_file_that_the_doctor_writes() {
    let presets = presets().into_iter();
    rows(
        presets.map(|preset| (preset.name.clone(), preset)),
        written_file,
    );
}

/// The doctor measures an unknown server with few requests; then no request of a tool loop is
/// refused on the file that it has written.
async fn written_file(preset: Preset) {
    let player = preset.player().await;
    let setup = Setup::new();
    let folder = setup.folder(UNUSED_URL);
    let base_url = player.base_url();
    let args = ["--url", &base_url, "--provider", "lab", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 0, "{report:#}");
    let measured = &report["providers"][0];
    assert_eq!(measured["model"], "scripted");
    let requests = player.requests();
    assert_eq!(measured["requests"], requests.len(), "{report:#}");
    assert!(requests.len() <= 12, "{report:#}");
    for name in [
        "models",
        "wire",
        "answer",
        "tool call",
        "tool result",
        "history",
        "settings",
    ] {
        assert_eq!(check(&report, Some(0), name)["status"], "ok", "{report:#}");
    }
    let file = fs::read_to_string(folder.path().join("providers/lab.toml")).unwrap();

    let proxy = Proxy::start_in_folder(folder, &setup).await;
    run_tool_loop(&proxy, "lab/scripted").await;
    // How long an answer may be costs too much to measure; the loop asks for more than any model
    // has.
    let asks_too_much = |body: &str| body.contains("400000");
    for request in player.requests().split_off(requests.len()) {
        if asks_too_much(&request.body) {
            continue;
        }
        assert!(
            !request.refused,
            "{file}\n{}\n{}",
            request.refusal, request.body
        );
    }
}

/// A server that speaks the Responses API alone, and calls a tool.
async fn responses_server() -> Player {
    let call =
        json!({"call": {"id": "call_1", "name": "look", "arguments": "{\"at\": \"the door\"}"}});
    let script = json!({"wire": "responses", "models": ["native"], "answers": [
        {"repeat": true, "when": {"last_contains": "Call the tool"}, "steps": [call]},
        {"repeat": true, "steps": [{"text": "Done."}]},
    ]});
    let script: PlayerScript = serde_json::from_value(script).unwrap();
    Player::start(script).await.unwrap()
}

#[kit::test]
async fn the_wire_of_an_unknown_server_is_found() {
    let player = responses_server().await;
    let setup = Setup::new();
    let folder = setup.folder(UNUSED_URL);
    // The end of the address of another endpoint is cut.
    let url = format!("{}/responses", player.base_url());
    let args = ["--url", &url, "--provider", "lab", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(check(&report, Some(0), "wire")["message"], "responses");
    // The request in the other wire counts.
    let requests = player.requests().len();
    assert_eq!(report["providers"][0]["requests"], requests);
    assert!(requests <= 12, "{report:#}");
    let file = written(folder.path(), "lab");
    assert_eq!(file["wire"].as_str(), Some("responses"));
    assert_eq!(file["base_url"].as_str(), Some(player.base_url().as_str()));
    // A second run finds a provider of this name, and replaces nothing.
    let (code, _, err) = ["doctor", "--url", &url, "--provider", "lab", "--write"]
        .iter()
        .fold(setup.clone(), |setup, arg| setup.arg(arg))
        .run(folder.path())
        .await;
    assert_eq!(code, 1);
    assert!(err.contains("there is a provider 'lab' already"), "{err}");
}

#[kit::test]
async fn the_place_of_a_key_is_found() {
    const KEY: &str = "the-key-of-the-lab-7";
    for (header, value, setting, name) in [
        ("x-api-key", KEY, "key_header", "x-api-key"),
        (
            "authorization",
            "Token the-key-of-the-lab-7",
            "key_scheme",
            "Token",
        ),
    ] {
        let server = ModelServer::with_models(&["found"]).await;
        server.state.lock().unwrap().key = Some((header, value));
        let setup = Setup::new().env("LAB_KEY", KEY);
        let folder = setup.folder(UNUSED_URL);
        // Without its /v1.
        let url = format!("http://{}", server.address);
        let args = [
            "--url",
            &url,
            "--key-env",
            "LAB_KEY",
            "--provider",
            "lab",
            "--write",
        ];
        let (code, report) = doctor(&setup, folder.path(), &args).await;
        assert_eq!(code, 0, "{report:#}");
        assert!(!report.to_string().contains(KEY));
        // It calls no tool, which is no failure of the provider.
        assert_eq!(check(&report, Some(0), "tool call")["status"], "warning");
        let told = check(&report, Some(0), "key")["message"].as_str().unwrap();
        assert!(told.ends_with(name), "{told}");
        let file = written(folder.path(), "lab");
        assert_eq!(file[setting].as_str(), Some(name));
        assert_eq!(file["api_key_env"][0].as_str(), Some("LAB_KEY"));
        assert_eq!(file["base_url"].as_str(), Some(server.base_url().as_str()));
        let next = &report["providers"][0]["next"];
        assert_eq!(next, "respondent run codex --model lab/found");
        let proxy = Proxy::start_in_folder(folder, &setup).await;
        proxy
            .stream(&json!({"model": "lab/found", "input": "go"}))
            .await;
    }
}

/// Promise: What a server has learned of a model is in what the doctor writes of it.
#[kit::test]
async fn what_a_server_has_learned_is_in_the_settings() {
    let (player, setup) = (player(PlayerWire::Chat).await, Setup::new());
    let mut proxy = learned_server(&player, &setup).await;
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    // Now it takes everything.
    let answer = json!({"repeat": true, "steps": [{"text": "No."}]});
    player.push(serde_json::from_value(answer).unwrap());
    let args = ["--provider", "up", "--model", "free", "--write"];
    let (code, report) = doctor(&setup, proxy.folder.path(), &args).await;
    assert_eq!(code, 0, "{report:#}");
    let learned = check(&report, Some(0), "learned")["message"].as_str();
    assert!(
        learned.unwrap().contains("parallel_tool_calls"),
        "{report:#}"
    );
    let settings = &report["providers"][0]["settings"];
    assert_eq!(
        settings["quirks"]["parallel_tool_calls"], false,
        "{report:#}"
    );
}

/// Promise: The doctor asks no model that answers no prompts unless it is named.
#[kit::test]
async fn a_model_that_is_not_for_chat_is_never_asked() {
    let entries = |list: &[Value]| BTreeMap::from([("GET /v1/models".to_owned(), json!(list))]);
    let others = [
        json!({"id": "lab-a", "type": "embedding"}),
        json!({"id": "lab-b", "architecture": {"output_modalities": ["image"]}}),
        json!({"id": "text-embedding-9"}),
        json!({"id": "whisper-9"}),
    ];
    let server = ModelServer::start(entries(&others)).await;
    let setup = Setup::new();
    let folder = setup.folder(UNUSED_URL);
    let base_url = server.base_url();
    let args = ["--url", &base_url, "--provider", "lab"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 1, "{report:#}");
    let found = check(&report, Some(0), "models")["message"]
        .as_str()
        .unwrap();
    assert!(
        found.starts_with("4 models in its list, and none for chat"),
        "{found}"
    );
    let remedy = &check(&report, Some(0), "model")["remedy"];
    assert_eq!(remedy, "Name one with --model.");
    let next = format!("respondent doctor --url {base_url} --provider lab --model MODEL --write");
    assert_eq!(report["providers"][0]["next"], next);
    assert_eq!(server.prompts(), [""; 0]);

    // Behind them there is one.
    let mut list = others.to_vec();
    list.push(json!({"id": "lab-chat"}));
    server.state.lock().unwrap().routes = entries(&list);
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(
        (code, &report["providers"][0]["model"]),
        (0, &json!("lab-chat"))
    );
    let next = format!("respondent doctor --url {base_url} --provider lab --write");
    assert_eq!(report["providers"][0]["next"], next);
}

/// Promise: What the doctor has found is written even if something is still wrong, and the file
/// says what.
#[kit::test]
async fn a_file_says_what_is_still_wrong() {
    let script = json!({
        "refuse": [{"rule": {"fields": ["tools"]}, "message": "Bad\nrequest."}],
        "answers": [{"repeat": true, "steps": [{"text": "No."}]}],
    });
    let player = Player::start(serde_json::from_value(script).unwrap())
        .await
        .unwrap();
    let setup = Setup::new();
    let folder = setup.folder(UNUSED_URL);
    let base_url = player.base_url();
    let args = ["--url", &base_url, "--provider", "lab", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(check(&report, Some(0), "text")["status"], "ok");
    assert_eq!(
        report["providers"][0]["next"],
        "respondent doctor --provider lab"
    );
    let file = fs::read_to_string(folder.path().join("providers/lab.toml")).unwrap();
    assert!(file.contains("\n# Still wrong: answer: "), "{file}");
    assert_eq!(
        written(folder.path(), "lab")["base_url"].as_str(),
        Some(base_url.as_str())
    );
}

/// Each local server behind an unknown name.
#[kit::test]
async fn the_window_of_a_local_server_is_found() {
    for (name, discover, model, window) in [
        ("llamacpp", "llamacpp", "smollm2", 2048),
        ("lmstudio", "lmstudio", "qwen3-coder", 16_384),
        ("ollama", "ollama", "qwen3-coder:30b", 16_384),
        ("sglang_older", "sglang", "deepseek", 32_762),
        ("vllm", "models", "Qwen/Qwen3-8B", 40_960),
    ] {
        let path = root().join(format!("fixtures/model_lists/{name}.json"));
        let shape: Shape = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let server = ModelServer::start(shape.routes).await;
        let setup = Setup::new();
        let folder = setup.folder(UNUSED_URL);
        let base_url = server.base_url();
        let args = [
            "--url",
            &base_url,
            "--provider",
            "lab",
            "--model",
            model,
            "--write",
        ];
        let (code, report) = doctor(&setup, folder.path(), &args).await;
        assert_eq!(code, 0, "{name}: {report:#}");
        let found = &check(&report, Some(0), "window")["message"];
        assert_eq!(*found, format!("{window} tokens"), "{name}: {report:#}");
        let file = written(folder.path(), "lab");
        assert_eq!(file["discover"].as_str(), Some(discover), "{name}");
    }
}

/// Promise: The doctor writes nothing without `--write`, no file is replaced, and a provider that
/// is configured gets lines to add.
#[kit::test]
async fn a_configured_provider_gets_advice_and_no_file() {
    let preset = presets()
        .into_iter()
        .find(|preset| preset.name == "kimi")
        .unwrap();
    let player = preset.player().await;
    let setup = Setup::new();
    let folder = setup.folder(&player.base_url());
    let args = ["--provider", "up", "--model", "m", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 0, "{report:#}");
    let settings = check(&report, Some(0), "settings");
    assert_eq!(settings["status"], "warning");
    let remedy = settings["remedy"].as_str().unwrap();
    assert!(
        remedy.starts_with("Add it to [providers.up] in "),
        "{remedy}"
    );
    let quirks = &report["providers"][0]["settings"]["quirks"];
    assert_eq!(quirks["reasoning_required"], "calls", "{quirks:#}");
    assert!(!folder.path().join("providers").exists());
}

/// Promise: `respondent doctor` tells what is wrong with this machine or a provider, each with one
/// remedy, and ends with exit code 1 if a check failed. It shows no key.
#[kit::test]
async fn what_fails_is_told_with_its_remedy() {
    let setup = Setup::new();
    let folder = setup.folder(UNUSED_URL);
    let args = ["--url", UNUSED_URL, "--model", "m", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(report["ok"], false);
    let failed = check(&report, Some(0), "answer");
    assert_eq!(failed["status"], "failed");
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("refused the connection. Check whether the server runs"),
        "{message}"
    );
    assert_eq!(report["providers"][0]["written"], Value::Null);
    assert!(!folder.path().join("providers").exists());

    // A key that is not accepted.
    let player = player(PlayerWire::Chat).await;
    player.push(ScriptedAnswer {
        repeat: true,
        ..ScriptedAnswer::error(401, "no such key")
    });
    let setup = setup.env("LAB_KEY", "a-secret-of-the-lab-7");
    let base_url = player.base_url();
    let args = ["--url", &base_url, "--key-env", "LAB_KEY", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    assert_eq!(code, 1);
    let message = check(&report, Some(0), "answer")["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("does not accept the key from LAB_KEY"),
        "{message}"
    );
    assert!(!report.to_string().contains("a-secret-of-the-lab-7"));
    // The key was tried in each place.
    let requests = player.requests();
    let heads: Vec<&str> = requests.iter().map(|sent| sent.head.as_str()).collect();
    assert_eq!(heads.len(), 4);
    for (head, header) in heads.into_iter().zip([
        "authorization: Bearer a-secret",
        "\napi-key: a-secret",
        "x-api-key: a-secret",
        "authorization: Token a-secret",
    ]) {
        assert!(head.contains(header), "{head}");
    }
}

#[kit::test]
async fn the_checks_of_this_machine() {
    let setup = Setup::new().env("HTTPS_PROXY", "not a url");
    let folder = setup.folder(UNUSED_URL);
    let file = folder.path().join("occupied");
    fs::write(&file, "").unwrap();
    let data = file.join("data");
    let setup = setup.arg("--data-dir").arg(data.to_str().unwrap());
    let (code, report) = doctor(&setup, folder.path(), &["--codex", "./codex"]).await;
    assert_eq!(code, 1);
    for (name, status, remedy) in [
        ("configuration", "ok", None),
        ("port", "ok", None),
        ("proxy", "warning", Some("HTTPS_PROXY")),
        ("data", "failed", Some("--data-dir")),
        ("codex", "warning", Some("--codex")),
        ("codex setup", "warning", Some("respondent codex setup")),
    ] {
        let check = check(&report, None, name);
        assert_eq!(check["status"], status, "{check}");
        let told = check["remedy"].as_str();
        assert_eq!(told.is_some(), remedy.is_some(), "{check}");
        assert!(
            told.unwrap_or_default()
                .contains(remedy.unwrap_or_default()),
            "{check}"
        );
    }
    // The text has the same, in lines that fit a terminal.
    let (_, out, _) = setup.arg("doctor").run(folder.path()).await;
    assert!(out.contains("  ⚠ codex setup"), "{out}");
    assert!(out.contains("up"), "{out}");
}
