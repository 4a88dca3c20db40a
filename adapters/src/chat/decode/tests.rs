//! Chunks and the events that they are decoded into.

use super::*;

/// The events of these chunks in a short notation.
fn events_for(quirks: &ChatQuirks, chunks: &[&str]) -> Vec<String> {
    let mut events = Vec::new();
    let mut decoder = ChatDecoder::new(quirks);
    let mut emit = |event: Event<'_>| {
        events.push(match event {
            Event::Started => return,
            Event::MessageEnd => "message ends".to_owned(),
            Event::Text(text, _) => format!("text {}", text.decoded()),
            Event::Reasoning(text) => format!("reasoning {}", text.decoded()),
            Event::CallStart { slot, id, name } => format!("call {slot} {id} {name}"),
            Event::CallArguments(slot, text) => format!("arguments {slot} {}", text.decoded()),
            Event::ReasoningState(state) => match state.form {
                reasoning_state::REASONING_DETAILS => format!("details {}", state.blob),
                reasoning_state::EXTRA_CONTENT => format!("extra {}", state.blob),
                form => panic!("{form:?}"),
            },
            Event::Citation(citation) => format!("citation {citation:?}"),
            Event::Native(native) => format!("native {native:?}"),
            Event::Source { url, title } => format!("source {url} {title}"),
            Event::Searched => "searched".to_owned(),
            Event::Usage(usage) => format!("usage {}/{}", usage.input, usage.output),
            Event::Note(code, detail) => format!("note {code}: {detail}"),
            Event::Finish(finish) => format!("finish {finish:?}"),
            Event::Failed(fault) => format!("failed {} {}", fault.kind.name(), fault.message),
            Event::Refusal(text) => format!("refusal {}", text.decoded()),
        });
    };
    for chunk in chunks {
        decoder.decode(chunk, DataKind::Complete, &mut emit);
    }
    decoder.finish(&mut emit);
    events
}

/// The events for a model without quirks.
fn events(chunks: &[&str]) -> Vec<String> {
    events_for(&ChatQuirks::default(), chunks)
}

/// The events of an answer with these deltas.
fn answer_events(deltas: &[&str]) -> Vec<String> {
    answer_events_for(&ChatQuirks::default(), deltas)
}

/// The events of an answer with these deltas, for a model with these quirks.
fn answer_events_for(quirks: &ChatQuirks, deltas: &[&str]) -> Vec<String> {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#))
        .collect();
    chunks.push(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
    let mut events = events_for(
        quirks,
        &chunks.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(events.pop().as_deref(), Some("finish Stop"));
    events
}

#[test]
fn a_call_waits_for_its_name_but_not_for_its_id() {
    assert_eq!(
        answer_events(&[
            r#"{"tool_calls":[{"index":0,"id":"a"}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#,
        ]),
        ["call 0 a f", "arguments 0 {", "arguments 0 }"]
    );
    assert_eq!(
        answer_events(&[
            r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]}"#,
        ]),
        ["call 0  f", "arguments 0 {", "arguments 0 }"]
    );
}

#[test]
fn a_complete_call_at_the_index_of_a_complete_call_is_a_new_one() {
    let whole = r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"k\": 1}"}}]}"#;
    let other = r#"{"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{}"}}]}"#;
    let again = r#"{"tool_calls":[{"index":0,"function":{"name":"g","arguments":""}}]}"#;
    assert_eq!(
        answer_events(&[whole, whole, other, again]),
        [
            "call 0  f",
            r#"arguments 0 {"k": 1}"#,
            "call 1  f",
            r#"arguments 1 {"k": 1}"#,
            "call 2  g",
            "arguments 2 {}",
        ]
    );
}

#[test]
fn a_name_may_arrive_in_pieces_or_again_and_again() {
    let piece = |name: &str, arguments: &str| {
        let function = serde_json::json!({"name": name, "arguments": arguments});
        serde_json::json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]})
            .to_string()
    };
    let whole = ["call 0 a web_search", "arguments 0 {}"];
    for pieces in [
        vec![("web", ""), ("_sea", ""), ("rch", ""), ("", "{}")],
        vec![("web", ""), ("_sea", ""), ("rch", "{}")],
        vec![("web", ""), ("", " "), ("_search", " "), ("", "{}")],
        vec![("web_search", ""), ("web_search", ""), ("web_search", "{}")],
        vec![("web_search", "{"), ("web_search", "}")],
        vec![("web", ""), ("_search", ""), ("web_search", "{}")],
    ] {
        let deltas: Vec<String> = pieces.iter().map(|(n, a)| piece(n, a)).collect();
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        let events: Vec<String> = answer_events(&deltas);
        let arguments = events[1..].iter().map(|it| it.strip_prefix("arguments 0 "));
        let arguments: String = arguments.map(|it| it.unwrap().trim()).collect();
        assert_eq!((events[0].as_str(), arguments.as_str()), (whole[0], "{}"));
    }
    // Behind arguments a name is not continued.
    assert_eq!(
        answer_events(&[&piece("web_search", "{"), &piece("x", "}")]),
        [whole[0], "arguments 0 {", "arguments 0 }"]
    );
}

#[test]
fn a_call_without_arguments_starts_before_what_follows_it() {
    let call = |index: usize, name: &str| {
        let function = serde_json::json!({"name": name, "arguments": ""});
        serde_json::json!({"tool_calls": [{"index": index, "function": function}]}).to_string()
    };
    for (follows, event) in [
        (r#"{"content":"So"}"#.to_owned(), "text So"),
        (
            r#"{"content":[{"type":"text","text":"So"}]}"#.to_owned(),
            "text So",
        ),
        (r#"{"reasoning":"hm"}"#.to_owned(), "reasoning hm"),
        (r#"{"refusal":"No"}"#.to_owned(), "refusal No"),
        (call(1, "g"), "call 1  g"),
    ] {
        assert_eq!(
            answer_events(&[&call(0, "f"), &follows]),
            ["call 0  f", event]
        );
    }
}

#[test]
fn calls_without_id_and_index_are_distinguished_by_name() {
    assert_eq!(
        answer_events(&[
            r#"{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
        ]),
        [
            "call 0  f",
            "arguments 0 {}",
            "call 1  f",
            "arguments 1 {",
            "arguments 1 }"
        ]
    );
}

#[test]
fn a_new_id_at_a_known_index_is_a_new_call() {
    assert_eq!(
        answer_events(&[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":null}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"","arguments":"{}"}}]}"#,
        ]),
        [
            "call 0 a f",
            r#"arguments 0 {"x":1}"#,
            "call 1 b g",
            "arguments 1 {}"
        ]
    );
}

#[test]
fn reasoning_in_two_fields_is_emitted_once() {
    assert_eq!(
        answer_events(&[
            r#"{"reasoning":"a"}"#,
            r#"{"reasoning":"b","reasoning_content":"b"}"#,
            r#"{"reasoning":null,"reasoning_content":"","content":"c"}"#,
        ]),
        ["reasoning a", "reasoning b", "text c"]
    );
}

#[test]
fn a_choice_may_hold_delta_and_message() {
    let chunk = r#"{"choices":[{"delta":{"content":"a"},"message":null,"finish_reason":"stop"}]}"#;
    assert_eq!(events(&[chunk]), ["text a", "finish Stop"]);
    let whole = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#;
    assert_eq!(events(&[whole]), ["text a", "finish Length"]);
}

#[test]
fn an_error_never_completes_an_answer() {
    for (chunk, end) in [
        (
            r#"{"error":{"message":"no","code":400}}"#,
            "failed refused no",
        ),
        (
            r#"{"object":"error","message":"busy","type":"x","code":503}"#,
            "failed overloaded busy",
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            "failed unavailable The provider ended its answer with an error and did not say which.",
        ),
        (
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            "failed cut The provider's answer ended before it was complete.",
        ),
    ] {
        assert_eq!(events(&[chunk, "[DONE]"]), [end]);
    }
}

#[test]
fn token_counts_are_found_everywhere_and_the_last_ones_win() {
    assert_eq!(
        events(&[
            r#"{"choices":[{"delta":{}}],"usage":null,"x_groq":{"id":"r"}}"#,
            r#"{"choices":[{"delta":{}}],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":1}}}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":2,"completion_tokens":2}}]}"#,
            r#"{"choices":[{"delta":{},"usage":{"prompt_tokens":3,"completion_tokens":3}}],"usage":{"prompt_tokens":4,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":5}}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#,
            r#"{"choices":[],"usage":{}}"#,
        ]),
        [
            "usage 1/1",
            "usage 2/2",
            "usage 4/4",
            "note usage_clamped: reasoning 5 of 4",
            "finish Stop"
        ]
    );
    assert_eq!(
        events(&[r#"{"error":{"message":"no","code":400},"usage":{"prompt_tokens":4}}"#]),
        ["usage 4/0", "failed refused no"]
    );
}

#[test]
fn details_are_emitted_only_for_providers_that_require_them() {
    let delta = r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]}"#;
    assert_eq!(answer_events(&[delta]), ["reasoning a"]);
    let quirks = ChatQuirks {
        reasoning_replay: ReasoningReplay::ReasoningDetails,
        ..ChatQuirks::default()
    };
    let details = r#"details {"type":"reasoning.text","text":"a"}"#;
    assert_eq!(
        answer_events_for(&quirks, &[delta]),
        ["reasoning a", details]
    );
}
