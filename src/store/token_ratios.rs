//! The bytes per token with which sessions began with a model, and those that they have shown.

use rusqlite::Connection;

use super::Store;
use super::error::StoreError;
use super::session_table::{SessionRow, SessionTable};
use crate::net::LOCAL_OWNER;

/// The most ratios that are kept. Beyond it the oldest of the owner who has most are forgotten.
pub const MAX_TOKEN_RATIOS: usize = 4096;

/// The ratios: the session of a row is one with a model.
pub(super) static TOKEN_RATIOS: SessionTable = SessionTable {
    name: "token_ratios",
    text: "ratio",
    max_of_session: 1,
    max_rows: MAX_TOKEN_RATIOS,
    max_bytes: 4 << 20,
};

/// A ratio as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRatio {
    /// The owner.
    pub owner: String,
    /// The session with its model, and its ratios, as JSON.
    pub ratio: String,
    /// The time of its last use, in seconds since 1970.
    pub accessed: u64,
}

impl Store {
    /// Stores the bytes per token of a session with a model. False if the queue is full. Never
    /// blocks.
    pub fn put_token_ratio(&self, ratio: SessionRow) -> bool {
        self.try_change(move |connection| TOKEN_RATIOS.put(connection, &ratio))
    }

    /// The bytes per token of all sessions, the one that was stored last at the end.
    pub async fn token_ratios(&self) -> Result<Vec<StoredRatio>, StoreError> {
        self.read_small(LOCAL_OWNER, |reading, _| all(reading))
            .await
    }

    /// Forgets what requests to a provider have shown of its tokens, unless the queue is full.
    /// Never blocks.
    pub fn forget_shown_ratios(&self, provider: &str) {
        let provider = provider.to_owned();
        self.try_change(move |connection| forget_shown(connection, &provider));
    }
}

/// All ratios, the one that was stored last at the end.
pub(super) fn all(connection: &Connection) -> Result<Vec<StoredRatio>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT owner, ratio, accessed FROM token_ratios ORDER BY number")?;
    let rows = select.query_map([], |row| {
        Ok(StoredRatio {
            owner: row.get(0)?,
            ratio: row.get(1)?,
            accessed: row.get(2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Forgets what requests to a provider have shown. In a transaction.
pub(super) fn forget_shown(connection: &Connection, provider: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE token_ratios SET ratio = json_set(ratio, '$[1].shown', NULL)
             WHERE ratio ->> '$[0].provider' = ?1",
        )?
        .execute([provider])?;
    Ok(())
}
