//! What each owner has used on the current day in UTC.

use rusqlite::{Connection, params};

use super::Store;
use super::error::StoreError;
use super::time_in_use::SELECT_DAY;
use crate::net::LOCAL_OWNER;

/// What an owner has used on a day, or what is added to that.
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
    /// Searches of the web.
    pub searches: u64,
    /// Pages of the web.
    pub pages: u64,
}

/// The largest sum of what is counted, so that sums never overflow.
const MAX_COUNT: u64 = 1 << 53;

impl Store {
    /// Adds to what owners have used on a day.
    pub async fn add_spent(&self, rows: Vec<SpentRow>) -> Result<(), StoreError> {
        self.change(move |connection| rows.iter().try_for_each(|row| add(connection, row)))
            .await
    }

    /// What owners have used on a day, in days since 1970 in UTC.
    pub async fn spent_on(&self, day: u64) -> Result<Vec<SpentRow>, StoreError> {
        self.read_small(LOCAL_OWNER, move |reading, _| of_day(reading, day))
            .await
    }
}

/// Adds to the sum of an owner and a day, and deletes the sums of earlier days.
pub(super) fn add(connection: &Connection, row: &SpentRow) -> Result<(), StoreError> {
    let [tokens, searches, pages] =
        [row.tokens, row.searches, row.pages].map(|count| count.min(MAX_COUNT));
    connection
        .prepare_cached(
            "INSERT INTO spent (day, owner, tokens, cost, searches, pages)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (day, owner) DO UPDATE
             SET tokens = min(tokens + excluded.tokens, ?7), cost = cost + excluded.cost,
                 searches = min(searches + excluded.searches, ?7),
                 pages = min(pages + excluded.pages, ?7)",
        )?
        .execute(params![
            row.day, row.owner, tokens, row.cost, searches, pages, MAX_COUNT
        ])?;
    connection
        .prepare_cached(&format!(
            "DELETE FROM spent WHERE day < min(?1, coalesce({SELECT_DAY}, ?1))"
        ))?
        .execute([row.day])?;
    Ok(())
}

/// The sums of a day.
pub(super) fn of_day(connection: &Connection, day: u64) -> Result<Vec<SpentRow>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT owner, tokens, cost, searches, pages FROM spent WHERE day = ?1")?;
    let rows = select.query_map([day], |row| {
        Ok(SpentRow {
            day,
            owner: row.get(0)?,
            tokens: row.get(1)?,
            cost: row.get(2)?,
            searches: row.get(3)?,
            pages: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::*;

    #[test]
    fn what_was_used_is_added_up_and_earlier_days_are_deleted() {
        let connection = in_memory();
        let row = |day, tokens| SpentRow {
            day,
            owner: "alice".to_owned(),
            tokens,
            cost: 0.25,
            searches: 2,
            pages: 3,
        };
        for row in [row(7, 10), row(7, 20), row(8, 1), row(8, u64::MAX)] {
            add(&connection, &row).unwrap();
        }
        assert_eq!(of_day(&connection, 7).unwrap(), []);
        let mut sum = row(8, MAX_COUNT);
        (sum.cost, sum.searches, sum.pages) = (0.5, 4, 6);
        assert_eq!(of_day(&connection, 8).unwrap(), [sum.clone()]);
        // What was used is known again when a clock that has jumped forward is set back.
        let time = "INSERT INTO time_in_use VALUES (1, 8 * 86400)";
        connection.execute_batch(time).unwrap();
        add(&connection, &row(48, 1)).unwrap();
        assert_eq!(of_day(&connection, 8).unwrap(), [sum]);
    }
}
