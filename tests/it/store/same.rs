//! What does not change: the home of the user, and what the same input becomes.
use std::fs;
use std::path::Path;

use adapters::plan::output::artifact_id;
use serde_json::{Value, json};

use super::sharing;
use crate::faults::{always, answer};
use crate::literals::{root, rust_files};
use crate::proxy::{Proxy, Setup};

/// A turn with an output that is too long, and the id of it.
fn turn() -> (Value, String) {
    let log = "a line of a long log\n".repeat(5_000);
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    (json!({"model": "m", "input": input}), artifact_id(&log))
}

/// Twice on one server, once on another one that knows nothing of it.
pub async fn input() {
    let player = always(answer(json!([{"text": "seen"}]))).await;
    let (turn, id) = turn();
    for times in [2, 1] {
        let data = tempfile::tempdir().unwrap();
        let proxy = Proxy::with(&player, sharing(&data)).await;
        for _ in 0..times {
            proxy.whole(&turn).await;
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

/// A server whose data directory is elsewhere writes nothing to the home, and tests
/// never learn where the user's own is.
pub async fn home() {
    let home = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let player = always(answer(json!([{"text": "seen"}]))).await;
    let (turn, id) = turn();
    let setup = sharing(&data).env("HOME", home.path().to_str().unwrap());
    let mut proxy = Proxy::with(&player, setup).await;
    proxy.whole(&turn).await;
    let kept = proxy.get(&format!("/v1/artifacts/{id}")).await;
    assert_eq!(kept.header("x-artifact-persistent"), Some("true"));
    proxy.terminate().await;
    proxy.ended().await;
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);

    // Without one it is in the home that the program is given.
    let mut proxy = Proxy::with(&player, Setup::new()).await;
    let database = ".local/share/respondent/artifacts/artifacts.db";
    assert!(proxy.folder.path().join(database).exists());
    proxy.kill().await;

    // The program alone asks where the user's home is, and tests start it in one
    // place, which gives it another.
    for (asks, files) in [
        (
            concat!("choose_base", "_strategy("),
            vec!["src/config/inputs.rs"],
        ),
        (
            concat!("UserDirs::from_", "process("),
            vec!["src/config/inputs.rs"],
        ),
        (concat!("Inputs::from_", "process("), vec!["src/main.rs"]),
        (
            concat!("CARGO_BIN", "_EXE_respondent\""),
            vec!["tests/it/proxy.rs"],
        ),
    ] {
        assert_eq!(files_with(asks), files, "{asks}");
    }
}

fn files_with(words: &str) -> Vec<String> {
    let mut files: Vec<String> = rust_files(&[
        "src",
        "adapters/src",
        "registry/src",
        "tests/it",
        "tests/kit",
    ])
    .into_iter()
    .filter(|file| fs::read_to_string(file).unwrap().contains(words))
    .map(|file| relative(&file))
    .collect();
    files.sort();
    files
}

fn relative(file: &Path) -> String {
    let file = file.strip_prefix(root()).unwrap();
    file.to_string_lossy().into_owned()
}
