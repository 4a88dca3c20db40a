//! The calls of tools in the forms of providers.

use super::*;

#[test]
fn calls_are_separated_however_they_are_identified() {
    check(&[
        (
            "",
            &[
                r#"{"tool_calls":null}"#,
                r#"{"tool_calls":[]}"#,
                r#"{"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"","type":"function","function":{"name":"","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"","function":{"name":null,"arguments":null}}]}"#,
            ],
            &["f({})"],
        ),
        (
            "",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\":"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}]}"#,
            ],
            &[r#"f({"x":1})"#, r#"g({"y":2})"#],
        ),
        (
            "",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x": "\"q\""}}},{"index":0,"id":"b","function":{"name":"f"}},{"index":"2","id":7,"function":{"name":"g","arguments":" \n"}}]}"#,
            ],
            &[r#"f({"x": "\"q\""})"#, "f({})", "g({})"],
        ),
        (
            "",
            &[
                r#"{"tool_calls":[{"function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"name":"f","arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":1}"}}]}"#,
            ],
            &["f({})", r#"f({"x":1})"#],
        ),
        (
            "",
            &[r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":" \n"}}]}"#],
            &["f({})"],
        ),
        (
            "",
            &[r#"{"tool_calls":[{"id":"a","function":{"name":"functions.f","arguments":"{}"}}]}"#],
            &["f({})", "note tool_name_repaired"],
        ),
        (
            "",
            &[
                r#"{"function_call":{"name":"f","arguments":""}}"#,
                r#"{"function_call":{"arguments":"{}"}}"#,
            ],
            &["f({})"],
        ),
        (
            "",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}"#,
            ],
            &[
                r#"f({"x":)"#,
                "\"max_output_tokens\"",
                "note call_truncated",
            ],
        ),
    ]);
}

/// What a client gets for arguments that come in these pieces: the arguments, and the codes of the
/// notes.
fn arguments(pieces: &[&str]) -> Vec<String> {
    let mut said =
        vec![r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}"#.to_owned()];
    said.extend(pieces.iter().map(|piece| {
        let function = serde_json::json!({"arguments": piece});
        format!(r#"{{"tool_calls":[{{"index":0,"function":{function}}}]}}"#)
    }));
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    read("", &deltas(&said))
}

#[test]
fn arguments_are_freed_of_what_stands_around_the_document() {
    let whole = r#"{"x": "}"}"#;
    let said = format!("f({whole})");
    let repaired = vec![said.as_str(), "note arguments_repaired"];
    for (before, behind) in [
        ("", whole),
        ("", r#" {"x":"}"}"#),
        ("", "\n"),
        ("", "\n</tool_call>"),
        ("", "</parameter></function>\n</tool_call>"),
        ("", "<|call|>"),
        ("", "<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>"),
        ("", "[/TOOL_CALLS]"),
        ("", "\n```"),
        ("", "}"),
        ("", "</tool_ca"),
        ("{", ""),
        ("{", "}"),
        ("{}", ""),
        ("{}\n", "{}"),
        ("", "\n{ }"),
        ("```json\n", "\n```\n"),
        ("<tool_call>\n", "\n</tool_call>"),
        ("\u{feff}", ""),
    ] {
        for pieces in [
            vec![format!("{before}{whole}{behind}")],
            vec![before.to_owned(), whole.to_owned(), behind.to_owned()],
        ] {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(arguments(&pieces), repaired, "{pieces:?}");
        }
    }
    assert_eq!(
        arguments(&["\"{\\\"x\\\": 1}\""]),
        ["f({\"x\": 1})", "note arguments_repaired"]
    );
    // More than servers do is not undone.
    let thrice = r#""\"\\\"{}\\\"\"""#;
    assert_eq!(
        arguments(&[thrice]).last().map(String::as_str),
        Some("note arguments_broken")
    );
    assert_eq!(arguments(&[" {", " \"x\": 1}"]), ["f( { \"x\": 1})"]);
}

#[test]
fn arguments_that_cannot_be_read_stay_as_they_are() {
    for text in [
        r#"{"x":1}{"x":2}"#,
        r#"{"x":1} and that is all"#,
        r#"{"x":1}</tool_call><tool_call>{"x":2}"#,
        "{'x': 1}",
        r#"{"x":1}, "y":2}"#,
        "null",
        "[1]",
        "plain text",
    ] {
        assert_eq!(
            arguments(&[text]),
            [format!("f({text})").as_str(), "note arguments_broken"]
        );
    }
}

#[test]
fn arguments_that_are_still_open_are_no_call() {
    let cut = "\"max_output_tokens\"";
    for text in [
        "{",
        r#"{"x"#,
        r#"{"x":1"#,
        r#"{"x":1}{"x""#,
        r#"{{"x":1"#,
        r#"{}{"x":1"#,
        "[1",
        r#""{\"x\":"#,
        r#""{\"x\":""#,
        "tr",
        "```json\n{\"x",
        "{'x': 1",
    ] {
        let said = [format!("f({text})").as_str(), cut, "note call_truncated"].map(str::to_owned);
        assert_eq!(arguments(&[text]), said, "{text}");
    }
}

#[test]
fn a_call_without_a_name_and_an_answer_without_anything_fail() {
    let nameless = "failed: \"The provider sent a tool call without a name.\"";
    let note = "note call_without_name";
    for name in ["", r#","name":null"#, r#","name":"""#, r#","name":" \n""#] {
        let call = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"a","function":{{"arguments":"{{}}"{name}}}}}]}}"#
        );
        assert_eq!(read("", &deltas(&[&call])), [nameless, note]);
        let text = r#"{"content":"Now I look."}"#;
        assert_eq!(
            read("", &deltas(&[text, &call])),
            ["commentary Now I look.", nameless, note]
        );
        let whole = format!(r#"{{"choices":[{{"message":{call},"finish_reason":"tool_calls"}}]}}"#);
        assert_eq!(read("", &whole), [nameless, note]);
        // Some servers send an empty one beside the others.
        let other =
            r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]}"#;
        assert_eq!(read("", &deltas(&[&call, other])), ["f({})", note]);
        let lost = call.replace("{}", "{\\\"x\\\":1}");
        let told = read("", &deltas(&[&lost, other]));
        assert!(told.contains(&nameless.to_owned()), "{told:?}");
    }
    for (delta, reason, told) in [
        ("{}", "engine_overloaded", "the reason 'engine_overloaded'"),
        ("{}", "tool_calls", "the reason 'tool_calls'"),
        (
            r#"{"content":""}"#,
            "function_call",
            "the reason 'function_call'",
        ),
        (r#"{"reasoning":"hm"}"#, "tool_use", "the reason 'tool_use'"),
        (r#"{"content":" \n"}"#, "because", "the reason 'because'"),
        (r#"{"reasoning":"hm"}"#, "because", "the reason 'because'"),
    ] {
        let body = format!(
            "data: {{\"choices\":[{{\"delta\":{delta},\"finish_reason\":\"{reason}\"}}]}}\n\ndata: [DONE]\n\n"
        );
        let read = read("", &body);
        assert!(
            read.iter()
                .any(|line| line.starts_with("failed") && line.contains(told)),
            "{read:?}"
        );
    }
}

#[test]
fn extra_content_of_a_call_precedes_the_call() {
    let said: &[&str] = &[
        r#"{"reasoning":"a"}"#,
        r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}},{"index":1,"id":"2","function":{"name":"g","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":2,"id":"3","extra_content":{"google":{"thought_signature":"t"}}}]}"#,
        r#"{"tool_calls":[{"index":2,"function":{"name":"g","arguments":"{}"}}]}"#,
    ];
    check(&[
        (
            KEPT,
            said,
            &[
                "reasoning a",
                r#"reasoning  + {"google":{"thought_signature":"s"}}"#,
                "f({})",
                "g({})",
                r#"reasoning  + {"google":{"thought_signature":"t"}}"#,
                "g({})",
            ],
        ),
        ("", said, &["reasoning a", "f({})", "g({})", "g({})"]),
        (
            KEPT,
            &[
                r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"extra_content":{"x":1},"function":{"arguments":"}"}}]}"#,
            ],
            &["f({})", "note call_extra_dropped"],
        ),
    ]);
}

#[test]
fn calls_inside_the_text_become_calls() {
    check(&[
        (
            "tool_call_tags = true",
            &[
                r#"{"content":"I look.\n<tool"}"#,
                r#"{"content":"_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"}"#,
            ],
            &[
                "commentary I look.\n",
                r#"f({"x": 1})"#,
                "note tool_call_in_text",
            ],
        ),
        (
            "",
            &[r#"{"content":"<tool_call>{\"name\":\"f\"}</tool_call>"}"#],
            &[r#"final_answer <tool_call>{"name":"f"}</tool_call>"#],
        ),
    ]);
}
