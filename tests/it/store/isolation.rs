//! The home directory is not touched, and the upstream request does not depend on the store.
use std::fs;
use std::path::Path;

use adapters::plan::output::artifact_id;
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::setup_with_data_dir;
use crate::faults::{answer, repeating_player};
use crate::literals::{root, rust_files};
use crate::proxy::{Proxy, Setup};

/// A turn with a long tool output, and the id of its artifact.
fn turn() -> (Value, String) {
    let log = "a line of a long log\n".repeat(5_000);
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    (json!({"model": "m", "input": input}), artifact_id(&log))
}

/// Sends the same turn twice to one server and once to another server with an empty store.
#[kit::test]
async fn the_same_input_gives_the_same_upstream_request() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "seen"}]))).await;
    let (turn, id) = turn();
    for times in [2, 1] {
        let data = tempfile::tempdir().unwrap();
        let proxy = Proxy::start_with(&player, setup_with_data_dir(&data)).await;
        for _ in 0..times {
            proxy.response(&turn).await;
        }
    }
    let requests = player.requests();
    let [first, second, third] = &requests[..] else {
        panic!("not three requests");
    };
    assert!(first.body.contains(&id), "{}", first.body);
    assert_eq!(first.body, second.body);
    assert_eq!(first.body, third.body);
}

/// A server whose data directory is elsewhere writes nothing to the home directory, and the tests
/// never use the home directory of the user who runs them.
#[kit::test]
async fn the_home_directory_is_not_touched() {
    let home = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "seen"}]))).await;
    let (turn, id) = turn();
    let setup = setup_with_data_dir(&data).env("HOME", home.path().to_str().unwrap());
    let mut proxy = Proxy::start_with(&player, setup).await;
    proxy.response(&turn).await;
    let artifact = proxy.get(&format!("/v1/artifacts/{id}")).await;
    assert_eq!(artifact.header("x-artifact-persistent"), Some("true"));
    proxy.terminate();
    proxy.wait_for_exit().await;
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);

    // Without `data_dir` the store is in the home directory that the program is given.
    let mut proxy = Proxy::start_with(&player, Setup::new()).await;
    let database = ".local/share/respondent/artifacts/artifacts.db";
    assert!(proxy.folder.path().join(database).exists());
    proxy.kill().await;

    // Only the program looks up the user's home directory, and tests start it in a single place,
    // which sets another home directory.
    for (call, files) in [
        (
            concat!("choose_base", "_strategy("),
            vec!["src/config/inputs.rs"],
        ),
        (
            concat!("UserDirs::from_", "process("),
            vec!["src/config/inputs.rs"],
        ),
        (
            concat!("Inputs::from_", "process("),
            vec!["src/commands/dispatch.rs", "tests/it/counted.rs"],
        ),
        (
            concat!("CARGO_BIN", "_EXE_respondent\""),
            vec!["tests/it/proxy.rs"],
        ),
    ] {
        assert_eq!(files_with(call), files, "{call}");
    }
}

/// The source files that contain this text.
fn files_with(text: &str) -> Vec<String> {
    let mut files: Vec<String> = rust_files(&[
        "src",
        "adapters/src",
        "registry/src",
        "tests/it",
        "tests/kit",
    ])
    .into_iter()
    .filter(|file| fs::read_to_string(file).unwrap().contains(text))
    .map(|file| relative(&file))
    .collect();
    files.sort();
    files
}

fn relative(file: &Path) -> String {
    let file = file.strip_prefix(root()).unwrap();
    file.to_string_lossy().into_owned()
}
