use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::responses::request::TurnSource;
use crate::responses::request_body::RequestBody;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/requests.md");

/// What is around each table.
const MARK: &str = "<!-- table: adapters/src/responses/fates.rs -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn s0_uf_the_tables_of_the_docs_are_those_of_the_code() {
    let docs = std::fs::read_to_string(DOCS).unwrap();
    let mut parts = docs.split(MARK);
    let mut expected = parts.next().unwrap().to_owned();
    for (first_cell, rows) in [("parameter", PARAMETERS), ("tool", TOOLS), ("item", ITEMS)] {
        let (_, after) = parts.next().unwrap().split_once(END).unwrap();
        expected += MARK;
        expected += &markdown_table(first_cell, rows);
        expected += END;
        expected += after;
    }
    assert_eq!(parts.next(), None);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(DOCS, &expected).unwrap();
    }
    assert!(
        docs == expected,
        "the tables of docs/requests.md are old: run this test with BLESS=1, which writes them"
    );
}

#[test]
fn s0_uf_every_parameter_that_is_read_is_in_the_table_and_no_other() {
    let listed: BTreeSet<&str> = PARAMETERS.iter().flat_map(FateRow::names).collect();
    let mut read: BTreeSet<&str> = RequestBody::NAMES.iter().copied().collect();
    read.insert("input");
    let unread = |row: &&FateRow| matches!(row.fate, Fate::Ignored | Fate::Refused);
    read.extend(PARAMETERS.iter().filter(unread).flat_map(FateRow::names));
    assert_eq!(listed, read);
}

/// The notes of a request with these fields: code and detail.
fn notes(fields: serde_json::Value) -> Vec<String> {
    let mut body = json!({"model": "m", "input": "x"});
    let serde_json::Value::Object(fields) = fields else {
        panic!("{fields}")
    };
    body.as_object_mut().unwrap().extend(fields);
    let source = TurnSource::new(body.to_string());
    let turn = source.turn().unwrap();
    turn.notes.iter().map(|note| note.code.to_owned()).collect()
}

#[test]
fn s0_uf_a_parameter_is_left_out_as_the_table_says() {
    for row in PARAMETERS {
        for name in row.names().filter(|_| row.fate == Fate::Ignored) {
            assert!(notes(json!({name: {"a": 1}})).is_empty(), "{name}");
        }
        for name in row.names().filter(|_| row.fate == Fate::Refused) {
            let body = json!({"model": "m", "input": "x", name: [{"a": 1}]});
            let fault = TurnSource::new(body.to_string()).turn().unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(name));
            assert_eq!(fault.code(), Some("unsupported_parameter"));
        }
    }
    assert_eq!(notes(json!({"moderation": {}})), ["parameter_ignored"]);
    assert_eq!(notes(json!({"new": 1})), ["parameter_unknown"]);
}

#[test]
fn s0_uf_a_tool_is_left_out_if_the_table_says_so() {
    for row in TOOLS {
        for kind in row.names() {
            let member = json!([{"type": "function", "name": "f"}]);
            let tool = json!({"type": kind, "name": "n", "tools": member, "execution": "client"});
            let expected: &[&str] = match row.fate {
                Fate::Noted => &["tool_dropped"],
                _ => &[],
            };
            assert_eq!(notes(json!({"tools": [tool]})), expected, "{kind}");
        }
    }
}
