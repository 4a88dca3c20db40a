//! Recordings of real providers. Every recorded answer is replayed and must reach the client with
//! its content, every recorded refusal must be classified correctly, and the request that
//! Respondent makes for a recorded conversation must be the recorded one.
//!
//! The recordings are not part of the repository. `RECORDINGS_DIR` names their folder; the default
//! is `../shared/recordings` next to the workspace. Each subfolder is a provider. `<case>.sse` or
//! `<case>.json` is the body of an answer, `<case>.meta.json` has its HTTP status, and
//! `<case>.req.json` is the request.

use std::fs;
use std::path::{Path, PathBuf};

use kit::harness::{rows, skip};

mod answers;
mod body;
mod compare;
mod differences;
mod native;
mod oracle;
mod providers;
mod refusals;
mod replay;
mod requests;
mod table;
mod token_counts;

use body::Recording;

/// Whether the recordings of a folder use another API than Chat Completions.
fn is_other_wire(folder: &str) -> bool {
    matches!(folder, "anthropic" | "gemini-native" | "gemini-vertex")
        || folder.ends_with("-responses")
}

#[test]
fn recorded_answers_reach_the_client() {
    check_folders(folders, answers::check);
}

#[test]
fn recorded_requests_are_made_again() {
    check_folders(folders, requests::check);
}

#[test]
fn recorded_responses_reach_the_client() {
    check_folders(native_folders, native::check);
}

#[test]
fn the_table_of_the_recordings_is_current() {
    if let Some(root) = root_or_skip() {
        table::check(&root, &folders(&root));
    }
}

#[kit::test]
async fn tokens_are_counted_about_as_providers_count_them() {
    match token_counts::requests() {
        Ok(requests) => token_counts::check(&requests).await,
        Err(absent) => skip(&absent),
    }
}

/// Checks all recordings of each folder.
fn check_folders(folders: fn(&Path) -> Vec<PathBuf>, check: fn(&str, &[Recording])) {
    let Some(root) = root_or_skip() else { return };
    let folders = folders(&root);
    assert!(!folders.is_empty(), "the folder has no recordings");
    let folders = folders.into_iter().map(|folder| (name(&folder), folder));
    rows(folders, |folder| async move {
        check(&name(&folder), &body::read_recordings(&folder));
    });
}

fn root_or_skip() -> Option<PathBuf> {
    let root = root();
    if root.is_none() {
        skip("no recordings found; set RECORDINGS_DIR to their folder");
    }
    root
}

fn root() -> Option<PathBuf> {
    let given = std::env::var_os("RECORDINGS_DIR").map(PathBuf::from);
    let path =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/recordings"));
    path.is_dir().then_some(path)
}

/// The folders that may contain Chat Completions, sorted.
fn folders(root: &Path) -> Vec<PathBuf> {
    folders_that(root, |folder| !is_other_wire(folder))
}

/// The folders of upstreams that speak the Responses API, sorted.
fn native_folders(root: &Path) -> Vec<PathBuf> {
    folders_that(root, |folder| folder.ends_with("-responses"))
}

fn folders_that(root: &Path, fits: fn(&str) -> bool) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .expect("the folder of the recordings can be read")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && fits(&name(path)))
        .collect();
    folders.sort();
    folders
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Panics with all problems, one per line, if there are any.
fn assert_no_problems(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} differ:\n{}",
        problems.len(),
        problems.join("\n")
    );
}
