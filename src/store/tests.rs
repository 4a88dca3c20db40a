//! Stored responses, conversations and jobs.

mod expiry;
mod full_disk;
mod inspection;
mod jobs;
mod lists;
mod reading;
mod sources;
mod threads;
mod transfer;

use rusqlite::Connection;

use super::responses::put;
use super::{NewItem, NewResponse, ResponseText, StoredConversation, StoredOrigin, ToolChanges};

/// The owner of what a test stores.
const OWNER: &str = "me";

/// An item with this id.
fn item(id: &str) -> NewItem {
    NewItem {
        id: id.to_owned(),
        json: format!("{{\"id\":\"{id}\"}}"),
    }
}

fn items(ids: &[&str]) -> Vec<NewItem> {
    ids.iter().map(|id| item(id)).collect()
}

/// A completed response, used at time 0.
fn response(id: &str, origin: StoredOrigin, input: &[&str], output: &[&str]) -> NewResponse {
    NewResponse {
        id: id.to_owned(),
        owner: OWNER.to_owned(),
        session: format!("session of {id}"),
        origin,
        input: items(input),
        prefixes: Vec::new(),
        output: items(output),
        text: text(),
        status: "completed",
        created: 0,
        now: 0,
        spent: None,
        tools: ToolChanges::default(),
        paused: None,
    }
}

fn text() -> ResponseText {
    ResponseText {
        head: "{\"output\":[".to_owned(),
        tail: "],\"a\":1".to_owned(),
        parameters: ",\"model\":\"m\"".to_owned(),
    }
}

fn after(id: &str) -> StoredOrigin {
    StoredOrigin::Response(id.to_owned())
}

fn conversation(id: &str) -> StoredConversation {
    StoredConversation {
        id: id.to_owned(),
        metadata: "{}".to_owned(),
        created: 0,
    }
}

fn put_all(connection: &Connection, responses: &[NewResponse]) {
    for response in responses {
        put(connection, response).unwrap();
    }
}

/// A number that a query has as its only result.
fn number(connection: &Connection, select: &str) -> i64 {
    connection.query_row(select, [], |row| row.get(0)).unwrap()
}

/// The ids of the responses that are left, the oldest first.
fn left(connection: &Connection) -> Vec<String> {
    let mut select = connection
        .prepare("SELECT id FROM responses ORDER BY number")
        .unwrap();
    let ids = select.query_map([], |row| row.get(0)).unwrap();
    ids.collect::<Result<_, _>>().unwrap()
}

/// How a query finds its rows, as the database explains it.
fn plan(connection: &Connection, select: &str) -> String {
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {select}"))
        .unwrap();
    let count = explain.parameter_count();
    let parameters = rusqlite::params_from_iter(std::iter::repeat_n(0, count));
    let lines = explain
        .query_map(parameters, |row| row.get::<_, String>(3))
        .unwrap();
    lines.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}

/// Text that compresses badly.
fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..bytes).map(next).collect()
}
