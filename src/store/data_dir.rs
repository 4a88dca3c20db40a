//! Where the database is. The folder and all in it are the owner's alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What `SQLite` appends to the name of a database for the files beside it.
const BESIDE: [&str; 3] = ["", "-wal", "-shm"];

/// The files of the store. They need not exist.
#[derive(Clone, Debug)]
pub struct DataDir {
    data_dir: PathBuf,
}

/// Who may write in a data directory: one program at a time, until this is dropped.
#[derive(Debug)]
pub struct DataDirLock(#[expect(dead_code, reason = "the lock goes with it")] File);

/// Another program has the data directory.
#[derive(Debug, thiserror::Error)]
#[error("the data directory {} is in use by another respondent", .0.display())]
pub struct DataDirInUse(pub PathBuf);

impl DataDir {
    /// The files of this data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
        }
    }

    /// The database.
    pub fn database_path(&self) -> PathBuf {
        self.folder().join("artifacts.db")
    }

    /// Claims the data directory. The error within is that of the disk.
    pub fn lock(&self) -> Result<io::Result<DataDirLock>, DataDirInUse> {
        let opened = create_private_dir(&self.data_dir).and_then(|()| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(self.data_dir.join("respondent.lock"))
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        match file.try_lock() {
            Ok(()) => Ok(Ok(DataDirLock(file))),
            Err(TryLockError::WouldBlock) => Err(DataDirInUse(self.data_dir.clone())),
            Err(TryLockError::Error(error)) => Ok(Err(error)),
        }
    }

    /// Makes the folder and an empty database, whose permissions the files beside
    /// it get as well.
    pub(super) fn create_files(&self) -> io::Result<()> {
        create_private_dir(&self.data_dir)?;
        let folder = self.folder();
        create_private_dir(&folder)?;
        set_mode(&folder, 0o700)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.database_path())?;
        for path in self.files() {
            match set_mode(&path, 0o600) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Moves the database aside; tells where it is now.
    pub(super) fn move_aside(&self, now: u64) -> io::Result<PathBuf> {
        let free = |attempt: &u32| !self.moved_aside_path(now, *attempt, "").exists();
        let attempt = (0..1000).find(free).unwrap_or_default();
        for ending in BESIDE {
            match fs::rename(self.file_beside(ending), self.moved_aside_path(now, attempt, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(self.moved_aside_path(now, attempt, ""))
    }

    /// The sign that the database was found damaged, which is looked into at the
    /// next start.
    pub(super) fn damage_marker(&self) -> PathBuf {
        self.file_beside(".doubt")
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        BESIDE.into_iter().map(|ending| self.file_beside(ending))
    }

    fn file_beside(&self, ending: &str) -> PathBuf {
        self.folder().join(format!("artifacts.db{ending}"))
    }

    fn moved_aside_path(&self, now: u64, attempt: u32, ending: &str) -> PathBuf {
        let again = match attempt {
            0 => String::new(),
            attempt => format!("-{attempt}"),
        };
        let name = format!("artifacts.damaged-{now}{again}.db{ending}");
        self.folder().join(name)
    }

    fn folder(&self) -> PathBuf {
        self.data_dir.join("artifacts")
    }
}

fn create_private_dir(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    if path.metadata()?.permissions().mode() & 0o777 != mode {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}
