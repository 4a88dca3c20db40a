//! The errors of the store.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

use super::DataDirInUse;
use crate::net::memory::MemoryFull;

/// The reason why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the data directory.
    #[error(transparent)]
    InUse(#[from] DataDirInUse),
    /// The database cannot be used.
    #[error(transparent)]
    Unusable(#[from] UnusableStore),
}

/// A database that cannot be used, because of its files or its content.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {error}", .database.display())]
pub struct UnusableStore {
    /// The path of the database.
    pub database: PathBuf,
    /// The reason.
    pub error: StoreError,
}

/// The reason why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `SQLite` refused.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A file could not be created, opened or renamed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A newer version of the program wrote the database, with this schema version.
    #[error("it was written by a newer version of Respondent (schema {0})")]
    Newer(i64),
    /// The database is of an older version of the program, with this schema version, and is only
    /// read.
    #[error("it was written by an older version of Respondent (schema {0}); start the server once")]
    Older(i64),
    /// The content of the database is inconsistent.
    #[error("what is stored is damaged: {0}")]
    Damaged(&'static str),
    /// What is to be continued was deleted meanwhile.
    #[error("what it continues was deleted")]
    Gone,
    /// A thread has no room for another item.
    #[error("it has too many items")]
    TooLong,
    /// There is no memory for what is to be read, `needed` bytes in all. Nothing is wrong with what
    /// is stored.
    #[error("{full}")]
    NoMemory {
        /// The bytes of the whole read that are known so far.
        needed: usize,
        /// Why there is none.
        full: MemoryFull,
    },
    /// It took too long, or its result was not wanted any more.
    #[error("it took too long")]
    Stopped,
    /// The writer thread has ended.
    #[error("it is closed")]
    Closed,
}

impl StoreError {
    /// Whether the disk is full or broken, or the files cannot be written. What is stored may still
    /// be readable.
    pub(super) fn is_unwritable(&self) -> bool {
        match self {
            Self::Io(_) => true,
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                )
            ),
            Self::Newer(_)
            | Self::Older(_)
            | Self::Damaged(_)
            | Self::Gone
            | Self::TooLong
            | Self::NoMemory { .. }
            | Self::Stopped
            | Self::Closed => false,
        }
    }

    /// Whether another program has locked the database.
    pub(super) fn is_locked(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ),
            Self::Io(_)
            | Self::Newer(_)
            | Self::Older(_)
            | Self::Damaged(_)
            | Self::Gone
            | Self::TooLong
            | Self::NoMemory { .. }
            | Self::Stopped
            | Self::Closed => false,
        }
    }

    /// Whether the database itself is damaged, so that a new one has to take its place.
    pub(super) fn is_corrupt(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Self::Damaged(_) => true,
            Self::Io(_)
            | Self::Newer(_)
            | Self::Older(_)
            | Self::Gone
            | Self::TooLong
            | Self::NoMemory { .. }
            | Self::Stopped
            | Self::Closed => false,
        }
    }
}
