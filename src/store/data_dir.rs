//! The data directory: where the database is, and the lock that lets one process at a time write
//! to it. Everything in it can be read by its owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The suffixes of the database file and of the files that `SQLite` keeps beside it.
const DATABASE_SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The bytes of the reserve: room for what the write-ahead log usually has at most, and for a
/// change.
const RESERVE_BYTES: usize = 5 << 20;

/// A data directory, which need not exist yet.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
}

/// An exclusive lock on a data directory. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct DataDirLock(File);

impl Drop for DataDirLock {
    fn drop(&mut self) {
        // A process that is being started has the open file too, until it becomes another program.
        self.0.unlock().ok();
    }
}

/// Another process has locked the data directory.
#[derive(Debug, thiserror::Error)]
#[error("the data directory {} is in use by another Respondent", .0.display())]
pub struct DataDirInUse(
    /// The data directory.
    pub PathBuf,
);

impl DataDir {
    /// The data directory at this path. Nothing is created.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the database.
    pub fn database_path(&self) -> PathBuf {
        self.folder().join("artifacts.db")
    }

    /// The size of the database with the files beside it, in bytes; 0 if there is none.
    pub fn database_bytes(&self) -> u64 {
        let sizes = DATABASE_SUFFIXES.iter().map(|suffix| {
            let metadata = self.file_beside(suffix).metadata();
            metadata.map_or(0, |metadata| metadata.len())
        });
        sizes.sum()
    }

    /// Locks the data directory, and creates it if it does not exist. The inner error is an I/O
    /// error, such as a read-only file system.
    pub(super) fn lock(&self) -> Result<io::Result<DataDirLock>, DataDirInUse> {
        let path = self.path.join("respondent.lock");
        let opened = create_private_dir(&self.path)
            .and_then(|()| restrict_if_owned(&self.path, 0o700))
            .and_then(|()| {
                OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(&path)
            })
            // A file that cannot be written can still be locked.
            .or_else(|error| File::open(&path).map_err(|_| error))
            .and_then(|file| restrict_if_owned(&path, 0o600).map(|()| file));
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        match file.try_lock() {
            Ok(()) => Ok(Ok(DataDirLock(file))),
            Err(TryLockError::WouldBlock) => Err(DataDirInUse(self.path.clone())),
            Err(TryLockError::Error(error)) => Ok(Err(error)),
        }
    }

    /// Creates the folder and an empty database file with private permissions. `SQLite` gives the
    /// files beside it the same permissions.
    pub(super) fn create_files(&self) -> io::Result<()> {
        create_private_dir(&self.path)?;
        let folder = self.folder();
        create_private_dir(&folder)?;
        set_mode(&folder, 0o700)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.database_path())?;
        for suffix in DATABASE_SUFFIXES {
            match set_mode(&self.file_beside(suffix), 0o600) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Creates the reserve, if it is not there and the disk has room for it: a file that is given
    /// up when something is to be deleted on a full disk, because deleting needs some room.
    pub(super) fn keep_reserve(&self) {
        let path = self.reserve_path();
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let Ok(mut file) = opened else {
            return;
        };
        // File systems store zeros as holes.
        let bytes = vec![0x5a; RESERVE_BYTES];
        if file.write_all(&bytes).is_err() {
            fs::remove_file(path).ok();
        }
    }

    /// Deletes the reserve. False if there is none.
    pub(super) fn give_up_reserve(&self) -> bool {
        fs::remove_file(self.reserve_path()).is_ok()
    }

    fn reserve_path(&self) -> PathBuf {
        self.folder().join("reserve")
    }

    /// The bytes of the write-ahead log.
    pub(super) fn log_bytes(&self) -> u64 {
        let metadata = self.file_beside("-wal").metadata();
        metadata.map_or(0, |metadata| metadata.len())
    }

    /// Renames a damaged database and returns its new path.
    pub(super) fn move_aside(&self, now: u64) -> io::Result<PathBuf> {
        let is_free = |attempt: &u32| !self.moved_aside_path(now, *attempt, "").exists();
        let attempt = (0..1000).find(is_free).unwrap_or_default();
        for suffix in DATABASE_SUFFIXES {
            match fs::rename(
                self.file_beside(suffix),
                self.moved_aside_path(now, attempt, suffix),
            ) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(self.moved_aside_path(now, attempt, ""))
    }

    /// Deletes the damaged databases that were moved aside.
    pub(super) fn remove_moved_aside(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.folder())? {
            let entry = entry?;
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b"artifacts.damaged-") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// An empty file that marks the database as possibly damaged. The next start checks the
    /// database if the file exists.
    pub(super) fn damage_marker(&self) -> PathBuf {
        self.file_beside(".doubt")
    }

    fn file_beside(&self, suffix: &str) -> PathBuf {
        self.folder().join(format!("artifacts.db{suffix}"))
    }

    fn moved_aside_path(&self, now: u64, attempt: u32, suffix: &str) -> PathBuf {
        let number = match attempt {
            0 => String::new(),
            attempt => format!("-{attempt}"),
        };
        let name = format!("artifacts.damaged-{now}{number}.db{suffix}");
        self.folder().join(name)
    }

    fn folder(&self) -> PathBuf {
        self.path.join("artifacts")
    }
}

fn create_private_dir(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Sets the mode of something that may have been there before. Only its owner can, and a file of
/// another user may be used with the mode that it has.
fn restrict_if_owned(path: &Path, mode: u32) -> io::Result<()> {
    match set_mode(path, mode) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(())
        }
        set => set,
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    if path.metadata()?.permissions().mode() & 0o777 != mode {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}
