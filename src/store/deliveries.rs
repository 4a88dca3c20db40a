//! The background responses that have ended and that a webhook has not been told of yet.
//!
//! A delivery is stored with the end of its response, in one transaction, and goes with the
//! response.

use rusqlite::{Connection, params};

use super::{Store, StoreError};
use crate::net::LOCAL_OWNER;

/// The most deliveries of one webhook that wait; further ones are not stored.
const MAX_WAITING: u64 = 10_000;

/// A delivery that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingDelivery {
    /// The number of the row of the response.
    pub response: i64,
    /// The id of the response.
    pub id: String,
    /// The status of the response, which is final.
    pub status: String,
    /// When the response ended, in seconds since 1970.
    pub ended: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next, in seconds since 1970.
    pub due: u64,
}

impl Store {
    /// The deliveries of a webhook that are due first.
    pub async fn next_deliveries(
        &self,
        webhook: &str,
        limit: usize,
    ) -> Result<Vec<WaitingDelivery>, StoreError> {
        let webhook = webhook.to_owned();
        self.read_small(LOCAL_OWNER, move |reading, _| {
            let mut select = reading.prepare_cached(SELECT_NEXT)?;
            let rows = select.query_map(params![webhook, limit], |row| {
                let ended_ms: u64 = row.get(3)?;
                Ok(WaitingDelivery {
                    response: row.get(0)?,
                    id: row.get(1)?,
                    status: row.get(2)?,
                    ended: ended_ms / 1_000,
                    attempts: row.get(4)?,
                    due: row.get(5)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// How many deliveries of a webhook wait.
    pub async fn count_deliveries(&self, webhook: &str) -> Result<u64, StoreError> {
        let webhook = webhook.to_owned();
        self.read_small(LOCAL_OWNER, move |reading, _| waiting(reading, &webhook))
            .await
    }

    /// Deletes a delivery, because it was taken or given up.
    pub async fn end_delivery(&self, webhook: &str, response: i64) -> Result<(), StoreError> {
        let webhook = webhook.to_owned();
        self.write_with(move |writer| {
            let mut delete = writer
                .connection
                .prepare_cached("DELETE FROM deliveries WHERE response = ?1 AND webhook = ?2")?;
            delete.execute(params![response, webhook])?;
            Ok(())
        })
        .await
    }

    /// Records that an attempt has failed, and when the next one is due.
    pub async fn postpone_delivery(
        &self,
        webhook: &str,
        response: i64,
        attempts: u32,
        due: u64,
    ) -> Result<(), StoreError> {
        let webhook = webhook.to_owned();
        self.write_with(move |writer| {
            let mut update = writer.connection.prepare_cached(
                "UPDATE deliveries SET attempts = ?3, due = ?4 WHERE response = ?1 AND webhook = ?2",
            )?;
            update.execute(params![response, webhook, attempts, due])?;
            Ok(())
        })
        .await
    }
}

/// The deliveries of a webhook that are due first.
pub(super) const SELECT_NEXT: &str =
    "SELECT deliveries.response, responses.id, responses.status, jobs.ended, attempts, due
     FROM deliveries
         JOIN responses ON responses.number = deliveries.response
         JOIN jobs ON jobs.response = deliveries.response
     WHERE webhook = ?1 AND jobs.ended IS NOT NULL ORDER BY due LIMIT ?2";

/// Stores a delivery to each of these webhooks, due at once. Returns those for which too many wait
/// already.
pub(super) fn create(
    connection: &Connection,
    response: i64,
    webhooks: &[String],
    now: u64,
) -> Result<Vec<String>, StoreError> {
    let mut refused = Vec::new();
    for webhook in webhooks {
        if waiting(connection, webhook)? >= MAX_WAITING {
            refused.push(webhook.clone());
            continue;
        }
        let mut insert = connection.prepare_cached(
            "INSERT INTO deliveries (response, webhook, attempts, due) VALUES (?1, ?2, 0, ?3)",
        )?;
        insert.execute(params![response, webhook, now])?;
    }
    Ok(refused)
}

fn waiting(connection: &Connection, webhook: &str) -> Result<u64, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT count(*) FROM deliveries WHERE webhook = ?1")?;
    Ok(select.query_row([webhook], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::*;

    #[test]
    fn the_deliveries_that_wait_for_a_webhook_are_limited() {
        let connection = in_memory();
        connection
            .execute_batch(&format!(
                "PRAGMA foreign_keys = OFF;
                 WITH RECURSIVE numbers (n) AS
                     (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MAX_WAITING} - 1)
                 INSERT INTO deliveries SELECT n, 'down', 3, 0 FROM numbers;"
            ))
            .unwrap();
        let both = ["down".to_owned(), "up".to_owned()];
        let last = i64::try_from(MAX_WAITING).unwrap();
        assert!(create(&connection, last, &both, 7).unwrap().is_empty());
        assert_eq!(create(&connection, last + 1, &both, 7).unwrap(), ["down"]);
        assert_eq!(waiting(&connection, "down").unwrap(), MAX_WAITING);
        assert_eq!(waiting(&connection, "up").unwrap(), 2);
    }
}
