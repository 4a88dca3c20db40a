use std::collections::HashMap;
use std::path::Path;

use super::*;
use crate::config::{Flags, Places};

const LAB: &str = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\n";

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn watch(folder: &Path) -> Watch {
    let inputs = Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::<String, String>::new()),
        places: Places::under(folder),
    };
    let mut first = load(&inputs).unwrap();
    if first.sandbox {
        first.sandbox_at("127.0.0.1:4321".parse().unwrap());
    }
    Watch::new(inputs, first)
}

fn on(watch: &Watch) -> Vec<String> {
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
    write(folder.path(), FILE, LAB);
    let mut watch = watch(folder.path());
    assert!(matches!(watch.look(), Look::Same));
    write(folder.path(), FILE, &LAB.replace("lab", "attic"));
    assert!(matches!(watch.look(), Look::Applied(_)));
    assert_eq!(on(&watch), ["attic"]);
    assert!(matches!(watch.look(), Look::Same));
}

#[test]
fn a_bad_edit_is_told_once_and_the_old_stays() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), FILE, LAB);
    let mut watch = watch(folder.path());
    write(folder.path(), FILE, "[servers]\nlisten = 1");
    assert!(matches!(watch.look(), Look::Refused(_)));
    assert!(matches!(watch.look(), Look::Same));
    assert_eq!(on(&watch), ["lab"]);
    write(folder.path(), FILE, &format!("{LAB}max_retries = 7"));
    assert!(matches!(watch.look(), Look::Applied(_)));
    assert_eq!(watch.live.load().registry.providers[0].max_retries, 7);
}

#[test]
fn files_that_come_and_go_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch(folder.path());
    assert!(watch.live.load().sandbox);
    write(folder.path(), FILE, LAB);
    assert!(matches!(watch.look(), Look::Applied(_)));
    write(
        folder.path(),
        "providers/den.toml",
        "base_url = \"https://den.example/v1\"",
    );
    assert!(matches!(watch.look(), Look::Applied(_)));
    assert_eq!(on(&watch), ["lab", "den"]);
    std::fs::remove_dir_all(folder.path().join("providers")).unwrap();
    std::fs::remove_file(folder.path().join(FILE)).unwrap();
    assert!(matches!(watch.look(), Look::Applied(_)));
    let live = watch.live.load();
    let route = live.registry.resolve("sandbox-1", false).unwrap();
    assert_eq!(route.provider.base_url, "http://127.0.0.1:4321/v1");
}

#[test]
fn the_sandbox_cannot_be_started_by_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), FILE, LAB);
    let mut watch = watch(folder.path());
    write(folder.path(), FILE, &format!("{LAB}[providers.sandbox]"));
    assert!(matches!(watch.look(), Look::Refused(_)));
}

#[test]
fn what_needs_a_restart_is_told_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), FILE, LAB);
    let mut watch = watch(folder.path());
    let edit = format!("[server]\nlisten = \"127.0.0.1:1\"\nheartbeat = \"3s\"\n{LAB}");
    write(folder.path(), FILE, &edit);
    let Look::Applied(warnings) = watch.look() else {
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
        FILE,
        &format!("[codex]\ninstructions_file = \"p.md\"\n{LAB}"),
    );
    write(folder.path(), "p.md", "short");
    let mut watch = watch(folder.path());
    write(folder.path(), "p.md", "somewhat longer");
    assert!(matches!(watch.look(), Look::Applied(_)));
    let live = watch.live.load();
    assert_eq!(live.codex.instructions.as_deref(), Some("somewhat longer"));
}
