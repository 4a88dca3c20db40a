//! Bodies that are malformed JSON, or far larger than those of real clients.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use std::collections::HashSet;

use registry::{ChatQuirks, Dialect, EnumSet, Model, RelayQuirks, WireQuirks};
use responses_translate::baggage::Baggage;
use responses_translate::event::ReasoningStateForm;
use responses_translate::fault::{Fault, Kind};
use responses_translate::plan::{Bounds, plan};
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};

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

/// Promise: Malformed or hostile JSON is refused with 400 and never overflows the stack; duplicate
/// keys are refused.
#[test]
fn malformed_json_is_refused_and_named() {
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
fn depth_never_overflows_the_stack() {
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

/// Promise: A request costs time and memory in proportion to its bytes.
#[test]
fn a_million_keys_are_read() {
    let keys: Vec<String> = (0..1_000_000).map(|n| format!(r#","k{n}":{n}"#)).collect();
    let keys = keys.concat();
    let body = format!(r#"{{"model":"m","input":"hello"{keys}}}"#);
    assert!(encoded(body).unwrap().contains("hello"));
}

/// The dialects of both wires, with every rule for schemas.
fn wires_with_all_schema_rules() -> [Dialect; 2] {
    let schema = EnumSet::all();
    let chat = ChatQuirks {
        schema,
        ..ChatQuirks::default()
    };
    let relay = RelayQuirks {
        schema,
        ..RelayQuirks::default()
    };
    [WireQuirks::from(chat), WireQuirks::from(relay)].map(|quirks| Dialect {
        quirks,
        ..Dialect::default()
    })
}

/// 10,000 references to a description of 100 KB stand for 1 GB, in a tool as in the format of the
/// answer, and 600 schemas have as many.
#[test]
fn references_of_schemas_do_not_multiply_a_request() {
    let bomb = |references: usize, length: usize| {
        let references: Vec<String> = (0..references)
            .map(|number| format!(r##""p{number}":{{"$ref":"#/$defs/a"}}"##))
            .collect();
        format!(
            r#"{{"type":"object","properties":{{{}}},"$defs":{{"a":{{"description":"{}"}}}}}}"#,
            references.join(","),
            "d".repeat(length)
        )
    };
    let tool = |number: usize, schema: &str| {
        format!(r#"{{"type":"function","name":"t{number}","parameters":{schema}}}"#)
    };
    let small = bomb(200, 2_500);
    let tools: Vec<String> = (0..600).map(|number| tool(number, &small)).collect();
    let large = bomb(10_000, 100_000);
    for body in [
        format!(
            r#"{{"model":"m","input":"x","tools":[{}]}}"#,
            tool(0, &large)
        ),
        format!(
            r#"{{"model":"m","input":"x","tools":[{}]}}"#,
            tools.join(",")
        ),
        format!(
            r#"{{"model":"m","input":"x","text":{{"format":{{"type":"json_schema","name":"n","schema":{large}}}}}}}"#
        ),
    ] {
        let source = TurnSource::new(body);
        let (turn, model) = (source.turn().unwrap(), Model::unlisted("m"));
        for dialect in wires_with_all_schema_rules() {
            let options = EncodeOptions::new(&dialect, &model, "m");
            let request = encode(&turn, &plan(&turn, &Bounds::none()), &options).unwrap();
            let bytes = request.encoded.body.len();
            // 4 MiB for the references, and the properties themselves with what the rules add.
            let most = source.size() + (5 << 20);
            assert!(bytes < most, "{bytes} of {}", source.size());
        }
    }
}

/// Tools of these numbers as JSON, without brackets.
fn tools(numbers: std::ops::Range<usize>) -> String {
    let tools = numbers.map(|number| format!(r#"{{"type":"function","name":"t{number}"}}"#));
    tools.collect::<Vec<_>>().join(",")
}

#[test]
fn a_request_has_two_thousand_tools_at_most() {
    let offered = |list: &str, more: &str| {
        encoded(format!(
            r#"{{"model":"m","tools":[{list}],"input":[{{"role":"user","content":"x"}}{more}]}}"#
        ))
    };
    let additional = |kind: &str, list: &str| {
        let ids = r#""call_id":"c","execution":"client","status":"completed""#;
        format!(r#",{{"type":"{kind}",{ids},"tools":[{list}]}}"#)
    };
    let all = tools(0..2_000);
    for (list, more) in [
        (all.clone(), String::new()),
        // The same tools again are no more tools.
        (all.clone(), additional("tool_search_output", &all)),
        (
            tools(0..1_000),
            additional("additional_tools", &tools(1_000..2_000)),
        ),
        // A session that found too many tools can go on.
        (
            all.clone(),
            additional("tool_search_output", &tools(2_000..2_100)),
        ),
    ] {
        let body = offered(&list, &more).unwrap();
        assert_eq!(body.matches(r#""type":"function""#).count(), 2_000);
    }
    for (list, more) in [
        (tools(0..2_001), String::new()),
        (
            tools(0..1_000),
            additional("additional_tools", &tools(1_000..2_001)),
        ),
        (
            vec![r#"{"type":"web_search"}"#; 2_001].join(","),
            String::new(),
        ),
        (
            format!(
                r#"{{"type":"namespace","name":"n","tools":[{}]}}"#,
                tools(0..2_001)
            ),
            String::new(),
        ),
    ] {
        let fault = offered(&list, &more).unwrap_err();
        assert_eq!(fault.kind, Kind::InvalidRequest);
        assert_eq!(fault.param.as_deref(), Some("tools"));
        assert_eq!(fault.code(), Some("too_many_tools"));
        assert!(fault.message.contains("2000"), "{}", fault.message);
    }
    let long = format!(
        r#"{{"type":"namespace","name":"{}","tools":[]}}"#,
        "n".repeat(1_025)
    );
    let fault = offered(&long, "").unwrap_err();
    assert!(fault.message.contains("1024 bytes"), "{}", fault.message);
    let allowed = vec![r#"{"type":"function","name":"t0"}"#; 2_001].join(",");
    let choice = format!(r#"{{"type":"allowed_tools","mode":"auto","tools":[{allowed}]}}"#);
    let fault = encoded(format!(
        r#"{{"model":"m","input":"x","tools":[{all}],"tool_choice":{choice}}}"#
    ))
    .unwrap_err();
    assert_eq!(fault.param.as_deref(), Some("tool_choice"));
}

#[test]
fn a_request_has_a_hundred_thousand_items_at_most() {
    let items = |item: &str, count: usize| {
        let items = vec![item; count].join(",");
        TurnSource::new(format!(r#"{{"model":"m","input":[{items}]}}"#))
    };
    let message = r#"{"role":"user","content":"x"}"#;
    assert_eq!(items(message, 100_000).turn().unwrap().items.len(), 100_000);
    for item in [message, "{}"] {
        let fault = items(item, 100_001).turn().err().unwrap();
        assert_eq!(fault.kind, Kind::InvalidRequest);
        assert_eq!(fault.param.as_deref(), Some("input"));
        assert_eq!(fault.code(), Some("too_many_items"));
        assert!(fault.message.contains("100000"), "{}", fault.message);
    }
    for list in [
        r#"{"role":"user","content":[PARTS]}"#,
        r#"{"type":"function_call_output","call_id":"c","output":[PARTS]}"#,
        r#"{"type":"reasoning","summary":[PARTS]}"#,
    ] {
        let parts = |count: usize| list.replace("PARTS", &vec!["{}"; count].join(","));
        assert!(items(&parts(10_000), 1).turn().is_ok(), "{list}");
        let fault = items(&parts(10_001), 1).turn().err().unwrap();
        assert_eq!(fault.param.as_deref(), Some("input[0]"), "{list}");
        assert_eq!(fault.code(), Some("too_many_elements"), "{list}");
    }
}

/// Both words have the same checksum, and so have all texts of as many of them.
#[test]
fn call_ids_with_one_checksum_cost_no_more_than_others() {
    let id = |number: usize| {
        let words = (0..15).map(|bit| ["plumless", "buckeroo"][number >> bit & 1]);
        words.collect::<String>()
    };
    let calls: Vec<String> = (0..30_000)
        .map(|number| {
            format!(
                r#"{{"type":"function_call","call_id":"{}","name":"f","arguments":"{{}}"}}"#,
                id(number)
            )
        })
        .collect();
    let body = encoded(format!(r#"{{"model":"m","input":[{}]}}"#, calls.join(","))).unwrap();
    let ids: HashSet<&str> = body
        .split(r#""tool_call_id":""#)
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(ids.len(), 30_000);
}

/// Anybody can make the checksum of a blob.
#[test]
fn json_in_a_forged_blob_is_checked_like_that_of_a_request() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let quirks: ChatQuirks =
        toml::from_str("reasoning_replay = 'reasoning_details'\ncall_extra = 'kept'").unwrap();
    let dialect = Dialect {
        quirks: quirks.into(),
        ..Dialect::default()
    };
    let model = Model::unlisted("m");
    for (inside, is_sound) in [
        ("[[\"sound\"]]", true),
        (deep.as_str(), false),
        (r#""\ud800""#, false),
    ] {
        let baggage = Baggage {
            states: [
                (
                    'd',
                    format!(r#"[{{"type":"reasoning.text","text":{inside}}}]"#),
                ),
                ('x', format!(r#"{{"google":{inside}}}"#)),
            ]
            .map(|(form, blob)| (ReasoningStateForm::new(form), blob))
            .to_vec(),
            ..Baggage::default()
        };
        let body = format!(
            r#"{{"model":"m","input":[{{"role":"user","content":"x"}},{{"type":"reasoning","summary":[],"encrypted_content":"{}"}},{{"type":"function_call","call_id":"c","name":"f","arguments":"{{}}"}}]}}"#,
            baggage.seal()
        );
        let source = TurnSource::new(body);
        let turn = source.turn().unwrap();
        let options = EncodeOptions::new(&dialect, &model, "m");
        let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)
            .unwrap()
            .encoded;
        let sent = String::from_utf8(encoded.body).unwrap();
        assert_eq!(
            sent.matches(inside).count(),
            if is_sound { 2 } else { 0 },
            "{sent}"
        );
        let is_noted = encoded.notes.codes().contains("reasoning_state_dropped");
        assert_eq!(is_noted, !is_sound, "{}", encoded.notes.codes());
    }
}
