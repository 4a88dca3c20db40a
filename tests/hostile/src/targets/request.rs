//! `request`: the body of a client's request, planned and encoded for both wires.

use std::collections::HashSet;

use adapters::compact::extract;
use adapters::fault::{Fault, FaultSide};
use adapters::plan::{Bounds, OutputPolicy, Retention, plan};
use adapters::purpose::{Purpose, SummaryMode};
use adapters::responses::request::TurnSource;
use adapters::wire::{EncodeOptions, encode};
use kit::strict;
use registry::{Dialect, Model, RelayQuirks, Wire, WireQuirks, builtin};
use serde_json::Value;
use serde_json::value::RawValue;

/// Providers whose dialects differ much from each other.
const PROVIDERS: [&str; 4] = ["gemini", "mistral", "deepseek", "openai"];

pub(super) fn run(input: &[u8]) {
    let Ok(body) = str::from_utf8(input) else {
        return;
    };
    let source = TurnSource::new(body.to_owned());
    if let Err(fault) = source.turn() {
        return check_refusal(&fault);
    }
    let purposes = [
        Purpose::Answer,
        Purpose::summary(SummaryMode::NextTurn),
        Purpose::summary(SummaryMode::FitWindow),
    ];
    for dialect in dialects() {
        for purpose in &purposes {
            encode_twice(&source.with_purpose(purpose.clone()), &dialect);
        }
    }
}

/// The dialects that a request is encoded in.
pub(crate) fn dialects() -> Vec<Dialect> {
    let mut dialects = vec![
        Dialect::default(),
        Dialect {
            quirks: WireQuirks::from(RelayQuirks::default()),
            ..Dialect::default()
        },
    ];
    dialects.extend(PROVIDERS.iter().map(|id| {
        let spec = builtin::build(id, toml::Table::new()).unwrap();
        Dialect::clone(&spec.to_provider(id).dialect)
    }));
    dialects
}

/// A window in which hardly anything fits, so that outputs are shortened and the history is cut.
fn small_window(dialect: &Dialect) -> (Model, Bounds) {
    let model = Model {
        window: Some(2_000),
        ..Model::unlisted("m")
    };
    let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk);
    (model, bounds.for_dialect(dialect))
}

fn encode_twice(source: &TurnSource, dialect: &Dialect) {
    let Ok(turn) = source.turn() else {
        return;
    };
    let (model, bounds) = small_window(dialect);
    let options = EncodeOptions::new(dialect, &model, "m");
    let planned = plan(&turn, &bounds);
    assert!(!extract(&turn, &planned, 1_000).is_empty());
    let request = match encode(&turn, &planned, &options) {
        Ok(request) => request,
        Err(fault) => return check_refusal(&fault),
    };
    let body = request.encoded.body;
    serde_json::from_slice::<&RawValue>(&body).expect("the request is JSON");
    if dialect.quirks.wire() == Wire::Chat {
        check_calls(&body);
    }
    let again = encode(&turn, &plan(&turn, &bounds), &options);
    assert_eq!(
        again.expect("it was encoded before").encoded.body,
        body,
        "the same request has other bytes"
    );
}

/// A refusal blames the client, and is an error that its libraries can read.
fn check_refusal(fault: &Fault) {
    assert_eq!(fault.side(), FaultSide::Client, "{fault:?}");
    let body = String::from_utf8(fault.body()).unwrap();
    strict::check_error(&body).unwrap();
}

/// Each call is followed by its one result, before any other message.
fn check_calls(body: &[u8]) {
    // What is nested too deep for this parser was copied.
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    let mut open: HashSet<&str> = HashSet::new();
    for message in request["messages"].as_array().unwrap() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            assert!(open.remove(id), "no call for the result of {id:?}");
            continue;
        }
        assert!(open.is_empty(), "no result for the calls {open:?}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap();
            assert!(open.insert(id), "two calls have the id {id:?}");
        }
    }
    assert!(open.is_empty(), "no result for the calls {open:?}");
}
