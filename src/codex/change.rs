//! Changes to files that are decided before any of them is made, so that what cannot be done is
//! known while everything is as it was.

use std::path::PathBuf;

use super::file::{self, FileError};

/// A file that is to be written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// Its new text; `None` if it is to be deleted.
    pub text: Option<String>,
}

impl FileChange {
    /// The file gets this text.
    pub fn write(path: PathBuf, text: String) -> Self {
        let text = Some(text);
        Self { path, text }
    }

    /// The file is deleted.
    pub fn delete(path: PathBuf) -> Self {
        Self { path, text: None }
    }

    /// Fails if the user has protected the file.
    pub fn check(&self) -> Result<(), FileError> {
        match self.text {
            Some(_) => file::check_writable(&self.path),
            None => Ok(()),
        }
    }

    /// Makes the change. A file that is to be deleted may be missing.
    pub fn apply(&self) -> Result<(), FileError> {
        match &self.text {
            Some(text) => file::write(&self.path, text),
            None => file::remove(&self.path).map(drop),
        }
    }
}
