use serde_json::{Value, json};

use super::*;
use crate::responses::request::TurnSource;

/// Parses items in short notation, separated by spaces: `u` a user message, `w` a search of the
/// web, `m` a call of an MCP tool with its result, `t` an assistant message, `r` reasoning, `b`
/// reasoning with encrypted content only, `c` a call and `o` an output, both followed by their call
/// id. An output's text follows after `=`.
fn turn(short: &str) -> TurnSource {
    let items: Vec<Value> = short.split_whitespace().map(item).collect();
    TurnSource::new(json!({"model": "m", "input": items}).to_string())
}

fn item(short: &str) -> Value {
    let (kind, id) = short.split_at_checked(1).unwrap();
    let (id, text) = id.split_once('=').unwrap_or((id, "text"));
    match kind {
        "u" => json!({"role": "user", "content": "text"}),
        "t" => json!({"role": "assistant", "content": "text"}),
        "r" => json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "text"}]}),
        "b" => json!({"type": "reasoning", "summary": [], "encrypted_content": "sealed"}),
        "w" => json!({"type": "web_search_call", "id": id, "action": {"query": "text"}}),
        "m" => {
            json!({"type": "mcp_call", "id": id, "server_label": "s", "name": "f", "arguments": "{}", "output": "text"})
        }
        "c" => {
            json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
        }
        _ => json!({"type": "function_call_output", "call_id": id, "output": text}),
    }
}

/// The planned sequence in the same letters, each with the index of its item; `x` is the
/// generated result of an interrupted call, `s` a stray result, and the items of an answer
/// are in brackets.
fn sequence(short: &str) -> String {
    let source = turn(short);
    let entries = plan(&source.turn().unwrap(), &Bounds::none()).sequence;
    let letters = entries.iter().map(|entry| match entry {
        SequenceEntry::Message(at) => format!("u{at}"),
        SequenceEntry::Result(at) => format!("o{at}"),
        SequenceEntry::Interrupted(at) => format!("x{at}"),
        SequenceEntry::Stray(at) => format!("s{at}"),
        SequenceEntry::Omitted(_) => "n".to_owned(),
        SequenceEntry::Answer(answer) => {
            let kinds = [
                ("r", &answer.reasoning),
                ("t", &answer.text),
                ("c", &answer.calls),
            ];
            let items = kinds
                .iter()
                .flat_map(|(kind, items)| items.iter().map(move |at| format!("{kind}{at}")));
            format!("[{}]", items.collect::<Vec<_>>().join(" "))
        }
    });
    letters.collect::<Vec<_>>().join(" ")
}

/// Promise: No request goes out without a message or with a system message alone, an empty message
/// of the user is sent as such where no other stands beside it, and the results of calls stay last:
/// messages between a call and its result go before the call.
#[test]
fn results_follow_the_answer_that_made_their_calls() {
    for (items, sent) in [
        ("u ca oa t", "u0 [c1] o2 [t3]"),
        ("u r t ca cb oa ob", "u0 [r1 t2 c3 c4] o5 o6"),
        ("ca cb ob oa", "[c0 c1] o3 o2"),
        ("ca oa cb ob", "[c0] o1 [c2] o3"),
        ("ca u oa", "u1 [c0] o2"),
        ("u r ca cb u oa u ob u", "u0 u4 u6 [r1 c2 c3] o5 o7 u8"),
        ("ca cb u oa u t ob", "u2 [c0 c1] o3 o6 u4 [t5]"),
        ("ca oa u cb u ob", "[c0] o1 u2 u4 [c3] o5"),
        ("ca cb u oa", "u2 [c0 c1] o3 x1"),
        ("ca ox oa", "s1 [c0] o2"),
        ("ca u t u oa t", "[c0] o4 u1 [t2] u3 [t5]"),
        ("ca cb oa cc ob oc", "[c0 c1] o2 o4 [c3] o5"),
        ("oa ca", "[c1] o0"),
        ("ca ob cb oa", "[c0] o3 [c2] o1"),
        ("ca r oa", "[r1 c0] o2"),
        ("ca cb oa r ob cc oc", "[r3 c0 c1] o2 o4 [c5] o6"),
        ("ca u r oa cb ob", "[c0] o3 u1 [r2 c4] o5"),
    ] {
        assert_eq!(sequence(items), sent, "{items}");
    }
}

#[test]
fn what_ran_on_a_server_is_told_before_the_answer_that_it_led_to() {
    for (items, sent) in [
        ("u w t", "u0 s1 [t2]"),
        ("u r w r t u", "u0 s2 [r1 r3 t4] u5"),
        ("u t w t", "u0 [t1] s2 [t3]"),
        ("u r ca w oa t", "u0 s3 [r1 c2] o4 [t5]"),
        ("u w", "u0 s1"),
        ("u ma t", "u0 [c1] o1 [t2]"),
        ("u r ma mb t u", "u0 [r1 c2] o2 [c3] o3 [t4] u5"),
        ("u ca ma oa", "u0 [c1 c2] o3 o2"),
        ("ma ma", "[c0] o0 [c1] o1"),
    ] {
        assert_eq!(sequence(items), sent, "{items}");
    }
}

#[test]
fn reasoning_without_readable_text_joins_the_answer_before_it() {
    for (items, sent) in [
        ("u t b u", "u0 [r2 t1] u3"),
        ("u t b", "u0 [r2 t1]"),
        ("u t b ca oa", "u0 [r2 t1 c3] o4"),
        ("u r t b ca b cb oa ob", "u0 [r1 r3 r5 t2 c4 c6] o7 o8"),
        ("u ca b oa t", "u0 [r2 c1] o3 [t4]"),
        ("u ca oa b t", "u0 [c1] o2 [r3 t4]"),
        ("u t r ca oa", "u0 [t1] [r2 c3] o4"),
        ("u b u", "u0 u2"),
    ] {
        assert_eq!(sequence(items), sent, "{items}");
    }
}

#[test]
fn calls_and_results_without_a_partner_are_still_sent() {
    for (items, sent) in [
        ("ca", "[c0] x0"),
        ("ca u", "[c0] x0 u1"),
        ("ca cb ob", "[c0 c1] x0 o2"),
        ("oa u ca", "s0 u1 [c2] x2"),
        ("ca oa oa", "[c0] o1"),
        ("ca oa oa=other", "[c0] o1 s2"),
        ("oa ca oa", "[c1] o2"),
        ("oa=other ca oa", "s0 [c1] o2"),
        ("ca oa u oa=other ca", "[c0] o1 u2 s3 [c4] x4"),
        ("t ox ca oa", "[t0] s1 [c2] o3"),
    ] {
        assert_eq!(sequence(items), sent, "{items}");
    }
}

#[test]
fn a_repeated_id_belongs_to_the_nearest_answer() {
    for (items, sent) in [
        ("ca oa ca oa", "[c0] o1 [c2] o3"),
        ("ca u ca oa", "[c0] x0 u1 [c2] o3"),
        ("ca u ca oa oa", "[c0] o4 u1 [c2] o3"),
        ("ca ca oa oa", "[c0 c1] o2 o3"),
    ] {
        assert_eq!(sequence(items), sent, "{items}");
    }
    let source = turn("ca oa ca oa ca oa");
    let turn = source.turn().unwrap();
    let plan = plan(&turn, &Bounds::none());
    let ids: Vec<_> = (0..6).map(|at| plan.call_id(&turn, at)).collect();
    assert_eq!(ids[0], "a");
    for pair in ids.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    assert!(ids[2] != ids[0] && ids[4] != ids[2], "{ids:?}");
}

#[test]
fn reasoning_without_an_answer_is_dropped() {
    for (items, sent) in [
        ("u r", "u0"),
        ("u r u", "u0 u2"),
        ("u t r u", "u0 [r2 t1] u3"),
        ("u t r ca oa", "u0 [t1] [r2 c3] o4"),
        ("u t r t u", "u0 [t1] [r2 t3] u4"),
        ("u ca oa r u", "u0 [c1] o2 u4"),
        ("u r ox ca oa", "u0 s2 [c3] o4"),
    ] {
        assert_eq!(sequence(items), sent, "{items}");
    }
}
