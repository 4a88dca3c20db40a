use std::collections::HashMap;
use std::path::Path;

use super::*;
use crate::config::{Flags, UserDirs};

const LAB: &str = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\n";

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn watch(folder: &Path) -> ConfigWatcher {
    let inputs = Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::<String, String>::new()),
        dirs: UserDirs::under(folder),
    };
    let mut first = load(&inputs).unwrap();
    if first.sandbox {
        first.set_sandbox_address("127.0.0.1:4321".parse().unwrap());
    }
    ConfigWatcher::new(inputs, first)
}

fn on(watch: &ConfigWatcher) -> Vec<String> {
    let live = watch.live.load();
    live.registry
        .providers
        .iter()
        .map(|provider| provider.id.clone())
        .collect()
}

#[test]
fn a_good_edit_is_live() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), CONFIG_FILE_NAME, LAB);
    let mut watch = watch(folder.path());
    assert!(matches!(watch.poll(), ReloadOutcome::Unchanged));
    write(
        folder.path(),
        CONFIG_FILE_NAME,
        &LAB.replace("lab", "attic"),
    );
    assert!(matches!(watch.poll(), ReloadOutcome::Applied(_)));
    assert_eq!(on(&watch), ["attic"]);
    assert!(matches!(watch.poll(), ReloadOutcome::Unchanged));
}

#[test]
fn a_bad_edit_is_told_once_and_the_old_stays() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), CONFIG_FILE_NAME, LAB);
    let mut watch = watch(folder.path());
    write(folder.path(), CONFIG_FILE_NAME, "[servers]\nlisten = 1");
    assert!(matches!(watch.poll(), ReloadOutcome::Rejected(_)));
    assert!(matches!(watch.poll(), ReloadOutcome::Unchanged));
    assert_eq!(on(&watch), ["lab"]);
    write(
        folder.path(),
        CONFIG_FILE_NAME,
        &format!("{LAB}max_retries = 7"),
    );
    assert!(matches!(watch.poll(), ReloadOutcome::Applied(_)));
    assert_eq!(watch.live.load().registry.providers[0].max_retries, 7);
}

#[test]
fn files_that_come_and_go_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch(folder.path());
    assert!(watch.live.load().sandbox);
    write(folder.path(), CONFIG_FILE_NAME, LAB);
    assert!(matches!(watch.poll(), ReloadOutcome::Applied(_)));
    write(
        folder.path(),
        "providers/den.toml",
        "base_url = \"https://den.example/v1\"",
    );
    assert!(matches!(watch.poll(), ReloadOutcome::Applied(_)));
    assert_eq!(on(&watch), ["lab", "den"]);
    std::fs::remove_dir_all(folder.path().join("providers")).unwrap();
    std::fs::remove_file(folder.path().join(CONFIG_FILE_NAME)).unwrap();
    assert!(matches!(watch.poll(), ReloadOutcome::Applied(_)));
    let live = watch.live.load();
    let route = live.registry.resolve("sandbox-1", false).unwrap();
    assert_eq!(route.provider.base_url, "http://127.0.0.1:4321/v1");
}

#[test]
fn the_sandbox_cannot_be_started_by_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), CONFIG_FILE_NAME, LAB);
    let mut watch = watch(folder.path());
    write(
        folder.path(),
        CONFIG_FILE_NAME,
        &format!("{LAB}[providers.sandbox]"),
    );
    assert!(matches!(watch.poll(), ReloadOutcome::Rejected(_)));
}

#[test]
fn what_needs_a_restart_is_told_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), CONFIG_FILE_NAME, LAB);
    let mut watch = watch(folder.path());
    let edit = format!("[server]\nlisten = \"127.0.0.1:1\"\nheartbeat = \"3s\"\n{LAB}");
    write(folder.path(), CONFIG_FILE_NAME, &edit);
    let ReloadOutcome::Applied(warnings) = watch.poll() else {
        panic!("the edit is good");
    };
    assert_eq!(warnings, ["server.listen changes only with a restart"]);
    let server = &watch.live.load().server;
    assert_eq!(server.listen.port(), 8787);
    assert_eq!(server.heartbeat, Duration::from_secs(3));
}

#[test]
fn edited_instructions_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        CONFIG_FILE_NAME,
        &format!("[codex]\ninstructions_file = \"p.md\"\n{LAB}"),
    );
    write(folder.path(), "p.md", "short");
    let mut watch = watch(folder.path());
    write(folder.path(), "p.md", "somewhat longer");
    assert!(matches!(watch.poll(), ReloadOutcome::Applied(_)));
    let live = watch.live.load();
    assert_eq!(live.codex.instructions.as_deref(), Some("somewhat longer"));
}
