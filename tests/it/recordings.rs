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

use libtest_mimic::Trial;

use crate::trial::case_if;

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

pub fn trials() -> Vec<Trial> {
    let counts = case_if(
        "recordings::token_counts",
        token_counts::requests,
        |requests| async move { token_counts::check(&requests).await },
    );
    let Some(root) = root() else {
        let absent =
            || Err::<(), _>("no recordings found; set RECORDINGS_DIR to their folder".to_owned());
        return vec![counts, case_if("recordings", absent, |()| async {})];
    };
    let folders = folders(&root);
    assert!(!folders.is_empty(), "the folder has no recordings");
    let mut trials: Vec<Trial> = folders
        .iter()
        .flat_map(|folder| {
            [
                folder_trial("answers", folder, answers::check),
                folder_trial("requests", folder, requests::check),
            ]
        })
        .collect();
    for folder in native_folders(&root) {
        trials.push(folder_trial("native", &folder, native::check));
    }
    trials.push(counts);
    trials.push(case_if(
        "recordings::table",
        || Ok((root, folders)),
        |(root, folders)| async move { table::check(&root, &folders) },
    ));
    trials
}

/// A trial that checks all recordings of a folder.
fn folder_trial(what: &str, folder: &Path, check: fn(&str, &[Recording])) -> Trial {
    let provider = name(folder);
    let folder = folder.to_owned();
    case_if(
        &format!("recordings::{what}::{provider}"),
        || Ok::<_, String>(folder),
        move |folder| async move { check(&provider, &body::read_recordings(&folder)) },
    )
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
