use std::path::Path;

use super::*;
use crate::secrets::TokenHash;

const LAB: &str = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\n";

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn watcher(dir: &Path) -> ConfigWatcher {
    let inputs = Inputs::under(dir);
    let mut first = load(&inputs, LoadPurpose::Serve).unwrap();
    if first.sandbox {
        first.set_sandbox_address("127.0.0.1:4321".parse().unwrap());
    }
    ConfigWatcher::new(inputs, LoadPurpose::Serve, first)
}

fn enabled(watcher: &ConfigWatcher) -> Vec<String> {
    let live = watcher.live.load();
    live.registry
        .providers
        .iter()
        .map(|provider| provider.id.clone())
        .collect()
}

#[test]
fn a_valid_edit_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CONFIG_FILE_NAME, LAB);
    let mut watcher = watcher(dir.path());
    assert!(matches!(watcher.poll(), ReloadOutcome::Unchanged));
    write(dir.path(), CONFIG_FILE_NAME, &LAB.replace("lab", "attic"));
    assert!(matches!(watcher.poll(), ReloadOutcome::Applied { .. }));
    assert_eq!(enabled(&watcher), ["attic"]);
    assert!(matches!(watcher.poll(), ReloadOutcome::Unchanged));
}

#[test]
fn an_invalid_edit_is_reported_once_and_not_applied() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CONFIG_FILE_NAME, LAB);
    let mut watcher = watcher(dir.path());
    write(dir.path(), CONFIG_FILE_NAME, "[servers]\nlisten = 1");
    assert!(matches!(watcher.poll(), ReloadOutcome::Rejected(_)));
    assert!(matches!(watcher.poll(), ReloadOutcome::Unchanged));
    assert_eq!(enabled(&watcher), ["lab"]);
    write(
        dir.path(),
        CONFIG_FILE_NAME,
        &format!("{LAB}max_retries = 7"),
    );
    assert!(matches!(watcher.poll(), ReloadOutcome::Applied { .. }));
    assert_eq!(watcher.live.load().registry.providers[0].max_retries, 7);
}

#[test]
fn created_and_deleted_files_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut watcher = watcher(dir.path());
    assert!(watcher.live.load().sandbox);
    write(dir.path(), CONFIG_FILE_NAME, LAB);
    assert!(matches!(watcher.poll(), ReloadOutcome::Applied { .. }));
    write(
        dir.path(),
        "providers/den.toml",
        "base_url = \"https://den.example/v1\"",
    );
    assert!(matches!(watcher.poll(), ReloadOutcome::Applied { .. }));
    assert_eq!(enabled(&watcher), ["lab", "den"]);
    std::fs::remove_dir_all(dir.path().join("providers")).unwrap();
    std::fs::remove_file(dir.path().join(CONFIG_FILE_NAME)).unwrap();
    assert!(matches!(watcher.poll(), ReloadOutcome::Applied { .. }));
    let live = watcher.live.load();
    let route = live.registry.resolve("sandbox-1", false).unwrap();
    assert_eq!(route.provider.base_url, "http://127.0.0.1:4321/v1");
}

#[test]
fn the_sandbox_cannot_be_started_by_an_edit() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CONFIG_FILE_NAME, LAB);
    let mut watcher = watcher(dir.path());
    write(
        dir.path(),
        CONFIG_FILE_NAME,
        &format!("{LAB}[providers.sandbox]"),
    );
    assert!(matches!(watcher.poll(), ReloadOutcome::Rejected(_)));
}

#[test]
fn settings_that_need_a_restart_are_kept_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CONFIG_FILE_NAME, LAB);
    let mut watcher = watcher(dir.path());
    let edit = format!("[server]\nlisten = \"127.0.0.1:1\"\nheartbeat = \"3s\"\n{LAB}");
    write(dir.path(), CONFIG_FILE_NAME, &edit);
    let ReloadOutcome::Applied { changes, warnings } = watcher.poll() else {
        panic!("the edit is good");
    };
    assert_eq!(changes, ["[server] changed"]);
    assert_eq!(warnings, ["server.listen changes only with a restart"]);
    let server = &watcher.live.load().server;
    assert_eq!(server.listen.port(), 9797);
    assert_eq!(server.heartbeat, Duration::from_secs(3));
}

#[test]
fn an_edited_instructions_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        CONFIG_FILE_NAME,
        &format!("[codex]\ninstructions_file = \"p.md\"\n{LAB}"),
    );
    write(dir.path(), "p.md", "short");
    let mut watcher = watcher(dir.path());
    write(dir.path(), "p.md", "somewhat longer");
    assert!(matches!(watcher.poll(), ReloadOutcome::Applied { .. }));
    let live = watcher.live.load();
    assert_eq!(live.codex.instructions.as_deref(), Some("somewhat longer"));
}

#[test]
fn a_new_version_of_a_prompt_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[prompts]\nfolder = \"prompts\"\n{LAB}");
    write(dir.path(), CONFIG_FILE_NAME, &config);
    let folder = dir.path().join("prompts/greeting");
    std::fs::create_dir_all(&folder).unwrap();
    write(&folder, "1.toml", "instructions = \"one\"");
    let mut watcher = watcher(dir.path());
    for (file, text, newest) in [
        ("1.toml", "instructions = \"one, longer\"", "one, longer"),
        ("2.toml", "instructions = \"two\"", "two"),
    ] {
        write(&folder, file, text);
        let ReloadOutcome::Applied { changes, .. } = watcher.poll() else {
            panic!("{file} is good");
        };
        assert_eq!(changes, ["[prompts] changed"]);
        let prompts = &watcher.live.load().prompts;
        let filled = prompts.expand(r#"{"prompt":{"id":"greeting"}}"#, 1_000);
        let filled = filled.unwrap().unwrap();
        assert!(filled.contains(&format!(r#""instructions":"{newest}""#)));
    }
    write(&folder, "2.toml", "no template");
    assert!(matches!(watcher.poll(), ReloadOutcome::Rejected(_)));
    assert!(!watcher.live.load().prompts.is_empty());
}

#[test]
fn a_changed_token_is_told_without_its_value() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CONFIG_FILE_NAME, LAB);
    write(dir.path(), "token", "first-token");
    let mut inputs = Inputs::under(dir.path());
    inputs.flags.token_file = Some(dir.path().join("token"));
    let first = load(&inputs, LoadPurpose::Serve).unwrap();
    let mut watcher = ConfigWatcher::new(inputs, LoadPurpose::Serve, first);
    write(dir.path(), "token", "another-token");
    let ReloadOutcome::Applied { changes, .. } = watcher.poll() else {
        panic!("the token is good");
    };
    assert_eq!(changes, ["the token changed"]);
}

#[test]
fn a_reload_says_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let config = |text: &str| write(dir.path(), CONFIG_FILE_NAME, text);
    config(LAB);
    let mut watcher = watcher(dir.path());
    let den = "[providers.den]\nbase_url = \"https://den.example/v1\"\n";
    let alias = "[routing.aliases]\nfast = \"den/x\"\n";
    for (text, expected) in [
        (format!("{LAB}{den}"), "provider den added"),
        (format!("{den}{LAB}"), "order of providers changed"),
        (format!("{den}{LAB}{alias}"), "aliases changed"),
        (
            format!("{den}api_key = \"k-1\"\n{LAB}{alias}"),
            "keys of provider den changed",
        ),
        (
            format!("{den}name = \"The den\"\n"),
            "provider den changed, provider lab removed, aliases changed",
        ),
        (format!("# A comment\n{den}name = \"The den\"\n"), ""),
        (
            format!("[capture]\nkeep = 7\n{den}name = \"The den\"\n"),
            "[capture] changed",
        ),
    ] {
        config(&text);
        let ReloadOutcome::Applied { changes, .. } = watcher.poll() else {
            panic!("the edit is good: {text}");
        };
        assert_eq!(changes.join(", "), expected, "{text}");
    }
}

fn client(name: &str) -> String {
    let hash = TokenHash::of(name.as_bytes());
    format!("[clients.{name}]\ntoken_sha256 = \"{hash}\"\n")
}

/// Promise: A server that needs a token never runs without one until it is restarted, whatever
/// becomes of its configuration.
#[test]
fn no_edit_opens_a_server_that_needs_a_token() {
    let (alice, bob) = (client("alice"), client("bob"));
    let server = "[server]\ntoken_file = \"token\"\n";
    for (config, lost) in [
        (format!("{LAB}{alice}"), "client alice"),
        (format!("{LAB}{alice}{bob}"), "client alice"),
        (format!("{LAB}{server}"), "the token of the server"),
        (format!("{LAB}{server}{bob}"), "the token of the server"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), CONFIG_FILE_NAME, &config);
        write(dir.path(), "token", "first-token");
        let mut watcher = watcher(dir.path());
        let mut is_closed = |what: &str| {
            let outcome = watcher.poll();
            let live = watcher.live.load();
            assert!(live.needs_token(), "{what}: {outcome:?}");
            outcome
        };
        for length in (0..config.len()).rev() {
            let cut = config.get(..length).unwrap();
            write(dir.path(), CONFIG_FILE_NAME, cut);
            is_closed(cut);
        }
        write(dir.path(), CONFIG_FILE_NAME, LAB);
        let ReloadOutcome::Rejected(errors) = is_closed(LAB) else {
            panic!("{config}");
        };
        let told = errors.to_string();
        assert!(told.contains(lost), "{told}");
        assert!(told.contains("restart"), "{told}");
        write(dir.path(), CONFIG_FILE_NAME, &config);
        is_closed("as it was");
        std::fs::remove_file(dir.path().join("token")).unwrap();
        is_closed("no token file");
        std::fs::create_dir(dir.path().join("token")).unwrap();
        is_closed("a folder for the token");
        std::fs::remove_file(dir.path().join(CONFIG_FILE_NAME)).unwrap();
        is_closed("no file");
    }
}

#[test]
fn a_client_or_token_is_removed_while_another_remains() {
    let (alice, bob) = (client("alice"), client("bob"));
    let server = "[server]\ntoken_file = \"token\"\n";
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "token", "first-token");
    let all = format!("{server}{LAB}{alice}{bob}");
    write(dir.path(), CONFIG_FILE_NAME, &all);
    let mut watcher = watcher(dir.path());
    for (config, expected) in [
        (format!("{server}{LAB}{alice}"), "client bob removed"),
        (format!("{server}{LAB}"), "client alice removed"),
        (all, "client alice added, client bob added"),
        (
            format!("{LAB}{alice}{bob}"),
            "the token changed, [server] changed",
        ),
        (format!("{LAB}{bob}"), "client alice removed"),
    ] {
        write(dir.path(), CONFIG_FILE_NAME, &config);
        let ReloadOutcome::Applied { changes, .. } = watcher.poll() else {
            panic!("{config}");
        };
        assert_eq!(changes.join(", "), expected);
    }
}
