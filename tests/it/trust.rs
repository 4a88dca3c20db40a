//! A hostile folder: a stranger's `proxy-config.toml` in the working directory runs nothing and
//! moves no key, whatever command is started there.
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;

use clap::CommandFactory;
use kit::harness::rows;
use kit::player::{Player, PlayerWire};
use respondent::commands::cli::Cli;
use serde_json::json;
use tempfile::TempDir;

use crate::faults::{answer, repeating_player};
use crate::proxy::{Proxy, Setup, write};

/// Every command with arguments that make it load its configuration, and whether it reads a file
/// that was found.
const COMMANDS: [(&str, bool); 49] = [
    ("serve", true),
    // Nothing can be started on a free port.
    ("start --listen 127.0.0.1:0", false),
    ("stop", false),
    ("restart --listen 127.0.0.1:0", false),
    ("logs", false),
    ("service install --dry-run", false),
    ("service remove", false),
    ("check", true),
    ("schema", false),
    ("models", false),
    ("doctor --provider nobody", false),
    ("status", false),
    ("usage", false),
    ("run codex --listen 127.0.0.1:0 --codex true", false),
    ("codex setup --dry-run --codex /nonexistent", false),
    ("codex remove", false),
    ("codex status", false),
    ("completions bash", false),
    ("man", false),
    ("bundle create", false),
    ("bundle list", false),
    ("bundle show absent.tar.zst", false),
    ("bundle diff absent.tar.zst absent.tar.zst", false),
    ("artifacts list", false),
    ("artifacts show art_0", false),
    ("artifacts search art_0 x", false),
    ("artifacts delete art_0", false),
    ("artifacts gc", false),
    // Neither reaches the network.
    ("search ", false),
    ("open nowhere", false),
    ("jobs list", false),
    ("jobs show resp_0", false),
    ("jobs cancel resp_0", false),
    ("jobs tail resp_0", false),
    ("workflows list", false),
    ("workflows show wf_deep_research", false),
    ("workflows run wf_deep_research x", false),
    ("workflows answer resp_0 --refuse", false),
    ("store stats", false),
    ("store check", false),
    ("store backup copy.sqlite", false),
    ("store export copy.jsonl", false),
    ("store import absent.jsonl", false),
    ("store purge --yes", false),
    ("clients add alice", false),
    ("clients list", false),
    ("clients remove alice", false),
    ("mcp", false),
    ("replay absent.tar.zst --live mine/m", false),
];

/// Part of the sentence with which a setting of a found file is refused.
const REFUSAL: &str = "is not allowed in a file that was found in the working directory; if you \
    trust the file, name it with --config";

const KEY: &str = "sk-canary-of-the-user";

/// What a stranger may have written, with `URL` for the stranger's server.
const CONFIGS: [&str; 11] = [
    "[providers.mine]\nbase_url = \"URL\"\napi_key_command = \"touch ran\"",
    "[providers.openai]\napi_key_command = [\"touch\", \"ran\"]",
    "[providers.mine]\nbase_url = \"URL\"\napi_key_file = \"link.key\"",
    "[providers.mine]\nbase_url = \"URL\"\napi_key_env = \"OPENAI_API_KEY\"",
    "[providers.openai]\nbase_url = \"URL\"\napi_key_env = \"OPENAI_API_KEY\"",
    "[providers.openai]\nproxy = \"URL\"",
    "[codex]\ninstructions_file = \"link.key\"\n[providers.mine]\nbase_url = \"URL\"",
    "[server]\ntoken_file = \"link.key\"",
    "[server]\ntoken_env = \"OPENAI_API_KEY\"",
    "[server]\ndata_dir = \".\"",
    "[webhooks.mine]\nurl = \"URL\"\nsecret_command = \"touch ran\"",
];

/// The folder of a stranger, with a link to a key of the user.
fn stranger(config: &str, home: &Path, player: &Player) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = config.replace("URL", &player.base_url());
    write(folder.path(), "proxy-config.toml", &text);
    symlink(home.join("own.key"), folder.path().join("link.key")).unwrap();
    folder
}

/// The home of a user with a key, in a file and in a variable.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "own.key", KEY);
    home
}

/// The command as the user starts it in another folder, with no server on its address.
fn command(line: &str, home: &Path) -> Setup {
    let setup = Setup::new()
        .unnamed()
        .env("HOME", home.to_str().unwrap())
        .env("PATH", "/usr/bin:/bin")
        .env("OPENAI_API_KEY", KEY)
        .env("RESPONDENT_LISTEN", "127.0.0.1:1");
    line.split(' ').fold(setup, super::proxy::Setup::arg)
}

/// Promise: A configuration file that was found in the working directory, and was not named, is
/// read by `serve` and `check` only. It runs no command, reads no other file, chooses neither the
/// token nor the data directory, lets nobody else in, deletes nothing, and moves neither a key nor
/// a model of another provider to an address of its own, whatever links it holds. Each key is
/// decided upon.
#[test]
fn a_hostile_folder_runs_nothing_and_moves_no_key() {
    rows(CONFIGS.into_iter().enumerate(), hostile_folder);
}

async fn hostile_folder(config: &str) {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "caught"}]))).await;
    let home = home();
    try_all_commands(home.path(), config, || {
        stranger(config, home.path(), &player)
    })
    .await;
    assert_eq!(player.requests().len(), 0);
}

#[kit::test]
async fn links_in_a_hostile_folder_are_not_followed() {
    let home = home();
    let own = "base_url = \"http://127.0.0.1:1/v1\"\napi_key_command = \"touch ran\"";
    let table = format!("[providers.mine]\n{own}");
    write(home.path(), "own.toml", &table);
    try_all_commands(home.path(), "a link to a file of the user", || {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("proxy-config.toml");
        symlink(home.path().join("own.toml"), link).unwrap();
        folder
    })
    .await;
    try_all_commands(home.path(), "a link to a folder of providers", || {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "proxy-config.toml", "");
        write(folder.path(), "real/mine.toml", own);
        symlink(folder.path().join("real"), folder.path().join("providers")).unwrap();
        folder
    })
    .await;
}

/// The usual variable of a provider holds a key for the provider's own address. Without
/// `api_key_env` another address does not get it, and the provider stays off.
#[kit::test]
async fn another_address_gets_no_usual_key() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let home = home();
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[providers.openai]\nbase_url = \"{}\"",
        player.base_url()
    );
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "proxy-config.toml", &config);
    for (line, _) in COMMANDS.iter().filter(|(line, _)| *line != "serve") {
        let (_, out, err) = command(line, home.path()).run(folder.path()).await;
        let shown = format!("{line}: {out}{err}");
        assert!(!shown.contains(KEY), "{shown}");
        // The lines of a warning are as wide as a terminal.
        let words: Vec<_> = shown.split_whitespace().collect();
        let is_off = words
            .join(" ")
            .contains("OPENAI_API_KEY is not sent to another base_url");
        assert_eq!(is_off, *line == "check", "{shown}");
    }
    let setup = Setup::new().unnamed().env("OPENAI_API_KEY", KEY);
    let proxy = Proxy::start_in_folder(folder, &setup).await;
    let body = json!({"model": "openai/gpt-5", "input": "go"});
    assert_eq!(proxy.post(&body).await.status, 404);
    assert_eq!(player.requests().len(), 0);
}

/// Starts every command in a new folder of a stranger. `serve` and `check` refuse what they find
/// there, the others do not read it, and nothing runs or shows the key.
async fn try_all_commands(home: &Path, what: &str, folder: impl Fn() -> TempDir) {
    for (line, reads_found_file) in COMMANDS {
        let folder = folder();
        let (code, out, err) = command(line, home).run(folder.path()).await;
        let shown = format!("{line}: {what}\n{out}{err}");
        assert!(!folder.path().join("ran").exists(), "{shown}");
        assert!(!out.contains(KEY) && !err.contains(KEY), "{shown}");
        assert_eq!(err.contains(REFUSAL), reads_found_file, "{shown}");
        if reads_found_file {
            assert_eq!(code, 2, "{shown}");
        } else {
            assert!(
                err.contains("is not read") || !loads_configuration(line),
                "{shown}"
            );
        }
    }
}

/// Whether the command has a configuration at all.
fn loads_configuration(line: &str) -> bool {
    ![
        "bundle show",
        "bundle diff",
        "codex remove",
        "clients add",
        "completions",
        "man",
        "schema",
        "service remove",
    ]
    .iter()
    .any(|name| line.starts_with(name))
}

#[test]
fn every_command_is_tried_in_the_hostile_folder() {
    fn leaves(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        let mut inner = command.get_subcommands().peekable();
        if inner.peek().is_none() {
            found.insert(path.trim_start().to_owned());
        }
        for command in inner {
            leaves(command, &format!("{path} {}", command.get_name()), found);
        }
    }
    let mut known = BTreeSet::new();
    leaves(&Cli::command(), "", &mut known);
    for name in &known {
        let is_tried = COMMANDS
            .iter()
            .any(|(line, _)| format!("{line} ").starts_with(&format!("{name} ")));
        assert!(
            is_tried,
            "`respondent {name}` is not tried in the hostile folder"
        );
    }
    assert_eq!(known.len(), COMMANDS.len());
}

#[kit::test]
async fn only_serve_and_check_read_a_found_file_and_say_so() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let folder = || Setup::new().folder(&player.base_url());
    let notice = "Using ./proxy-config.toml, which was found in the working directory.";
    let check = Setup::new().unnamed().arg("check");
    let (code, out, _) = check.run(folder().path()).await;
    assert_eq!(code, 0);
    assert!(
        out.starts_with(notice) && out.contains("provider   up"),
        "{out}"
    );
    let models = Setup::new().unnamed().arg("models");
    let (code, out, err) = models.run(folder().path()).await;
    assert_eq!(code, 0);
    assert!(!out.contains("up (up)"), "{out}");
    assert!(err.contains("./proxy-config.toml is not read"), "{err}");
    let (_, named, _) = Setup::new().arg("check").run(folder().path()).await;
    assert!(named.starts_with("  listen "), "{named}");
    let proxy = Proxy::start_with(&player, Setup::new().unnamed()).await;
    assert_eq!(proxy.first_line.as_deref(), Some(notice));
    let response = proxy
        .response(&json!({"model": "up/m", "input": "go"}))
        .await;
    assert_eq!(response["output"][0]["content"][0]["text"], "a");
}

/// Promise: A command that needs no key reads no key file and runs no key command.
#[kit::test]
async fn a_command_that_needs_no_key_runs_no_command_of_the_users_file() {
    let home = home();
    let own = "[providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\n\
        api_key_command = \"touch ran; echo k\"\n\
        [providers.lab]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_file = \"/nonexistent\"";
    write(home.path(), ".config/respondent/proxy-config.toml", own);
    for (line, _) in COMMANDS {
        let folder = tempfile::tempdir().unwrap();
        // The server would run for ever.
        if line == "serve" {
            continue;
        }
        // What shows models asks the providers for theirs.
        let asks = ["check", "models", "doctor", "codex setup", "run"];
        let needs_key = asks.iter().any(|name| line.starts_with(name)) || line.contains("--live");
        let (code, out, err) = command(line, home.path()).run(folder.path()).await;
        let ran = folder.path().join("ran").exists();
        assert_eq!(ran, needs_key, "{line}: {out}{err}");
        assert_ne!(code, 2, "{line}: {out}{err}");
    }
}
