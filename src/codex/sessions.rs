//! The sessions that Codex keeps in its folder, to name the one that has just ended.

use std::fs::{self, DirEntry, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::SystemTime;

use serde::Deserialize;

use super::home::CodexHome;

/// The most days whose sessions are looked at, the newest first. A session that goes on keeps its
/// file in the folder of the day on which it began.
const MAX_DAYS: usize = 100;

/// The most bytes of the first line of a session, which has the prompt of Codex.
const MAX_FIRST_LINE: u64 = 1 << 20;

/// The first line of the file of a session, as Codex 0.171 writes it.
#[derive(Deserialize)]
struct FirstLine {
    payload: SessionMeta,
}

#[derive(Deserialize)]
struct SessionMeta {
    id: String,
    cwd: String,
    /// A word for a session of a person, a structure for one of a sub-agent.
    source: serde_json::Value,
}

/// The id of the session that a person worked on in Codex's terminal interface and that was written
/// to since a moment, preferably one of the folder `working`. `None` if there is none.
pub fn newest(home: &CodexHome, since: SystemTime, working: &Path) -> Option<String> {
    let mut files: Vec<(SystemTime, DirEntry)> = days(&home.folder().join("sessions"))
        .into_iter()
        .flat_map(|day| entries(&day.path()))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file)))
        .filter(|(written, _)| *written >= since)
        .collect();
    files.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
    let sessions: Vec<SessionMeta> = files
        .iter()
        .filter_map(|(_, file)| meta(&file.path()))
        .filter(|session| session.source == "cli")
        .collect();
    let here = sessions.iter().find(|it| Path::new(&it.cwd) == working);
    here.or(sessions.first()).map(|session| session.id.clone())
}

/// The folders `year/month/day`, the newest first.
fn days(sessions: &Path) -> Vec<DirEntry> {
    let below = |folders: Vec<DirEntry>| -> Vec<DirEntry> {
        let inner = folders
            .iter()
            .flat_map(|folder| newest_names(&folder.path()));
        inner.take(MAX_DAYS).collect()
    };
    below(below(newest_names(sessions)))
}

/// The entries of a folder, from the last name to the first.
fn newest_names(folder: &Path) -> Vec<DirEntry> {
    let mut inner = entries(folder);
    inner.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    inner
}

fn entries(folder: &Path) -> Vec<DirEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.flatten().collect()
}

fn meta(file: &Path) -> Option<SessionMeta> {
    let mut line = Vec::new();
    let file = File::open(file).ok()?.take(MAX_FIRST_LINE);
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    let first: FirstLine = serde_json::from_slice(&line).ok()?;
    Some(first.payload)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_session_of_a_person_in_this_folder_is_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let home = CodexHome::find(|name| {
            (name == "CODEX_HOME").then(|| folder.path().as_os_str().to_owned())
        });
        let home = home.unwrap();
        let began = SystemTime::now() - Duration::from_hours(1);
        assert_eq!(newest(&home, began, Path::new("/work")), None);
        let write = |day: &str, id: &str, cwd: &str, source: &str, age: u64| {
            let day = folder.path().join("sessions").join(day);
            fs::create_dir_all(&day).unwrap();
            let path = day.join(format!("rollout-{id}.jsonl"));
            let meta = format!(
                "{{\"payload\":{{\"id\":\"{id}\",\"cwd\":\"{cwd}\",\"source\":{source}}}}}\n{{}}\n"
            );
            fs::write(&path, meta).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            let written = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(written).unwrap();
        };
        write("2026/11/30", "agent", "/work", "{\"subagent\":{}}", 1);
        write("2026/11/30", "exec", "/work", "\"exec\"", 2);
        write("2026/11/30", "old", "/work", "\"cli\"", 7200);
        assert_eq!(newest(&home, began, Path::new("/work")), None);
        write("2026/11/30", "elsewhere", "/other", "\"cli\"", 3);
        let found = newest(&home, began, Path::new("/work"));
        assert_eq!(found.as_deref(), Some("elsewhere"));
        write("2026/10/01", "resumed", "/work", "\"cli\"", 60);
        let found = newest(&home, began, Path::new("/work"));
        assert_eq!(found.as_deref(), Some("resumed"));
    }
}
