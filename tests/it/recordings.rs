//! What providers really sent: every recorded answer is replayed and must come
//! out as what it says, every recorded refusal must be understood, and our
//! request for a recorded conversation must be the recorded one.
//!
//! The recordings are no part of the repository: `RECORDINGS_DIR` says where
//! they are, `../shared/recordings` beside the workspace without it. A folder is
//! a provider. `<case>.sse` or `<case>.json` is the body of an answer,
//! `<case>.meta.json` has its HTTP status, `<case>.req.json` is the request.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use crate::trial::case_if;

mod answers;
mod body;
mod compare;
mod differences;
mod known;
mod oracle;
mod refusals;
mod replay;
mod requests;
mod table;

use body::Recording;

/// Folders of other wires.
fn is_other_wire(folder: &str) -> bool {
    matches!(folder, "anthropic" | "gemini-native" | "gemini-vertex")
        || folder.ends_with("-responses")
}

pub fn trials() -> Vec<Trial> {
    let Some(root) = root() else {
        let absent =
            || Err::<(), _>("no recordings; RECORDINGS_DIR says where they are".to_owned());
        return vec![case_if("recordings", absent, |()| async {})];
    };
    let folders = folders(&root);
    assert!(!folders.is_empty(), "the recordings are gone");
    let mut trials: Vec<Trial> = folders
        .iter()
        .flat_map(|folder| {
            [
                of_folder("answers", folder, answers::check),
                of_folder("requests", folder, requests::check),
            ]
        })
        .collect();
    trials.push(case_if(
        "recordings::table",
        || Ok((root, folders)),
        |(root, folders)| async move { table::check(&root, &folders) },
    ));
    trials
}

fn of_folder(what: &str, folder: &Path, check: fn(&str, &[Recording])) -> Trial {
    let provider = name(folder);
    let folder = folder.to_owned();
    case_if(
        &format!("recordings::{what}::{provider}"),
        || Ok::<_, String>(folder),
        move |folder| async move { check(&provider, &body::read(&folder)) },
    )
}

fn root() -> Option<PathBuf> {
    let given = std::env::var_os("RECORDINGS_DIR").map(PathBuf::from);
    let path =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/recordings"));
    path.is_dir().then_some(path)
}

/// The folders that may speak Chat Completions, in order.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .expect("the folder of the recordings can be read")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !is_other_wire(&name(path)))
        .collect();
    folders.sort();
    folders
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Fails with all that is wrong, one line each.
fn fail_with(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
