//! The program as a process.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that all of this is a test"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn kit() -> Command {
    Command::new(env!("CARGO_BIN_EXE_respondent-kit"))
}

fn bundle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/bundles/refused.tar.zst")
}

fn to_fixture(bundle: &Path, folder: &Path, more: &[&str]) -> Output {
    kit()
        .arg("to-fixture")
        .args([bundle, folder])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn a_turn_of_a_bundle_becomes_a_golden_case() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("case");
    let output = to_fixture(&bundle(), &folder, &[]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    for name in ["request.json", "expect.request.json"] {
        assert!(printed.contains(name), "{printed}");
        assert!(folder.join(name).is_file(), "{name}");
    }
    let before = std::fs::read(folder.join("request.json")).unwrap();
    let again = to_fixture(&bundle(), &folder, &[]);
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(
        !again.status.success() && error.contains("already exists"),
        "{error}"
    );
    assert_eq!(std::fs::read(folder.join("request.json")).unwrap(), before);
}

#[test]
fn what_cannot_be_written_leaves_no_folder() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("case");
    let foreign = temporary.path().join("foreign.tar.zst");
    std::fs::write(&foreign, b"no bundle at all").unwrap();
    for (file, more, expected) in [
        (bundle(), &["--attempt", "9"][..], "no attempt 9"),
        (bundle(), &["--turn", "2"], "there is no turn 2; it holds 1"),
        (bundle(), &["--turn", "0"], "there is no turn 0"),
        (foreign, &[], "foreign.tar.zst"),
    ] {
        let output = to_fixture(&file, &folder, more);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains(expected),
            "{error}"
        );
        assert!(!folder.exists());
    }
}

#[test]
fn the_player_says_where_it_listens_first() {
    let temporary = tempfile::tempdir().unwrap();
    let script = temporary.path().join("script.json");
    std::fs::write(&script, r#"{"answers": [{"body": "hello"}]}"#).unwrap();
    let mut player = kit()
        .arg("player")
        .arg("--script")
        .arg(&script)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(player.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .strip_prefix("player listening on http://")
        .and_then(|rest| rest.strip_suffix("/v1\n"));
    let reply = address.map(|address| {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        let request = "POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply
    });
    player.kill().unwrap();
    player.wait().unwrap();
    assert!(
        reply.is_some_and(|reply| reply.ends_with("hello")),
        "{line}"
    );
}
