//! Servers refuse what is drawn at random. Each of the changes that are learned from that is left
//! out once, to see whether it is needed.
use std::collections::BTreeMap;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use rusqlite::Connection;
use serde_json::{Map, Value};

use super::lab::Lab;
use super::property::{DrawnServers, MODELS, any_server, keeps_limits, start};

/// The fewest changes that are left out, one by one.
const FEWEST: usize = 300;

/// The most of a hundred changes that may be needless. A change can be made needless by a later
/// one; about one in a thousand is.
const MAX_NEEDLESS: usize = 1;

/// What was learned of a model, or for a session with it.
struct LearnedRow {
    owner: String,
    subject: String,
    model: String,
    changes: Value,
}

impl LearnedRow {
    fn all(database: &Connection) -> Vec<Self> {
        let select = database.prepare("SELECT owner, subject, changes FROM learned");
        let mut select = select.unwrap();
        let rows = select.query_map([], |row| {
            let [owner, subject, changes]: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
            // The id of a session stands on a line of its own.
            let (_, model) = subject.lines().next().unwrap().rsplit_once('/').unwrap();
            Ok(Self {
                model: model.to_owned(),
                changes: serde_json::from_str(&changes).unwrap(),
                owner,
                subject,
            })
        });
        let rows = rows.unwrap().map(Result::unwrap);
        // A row of which all was undone is deleted at the next start.
        rows.filter(|row| !without_one(&row.changes).is_empty())
            .collect()
    }

    fn put(&self, database: &Connection, changes: &Value) {
        let insert = "INSERT OR REPLACE INTO learned (changes, owner, subject, learned)
                      VALUES (?1, ?2, ?3, unixepoch())";
        let values = [&changes.to_string(), &self.owner, &self.subject];
        database.execute(insert, values).unwrap();
    }
}

/// The changes, each time without one of them.
fn without_one(changes: &Value) -> Vec<Value> {
    match changes {
        Value::Array(list) => {
            let without = |at| {
                let rest = list.iter().enumerate().filter(|(other, _)| *other != at);
                rest.map(|(_, change)| change.clone()).collect()
            };
            (0..list.len()).map(without).collect()
        }
        Value::Object(members) => {
            let members = members.iter().flat_map(|(name, list)| {
                without_one(list).into_iter().map(move |rest| (name, rest))
            });
            let changed = members.map(|(name, rest)| {
                let mut changes = changes.clone();
                changes[name] = rest;
                changes
            });
            changed.collect()
        }
        _ => vec![Value::Null],
    }
}

/// Whether the first request of a turn is refused.
async fn is_refused(lab: &Lab, servers: &DrawnServers, model: &str) -> bool {
    let server = servers.lock().unwrap()[model].clone();
    lab.post(server.wire, model, &Map::new()).await;
    let replies = &servers.lock().unwrap()[model].replies;
    replies[server.replies.len()].is_some()
}

/// Promise: The changes that are learned from what a server refuses are needed: without one of them
/// the server refuses again. In at most one of a hundred cases it does not.
#[kit::test]
async fn every_change_that_is_learned_is_needed() {
    let (servers, _player, mut lab) = start().await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..MODELS {
        let server = any_server().new_tree(&mut runner).unwrap().current();
        keeps_limits(&lab, &servers, server).await.unwrap();
    }
    let is_healed = |row: &LearnedRow| {
        let replies = &servers.lock().unwrap()[&row.model].replies;
        replies.last().unwrap().is_none()
    };
    let mut learned = Vec::new();
    let read = |database: &Connection| learned = LearnedRow::all(database);
    lab = lab.restart(read).await;
    learned.retain(is_healed);

    // Of each model the rows that have one change less.
    let mut fewer: BTreeMap<&str, Vec<(&LearnedRow, Value)>> = BTreeMap::new();
    for row in &learned {
        let told = &row.changes;
        assert!(!is_refused(&lab, &servers, &row.model).await, "{told}");
        let changes = without_one(&row.changes).into_iter();
        let of_model = fewer.entry(&row.model).or_default();
        of_model.extend(changes.map(|changes| (row, changes)));
    }
    let (mut tried, mut needless) = (0, Vec::new());
    while fewer.values().any(|rows| !rows.is_empty()) {
        let now: Vec<(&str, (&LearnedRow, Value))> = fewer
            .iter_mut()
            .filter_map(|(model, rows)| Some((*model, rows.pop()?)))
            .collect();
        let change = |database: &Connection| {
            database.execute("DELETE FROM learned", []).unwrap();
            for row in &learned {
                row.put(database, &row.changes);
            }
            for (_, (row, changes)) in &now {
                row.put(database, changes);
            }
        };
        lab = lab.restart(change).await;
        for (model, (row, changes)) in now {
            tried += 1;
            if !is_refused(&lab, &servers, model).await {
                let rules = servers.lock().unwrap()[model].refusals.clone();
                needless.push(format!("{} -> {changes}: {rules:#?}", row.changes));
            }
        }
    }
    let told = needless.join("\n");
    assert!(tried >= FEWEST, "{tried}");
    assert!(needless.len() * 100 <= tried * MAX_NEEDLESS, "{told}");
}
