//! Each test changes a turn and checks which differences are reported.

use adapters::baggage::Baggage;
use adapters::fault::{Fault, Kind};
use adapters::quirk_patch::ChatPatch;

use super::{Difference, Scope, compare};
use crate::diagnostics::bundle::{BundleTurn, OmittedPart, sample};
use crate::turn::ModelPatches;
use crate::turn::Outcome;
use crate::upstream::LargestAnswer;

/// The events of the response; `@` stands for the number of the event.
const EVENTS: [&str; 6] = [
    r#"{"type":"response.created","sequence_number":@,"response":{"id":"resp_1","created_at":5}}"#,
    r#"{"type":"response.output_text.delta","sequence_number":@,"item_id":"msg_1","delta":"one "}"#,
    r#"{"type":"response.output_text.delta","sequence_number":@,"item_id":"msg_1","delta":"two "}"#,
    r#"{"type":"response.output_text.delta","sequence_number":@,"item_id":"msg_1","delta":"three"}"#,
    r#"{"type":"response.output_text.done","sequence_number":@,"item_id":"msg_1","text":"one two three"}"#,
    r#"{"type":"response.completed","sequence_number":@,"response":{"id":"resp_1","output":[{"type":"reasoning","id":"rs_1","encrypted_content":"BLOB"},{"type":"message","id":"msg_1"}],"usage":{"output_tokens":7}}}"#,
];

fn blob(reasoning: &str) -> String {
    Baggage {
        reasoning: reasoning.to_owned(),
        origin: "lab/one".to_owned(),
        ..Baggage::default()
    }
    .seal()
}

fn stream<'e>(events: impl IntoIterator<Item = &'e str>) -> Vec<u8> {
    let mut text = String::new();
    for (number, event) in events.into_iter().enumerate() {
        let name = event.split('"').nth(3).unwrap();
        let event = event
            .replace('@', &number.to_string())
            .replace("BLOB", &blob("thoughts"));
        text.extend(["event: ", name, "\ndata: ", &event, "\n\n"]);
    }
    text.into_bytes()
}

fn turn() -> BundleTurn {
    let mut turn = sample::turn(1);
    turn.request.body = format!(
        r#"{{"model":"lab/one","input":[{{"type":"message","role":"user","content":"hello"}},{{"type":"reasoning","id":"rs_0","encrypted_content":"{}"}}],"stream":true}}"#,
        blob("earlier thoughts")
    )
    .into_bytes();
    turn.plan = br#"{"actions":["keep",{"repair":["moved"]},"keep"],"sequence":[{"message":0},{"result":1}]}"#.to_vec();
    for attempt in &mut turn.attempts {
        attempt.body = br#"{"model":"one","messages":[{"role":"user","content":"hello"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","content":"done","tool_call_id":"call_1"}],"temperature":1.0}"#.to_vec();
    }
    turn.answer.body = stream(EVENTS);
    turn
}

fn replace(bytes: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    *bytes = text.replacen(from, to, 1).into_bytes();
}

fn differences(what: Scope, change: impl FnOnce(&mut BundleTurn)) -> Vec<Difference> {
    let mut changed = turn();
    change(&mut changed);
    compare(&turn(), &changed, what)
}

fn places(found: &[Difference]) -> Vec<&str> {
    found.iter().map(|found| found.location.as_str()).collect()
}

type Change = fn(&mut BundleTurn);

fn check(what: Scope, table: &[(Change, &[&str])]) {
    for (change, expected) in table {
        let found = differences(what, change);
        assert_eq!(places(&found), *expected, "{found:#?}");
    }
}

#[test]
fn a_turn_is_equal_to_itself() {
    for what in [Scope::Replay, Scope::Diff] {
        assert_eq!(differences(what, |_| ()), []);
    }
}

#[test]
fn a_changed_request_is_named_by_its_field() {
    check(
        Scope::Replay,
        &[
            (
                |turn| replace(&mut turn.attempts[1].body, r#"{\"a\":1}"#, r#"{\"a\":2}"#),
                &["attempt 2 request: messages[1].tool_calls[0].function.arguments"],
            ),
            (
                |turn| replace(&mut turn.attempts[0].body, r#""hello""#, r#"["hello"]"#),
                &["attempt 1 request: messages[0].content"],
            ),
            (
                |turn| replace(&mut turn.attempts[0].body, r#","temperature":1.0"#, ""),
                &["attempt 1 request: temperature"],
            ),
            (
                |turn| replace(&mut turn.attempts[0].body, "1.0}", r#"1.0,"a.b":0}"#),
                &[r#"attempt 1 request: ["a.b"]"#],
            ),
            // Only the inserted message differs, none of those after it.
            (
                |turn| {
                    let message = r#""messages":[{"role":"system"},"#;
                    replace(&mut turn.attempts[0].body, r#""messages":["#, message);
                },
                &["attempt 1 request: messages[0]"],
            ),
            // A different number type is a different value, a different notation is not.
            (
                |turn| replace(&mut turn.attempts[0].body, "1.0}", "1}"),
                &["attempt 1 request: temperature"],
            ),
            (
                |turn| replace(&mut turn.attempts[0].body, "1.0}", "1.00}"),
                &["attempt 1 request: same content, other bytes at offset 251"],
            ),
            (
                |turn| {
                    let (from, to) = (
                        r#"{"role":"user","content":"hello"}"#,
                        r#"{"content":"hello","role":"user"}"#,
                    );
                    replace(&mut turn.attempts[0].body, from, to);
                },
                &["attempt 1 request: same content, other bytes at offset 29"],
            ),
            (
                |turn| turn.attempts[0].body.truncate(40),
                &["attempt 1 request: byte 40"],
            ),
            (|turn| turn.attempts[0].body.clear(), &["attempt 1 request"]),
            (
                |turn| turn.attempts[0].url = "http://127.0.0.1:1/v1/chat?x".into(),
                &["attempt 1 request: url path"],
            ),
        ],
    );
}

#[test]
fn what_a_loopback_changes_is_no_difference_of_a_replay() {
    let found = differences(Scope::Replay, |turn| {
        turn.request_id.push('0');
        turn.began_ms += 1;
        turn.took_us += 1;
        turn.attempts[0].url = "http://127.0.0.1:1/v1/chat/completions?key=1".into();
        turn.attempts[0].headers.clear();
        turn.attempts[0].pieces.clear();
        turn.attempts[0].at_us += 1;
        turn.fault.as_mut().unwrap().cause = Some("connection to 127.0.0.1 closed".into());
        // The formatting of the plan does not count.
        replace(&mut turn.plan, "{\"actions\":", "{\n  \"actions\": ");
    });
    assert_eq!(found, []);
}

#[test]
fn what_is_not_the_request_is_named() {
    check(
        Scope::Replay,
        &[
            (
                |turn| replace(&mut turn.plan, r#"["moved"]"#, r#"["orphan"]"#),
                &["plan: action 1"],
            ),
            (
                |turn| replace(&mut turn.plan, r#","keep"]"#, r#",{"drop":"it is empty"}]"#),
                &["plan: action 2"],
            ),
            (
                |turn| replace(&mut turn.plan, r#"{"result":1}"#, r#"{"stray":1}"#),
                &["plan: place 1"],
            ),
            (|turn| turn.plan.clear(), &["plan"]),
            (|turn| drop(turn.attempts.pop()), &["number of attempts"]),
            (
                |turn| turn.attempts[1].route = "lab/two".into(),
                &["attempt 2: route"],
            ),
            (
                |turn| turn.attempts[0].head = None,
                &["attempt 1 answer: status"],
            ),
            (
                |turn| turn.attempts[1].ended = true,
                &["attempt 2 answer: end"],
            ),
            (|turn| turn.attempts[1].fault = None, &["attempt 2: fault"]),
            (
                |turn| turn.fault = Some(Fault::new(Kind::Cut, "It broke off.")),
                &["fault: message"],
            ),
            (|turn| turn.outcome = Some(Outcome::Completed), &["outcome"]),
            (
                |turn| turn.notes.push(("healed".into(), "it sleeps".into())),
                &["notes: [1]"],
            ),
            (
                |turn| turn.usage.as_mut().unwrap().output = 3,
                &["usage: output"],
            ),
            (|turn| turn.usage = None, &["usage"]),
            (|turn| turn.answer.status = 502, &["answer: status"]),
            (
                |turn| turn.answer.headers.push(("retry-after".into(), "3".into())),
                &["answer: header retry-after"],
            ),
            (
                |turn| {
                    turn.answer
                        .headers
                        .push(("x-respondent-notes".into(), "a".into()));
                },
                &["answer: header x-respondent-notes"],
            ),
            (
                |turn| turn.answer.headers.push(("date".into(), "a".into())),
                &[],
            ),
        ],
    );
}

#[test]
fn an_event_is_named_with_its_field() {
    check(
        Scope::Replay,
        &[
            (
                |turn| replace(&mut turn.answer.body, r#""two ""#, r#""too ""#),
                &["event 2 response.output_text.delta: delta"],
            ),
            (
                |turn| replace(&mut turn.answer.body, ":7}", ":8}"),
                &["event 5 response.completed: response.usage.output_tokens"],
            ),
            (
                |turn| turn.answer.body = stream([&EVENTS[..2], &EVENTS[3..]].concat()),
                &["event 2 response.output_text.delta", "number of events"],
            ),
            (
                |turn| {
                    turn.answer.body = stream([&EVENTS[..3], &EVENTS[..1], &EVENTS[3..]].concat());
                },
                &["event 3 response.created", "number of events"],
            ),
            (
                |turn| turn.answer.body = stream(EVENTS[..4].to_vec()),
                &[
                    "event 4 response.output_text.done",
                    "event 5 response.completed",
                    "number of events",
                ],
            ),
            (
                |turn| replace(&mut turn.answer.body, "event: response.created", "event: x"),
                &["event 0 response.created"],
            ),
            (
                |turn| replace(&mut turn.answer.body, "number\":2", "number\":9"),
                &["event 2 response.output_text.delta: sequence_number"],
            ),
            (
                |turn| replace(&mut turn.answer.body, r#":3,"item"#, r#": 3,"item"#),
                &["event 3 response.output_text.delta: same content, other bytes at offset 55"],
            ),
            (
                |turn| {
                    replace(
                        &mut turn.answer.body,
                        "event: response.created",
                        ":\nevent: response.created",
                    );
                },
                &["answer: same events, other bytes at offset 0"],
            ),
            (
                |turn| replace(&mut turn.answer.body, &blob("thoughts"), &blob("ideas")),
                &["event 5 response.completed: response.output[0].encrypted_content: reasoning"],
            ),
            (
                |turn| turn.answer.body = br#"{"id":"resp_1"}"#.to_vec(),
                &["answer: byte 0"],
            ),
        ],
    );
}

#[test]
fn a_document_is_named_by_its_field() {
    let document = |tokens: u8| {
        let mut turn = turn();
        turn.answer.body = format!(r#"{{"id":"a","usage":{{"output_tokens":{tokens}}}}}"#).into();
        turn
    };
    let found = compare(&document(7), &document(8), Scope::Replay);
    assert_eq!(places(&found), ["answer: usage.output_tokens"]);
}

#[test]
fn a_turn_that_lacks_something_is_not_replayable() {
    let mut lacking = turn();
    lacking.omitted.push(OmittedPart {
        what: "attempt 1 answer".into(),
        total: 2000,
        kept: 100,
    });
    let found = compare(&lacking, &turn(), Scope::Replay);
    assert_eq!(
        places(&found),
        ["not replayable: attempt 1 answer has 100 of 2000 bytes"]
    );
}

#[test]
fn what_decides_comes_before_what_follows() {
    check(
        Scope::Diff,
        &[
            (
                |turn| {
                    turn.version.push('1');
                    let quirks = &mut turn.settings.routes[0].dialect.quirks;
                    quirks.as_chat_mut().unwrap().merge_user = true;
                    turn.settings.routes[0].model.window = Some(9);
                    turn.settings.routes[0].timeouts.connect *= 2;
                    turn.state_before.model_patches.push(ModelPatches {
                        provider: "lab".into(),
                        model: "one".into(),
                        patches: vec![ChatPatch::MergeUser.into()],
                        tried_again: Vec::new(),
                        answered: LargestAnswer::default(),
                    });
                    turn.request.headers[0].1.push('x');
                    replace(&mut turn.request.body, "hello", "hallo");
                    replace(&mut turn.attempts[0].body, "hello", "hallo");
                    turn.attempts[0].bytes_per_token = 3.0;
                    turn.attempts[0].key = None;
                    turn.outcome = None;
                    turn.answer.status = 201;
                },
                &[
                    "program",
                    "settings: routes[0].model.window",
                    "settings: routes[0].dialect.quirks.merge_user",
                    "settings: routes[0].timeouts.connect",
                    "state_before: model_patches[0]",
                    "client request: header content-type",
                    "client request: input[0].content",
                    "attempt 1: key",
                    "attempt 1: bytes_per_token",
                    "attempt 1 request: messages[0].content",
                    "outcome",
                    "answer: status",
                ],
            ),
            (
                |turn| {
                    replace(
                        &mut turn.request.body,
                        &blob("earlier thoughts"),
                        &blob("earlier doubts"),
                    );
                },
                &["client request: input[1].encrypted_content: reasoning"],
            ),
            (
                |turn| replace(&mut turn.attempts[1].answer, "\"he\"", "\"ho\""),
                &["attempt 2 answer: event 0: choices[0].delta.content"],
            ),
        ],
    );
}

#[test]
fn ids_times_and_cuts_differ_by_nature() {
    let found = differences(Scope::Diff, |turn| {
        turn.request_id.push('0');
        turn.began_ms += 1;
        let mut events = EVENTS.map(|event| event.replace("resp_1", "resp_2"));
        events[0] = events[0].replace(":5}", ":6}");
        events[1] = events[1].replace("one ", "one t");
        events[2] = events[2].replace("two ", "w");
        events[3] = events[3].replace("three", "o three");
        turn.answer.body = stream(events.iter().map(String::as_str));
    });
    assert_eq!(found, []);
}

#[test]
fn an_id_that_stands_for_two_things_is_a_difference() {
    let found = differences(Scope::Diff, |turn| {
        let end = r#""id":"resp_1","output""#;
        replace(&mut turn.answer.body, end, &end.replace('1', "2"));
    });
    assert_eq!(places(&found), ["event 5 response.completed: response.id"]);
    let found = differences(Scope::Diff, |turn| {
        let id = r#""tool_call_id":"call_1""#;
        replace(&mut turn.attempts[0].body, id, r#""tool_call_id":"call_2""#);
    });
    assert_eq!(
        places(&found),
        ["attempt 1 request: messages[2].tool_call_id"]
    );
}

#[test]
fn a_long_list_ends_in_a_number() {
    let many = |text: &str| {
        let mut turn = turn();
        let parts: Vec<String> = (0..50).map(|n| format!("\"{text}{n}\"")).collect();
        turn.attempts[0].body = format!("[{}]", parts.join(",")).into_bytes();
        turn
    };
    let found = compare(&many("a"), &many("b"), Scope::Replay);
    assert_eq!(found.len(), 21);
    assert_eq!(found[19].location, "attempt 1 request: [19]");
    assert_eq!(found[20].to_string(), "attempt 1 request: and 30 more");
}

/// Lists whose alignment would take their length squared, and names that would be copied into each
/// location below them.
#[test]
fn hostile_bodies_are_compared_in_proportion() {
    let body = |offset: usize| {
        let mut turn = turn();
        let elements: Vec<String> = (0..20_000)
            .map(|n| format!("{{\"v\":{}}}", n * 2 + offset))
            .collect();
        let name = "k".repeat(1 << 20);
        turn.attempts[0].body = format!("{{\"{name}\":[{}]}}", elements.join(",")).into_bytes();
        turn.attempts[0].headers = vec![("x-a".to_owned(), "v".to_owned()); 10_000];
        turn
    };
    let found = compare(&body(0), &body(1), Scope::Diff);
    assert_eq!(found.len(), 21);
    let last = found.last().unwrap().to_string();
    assert_eq!(last, "attempt 1 request: and 19980 more");
    for difference in &found {
        assert!(difference.location.len() < 200, "{}", difference.location);
    }
}

#[test]
fn a_difference_reads_well() {
    let found = differences(Scope::Replay, |turn| {
        replace(&mut turn.attempts[0].body, "hello", "hal\\u202elo\\n");
    });
    assert_eq!(
        found[0].to_string(),
        r#"attempt 1 request: messages[0].content: "hello" -> "hal\u202elo\n""#
    );
    let found = differences(Scope::Replay, |turn| {
        replace(&mut turn.attempts[0].body, r#","temperature":1.0"#, "");
    });
    assert_eq!(
        found[0].to_string(),
        "attempt 1 request: temperature: 1.0 -> absent"
    );
    let found = differences(Scope::Replay, |turn| {
        let long = "a".repeat(500);
        replace(
            &mut turn.attempts[0].body,
            "hello",
            &format!("hello{long}b{long}"),
        );
    });
    let lines: Vec<String> = found[0].to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[0],
        r#"attempt 1 request: messages[0].content: "hello""#
    );
    assert!(lines[1].starts_with(r#"    -> "helloaaaa"#), "{}", lines[1]);
    assert!(lines[1].chars().count() < 220);
}
