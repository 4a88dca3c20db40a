//! Requests to Responses upstreams: what goes back as it came, and what does not go at all.

use std::sync::Arc;

use registry::{Dialect, EnumSet, Model, RelayQuirks, WireQuirks};
use serde_json::{Value, json};

use crate::baggage::Baggage;
use crate::cited_source::CitedSource;
use crate::compaction_blob::CompactionBlob;
use crate::hidden_rounds::{HiddenEntry, HiddenRounds};
use crate::origin::{tag_id, wrap};
use crate::plan::{Bounds, plan};
use crate::purpose::Purpose;
use crate::responses::request::TurnSource;
use crate::wire::{EncodeOptions, encode};

/// The body for this request, to the provider `acme` with these quirks.
fn body(request: &Value, quirks: RelayQuirks) -> Value {
    encoded(&TurnSource::new(request.to_string()), quirks)
}

fn encoded(source: &TurnSource, quirks: RelayQuirks) -> Value {
    let dialect = Dialect {
        quirks: WireQuirks::Responses(quirks),
        body: Vec::new(),
    };
    let model = Model {
        images: true,
        ..Model::unlisted("m")
    };
    let turn = source.turn().unwrap();
    let plan = plan(&turn, &Bounds::none());
    let options = EncodeOptions {
        origin: "acme/m",
        ..EncodeOptions::new(&dialect, &model, "m")
    };
    let encoded = encode(&turn, &plan, &options).unwrap().encoded;
    for span in &encoded.spans {
        let item = &encoded.body[span.bytes.clone()];
        let item = item.strip_prefix(b",").unwrap_or(item);
        assert!(serde_json::from_slice::<Value>(item).is_ok(), "a span");
    }
    serde_json::from_slice(&encoded.body).unwrap()
}

fn input(items: &[Value], quirks: RelayQuirks) -> Value {
    body(&json!({"model": "m", "input": items}), quirks)["input"].clone()
}

fn functions_only() -> RelayQuirks {
    RelayQuirks {
        tools: EnumSet::empty(),
        ..RelayQuirks::default()
    }
}

#[test]
fn an_item_of_this_upstream_goes_back_as_it_came() {
    let own = |id: &str, prefix: &str| tag_id("acme/m", id, prefix, false).unwrap();
    let items = [
        json!({"role": "user", "content": "go"}),
        json!({"type": "reasoning", "id": own("rs_1", "rs_"), "summary": [],
            "encrypted_content": wrap("acme/m", "gAAAA"), "extra": 1}),
        json!({"id": own("msg-2", "msg_"), "type": "message", "role": "assistant",
            "status": "completed", "phase": "commentary",
            "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]}),
        json!({"type": "web_search_call", "id": own("ws_3", "ws_"), "status": "completed",
            "action": {"type": "search", "query": "q"}}),
        json!({"type": "function_call", "id": own("fc_4", "fc_"), "call_id": "c1", "name": "f",
            "arguments": "{\"a\": 1}", "caller": {"type": "direct"}}),
        json!({"type": "function_call_output", "id": "fco_9", "call_id": "c1", "output": "ok"}),
    ];
    let mut expected = items.to_vec();
    expected[0] = json!({"type": "message", "role": "user", "content": "go"});
    expected[1]["id"] = json!("rs_1");
    expected[1]["encrypted_content"] = json!("gAAAA");
    expected[2]["id"] = json!("msg-2");
    expected[3]["id"] = json!("ws_3");
    expected[4]["id"] = json!("fc_4");
    expected[5].as_object_mut().unwrap().remove("id");
    assert_eq!(input(&items, RelayQuirks::default()), json!(expected));
}

/// Promise: The citations that the proxy adds to a text of a provider do not go back to that
/// provider; its own do, also where a later search has found the same page.
#[test]
fn added_citations_do_not_go_back() {
    let citation = |url: &str| json!({"type": "url_citation", "url": url, "title": "T", "start_index": 0, "end_index": 1});
    let id = tag_id("acme/m", "msg_1", "msg_", false).unwrap();
    let message = |annotations: &[Value]| {
        json!({"id": id, "type": "message", "role": "assistant", "status": "completed",
        "content": [
            {"type": "output_text", "text": "a", "annotations": annotations, "logprobs": []},
            {"type": "output_text", "text": "b", "annotations": [citation("https://own.example/")]},
        ]})
    };
    let (found, own) = (
        citation("https://found.example/"),
        citation("https://own.example/"),
    );
    let call =
        json!({"type": "function_call", "call_id": "c1", "name": "open_page", "arguments": "{}"});
    let earlier = tag_id("acme/m", "msg_0", "msg_", false).unwrap();
    let mut before = message(std::slice::from_ref(&found));
    before["id"] = json!(earlier);
    let items = [
        json!({"role": "user", "content": "go"}),
        before,
        json!({"role": "user", "content": "on"}),
        message(&[found, own.clone()]),
    ];
    let rounds = HiddenRounds {
        entries: vec![
            HiddenEntry::Hidden(call.to_string().into()),
            HiddenEntry::Source(CitedSource {
                url: "https://found.example/".to_owned(),
                ..CitedSource::default()
            }),
            HiddenEntry::Message(vec![id.clone()]),
        ],
    };
    let rounds = Arc::new(rounds);
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    let with_rounds = source.with_hidden_rounds(vec![Arc::clone(&rounds)]);
    let blob = CompactionBlob {
        summary: "so far".into(),
        ..CompactionBlob::default()
    };
    let compacted = Purpose::Compacted {
        blob: blob.seal().into(),
        from: 2,
    };
    for (source, kept) in [
        (with_rounds.clone(), 1),
        (with_rounds.with_purpose(compacted), 1),
        (source, 2),
    ] {
        let sent = encoded(&source, RelayQuirks::default());
        let sent = sent["input"].as_array().unwrap().iter();
        let sent: Vec<&Value> = sent.filter(|item| item["role"] == "assistant").collect();
        let annotations = |message: &Value, at: usize| {
            message["content"][at]["annotations"]
                .as_array()
                .unwrap()
                .clone()
        };
        // What is found later takes nothing from an earlier message.
        for before in sent.iter().rev().skip(1) {
            assert_eq!(annotations(before, 0).len(), 1, "{before}");
        }
        let last = sent.last().unwrap();
        assert_eq!(annotations(last, 0).len(), kept, "{last}");
        assert_eq!(annotations(last, 0)[kept - 1], own);
        assert_eq!(annotations(last, 1), std::slice::from_ref(&own));
        assert_eq!(last["content"][0]["logprobs"], json!([]));
    }
}

#[test]
fn reasoning_goes_back_without_the_null_that_codex_adds() {
    let id = tag_id("acme/m", "rs_1", "rs_", false).unwrap();
    let sealed = wrap("acme/m", "gAAAA");
    let answer = json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}]});
    for (encrypted_content, text_only) in [(json!(sealed), false), (Value::Null, true)] {
        let reasoning = json!({"type": "reasoning", "id": id, "summary": [], "content": null,
            "encrypted_content": encrypted_content});
        let quirks = RelayQuirks {
            encrypted_reasoning: !text_only,
            reasoning_text: text_only,
            ..RelayQuirks::default()
        };
        let sent = input(&[reasoning, answer.clone()], quirks);
        let mut expected = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        if !text_only {
            expected["encrypted_content"] = json!("gAAAA");
        }
        assert_eq!(sent[0], expected);
    }
}

#[test]
fn what_another_upstream_made_goes_without_ids_and_blobs() {
    let foreign = tag_id("other/m", "msg_1", "msg_", false).unwrap();
    let sealed = Baggage {
        reasoning: "thought".into(),
        origin: "chat/m".into(),
        ..Baggage::default()
    };
    let items = [
        json!({"role": "user", "content": "go"}),
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed.seal()}),
        json!({"type": "reasoning", "id": "rs_2", "summary": [],
            "encrypted_content": wrap("other/m", "gBBBB")}),
        json!({"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "gCCCC"}),
        json!({"type": "message", "id": foreign, "role": "assistant", "phase": "final_answer",
            "content": [{"type": "output_text", "text": "a"}]}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}),
        json!({"type": "compaction", "id": "cmp_1", "encrypted_content":
            CompactionBlob { summary: "so far".into(), ..CompactionBlob::default() }.seal()}),
        json!({"role": "user", "content": "on"}),
    ];
    let sent = input(&items, RelayQuirks::default());
    let text = sent.to_string();
    for hidden in [
        "rsp1.",
        "rsc1.",
        "rse1.",
        "gBBBB",
        "gCCCC",
        "\"id\"",
        "web_search",
    ] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    assert!(text.contains("so far"), "{text}");
    let told = RelayQuirks {
        reasoning_text: true,
        ..RelayQuirks::default()
    };
    let sent = input(&items, told);
    assert_eq!(sent[1]["content"][0]["text"], "thought", "{sent}");
}

#[test]
fn tools_that_the_provider_lacks_become_functions() {
    let request = json!({
        "model": "m",
        "tools": [
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            {"type": "namespace", "name": "mcp__demo", "description": "d",
             "tools": [{"type": "function", "name": "echo", "parameters": {"type": "object", "properties": {}}}]},
            {"type": "web_search"},
            {"type": "function", "name": "f", "strict": null, "parameters": {"type": "object", "properties": {}}},
        ],
        "input": [
            {"role": "user", "content": "go"},
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "p"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            {"type": "function_call", "call_id": "c2", "name": "echo", "namespace": "mcp__demo", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c2", "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
        ],
    });
    let native = body(&request, RelayQuirks::default());
    assert_eq!(native["tools"], request["tools"]);
    assert_eq!(native["input"][1], request["input"][1]);
    assert_eq!(native["input"][3]["namespace"], "mcp__demo");
    let lowered = body(&request, functions_only());
    let names: Vec<_> = lowered["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            (
                tool["type"].as_str().unwrap(),
                tool["name"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("function", "apply_patch"),
            ("function", "mcp__demo__echo"),
            ("function", "f")
        ]
    );
    let calls = &lowered["input"];
    assert_eq!(calls[1]["arguments"], r#"{"input":"p"}"#);
    assert_eq!(calls[2]["type"], "function_call_output");
    assert_eq!(calls[3]["name"], "mcp__demo__echo");
    assert_eq!(calls[4]["output"][1]["type"], "input_image");
}

#[test]
fn nothing_is_stored_and_the_encrypted_reasoning_is_asked_for() {
    let request = json!({
        "model": "m", "instructions": "Be brief.", "input": "hi", "max_output_tokens": 9000,
        "reasoning": {"effort": "low", "summary": "auto"}, "prompt_cache_key": "k",
        "text": {"format": {"type": "json_object"}}, "user": "u", "metadata": {"a": "b"},
    });
    let body = body(&request, RelayQuirks::default());
    assert_eq!(
        body,
        json!({
            "model": "m", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"format": {"type": "json_object"}},
            "prompt_cache_key": "k", "instructions": "Be brief.",
            "input": [{"type": "message", "role": "user", "content": "hi"}],
            "max_output_tokens": 9000,
        })
    );
}

/// A task that one agent of Codex gives another one, and the aim that Codex tells the model.
fn told_by_codex() -> [Value; 2] {
    [
        json!({"type": "agent_message", "author": "/root", "recipient": "/root/scout", "content": [
            {"type": "input_text", "text": "Message Type: NEW_TASK\nPayload:\n"},
            {"type": "encrypted_content", "encrypted_content": "find the \"mint\""}]}),
        json!({"type": "function_call_output", "namespace": "agent", "name": "aim", "output": "count"}),
    ]
}

#[test]
fn what_codex_tells_goes_as_it_is_to_an_upstream_that_knows_it() {
    let mut items = told_by_codex().to_vec();
    for item in &mut items {
        item["id"] = json!("amsg_1");
        item["internal_chat_message_metadata_passthrough"] = json!({"turn_id": "t"});
    }
    let sent = input(&items, RelayQuirks::default());
    assert_eq!(sent, json!(told_by_codex()));
    let as_text = json!([
        {"type": "message", "role": "user",
            "content": "Message Type: NEW_TASK\nPayload:\nfind the \"mint\""},
        {"type": "message", "role": "user", "content": "aim:\ncount"}]);
    assert_eq!(input(&items, functions_only()), as_text);
    let refusing = RelayQuirks {
        agent_messages: false,
        ..RelayQuirks::default()
    };
    assert_eq!(input(&items, refusing), as_text);
}

#[test]
fn no_tool_asks_for_encryption() {
    let schema = |extra: &str| {
        let text = format!(
            r#"{{"type":"object","properties":{{"encrypted":{{"type":"string"{extra}}}}}}}"#
        );
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let tools = |extra: &str| {
        let tool = json!({"type": "function", "name": "send", "parameters": schema(extra), "strict": false});
        json!([tool, {"type": "namespace", "name": "agents", "description": "d", "tools": [tool]}])
    };
    let asked = tools(r#","encrypted":true"#);
    let request = json!({"model": "m", "tools": asked, "input": [
        {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}, "execution": "client"},
        {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": asked}]});
    let sent = body(&request, RelayQuirks::default());
    assert_eq!(sent["input"][1]["tools"], tools(""));
    assert_eq!(
        sent["tools"].as_array().unwrap()[..2],
        tools("").as_array().unwrap()[..]
    );
    let lowered = body(&request, functions_only()).to_string();
    assert!(!lowered.contains(r#""encrypted":true"#), "{lowered}");
}

#[test]
fn a_title_takes_the_least_effort_of_the_model() {
    let dialect = Dialect {
        quirks: WireQuirks::Responses(RelayQuirks::default()),
        body: Vec::new(),
    };
    let levels = |names: &[&str]| Model {
        reasoning: names.iter().map(|&name| name.to_owned()).collect(),
        ..Model::unlisted("m")
    };
    for (model, asked, sent) in [
        (levels(&["none", "high"]), Some("high"), json!("none")),
        (levels(&["low", "high"]), None, json!("low")),
        (levels(&["low"]), Some("low"), json!("low")),
        // Nothing is known of it.
        (levels(&[]), Some("high"), json!("high")),
        (levels(&[]), None, Value::Null),
    ] {
        let request = json!({"model": "m", "input": "go", "reasoning": {"effort": asked}});
        let source = TurnSource::new(request.to_string()).with_least_effort(true);
        let turn = source.turn().unwrap();
        let options = EncodeOptions::new(&dialect, &model, "m");
        let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options).unwrap();
        let body: Value = serde_json::from_slice(&encoded.encoded.body).unwrap();
        assert_eq!(body["reasoning"]["effort"], sent, "{request}");
    }
}
