//! Reads and replaces a file of Codex's.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that cannot be read or written. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read, or is not text.
    #[error("{} cannot be read", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{} cannot be written", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The user has protected the file.
    #[error("{} is read-only; make it writable first", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
}

/// The text of a file; `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // A link to a file that is missing is not an absent file: writing would replace the link.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(source) => Err(FileError::NotRead {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Replaces a file as a whole, so that a Codex that starts meanwhile reads either text. A link
/// stays a link, and an existing file keeps its permissions. A new file is readable by its owner
/// alone.
pub(super) fn write(path: &Path, text: &str) -> Result<(), FileError> {
    let failed = |source| FileError::NotWritten {
        path: path.to_owned(),
        source,
    };
    let target = if path.is_symlink() {
        fs::canonicalize(path).map_err(failed)?
    } else {
        path.to_owned()
    };
    check_writable(path)?;
    let permissions = permissions(&target).map_err(failed)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    new.write_all(text.as_bytes()).map_err(failed)?;
    if let Some(permissions) = permissions {
        new.as_file().set_permissions(permissions).map_err(failed)?;
    }
    new.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Fails if the user has made the file read-only.
pub(super) fn check_writable(path: &Path) -> Result<(), FileError> {
    match permissions(path) {
        Ok(Some(permissions)) if permissions.readonly() => Err(FileError::ReadOnly {
            path: path.to_owned(),
        }),
        // Any other fault is found when the file is written.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn permissions(path: &Path) -> io::Result<Option<Permissions>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes a file. True if there was one.
pub(super) fn remove(path: &Path) -> Result<bool, FileError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(FileError::NotWritten {
            path: path.to_owned(),
            source,
        }),
    }
}
