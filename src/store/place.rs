//! Where the database is. The folder and all in it are the owner's alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What `SQLite` appends to the name of a database for the files beside it.
const BESIDE: [&str; 3] = ["", "-wal", "-shm"];

/// The files of the store. They need not exist.
#[derive(Clone, Debug)]
pub struct Place {
    data_dir: PathBuf,
}

/// Who may write in a data directory: one program at a time, until this is dropped.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "the lock goes with it")] File);

/// Another program has the data directory.
#[derive(Debug, thiserror::Error)]
#[error("the data directory {} is in use by another respondent", .0.display())]
pub struct InUse(pub PathBuf);

impl Place {
    /// The files of this data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
        }
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.folder().join("artifacts.db")
    }

    /// Claims the data directory. The error within is that of the disk.
    pub fn claim(&self) -> Result<io::Result<Claim>, InUse> {
        let opened = make(&self.data_dir).and_then(|()| {
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
            Ok(()) => Ok(Ok(Claim(file))),
            Err(TryLockError::WouldBlock) => Err(InUse(self.data_dir.clone())),
            Err(TryLockError::Error(error)) => Ok(Err(error)),
        }
    }

    /// Makes the folder and an empty database, whose permissions the files beside
    /// it get as well.
    pub(super) fn prepare(&self) -> io::Result<()> {
        make(&self.data_dir)?;
        let folder = self.folder();
        make(&folder)?;
        private(&folder, 0o700)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.database())?;
        for path in self.files() {
            match private(&path, 0o600) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Moves the database aside; tells where it is now.
    pub(super) fn move_aside(&self, now: u64) -> io::Result<PathBuf> {
        let free = |attempt: &u32| !self.aside(now, *attempt, "").exists();
        let attempt = (0..).find(free).unwrap_or_default();
        for ending in BESIDE {
            match fs::rename(self.beside(ending), self.aside(now, attempt, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(self.aside(now, attempt, ""))
    }

    /// The sign that the database was found damaged, which is looked into at the
    /// next start.
    pub(super) fn doubt(&self) -> PathBuf {
        self.beside(".doubt")
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        BESIDE.into_iter().map(|ending| self.beside(ending))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.folder().join(format!("artifacts.db{ending}"))
    }

    fn aside(&self, now: u64, attempt: u32, ending: &str) -> PathBuf {
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

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn private(path: &Path, mode: u32) -> io::Result<()> {
    if path.metadata()?.permissions().mode() & 0o777 != mode {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}
