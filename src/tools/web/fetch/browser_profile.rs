//! The folder of a browser that runs for one page.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io, thread};

use tempfile::TempDir;
use tokio::runtime::Handle;

/// How the names of the folders begin.
const PREFIX: &str = "respondent-browser-";
/// The file that is locked while a folder is used.
const LOCK: &str = "respondent.lock";
/// How often a folder is deleted whose last processes are just ending, and how long it waits.
const DELETIONS: u32 = 100;
const DELETION_PAUSE: Duration = Duration::from_millis(20);

/// The folder of one browser. It is deleted when it is dropped, which is after the browser was
/// ended.
pub(super) struct BrowserProfile {
    pub(super) path: PathBuf,
    folder: Option<TempDir>,
    /// The system unlocks it when the process ends, however that happens.
    _lock: File,
}

impl BrowserProfile {
    pub(super) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self {
            path: folder.path().to_owned(),
            folder: Some(folder),
            _lock: lock,
        })
    }

    /// Deletes the folders of processes that have ended without deleting them.
    pub(super) fn delete_abandoned() {
        delete_unlocked(&env::temp_dir());
    }
}

impl Drop for BrowserProfile {
    fn drop(&mut self) {
        if let (Some(folder), Ok(runtime)) = (self.folder.take(), Handle::try_current()) {
            runtime.spawn_blocking(move || delete(folder));
        }
    }
}

/// Processes that were ended a moment ago may still write.
fn delete(folder: TempDir) {
    let path = folder.keep();
    for _ in 0..DELETIONS {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(DELETION_PAUSE),
            _ => return,
        }
    }
    tracing::warn!(folder = %path.display(), "the profile of a browser was not deleted");
}

/// Deletes the profiles in a folder that nobody uses. Those of other users cannot be deleted, and
/// one without a lock is just being made.
fn delete_unlocked(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let is_profile = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
    };
    for entry in entries.flatten().filter(is_profile) {
        let path = entry.path();
        let lock = OpenOptions::new().write(true).open(path.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            fs::remove_dir_all(path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The profile of a browser is deleted by the next program that starts one, if the one
    /// that made it was killed.
    #[test]
    fn profiles_that_nobody_uses_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let profile = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let abandoned = profile("respondent-browser-a");
        File::create(abandoned.join(LOCK)).unwrap();
        File::create(abandoned.join("cookies")).unwrap();
        let used = profile("respondent-browser-b");
        let lock = File::create(used.join(LOCK)).unwrap();
        lock.lock().unwrap();
        let new = profile("respondent-browser-c");
        let other = profile("respondent-d");
        File::create(other.join(LOCK)).unwrap();
        delete_unlocked(folder.path());
        let left = [abandoned, used, new, other].map(|path| path.exists());
        assert_eq!(left, [false, true, true, true]);
    }
}
