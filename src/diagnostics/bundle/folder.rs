//! The folder of stored bundles: one file for each turn, within limits.
//!
//! A file appears complete or not at all, even if the process is killed: it is
//! written under another name and renamed. Files with other names are ignored, and
//! links are never followed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::BundleTurn;
use super::timestamp::{format_timestamp, parse_timestamp};
use crate::config::Config;

const EXTENSION: &str = ".tar.zst";
/// Appended to the name of a file while it is being written.
const UNFINISHED_EXTENSION: &str = ".part";
/// The age from which an unfinished file counts as abandoned.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);

/// The folder of stored bundles. It is created with the first bundle.
#[derive(Debug, Clone)]
pub struct BundleFolder {
    path: PathBuf,
    limits: RetentionLimits,
}

/// How much the folder may hold; beyond these limits the oldest bundles are deleted.
#[derive(Debug, Clone, Copy)]
pub struct RetentionLimits {
    /// Number of files.
    pub files: usize,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Maximum time since the turn of a bundle began.
    pub age: Duration,
}

/// A file in the folder of stored bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBundle {
    /// The path of the file.
    pub path: PathBuf,
    /// See [`BundleTurn::request_id`]; taken from the name of the file.
    pub request_id: String,
    /// When the turn began, to the second.
    pub began: SystemTime,
    /// The size of the file in bytes.
    pub bytes: u64,
    modified: SystemTime,
}

impl BundleFolder {
    /// The folder and limits of a configuration.
    pub fn from_config(config: &Config) -> Self {
        let capture = &config.capture;
        let limits = RetentionLimits {
            files: capture.keep,
            bytes: capture.keep_size,
            age: Duration::from_hours(24 * u64::from(capture.keep_days)),
        };
        Self::new(config.server.bundles_dir(), limits)
    }

    /// A folder at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>, limits: RetentionLimits) -> Self {
        Self {
            path: path.into(),
            limits,
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores the bundle of one turn in a file that only its owner may read, after
    /// deleting the oldest bundles to stay within the limits. A bundle larger than the
    /// size limit of the whole folder is refused. Blocks until the data is on disk.
    pub fn write(&self, turn: &BundleTurn, bytes: &[u8], now: SystemTime) -> io::Result<PathBuf> {
        let size = bytes.len() as u64;
        if size > self.limits.bytes {
            let why = format!(
                "the bundle has {size} bytes, and {} may be kept",
                self.limits.bytes
            );
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        self.create_file()?;
        self.delete_excess(now, 1, size)?;
        let name = file_name(turn);
        let path = self.path.join(&name);
        let unfinished = self.path.join(name + UNFINISHED_EXTENSION);
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

    /// Deletes bundles beyond the limits, and abandoned unfinished files.
    pub fn prune(&self, now: SystemTime) -> io::Result<()> {
        self.delete_excess(now, 0, 0)
    }

    /// All stored bundles, newest first.
    pub fn list(&self) -> io::Result<Vec<StoredBundle>> {
        let mut all = Vec::new();
        self.for_each_file(|path, name, metadata| {
            if let Some((began, request_id)) = parse_file_name(name) {
                all.push(StoredBundle {
                    path,
                    request_id: request_id.to_owned(),
                    began,
                    bytes: metadata.len(),
                    modified: metadata.modified().unwrap_or(UNIX_EPOCH),
                });
            }
        })?;
        all.sort_by(|one, two| {
            let key = |it: &StoredBundle| (it.began, it.modified);
            key(two)
                .cmp(&key(one))
                .then_with(|| one.request_id.cmp(&two.request_id))
        });
        Ok(all)
    }

    /// Creates the folder if need be, and makes it accessible to its owner alone.
    fn create_file(&self) -> io::Result<()> {
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
                let why = format!("{} is not a folder", self.path.display());
                Err(io::Error::new(ErrorKind::NotADirectory, why))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the oldest bundles until `files` and `bytes` more fit into the limits.
    fn delete_excess(&self, now: SystemTime, files: usize, bytes: u64) -> io::Result<()> {
        let mut unfinished = Vec::new();
        self.for_each_file(|path, name, metadata| {
            let ours = name
                .strip_suffix(UNFINISHED_EXTENSION)
                .and_then(parse_file_name)
                .is_some();
            let written = metadata.modified().unwrap_or(UNIX_EPOCH);
            if ours && is_older(written, now, ABANDONED_AFTER) {
                unfinished.push(path);
            }
        })?;
        for path in unfinished {
            delete_file(&path)?;
        }
        let (mut files, mut bytes) = (files, bytes);
        for kept in self.list()? {
            files = files.saturating_add(1);
            bytes = bytes.saturating_add(kept.bytes);
            if files > self.limits.files
                || bytes > self.limits.bytes
                || is_older(kept.began, now, self.limits.age)
            {
                delete_file(&kept.path)?;
            }
        }
        Ok(())
    }

    /// Visits the regular files.
    fn for_each_file(&self, mut visit: impl FnMut(PathBuf, &str, &Metadata)) -> io::Result<()> {
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
            // For a link this is the metadata of the link, not of its target. A file
            // that was deleted meanwhile is skipped.
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

/// Creates a file, replacing one that an earlier process left unfinished.
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

fn delete_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_older(time: SystemTime, now: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|passed| passed > age)
}

/// `20260807-060504-req_….tar.zst`.
fn file_name(turn: &BundleTurn) -> String {
    let stamp = format_timestamp(turn.began_ms / 1000);
    format!("{stamp}-{}{EXTENSION}", sanitized_id(&turn.request_id))
}

/// Time and request id in the name of a stored bundle; `None` for other names.
fn parse_file_name(name: &str) -> Option<(SystemTime, &str)> {
    let (time, id) = name.strip_suffix(EXTENSION)?.split_at_checked(15)?;
    let id = id.strip_prefix('-')?;
    let began = UNIX_EPOCH.checked_add(Duration::from_secs(parse_timestamp(time)?))?;
    (id == sanitized_id(id)).then_some((began, id))
}

/// An id as part of a file name. Ids that the server made stay unchanged.
fn sanitized_id(id: &str) -> String {
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
