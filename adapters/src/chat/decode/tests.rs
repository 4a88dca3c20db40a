//! What chunks say.

use super::*;

/// What the chunks say, in short.
fn told_by(quirks: &Quirks, chunks: &[&str]) -> Vec<String> {
    let mut told = Vec::new();
    let mut decoder = Decoder::new(quirks);
    let mut emit = |event: Event<'_>| {
        told.push(match event {
            Event::Started => return,
            Event::Text(text, _) => format!("text {}", text.decoded()),
            Event::Reasoning(text) => format!("reasoning {}", text.decoded()),
            Event::CallStart { slot, id, name } => format!("call {slot} {id} {name}"),
            Event::CallArguments(slot, text) => format!("arguments {slot} {}", text.decoded()),
            Event::ReasoningDetails(list) => format!("details {list}"),
            Event::CallExtraContent(extra) => format!("extra {extra}"),
            Event::Annotation(raw) => format!("annotation {raw}"),
            Event::Source { url, title } => format!("source {url} {title}"),
            Event::Usage(usage) => format!("usage {}/{}", usage.input, usage.output),
            Event::Note(code, detail) => format!("note {code}: {detail}"),
            Event::Finish(finish) => format!("finish {finish:?}"),
            Event::Failed(fault) => format!("failed {} {}", fault.kind.name(), fault.message),
            Event::Refusal(text) => format!("refusal {}", text.decoded()),
        });
    };
    for chunk in chunks {
        decoder.data(chunk, Frame::Whole, &mut emit);
    }
    decoder.end(&mut emit);
    told
}

/// The same of a model without quirks.
fn told(chunks: &[&str]) -> Vec<String> {
    told_by(&Quirks::default(), chunks)
}

/// Chunks of one choice each.
fn answer(deltas: &[&str]) -> Vec<String> {
    answer_by(&Quirks::default(), deltas)
}

/// The same of a model with these quirks.
fn answer_by(quirks: &Quirks, deltas: &[&str]) -> Vec<String> {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#))
        .collect();
    chunks.push(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
    let mut told = told_by(
        quirks,
        &chunks.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(told.pop().as_deref(), Some("finish Stop"));
    told
}

#[test]
fn a_call_waits_for_its_name_but_not_for_its_id() {
    assert_eq!(
        answer(&[
            r#"{"tool_calls":[{"index":0,"id":"a"}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#,
        ]),
        ["call 0 a f", "arguments 0 {", "arguments 0 }"]
    );
    assert_eq!(
        answer(&[
            r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]}"#,
        ]),
        ["call 0  f", "arguments 0 {", "arguments 0 }"]
    );
}

#[test]
fn a_whole_call_on_the_index_of_a_whole_call_is_another_one() {
    let whole = r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"k\": 1}"}}]}"#;
    let other = r#"{"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{}"}}]}"#;
    let again = r#"{"tool_calls":[{"index":0,"function":{"name":"g","arguments":""}}]}"#;
    assert_eq!(
        answer(&[whole, whole, other, again]),
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
fn calls_without_id_and_index_are_told_apart_by_their_names() {
    assert_eq!(
        answer(&[
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
fn a_new_id_on_an_index_is_a_new_call() {
    assert_eq!(
        answer(&[
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
fn reasoning_has_two_names_and_is_told_once() {
    assert_eq!(
        answer(&[
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
    assert_eq!(told(&[chunk]), ["text a", "finish Stop"]);
    let whole = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#;
    assert_eq!(told(&[whole]), ["text a", "finish Length"]);
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
        assert_eq!(told(&[chunk, "[DONE]"]), [end]);
    }
}

#[test]
fn counts_are_read_wherever_they_stand_and_the_last_ones_count() {
    assert_eq!(
        told(&[
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
        told(&[r#"{"error":{"message":"no","code":400},"usage":{"prompt_tokens":4}}"#]),
        ["usage 4/0", "failed refused no"]
    );
}

#[test]
fn an_answer_without_quirks_keeps_no_details() {
    let delta = r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]}"#;
    assert_eq!(answer(&[delta]), ["reasoning a"]);
    let quirks = Quirks {
        reasoning_replay: ReasoningReplay::ReasoningDetails,
        ..Quirks::default()
    };
    let details = r#"details {"type":"reasoning.text","text":"a"}"#;
    assert_eq!(answer_by(&quirks, &[delta]), ["reasoning a", details]);
}
