//! R27: bodies that are malformed JSON, or far larger than those of real clients.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use adapters::fault::{Fault, Kind};
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use adapters::wire::{EncodeOptions, encode};
use registry::{ChatQuirks, Dialect, EnumSet, Model, RelayQuirks, SchemaRule, WireQuirks};

/// The upstream request for a body.
fn encoded(body: String) -> Result<String, Fault> {
    let source = TurnSource::new(body);
    let turn = source.turn()?;
    let (dialect, model) = (Dialect::default(), Model::unlisted("m"));
    let options = EncodeOptions::new(&dialect, &model, "m");
    let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)?.encoded;
    Ok(String::from_utf8(encoded.body).unwrap())
}

/// `body` with `VALUE` replaced.
fn with(body: &str, value: &str) -> String {
    body.replace("VALUE", value)
}

#[test]
fn r27_malformed_json_is_refused_and_named() {
    let input = r#"{"model":"m","input":"VALUE"}"#;
    for body in [
        String::new(),
        "[]".to_owned(),
        r#"{"model":"m","input":"x""#.to_owned(),
        r#"{"model":"m","input":"x","temperature":NaN}"#.to_owned(),
        r#"{"model":"m","input":"x"} {}"#.to_owned(),
        r#"{"model":"m","model":"n","input":"x"}"#.to_owned(),
        r#"{"model":"m","input":[{"role":"user","content":"a","content":"b"}]}"#.to_owned(),
        with(input, "\0"),
        with(input, r"\ud800"),
        with(input, r"\udc00\ud800"),
    ] {
        let fault = encoded(body.clone()).unwrap_err();
        assert_eq!(fault.kind, Kind::InvalidRequest, "{body}");
        assert_eq!(fault.error_type(), "invalid_request_error");
        assert_eq!(fault.code(), Some("invalid_json"), "{body}");
    }
}

/// Where a client may send any JSON value, nesting does not matter: the value is copied or
/// refused, never traversed.
#[test]
fn r27_depth_never_overflows_the_stack() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        r#"{"model":"m","input":"x","unknown":VALUE}"#,
        r#"{"model":"m","input":"x","tools":[{"type":"function","name":"f","parameters":VALUE}]}"#,
        r#"{"model":"m","input":"x","metadata":VALUE}"#,
        r#"{"model":"m","input":"x","reasoning":VALUE}"#,
        r#"{"model":"m","input":"x","tool_choice":VALUE}"#,
        r#"{"model":"m","input":VALUE}"#,
        r#"{"model":"m","input":[{"role":"user","content":VALUE}]}"#,
        r#"{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":VALUE}]}"#,
    ] {
        if let Err(fault) = encoded(with(body, &deep)) {
            assert_eq!(fault.kind, Kind::InvalidRequest, "{body}");
        }
    }
}

#[test]
fn r27_a_million_keys_are_read() {
    let keys: Vec<String> = (0..1_000_000).map(|n| format!(r#","k{n}":{n}"#)).collect();
    let keys = keys.concat();
    let body = format!(r#"{{"model":"m","input":"hello"{keys}}}"#);
    assert!(encoded(body).unwrap().contains("hello"));
}

#[test]
fn schemas_that_multiply_are_refused_before_the_memory_is_gone() {
    let references: Vec<String> = (0..200)
        .map(|number| format!(r##""p{number}":{{"$ref":"#/$defs/a"}}"##))
        .collect();
    let schema = format!(
        r#"{{"type":"object","properties":{{{}}},"$defs":{{"a":{{"description":"{}"}}}}}}"#,
        references.join(","),
        "d".repeat(2_500)
    );
    let tools: Vec<String> = (0..600)
        .map(|number| format!(r#"{{"type":"function","name":"t{number}","parameters":{schema}}}"#))
        .collect();
    let body = format!(
        r#"{{"model":"m","input":"x","tools":[{}]}}"#,
        tools.join(",")
    );
    let schema = EnumSet::empty().with(SchemaRule::InlineRefs);
    let chat = ChatQuirks {
        schema,
        ..ChatQuirks::default()
    };
    let relay = RelayQuirks {
        schema,
        ..RelayQuirks::default()
    };
    let source = TurnSource::new(body);
    let (turn, model) = (source.turn().unwrap(), Model::unlisted("m"));
    for quirks in [WireQuirks::from(chat), WireQuirks::from(relay)] {
        let dialect = Dialect {
            quirks,
            ..Dialect::default()
        };
        let options = EncodeOptions::new(&dialect, &model, "m");
        let fault = encode(&turn, &plan(&turn, &Bounds::none()), &options).unwrap_err();
        assert_eq!(fault.kind, Kind::InvalidRequest);
        assert_eq!(fault.param.as_deref(), Some("tools"));
        assert!(fault.message.contains("256 MiB"), "{}", fault.message);
    }
}
