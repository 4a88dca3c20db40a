//! The folder of a browser that runs for one page.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io, thread};

use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::runtime::Handle;

/// How the names of the folders begin.
const PREFIX: &str = "respondent-browser-";
/// The file that is locked while a folder is used.
const LOCK: &str = "respondent.lock";
/// Its name until it is locked.
const NEW_LOCK: &str = "respondent.new";
/// A folder without a lock is being made, or deleted, for this long at most.
const UNLOCKED: Duration = Duration::from_hours(1);
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
        // It has its name once it is locked, so that nobody takes the folder for an abandoned one.
        let (new, name) = (folder.path().join(NEW_LOCK), folder.path().join(LOCK));
        let lock = File::create(&new)?;
        lock.lock()?;
        fs::rename(new, name)?;
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

/// Deletes this user's profiles in a folder that nobody uses.
fn delete_unlocked(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let user = geteuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_named = name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let about = entry.metadata().ok().filter(|_| is_named);
        if let Some(about) = about.filter(|it| it.is_dir() && it.uid() == user)
            && is_abandoned(&entry.path(), &about)
        {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Whether the process that has made a profile has ended.
fn is_abandoned(folder: &Path, about: &Metadata) -> bool {
    if let Ok(lock) = File::open(folder.join(LOCK)) {
        return lock.try_lock().is_ok();
    }
    let age = about.modified().ok().and_then(|it| it.elapsed().ok());
    age.is_some_and(|age| age > UNLOCKED)
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
