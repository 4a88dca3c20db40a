//! What webhooks have not been told yet of background responses.
//!
//! A delivery of the end of a response is stored with that, in one transaction. All go with their
//! response.

use rusqlite::{Connection, params};

use super::{Store, StoreError};
use crate::net::LOCAL_OWNER;

/// The most deliveries of one webhook that wait; further ones are not stored.
const MAX_WAITING: u64 = 10_000;

/// An event that a webhook is to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// The name of the webhook.
    pub webhook: String,
    /// The id of the event, the same for all webhooks.
    pub event: String,
    /// The event as JSON.
    pub body: String,
}

/// A delivery that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingDelivery {
    /// The number of the row of the response.
    pub response: i64,
    /// The id of the response.
    pub response_id: String,
    /// The id of the event.
    pub event: String,
    /// The event as JSON, the same in each attempt.
    pub body: String,
    /// When it happened, in seconds since 1970.
    pub created: u64,
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
                Ok(WaitingDelivery {
                    response: row.get(0)?,
                    response_id: row.get(1)?,
                    event: row.get(2)?,
                    body: row.get(3)?,
                    created: row.get(4)?,
                    attempts: row.get(5)?,
                    due: row.get(6)?,
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
    pub async fn end_delivery(
        &self,
        webhook: &str,
        delivery: &WaitingDelivery,
    ) -> Result<(), StoreError> {
        let (webhook, response) = (webhook.to_owned(), delivery.response);
        let event = delivery.event.clone();
        self.write_with(move |writer| {
            let mut delete = writer.connection.prepare_cached(
                "DELETE FROM deliveries WHERE response = ?1 AND webhook = ?2 AND event = ?3",
            )?;
            delete.execute(params![response, webhook, event])?;
            Ok(())
        })
        .await
    }

    /// Records that an attempt has failed, and when the next one is due.
    pub async fn postpone_delivery(
        &self,
        webhook: &str,
        delivery: &WaitingDelivery,
        attempts: u32,
        due: u64,
    ) -> Result<(), StoreError> {
        let (webhook, response) = (webhook.to_owned(), delivery.response);
        let event = delivery.event.clone();
        self.write_with(move |writer| {
            let mut update = writer.connection.prepare_cached(
                "UPDATE deliveries SET attempts = ?4, due = ?5
                 WHERE response = ?1 AND webhook = ?2 AND event = ?3",
            )?;
            update.execute(params![response, webhook, event, attempts, due])?;
            Ok(())
        })
        .await
    }
}

/// The deliveries of a webhook that are due first.
pub(super) const SELECT_NEXT: &str =
    "SELECT response, responses.id, event, body, deliveries.created, attempts, due
     FROM deliveries JOIN responses ON responses.number = deliveries.response
     WHERE webhook = ?1 ORDER BY due LIMIT ?2";

/// Stores deliveries, due at once. Returns the webhooks for which too many wait already.
pub(super) fn create(
    connection: &Connection,
    response: i64,
    deliveries: &[NewDelivery],
    now: u64,
) -> Result<Vec<String>, StoreError> {
    let mut refused = Vec::new();
    for delivery in deliveries {
        if waiting(connection, &delivery.webhook)? >= MAX_WAITING {
            refused.push(delivery.webhook.clone());
            continue;
        }
        let mut insert = connection.prepare_cached(
            "INSERT OR IGNORE INTO deliveries
                 (response, webhook, event, body, created, attempts, due)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?5)",
        )?;
        let NewDelivery {
            webhook,
            event,
            body,
        } = delivery;
        insert.execute(params![response, webhook, event, body, now])?;
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
                 INSERT INTO deliveries SELECT n, 'down', 'evt_1', '{{}}', 0, 3, 0 FROM numbers;"
            ))
            .unwrap();
        let both = ["down", "up"].map(|webhook| NewDelivery {
            webhook: webhook.to_owned(),
            event: "evt_2".to_owned(),
            body: "{}".to_owned(),
        });
        let last = i64::try_from(MAX_WAITING).unwrap();
        assert!(create(&connection, last, &both, 7).unwrap().is_empty());
        assert_eq!(create(&connection, last + 1, &both, 7).unwrap(), ["down"]);
        assert_eq!(waiting(&connection, "down").unwrap(), MAX_WAITING);
        assert_eq!(waiting(&connection, "up").unwrap(), 2);
    }
}
