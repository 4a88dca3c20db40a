//! The folder of kept bundles: a file for each turn, and limits.
//!
//! A file is there whole or not at all, however the program ends. Only files
//! whose names are ours are looked at, and links are never followed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Turn;
use super::stamp::{stamp, unix};
use crate::config::Config;

const ENDING: &str = ".tar.zst";
/// Of a file that is being written.
const UNFINISHED: &str = ".part";
/// The age at which nobody writes a file any more.
const LEFT_BEHIND: Duration = Duration::from_hours(1);

/// The folder of kept bundles. It need not exist.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    limits: Limits,
}

/// How much is kept; beyond it the oldest goes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many files.
    pub files: usize,
    /// How many bytes all of them take.
    pub bytes: u64,
    /// How long a file is kept after its turn began.
    pub age: Duration,
}

/// A kept bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// See [`Turn::request_id`].
    pub request_id: String,
    /// When the turn began, to the second.
    pub began: SystemTime,
    /// The size of the file.
    pub bytes: u64,
    written: SystemTime,
}

impl Folder {
    /// The folder of this configuration.
    pub fn of(config: &Config) -> Self {
        let capture = &config.capture;
        let limits = Limits {
            files: capture.keep,
            bytes: capture.keep_size,
            age: Duration::from_hours(24 * u64::from(capture.keep_days)),
        };
        Self::new(config.server.bundles_dir(), limits)
    }

    /// A folder at this place. It need not exist.
    pub fn new(path: impl Into<PathBuf>, limits: Limits) -> Self {
        Self {
            path: path.into(),
            limits,
        }
    }

    /// Its place.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the bundle of one turn, in a file that its owner alone may read,
    /// and makes room for it before. One that is larger than all that may be
    /// kept is refused. It waits for the disk.
    pub fn put(&self, turn: &Turn, bytes: &[u8], now: SystemTime) -> io::Result<PathBuf> {
        let size = bytes.len() as u64;
        if size > self.limits.bytes {
            let why = format!(
                "the bundle has {size} bytes, and {} may be kept",
                self.limits.bytes
            );
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        self.make()?;
        self.limit(now, 1, size)?;
        let name = file_name(turn);
        let path = self.path.join(&name);
        let unfinished = self.path.join(name + UNFINISHED);
        let written = create(&unfinished).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_data()?;
            fs::rename(&unfinished, &path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written.map(|()| path)
    }

    /// Deletes what is beyond the limits, and files that were never finished.
    pub fn prune(&self, now: SystemTime) -> io::Result<()> {
        self.limit(now, 0, 0)
    }

    /// All of them, the newest first.
    pub fn list(&self) -> io::Result<Vec<Kept>> {
        let mut all = Vec::new();
        self.each(|path, name, metadata| {
            if let Some((began, request_id)) = parse(name) {
                all.push(Kept {
                    path,
                    request_id: request_id.to_owned(),
                    began,
                    bytes: metadata.len(),
                    written: metadata.modified().unwrap_or(UNIX_EPOCH),
                });
            }
        })?;
        all.sort_by(|one, two| {
            let key = |it: &Kept| (it.began, it.written);
            key(two)
                .cmp(&key(one))
                .then_with(|| one.request_id.cmp(&two.request_id))
        });
        Ok(all)
    }

    /// Makes the folder, or makes it the owner's alone.
    fn make(&self) -> io::Result<()> {
        if !self.exists()? {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.path)?;
        }
        let metadata = fs::symlink_metadata(&self.path)?;
        if metadata.permissions().mode() & 0o777 != 0o700 {
            fs::set_permissions(&self.path, Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    fn exists(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => Ok(true),
            Ok(_) => {
                let why = format!("{} is no folder", self.path.display());
                Err(io::Error::new(ErrorKind::NotADirectory, why))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes until so many more files and bytes are within the limits.
    fn limit(&self, now: SystemTime, files: usize, bytes: u64) -> io::Result<()> {
        let mut unfinished = Vec::new();
        self.each(|path, name, metadata| {
            let ours = name.strip_suffix(UNFINISHED).and_then(parse).is_some();
            let written = metadata.modified().unwrap_or(UNIX_EPOCH);
            if ours && is_older(written, now, LEFT_BEHIND) {
                unfinished.push(path);
            }
        })?;
        for path in unfinished {
            delete(&path)?;
        }
        let (mut files, mut bytes) = (files, bytes);
        for kept in self.list()? {
            files = files.saturating_add(1);
            bytes = bytes.saturating_add(kept.bytes);
            if files > self.limits.files
                || bytes > self.limits.bytes
                || is_older(kept.began, now, self.limits.age)
            {
                delete(&kept.path)?;
            }
        }
        Ok(())
    }

    /// The regular files.
    fn each(&self, mut visit: impl FnMut(PathBuf, &str, &Metadata)) -> io::Result<()> {
        if !self.exists()? {
            return Ok(());
        }
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            // The metadata of an entry is that of a link, not of its target. Who
            // is gone meanwhile is not counted.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if let (true, Some(name)) = (metadata.is_file(), entry.file_name().to_str()) {
                visit(entry.path(), name, &metadata);
            }
        }
        Ok(())
    }
}

/// A new file, in the place of one that was never finished.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

fn delete(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_older(time: SystemTime, now: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|passed| passed > age)
}

/// `20260807-060504-req_….tar.zst`.
fn file_name(turn: &Turn) -> String {
    let stamp = stamp(turn.began_ms / 1000);
    format!("{stamp}-{}{ENDING}", safe(&turn.request_id))
}

/// What a name of ours tells: the time and the request's id.
fn parse(name: &str) -> Option<(SystemTime, &str)> {
    let (time, id) = name.strip_suffix(ENDING)?.split_at_checked(15)?;
    let id = id.strip_prefix('-')?;
    let began = UNIX_EPOCH.checked_add(Duration::from_secs(unix(time)?))?;
    (id == safe(id)).then_some((began, id))
}

/// An id as it stands in a name: ours stay as they are.
fn safe(id: &str) -> String {
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let id: String = id
        .chars()
        .map(|c| if is_safe(&c) { c } else { '_' })
        .take(100)
        .collect();
    if id.is_empty() { "_".to_owned() } else { id }
}

#[cfg(test)]
mod tests;
