//! What each owner has used on the current day in UTC.

use rusqlite::{Connection, params};

use super::error::StoreError;

/// What an owner has used on a day.
#[derive(Clone, Debug, PartialEq)]
pub struct SpentRow {
    /// Days since 1970, in UTC.
    pub day: u64,
    /// The owner.
    pub owner: String,
    /// Tokens, input and output together.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
}

/// Replaces the sums of these owners and days, and deletes those of earlier days.
pub(super) fn set(connection: &mut Connection, rows: &[SpentRow]) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for row in rows {
        let tokens = i64::try_from(row.tokens).unwrap_or(i64::MAX);
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO spent (day, owner, tokens, cost) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![row.day, row.owner, tokens, row.cost])?;
        transaction
            .prepare_cached("DELETE FROM spent WHERE day < ?1")?
            .execute([row.day])?;
    }
    transaction.commit()?;
    Ok(())
}

/// The sums of a day.
pub(super) fn of_day(connection: &Connection, day: u64) -> Result<Vec<SpentRow>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT owner, tokens, cost FROM spent WHERE day = ?1")?;
    let rows = select.query_map([day], |row| {
        Ok(SpentRow {
            day,
            owner: row.get(0)?,
            tokens: row.get(1)?,
            cost: row.get(2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
