//! Runs of workflows that wait for a person. A run is stored with the response that asks, in one
//! transaction, and goes with it.

use rusqlite::{Connection, params};

use super::reading::StoreRead;
use super::responses::NewResponse;
use super::{Store, StoreError};
use crate::net::memory::CountedValue;

/// A run that waits for a person, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedRun {
    /// The id of the item that asks.
    pub approval: String,
    /// The run as JSON.
    pub run: String,
}

/// A run that waits, or has waited, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRun {
    /// The run as JSON.
    pub run: String,
    /// When it began to wait, in seconds since 1970.
    pub created: u64,
    /// The id of the response that goes on with it, if one does.
    pub taken_by: Option<String>,
}

impl Store {
    /// The run for which the item with this id asks.
    pub async fn waiting_run(
        &self,
        owner: &str,
        approval: &str,
    ) -> Result<Option<CountedValue<WaitingRun>>, StoreError> {
        let approval = approval.to_owned();
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            let mut select = reading.prepare_cached(SELECT_RUN)?;
            let mut rows = select.query([owner, approval.as_str()])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            Ok(Some(WaitingRun {
                run: reading.text(row, 0)?,
                created: row.get(1)?,
                taken_by: row.get(2)?,
            }))
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// Takes a run for the response with the id `by`, once: false if another response has it. That
    /// is on the disk when this returns.
    pub async fn take_run(
        &self,
        owner: &str,
        approval: &str,
        by: &str,
    ) -> Result<bool, StoreError> {
        let [owner, approval, by] = [owner, approval, by].map(str::to_owned);
        self.change(move |connection| {
            let mut take = connection.prepare_cached(
                "UPDATE workflow_runs SET taken_by = ?3
                 WHERE owner = ?1 AND approval = ?2 AND coalesce(taken_by, ?3) = ?3",
            )?;
            Ok(take.execute(params![owner, approval, by])? > 0)
        })
        .await
    }
}

/// A run of an owner.
const SELECT_RUN: &str =
    "SELECT run, created, taken_by FROM workflow_runs WHERE owner = ?1 AND approval = ?2";

/// Stores the run that waits with a response, if one does. In a transaction.
pub(super) fn put(
    connection: &Connection,
    response: i64,
    stored: &NewResponse,
) -> Result<(), StoreError> {
    let Some(paused) = &stored.paused else {
        return Ok(());
    };
    let mut insert = connection.prepare_cached(
        "INSERT INTO workflow_runs (response, owner, approval, created, run)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![
        response,
        stored.owner,
        paused.approval,
        stored.now,
        paused.run
    ])?;
    connection
        .prepare_cached("UPDATE responses SET bytes = bytes + ?2 WHERE number = ?1")?
        .execute(params![response, paused.run.len()])?;
    Ok(())
}
