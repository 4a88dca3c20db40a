//! What can go wrong with the database.

use std::io;

use rusqlite::ErrorCode;

/// Why the store cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refuses.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Its files cannot be made or moved.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A newer version of the program wrote it.
    #[error("it was written by a newer version of Respondent (schema {0})")]
    Newer(i64),
    /// What was stored does not fit together.
    #[error("what is stored is damaged: {0}")]
    Damaged(&'static str),
    /// The thread that writes is gone.
    #[error("it is closed")]
    Closed,
}

impl StoreError {
    /// Whether the file is no sound database.
    pub(super) fn is_corrupt(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Self::Damaged(_) => true,
            Self::Io(_) | Self::Newer(_) | Self::Closed => false,
        }
    }
}
