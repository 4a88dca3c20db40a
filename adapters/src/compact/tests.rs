use registry::{Dialect, Model};
use serde_json::{Value, json};

use super::*;
use crate::compaction_blob::{CompactionBlob, UNREADABLE_SUMMARY};
use crate::plan::{Bounds, plan};
use crate::purpose::{Purpose, SummaryMode};
use crate::responses::request::TurnSource;
use crate::wire::{EncodeOptions, encode};

/// A request of Codex in the middle of a session, with an output format and
/// `tool_choice: required`.
fn session() -> Value {
    let format = json!({"type": "json_schema", "name": "n", "schema": {"type": "object"}});
    json!({
        "model": "m",
        "input": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Go."},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "a b"},
            {"role": "user", "content": "On."},
        ],
        "tools": [{"type": "function", "name": "ls", "parameters": {"type": "object", "properties": {}}}],
        "tool_choice": "required",
        "text": {"format": format},
        "max_output_tokens": 7,
    })
}

/// The Chat request that a provider with these quirks gets, and the codes of its notes.
fn sent_to(quirks: &str, request: &Value, purpose: Purpose) -> (Value, String) {
    let source = TurnSource::new(request.to_string()).with_purpose(purpose);
    let turn = source.turn().unwrap();
    let dialect = Dialect {
        quirks: toml::from_str::<registry::ChatQuirks>(quirks)
            .unwrap()
            .into(),
        ..Dialect::default()
    };
    let model = Model::unlisted("m");
    let options = EncodeOptions::new(&dialect, &model, "m");
    let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)
        .unwrap()
        .encoded;
    let body = serde_json::from_slice(&encoded.body).unwrap();
    (body, encoded.notes.codes())
}

fn sent(request: &Value, purpose: Purpose) -> Value {
    sent_to("", request, purpose).0
}

fn with(request: &Value, item: Value) -> Value {
    let mut request = request.clone();
    request["input"].as_array_mut().unwrap().push(item);
    request
}

#[test]
fn the_next_turn_of_a_history_asks_for_its_summary() {
    let quirks = "reasoning_replay = 'reasoning_content'";
    let answer = sent_to(quirks, &session(), Purpose::Answer).0;
    let trigger = with(&session(), json!({"type": "compaction_trigger"}));
    let (mut summary, notes) = sent_to(quirks, &trigger, Purpose::summary(SummaryMode::NextTurn));
    assert_eq!(notes, "");
    let messages = summary["messages"].as_array_mut().unwrap();
    let prompt = json!({"role": "user", "content": SUMMARY_PROMPT});
    assert_eq!(messages.pop(), Some(prompt));
    assert_eq!(
        summary["messages"], answer["messages"],
        "the same beginning"
    );
    assert_eq!(summary["tools"], answer["tools"]);
    assert_eq!(summary["tool_choice"], "none");
    assert_eq!(summary["max_tokens"], 20_000);
    assert!(answer.get("response_format").is_some() && summary.get("response_format").is_none());
}

#[test]
fn a_provider_without_tool_choice_none_gets_no_tools() {
    let quirks = "tool_choice = ['required']";
    let summary = sent_to(quirks, &session(), Purpose::summary(SummaryMode::NextTurn)).0;
    assert!(summary.get("tools").is_none() && summary.get("tool_choice").is_none());
}

#[test]
fn a_client_with_its_own_prompt_gets_the_tools_of_its_session() {
    let mut request = with(&session(), json!({"role": "user", "content": "Summarise."}));
    let tools = request["tools"].take().to_string();
    request["tools"] = json!([]);
    request["tool_choice"] = json!("auto");
    let summary = Purpose::Summary {
        mode: SummaryMode::NextTurn,
        prompted: true,
        tools: Some(tools.into()),
    };
    let body = sent(&request, summary);
    assert_eq!(body["messages"][5]["content"], "Summarise.");
    assert_eq!(body["messages"].as_array().unwrap().len(), 6);
    assert_eq!(body["tools"], sent(&session(), Purpose::Answer)["tools"]);
    assert_eq!(body["tool_choice"], "none");
}

#[test]
fn a_summary_replaces_the_items_before_it() {
    let blob = CompactionBlob {
        summary: "Listed a and b.".into(),
        artifacts: Vec::new(),
        retained_items: None,
        tail: Vec::new(),
    };
    let compacted = Purpose::Compacted {
        blob: blob.seal().into(),
        from: 5,
    };
    let body = sent(&session(), compacted);
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": blob.message()},
        {"role": "user", "content": "On."},
    ]);
    assert_eq!(body["messages"], messages);
    assert_eq!(body["tool_choice"], "required");
}

#[test]
fn a_summary_that_replaces_its_history_does_so_in_every_later_request() {
    let blob = |text: &str, retained_items| {
        let (summary, artifacts) = (text.into(), Vec::new());
        CompactionBlob {
            summary,
            artifacts,
            retained_items,
            tail: Vec::new(),
        }
    };
    let item =
        |blob: &CompactionBlob| json!({"type": "compaction", "encrypted_content": blob.seal()});
    // The first summary does not cover the last message, the second one not the last three.
    let (first, second) = (blob("Listed a and b.", Some(1)), blob("All read.", Some(3)));
    let compacted = Purpose::Compacted {
        blob: first.seal().into(),
        from: 5,
    };
    let then = sent(&session(), compacted)["messages"].clone();
    let answer = json!({"role": "assistant", "content": "I read them."});
    let whole = with(&with(&session(), item(&first)), answer);
    let now = sent(&whole, Purpose::Answer)["messages"].clone();
    assert_eq!(now.as_array().unwrap()[..3], then.as_array().unwrap()[..]);
    assert_eq!(now[3]["content"], "I read them.");
    assert_eq!(now.as_array().unwrap().len(), 4);

    let again = with(
        &with(&whole, json!({"role": "user", "content": "c?"})),
        item(&second),
    );
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": second.message()},
        {"role": "user", "content": "On."},
        {"role": "assistant", "content": "I read them."},
        {"role": "user", "content": "c?"},
    ]);
    assert_eq!(sent(&again, Purpose::Answer)["messages"], messages);
    // The request is the same if the client has dropped the replaced items.
    let input = again["input"].as_array().unwrap();
    let dropped = [&input[..1], &input[5..]].concat();
    let mut dropped_all = again.clone();
    dropped_all["input"] = json!(dropped);
    assert_eq!(sent(&dropped_all, Purpose::Answer)["messages"], messages);
}

// Compaction items of any server are accepted.
#[test]
fn a_compaction_item_is_sent_as_its_summary_or_as_unreadable() {
    let blob = CompactionBlob {
        summary: "Listed a and b.".into(),
        artifacts: Vec::new(),
        retained_items: None,
        tail: Vec::new(),
    };
    for kind in ["compaction", "context_compaction", "compaction_summary"] {
        for (sealed, text, notes) in [
            (blob.seal(), blob.message(), ""),
            (
                "gAAAAA".to_owned(),
                UNREADABLE_SUMMARY.to_owned(),
                "item_skipped",
            ),
        ] {
            let item = json!({"type": kind, "id": "cmp_1", "encrypted_content": sealed});
            let request =
                json!({"model": "m", "input": [item, {"role": "user", "content": "Go."}]});
            let (body, noted) = sent_to("", &request, Purpose::Answer);
            assert_eq!(
                body["messages"][0],
                json!({"role": "user", "content": text})
            );
            assert_eq!(noted, notes, "{kind}");
        }
    }
    let none = json!({"model": "m", "input": [{"type": "compaction"}, {"role": "user", "content": "Go."}]});
    assert_eq!(
        sent(&none, Purpose::Answer)["messages"][0]["content"],
        UNREADABLE_SUMMARY
    );
}

#[test]
fn context_management_and_truncation_are_parsed() {
    let read = |field: &str, value: &Value| {
        let mut request = session();
        request[field] = value.clone();
        let source = TurnSource::new(request.to_string());
        let turn = source
            .turn()
            .map_err(|fault| fault.param.unwrap_or_default())?;
        assert!(turn.notes.is_empty());
        Ok::<_, String>((turn.compact_threshold, turn.may_truncate))
    };
    let compaction = |from: Value| json!([{"type": "compaction", "compact_threshold": from}]);
    for (field, value, expected) in [
        ("context_management", json!(null), Ok((None, false))),
        ("context_management", json!([]), Ok((None, false))),
        (
            "context_management",
            compaction(json!(5_000)),
            Ok((Some(5_000), false)),
        ),
        (
            "context_management",
            json!([{"type": "compaction"}]),
            Ok((Some(u64::MAX), false)),
        ),
        (
            "context_management",
            compaction(json!(999)),
            Err("context_management.compact_threshold"),
        ),
        (
            "context_management",
            compaction(json!("many")),
            Err("context_management.compact_threshold"),
        ),
        (
            "context_management",
            json!({"type": "compaction"}),
            Err("context_management"),
        ),
        (
            "context_management",
            json!([{"type": "forget"}]),
            Err("context_management[0].type"),
        ),
        ("truncation", json!(null), Ok((None, false))),
        ("truncation", json!("disabled"), Ok((None, false))),
        ("truncation", json!("auto"), Ok((None, true))),
        ("truncation", json!("some"), Err("truncation")),
        ("truncation", json!(true), Err("truncation")),
    ] {
        assert_eq!(
            read(field, &value),
            expected.map_err(str::to_owned),
            "{field} {value}"
        );
    }
}

#[test]
fn only_the_last_item_can_ask_for_a_summary() {
    let trigger = with(&session(), json!({"type": "compaction_trigger"}));
    let source = TurnSource::new(trigger.to_string());
    assert!(source.turn().unwrap().wants_compaction());
    assert!(
        !TurnSource::new(session().to_string())
            .turn()
            .unwrap()
            .wants_compaction()
    );
    let late = with(&trigger, json!({"role": "user", "content": "Go."}));
    let fault = TurnSource::new(late.to_string()).turn().unwrap_err();
    assert_eq!(fault.param.as_deref(), Some("input[6]"));
    let summary = Purpose::summary(SummaryMode::FitWindow);
    let asked = source.with_purpose(summary.clone());
    let turn = asked.turn().unwrap();
    assert_eq!(turn.purpose, summary);
    assert_eq!(turn.items.len(), 7);
}
