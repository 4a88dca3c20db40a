//! How providers deviate from the plain stream, and what a client gets for it. Each row has the
//! form of one provider. Every answer is checked with the strict checker and is also read as a
//! response without a stream.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy does not see that all of this is a test"
)]

#[path = "dialects/calls.rs"]
mod calls;
mod common;

use std::fmt::Write as _;

use common::judge;
use kit::drive::{self, settings};
use kit::strict;
use registry::{ChatQuirks, WireQuirks};
use responses_translate::baggage::Baggage;
use responses_translate::responses::request::TurnSource;
use serde_json::Value;

const REQUEST: &str = r#"{"model":"m","stream":true,"input":"go","tools":[
    {"type":"function","name":"f","parameters":{"type":"object"}},
    {"type":"function","name":"g","parameters":{"type":"object"}}]}"#;

/// The items of an answer, its end if it is not complete, and the codes of the notes, in
/// short form.
fn read(quirks: &str, body: &str) -> Vec<String> {
    let quirks = WireQuirks::from(toml::from_str::<ChatQuirks>(quirks).unwrap());
    let source = TurnSource::new(REQUEST.to_owned());
    let turn = source.turn().unwrap();
    let settings = || settings(&turn, false, false);
    let bytes = body.as_bytes();
    let (events, notes) = match drive::stream_with_notes(settings(), &quirks, [bytes]) {
        Ok(told) => told,
        Err(fault) => return vec![format!("{}: {}", fault.kind.name(), fault.message)],
    };
    for cut in [1, 7] {
        let again = drive::stream(settings(), &quirks, bytes.chunks(cut)).unwrap();
        assert_eq!(again, events, "in pieces of {cut} bytes: {body}");
    }
    let stream = judge::stream(&events, false);
    let response = stream.response;
    if stream.terminal != "response.failed" {
        let whole = drive::whole(settings(), &quirks, [bytes]).unwrap();
        assert_eq!(strict::check_response_or_panic(&whole), response, "{body}");
    }
    let items = response["output"].as_array().unwrap().iter().map(item);
    let end = match response["status"].as_str().unwrap() {
        "completed" => None,
        "incomplete" => Some(response["incomplete_details"]["reason"].to_string()),
        _ => Some(format!("failed: {}", response["error"]["message"])),
    };
    let usual = ["usage_estimated", "call_id_minted"];
    let notes = notes.iter().filter(|note| !usual.contains(&note.code));
    items
        .chain(end)
        .chain(notes.map(|note| format!("note {}", note.code)))
        .collect()
}

fn item(item: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (_, digits) = item["id"].as_str().unwrap().split_once('_').unwrap();
    assert!(
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{item}"
    );
    match item["type"].as_str().unwrap() {
        "reasoning" => {
            assert_eq!(item.get("status"), None, "as at OpenAI");
            let mut told = format!("reasoning {}", text(&item["summary"][0]["text"]));
            if let Some(baggage) = Baggage::open(&text(&item["encrypted_content"])) {
                assert_eq!(baggage.origin, "acme/m");
                assert_eq!(baggage.reasoning, text(&item["summary"][0]["text"]));
                let states: String = baggage.states.into_iter().map(|(_, blob)| blob).collect();
                write!(told, " + {states}").unwrap();
            }
            told
        }
        "message" => {
            let part = &item["content"][0];
            let mut told = format!("{} {}", text(&item["phase"]), text(&part["text"]));
            for annotation in part["annotations"].as_array().unwrap() {
                let (url, title) = (text(&annotation["url"]), text(&annotation["title"]));
                write!(told, " [{url} {title} {}]", annotation["end_index"]).unwrap();
            }
            told
        }
        _ => format!("{}({})", text(&item["name"]), text(&item["arguments"])),
    }
}

/// The stream of an answer with these deltas.
fn deltas(deltas: &[&str]) -> String {
    let mut body = String::new();
    for delta in deltas {
        write!(
            body,
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n"
        )
        .unwrap();
    }
    body + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
}

/// Checks rows of (quirks, deltas, expected result of [`read`]).
fn check(rows: &[(&str, &[&str], &[&str])]) {
    for (quirks, said, expected) in rows {
        assert_eq!(read(quirks, &deltas(said)), *expected, "{said:?}");
    }
}

const DETAILS: &str = "reasoning_replay = \"reasoning_details\"";
const KEPT: &str = "call_extra = \"kept\"";

#[test]
fn reasoning_under_any_field_name_appears_once() {
    check(&[
        (
            "",
            &[
                r#"{"reasoning_content":"a","reasoning":null}"#,
                r#"{"reasoning":"b","reasoning_content":"b"}"#,
                r#"{"reasoning":"c","reasoning_details":[{"type":"reasoning.text","text":"c","index":0}]}"#,
                r#"{"content":"d"}"#,
            ],
            &["reasoning abc", "final_answer d"],
        ),
        (
            "",
            &[
                r#"{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"b"},{"type":"reasoning.encrypted","data":"x"}]}"#,
                r#"{"reasoning_details":[],"content":"c"}"#,
            ],
            &["reasoning ab", "final_answer c"],
        ),
        (
            "",
            &[
                r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}],"closed":true}]}"#,
                r#"{"content":[{"type":"thinking","thinking":"b"},{"type":"text","text":"c"},{"type":"reference","reference_ids":[1]}]}"#,
                r#"{"content":"d"}"#,
            ],
            &["reasoning ab", "final_answer cd", "note content_dropped"],
        ),
    ]);
}

#[test]
fn reasoning_details_stay_with_their_reasoning() {
    check(&[
        (
            DETAILS,
            &[
                r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}"#,
                r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}"#,
                r#"{"content":"c"}"#,
            ],
            &[
                r#"reasoning ab + [{"type":"reasoning.text","text":"ab","index":0,"signature":"s"}]"#,
                "final_answer c",
            ],
        ),
        (
            DETAILS,
            &[
                r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","index":0}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"y","index":0}]}"#,
            ],
            &[
                r#"reasoning  + [{"type":"reasoning.encrypted","data":"x","index":0}]"#,
                "f({})",
                r#"reasoning  + [{"type":"reasoning.encrypted","data":"y","index":0}]"#,
            ],
        ),
        (
            DETAILS,
            &[
                r#"{"content":"a"}"#,
                r#"{"content":"b","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
                r#"{"content":"c"}"#,
            ],
            &[
                "final_answer abc",
                r#"reasoning  + [{"type":"reasoning.encrypted","data":"x"}]"#,
            ],
        ),
    ]);
}

#[test]
fn thinking_between_tags_is_reasoning() {
    check(&[
        (
            "think_tags = \"on\"",
            &[
                r#"{"content":"<th"}"#,
                r#"{"content":"ink>a</think>\n"}"#,
                r#"{"content":"\n b"}"#,
            ],
            &["reasoning a", "final_answer  b"],
        ),
        (
            "think_tags = \"on\"",
            &[
                r#"{"content":"<think>a","reasoning_content":"a"}"#,
                r#"{"content":"b</think>\nc","reasoning_content":"b"}"#,
            ],
            &["reasoning ab", "final_answer c", "note reasoning_repeated"],
        ),
        (
            "think_tags = \"unopened\"",
            &[r#"{"content":"a</thi"}"#, r#"{"content":"nk>b"}"#],
            &["reasoning a", "final_answer b"],
        ),
        (
            "think_tags = \"unopened\"",
            &[r#"{"reasoning":"a"}"#, r#"{"content":"b"}"#],
            &["reasoning a", "final_answer b"],
        ),
        (
            "think_tags = \"unopened\"",
            &[r#"{"content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"b"}]}"#],
            &["reasoning a", "final_answer b"],
        ),
        (
            "think_tags = \"on\"",
            &[r#"{"content":"<think>a</th"}"#],
            &[
                "reasoning a</th",
                "final_answer a</th",
                "note think_tag_unclosed",
            ],
        ),
        (
            "",
            &[r#"{"content":"<think>a</think>b"}"#],
            &["final_answer <think>a</think>b"],
        ),
    ]);
}

const ON: &str = "think_tags = \"on\"";

/// Promise: Reasoning and text that a provider sends by turns are one message, which is sent at
/// once, and its reasoning; only a call stands between two messages.
#[test]
fn reasoning_and_text_by_turns_are_one_message() {
    check(&[
        (
            "",
            &[
                r#"{"reasoning":"r0 "}"#,
                r#"{"content":"t0 "}"#,
                r#"{"reasoning":"r1 "}"#,
                r#"{"content":"t1 "}"#,
                r#"{"reasoning":"r2"}"#,
                r#"{"content":"t2"}"#,
            ],
            &["reasoning r0 ", "final_answer t0 t1 t2", "reasoning r1 r2"],
        ),
        (
            "",
            &[
                r#"{"content":"t0 "}"#,
                r#"{"reasoning":"\n"}"#,
                r#"{"content":"t1","reasoning":"r0"}"#,
            ],
            &["final_answer t0 t1", "reasoning r0"],
        ),
        // Only a call stands between messages.
        (
            "",
            &[
                r#"{"content":"t0"}"#,
                r#"{"reasoning":"r0"}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"content":"t1"}"#,
                r#"{"reasoning":"r1"}"#,
                r#"{"content":"t2"}"#,
            ],
            &[
                "commentary t0",
                "reasoning r0",
                "f({})",
                "final_answer t1t2",
                "reasoning r1",
            ],
        ),
        (
            DETAILS,
            &[
                r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","signature":"s"}]}"#,
                r#"{"content":"t0 "}"#,
                r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","signature":"t"}]}"#,
                r#"{"content":"t1"}"#,
            ],
            &[
                r#"reasoning a + [{"type":"reasoning.text","text":"a","signature":"s"}]"#,
                "final_answer t0 t1",
                r#"reasoning b + [{"type":"reasoning.text","text":"b","signature":"t"}]"#,
            ],
        ),
    ]);
    let whole = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},
        {"type":"thinking","thinking":"b"},{"type":"text","text":"c"}]},"finish_reason":"stop"}]}"#;
    assert_eq!(read("", whole), ["final_answer ac", "reasoning b"]);
}

#[test]
fn a_closing_tag_alone_ends_reasoning() {
    let whole =
        r#"{"choices":[{"message":{"content":"hm</think>\n\nhello"},"finish_reason":"stop"}]}"#;
    assert_eq!(read(ON, whole), ["reasoning hm", "final_answer hello"]);
    check(&[
        (
            ON,
            &[
                r#"{"content":"hm"}"#,
                r#"{"content":"</think>"}"#,
                r#"{"content":"\n\nhello"}"#,
            ],
            &[
                "commentary hm",
                "final_answer hello",
                "note think_tag_unopened",
            ],
        ),
        (
            "think_tags = \"unopened\"",
            &[r#"{"content":"Only an answer."}"#],
            &["final_answer Only an answer."],
        ),
        (
            ON,
            &[
                r#"{"content":"a"}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"content":"<think>b</think>c"}"#,
            ],
            &["commentary a", "f({})", "reasoning b", "final_answer c"],
        ),
    ]);
}

/// Promise: An answer in the Harmony format that comes as text is read.
#[test]
fn an_answer_in_the_harmony_format_is_read() {
    check(&[
        (
            ON,
            &[
                r#"{"content":"<|channel|>analysis<|message|>I look.<|e"}"#,
                r#"{"content":"nd|><|start|>assistant<|channel|>commentary to=functions.f "}"#,
                r#"{"content":"<|constrain|>json<|message|>{\"x\":1}<|call|>"}"#,
            ],
            &[
                "reasoning I look.",
                r#"f({"x":1})"#,
                "note tool_call_in_text",
            ],
        ),
        (
            ON,
            &[
                r#"{"reasoning":"r"}"#,
                r#"{"content":"<|channel|>final<|message|>Done."}"#,
            ],
            &["reasoning r", "final_answer Done."],
        ),
        (
            "",
            &[r#"{"content":"<|channel|>final<|message|>Done."}"#],
            &["final_answer <|channel|>final<|message|>Done."],
        ),
    ]);
}

#[test]
fn each_citation_is_attached_to_its_text_once() {
    check(&[
        (
            "",
            &[
                r#"{"annotations":[{"type":"url_citation","url":"u1","title":"One","summary":"s","start_index":0,"end_index":null}]}"#,
                r#"{"content":"a"}"#,
                r#"{"annotations":[{"type":"url_citation","url_citation":{"url":"u2","title":null,"end_index":1}},{"type":"file","file":{}}]}"#,
                r#"{"annotations":null}"#,
            ],
            &[
                "final_answer a [u1 One 0] [u2  1]",
                "note annotation_dropped",
            ],
        ),
        (
            "",
            &[r#"{"annotations":[{"type":"url_citation","url":"u"}]}"#],
            &["note annotation_dropped"],
        ),
    ]);
    let body = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],
        "citations":["u1","u2",{"url":"u4","title":"Four"}],
        "search_results":[{"title":"One","url":"u1","date":null}],
        "web_search":[{"title":"Three","link":"u3","content":"c"},{"title":"no link"}]}"#;
    assert_eq!(
        read("", body),
        ["final_answer a [u1 One 0] [u3 Three 0] [u2  0] [u4 Four 0]"]
    );
}

#[test]
fn null_fields_and_other_choices_lose_nothing() {
    let chunks = [
        r#"{"choices":null,"usage":null,"error":null,"base_resp":{"status_code":0,"status_msg":""}}"#,
        r#"{"prompt_filter_results":[]}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":[{"index":null,"delta":null,"message":null,"finish_reason":null,"logprobs":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[null],"function_call":null,"annotations":null,"refusal":null}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"},"finish_reason":"length"}],"error":{}}"#,
        r#"{"choices":[{"index":0,"finish_reason":"stop"}]}"#,
    ];
    let body: String = chunks
        .map(|chunk| format!("data:{chunk}\r\n\r\ndata:\r\n\r\n"))
        .concat();
    assert_eq!(read("", &body), ["final_answer a"]);
    assert_eq!(
        read("", &format!("\u{feff}\n\n: alive\n\n{body}")),
        ["final_answer a"]
    );
}

#[test]
fn every_known_form_of_the_end_is_recognized() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let thought = "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}\n\n";
    let half = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n";
    let ended =
        |reason: &str| format!("data: {{\"choices\":[{{\"finish_reason\":{reason}}}]}}\n\n");
    let done = "data: [DONE]\n\n";
    let counts = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let counts = format!("{counts}\n\n{done}");
    let counted = text.replace("]}\n", "],\"usage\":{\"prompt_tokens\":1}}\n");
    let cut = "failed: \"The provider's answer ended before it was complete.\"";
    for (body, expected) in [
        (
            format!("{text}{}", ended("\"stop\"")),
            vec!["final_answer a"],
        ),
        (
            format!(
                "{text}{}{}{}{done}",
                ended("\"length\""),
                ended("null"),
                ended("\"stop\"")
            ),
            vec!["final_answer a", "\"max_output_tokens\""],
        ),
        (
            format!("{text}{}{counts}", ended("\"\"")),
            vec!["final_answer a", "note finish_reason_missing"],
        ),
        (
            format!("{text}{counts}"),
            vec!["final_answer a", "note finish_reason_missing"],
        ),
        (format!("{text}{done}"), vec!["commentary a", cut]),
        (format!("{counted}{done}"), vec!["commentary a", cut]),
        (
            format!("{text}{}", ended("\"why\"")),
            vec!["final_answer a", "note finish_reason_unknown"],
        ),
        (text.to_owned(), vec!["commentary a", cut]),
        (format!("{text}data: {{\"choi"), vec!["commentary a", cut]),
        (format!("{text}data: [DO"), vec!["commentary a", cut]),
        (format!("{thought}{counts}"), vec!["reasoning a", cut]),
        (
            format!("{half}{counts}"),
            vec!["f({)", cut, "note call_truncated"],
        ),
        (
            "{\"choices\":[{\"message\":{\"content\":\"a\"}}]}".to_owned(),
            vec!["final_answer a", "note finish_reason_missing"],
        ),
        (
            format!("{text}{}", ended("\"insufficient_system_resource\"")),
            vec![
                "commentary a",
                "failed: \"The provider ran out of capacity in the middle of its answer.\"",
            ],
        ),
    ] {
        assert_eq!(read("", &body), expected, "{body}");
    }
}

#[test]
fn an_answer_repeated_at_its_end_appears_once() {
    let delta = |text: &str, beside: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}{beside}}}]}}\n\n"
        )
    };
    // MiniMax: the last chunk repeats the whole answer.
    let whole = "data: {\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"finish_reason\":\"stop\",\"message\":{\"content\":\"ab\",\"reasoning_content\":\"c\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}],\"usage\":{\"prompt_tokens\":1}}\n\n";
    let said = delta("a", "") + &delta("b", "") + whole;
    assert_eq!(read("", &said), ["commentary ab", "f({})"]);
    assert_eq!(
        read("", &(said.clone() + &whole.replace("\"1\"", "\"2\""))),
        ["commentary ab", "f({})"]
    );
    assert_eq!(
        read("", &(delta("", "") + whole)),
        ["reasoning c", "commentary ab", "f({})"]
    );
    // Perplexity: every chunk has the answer so far beside its delta.
    let so_far = delta("a", ",\"message\":{\"content\":\"a\"}")
        + &delta("b", ",\"message\":{\"content\":\"ab\"}");
    let ended = delta(
        "",
        ",\"message\":{\"content\":\"ab\"},\"finish_reason\":\"stop\"",
    );
    assert_eq!(read("", &(so_far.clone() + &ended)), ["final_answer ab"]);
    assert_eq!(
        read("", &so_far),
        [
            "commentary ab",
            "failed: \"The provider's answer ended before it was complete.\""
        ]
    );
}

#[test]
fn an_answer_with_only_an_end_is_complete() {
    for delta in ["{}", "{\"content\":\"\"}", "{\"content\":\" \\n\"}"] {
        assert!(read("", &deltas(&[delta])).is_empty(), "{delta}");
    }
    assert_eq!(
        read("", &deltas(&[r#"{"reasoning_content":"a"}"#])),
        ["reasoning a"]
    );
}

#[test]
fn one_malformed_field_does_not_lose_the_answer() {
    for choice in [
        r#"{"index":"0","delta":{"content":"a"},"finish_reason":"stop"}"#,
        r#"{"index":0.0,"delta":{"content":"a"},"finish_reason":"stop"}"#,
        r#"{"delta":{"content":"a"},"logprobs":[],"finish_reason":"stop"}"#,
        r#"{"delta":{"content":"a"},"logprobs":"","finish_reason":"stop"}"#,
        r#"{"delta":{"content":"a","tool_calls":""},"finish_reason":"stop"}"#,
        r#"{"delta":{"content":"a","tool_calls":{}},"finish_reason":"stop"}"#,
        r#"{"delta":{"content":"a","function_call":""},"finish_reason":"stop"}"#,
        r#"{"message":"","delta":{"content":"a"},"finish_reason":"stop"}"#,
    ] {
        let body = format!("data: {{\"choices\":[{choice}]}}\n\n");
        assert_eq!(read("", &body), ["final_answer a"], "{choice}");
    }
}

#[test]
fn an_error_is_found_in_every_form() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let over = "data: {\"choices\":[{\"finish_reason\":\"length\"}]}\n\n";
    for (body, expected) in [
        (
            r#"{"error":{"message":"no","code":503}}"#.to_owned(),
            vec!["overloaded: no"],
        ),
        (
            "\n\n\u{feff}".to_owned() + r#"{"error":"no"}"#,
            vec!["unavailable: no"],
        ),
        (
            "\n \n".to_owned()
                + r#"[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]"#,
            vec!["rate_limit: no"],
        ),
        (
            r#"{"message":"no","code":429}"#.to_owned(),
            vec!["rate_limit: no"],
        ),
        (r#"{"detail":"no"}"#.to_owned(), vec!["unavailable: no"]),
        (
            r#"data: {"success":false,"errors":[{"code":3040,"message":"no"}],"result":null}"#
                .to_owned(),
            vec!["unavailable: no"],
        ),
        (
            r#"{"object":"error","message":"no","code":400}"#.to_owned(),
            vec!["refused: no"],
        ),
        (
            r#"{"id":"1","choices":null,"base_resp":{"status_code":1000,"status_msg":"no"}}"#
                .to_owned(),
            vec!["unavailable: no"],
        ),
        (
            ": alive\n\n{\"error\":\"no\"}".to_owned(),
            vec!["unavailable: no"],
        ),
        // By itself in a stream, before its end or at it.
        (
            format!("{text}{{\"error\":\"no\"}}\n\ndata: [DONE]\n\n"),
            vec!["commentary a", "failed: \"no\""],
        ),
        (
            format!("{text}{{\"error\":\"no\"}}"),
            vec!["commentary a", "failed: \"no\""],
        ),
        (
            "event: error\ndata: no\n\n".to_owned(),
            vec!["unavailable: no"],
        ),
        (
            "event: error\ndata: {\"code\":429,\"message\":\"no\"}\n\n".to_owned(),
            vec!["rate_limit: no"],
        ),
        (
            "<!DOCTYPE html><html><body>Bad\n gateway</body></html>".to_owned(),
            vec!["bad_reply: Bad gateway"],
        ),
        (
            "upstream connect error".to_owned(),
            vec!["unavailable: upstream connect error"],
        ),
        (
            r#"{"choices":[{"mess"#.to_owned(),
            vec!["cut: The provider's answer ended before it was complete."],
        ),
        (
            String::new(),
            vec!["cut: The provider's answer ended before it was complete."],
        ),
        (
            ": alive\n\n".to_owned(),
            vec!["cut: The provider's answer ended before it was complete."],
        ),
        (
            "data: {]\n\n".to_owned(),
            vec!["bad_reply: The provider sent something that is not a chat completion chunk."],
        ),
        (
            format!(
                "{text}event: error\ndata: {{\"error\":{{\"message\":\"no\",\"code\":\"tool_use_failed\",\"status_code\":400}}}}\n\n"
            ),
            vec!["commentary a", "failed: \"no\""],
        ),
        (
            r#"{"choices":[{"error":{"code":429,"message":"no"},"finish_reason":"error","message":{"content":""}}]}"#
                .to_owned(),
            vec!["rate_limit: no"],
        ),
        (
            format!(
                "{text}{over}data: {{\"choices\":[{{\"delta\":{{\"content\":\"\"}},\"finish_reason\":null}}],\"error\":{{\"code\":400,\"message\":\"no\"}}}}\n\ndata: [DONE]\n\n"
            ),
            vec!["commentary a", "failed: \"no\""],
        ),
    ] {
        assert_eq!(read("", &body), expected, "{body}");
    }
}

#[test]
fn a_document_instead_of_a_stream_gives_the_same_answer() {
    let document = r#"{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",
        "content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"text","text":"b"}],
        "tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"},"extra_content":{"x":1}}]}}]}"#;
    let said = [
        "reasoning a",
        "commentary b",
        "reasoning  + {\"x\":1}",
        "f({})",
    ];
    for body in [document.to_owned(), format!("\u{feff}\r\n\r\n{document}\n")] {
        assert_eq!(read(KEPT, &body), said);
    }
    let lines = "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    assert_eq!(read("", lines), ["final_answer a"]);
}
