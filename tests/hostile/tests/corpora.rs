//! The inputs of the fuzz targets, run as tests. `tests/fuzz.sh` starts from them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use std::fs;
use std::path::{Path, PathBuf};

use hostile::targets::{self, TARGETS};

/// Runs all inputs of a target.
fn replay(name: &str) {
    let target = targets::named(name).unwrap();
    let files = inputs(name);
    assert!(files.len() >= 5, "{name} has {} inputs", files.len());
    for file in files {
        let input = fs::read(&file).unwrap();
        let result = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(result.is_ok(), "{}", file.display());
    }
}

fn inputs(name: &str) -> Vec<PathBuf> {
    let folder = corpora().join(name);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files.map(|file| file.unwrap().path()).collect()
}

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz")
}

#[test]
fn every_target_has_inputs_and_every_folder_a_target() {
    let mut folders: Vec<String> = fs::read_dir(corpora())
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort_unstable();
    let mut names = TARGETS.map(|target| target.name);
    names.sort_unstable();
    assert_eq!(folders, names);
}

/// Promise: Whatever bytes arrive as a request, as an answer or an error of a provider, as a
/// bundle, as the pattern and text of a search, as the answer of a search engine, as a web page,
/// as the configuration or as the frames of a WebSocket, they are read or refused, and what comes
/// of them is sound: an answer passes the strict checker, and a WebSocket has the same messages
/// within its limits, however the bytes were split into reads.
#[test]
fn requests() {
    replay("request");
}

#[test]
fn chat_answers() {
    replay("chunks");
}

#[test]
fn relayed_answers() {
    replay("relay");
}

#[test]
fn server_sent_events() {
    replay("sse");
}

#[test]
fn provider_errors() {
    replay("provider_error");
}

#[test]
fn bundles() {
    replay("bundle");
}

#[test]
fn artifact_searches() {
    replay("search");
}

#[test]
fn search_answers() {
    replay("search_answer");
}

#[test]
fn web_pages() {
    replay("page");
}

#[test]
fn configurations() {
    replay("config");
}

#[test]
fn websocket_frames() {
    replay("websocket_frames");
}
