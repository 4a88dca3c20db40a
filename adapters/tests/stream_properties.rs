//! Any answer of an upstream, split in any way, becomes a stream that satisfies every rule and has
//! the content of the answer.
//!
//! `PROPTEST_CASES` sets the number of answers that are tried; the default is 256.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "clippy does not see that all of this is a test"
)]

mod common;

use common::judge;
use common::script::{Call, CallIdStyle, End, Round, Script, SplitText, Step, Tool, request};
use common::wire::{SseFraming, json_string, reads};
use kit::drive::{self, settings};
use kit::strict;
use proptest::collection::vec;
use proptest::prelude::*;
use registry::WireQuirks;
use responses_translate::responses::request::TurnSource;
use serde_json::{Value, json};

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// Promise: A stream has one `created` event first and one terminal event last, sequence
    /// numbers without gaps, every item opened and closed exactly once, and deltas that add up to
    /// the content of the `done` events. Tool calls that arrive in fragments, split inside JSON
    /// tokens or inside characters, are put together.
    #[test]
    fn every_answer_becomes_a_strict_stream_with_the_same_content(
        script in script(),
        framing in framing(),
        sizes in vec(1_usize..200, 1..8),
    ) {
        // `[DONE]` shows that the answer was not cut off.
        let said = |framing: SseFraming| SseFraming {
            done: framing.done && !matches!(script.end, End::Silence | End::Cut(_)),
            ..framing
        };
        let mut bytes = said(framing).render(&script.chunks());
        if let End::Cut(after) = script.end {
            bytes.truncate(after % (bytes.len() + 1));
        }
        let chunks = script.chunks();
        let plain: Vec<u8> = said(SseFraming::PLAIN).render(&chunks);
        for codex in [true, false] {
            let whole = Answer::to(codex, &[&bytes]);
            prop_assert_eq!(&whole, &Answer::to(codex, &reads(&bytes, &sizes)));
            if !matches!(script.end, End::Cut(_)) {
                prop_assert_eq!(&whole, &Answer::to(codex, &[&plain]));
            }
            whole.assert_content(&script, codex);
        }
    }
}

#[test]
fn an_answer_beyond_its_limit_fails() {
    let source = TurnSource::new(request());
    let turn = source.turn().unwrap();
    let chunk = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"0123456789\"}}]}\n\n";
    let done = b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for (pieces, terminal) in [(10, "response.completed"), (11, "response.failed")] {
        let mut settings = settings(&turn, false, true);
        settings.assembler.max_bytes = 100;
        let chunks = std::iter::repeat_n(&chunk[..], pieces).chain([&done[..]]);
        let stream = judge::stream(
            &drive::stream(settings, &WireQuirks::default(), chunks).unwrap(),
            false,
        );
        assert_eq!(stream.terminal, terminal, "{pieces}");
        assert!(stream.text().len() <= 110);
    }
}

/// The results for clients with and without a stream.
#[derive(Debug, PartialEq)]
struct Answer {
    stream: Result<String, String>,
    whole: Result<String, String>,
}

impl Answer {
    fn to(codex: bool, chunks: &[&[u8]]) -> Self {
        let source = TurnSource::new(request());
        let turn = source.turn().unwrap();
        let settings = || settings(&turn, codex, true);
        Self {
            stream: drive::stream(settings(), &WireQuirks::default(), chunks.iter().copied())
                .map_err(|fault| fault.to_string()),
            whole: drive::whole(settings(), &WireQuirks::default(), chunks.iter().copied())
                .map_err(|fault| fault.to_string()),
        }
    }

    /// Checks the results against the content of the answer.
    fn assert_content(&self, script: &Script, codex: bool) {
        let Ok(body) = &self.stream else {
            assert!(
                matches!(script.end, End::Error(_) | End::Cut(_)),
                "nothing came of a good stream: {:?}",
                self.stream
            );
            assert_eq!(self.stream, self.whole);
            return;
        };
        let stream = judge::stream(body, codex);
        let terminal = match script.end {
            _ if fails(script, codex) => "response.failed",
            End::Finish("length" | "content_filter") => "response.incomplete",
            _ => "response.completed",
        };
        assert_eq!(stream.terminal, terminal);
        match &self.whole {
            Ok(response) => {
                let response = strict::check_response_or_panic(response);
                assert_eq!(response, stream.response);
            }
            Err(_) => assert_eq!(terminal, "response.failed"),
        }
        let failed = terminal == "response.failed";
        let loose = script.has_loose_blanks();
        for (got, said) in texts(&stream, script, codex) {
            match (failed, loose) {
                (false, false) => assert_eq!(got, said),
                (false, true) => assert_eq!(without_blanks(&got), without_blanks(&said)),
                (true, _) => {
                    let (got, said) = (without_blanks(&got), without_blanks(&said));
                    // Half a character at the end becomes a replacement character.
                    let got = got.trim_end_matches('\u{fffd}');
                    assert!(said.starts_with(got), "{got:?} is no beginning of {said:?}");
                }
            }
        }
        assert_calls(&stream.calls(), script, codex);
        if let (Some([input, cached, write, output, reasoning]), false) = (script.usage, failed) {
            let usage = json!({
                "input_tokens": input,
                "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": write},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": reasoning},
                "total_tokens": input + output,
            });
            assert_eq!(stream.response["usage"], usage);
        }
    }
}

/// Whether the answer fails. Codex would retry a filtered answer that is incomplete, so that fails
/// for Codex, too. An answer that promises a call and says nothing fails as well.
fn fails(script: &Script, codex: bool) -> bool {
    match script.end {
        End::Silence | End::Error(_) | End::Cut(_) => true,
        End::Finish("tool_calls") => !script.steps.iter().any(says_something),
        End::Finish(reason) => codex && reason == "content_filter",
    }
}

/// Pairs of the text that the client got and the text of the model. Codex drops refusals,
/// so it gets them as text.
fn texts(stream: &strict::CheckedStream, script: &Script, codex: bool) -> Vec<(String, String)> {
    let reasoning = script.text_of(|step| match step {
        Step::Reasoning(text) => Some(&text.text),
        _ => None,
    });
    let refusal = script.text_of(|step| match step {
        Step::Refusal(text) => Some(&text.text),
        _ => None,
    });
    let text = script.text_of(text_of);
    let all = script.text_of(|step| match step {
        Step::Refusal(text) => Some(&text.text),
        step => text_of(step),
    });
    let mut pairs = vec![(stream.reasoning(), reasoning)];
    if codex {
        pairs.push((stream.text(), all));
        pairs.push((stream.refusal(), String::new()));
    } else {
        pairs.push((stream.text(), text));
        pairs.push((stream.refusal(), refusal));
    }
    pairs
}

fn says_something(step: &Step) -> bool {
    match step {
        Step::Calls(_) => true,
        Step::Refusal(text) => !without_blanks(&text.text).is_empty(),
        step => text_of(step).is_some_and(|text| !without_blanks(text).is_empty()),
    }
}

fn text_of(step: &Step) -> Option<&str> {
    match step {
        Step::Text(text, _) => Some(&text.text),
        Step::Blank(text) => Some(text),
        Step::Calls(round) => round.text_between.as_ref().map(|text| text.text.as_str()),
        _ => None,
    }
}

fn without_blanks(text: &str) -> String {
    text.replace([' ', '\t', '\n', '\r'], "")
}

/// Asserts that the client got every call in its form. When an answer ends by its length limit or
/// a content filter, a call with unfinished arguments is incomplete; Codex, which would run it,
/// does not get it. When an answer breaks off, the calls before the break are there.
fn assert_calls(got: &[strict::CheckedCall], script: &Script, codex: bool) {
    let failed = fails(script, codex);
    let mut expected = Vec::new();
    for call in script.calls() {
        let is_whole = serde_json::from_str::<Value>(&call.arguments).is_ok();
        let (kind, name, namespace) = call.tool.identity();
        let (status, arguments) = match script.end {
            End::Finish("length" | "content_filter") if !is_whole && !failed => {
                if codex || !call.tool.streams() {
                    continue;
                }
                ("incomplete", call.arguments.clone())
            }
            _ => ("completed", call.tool.client_arguments(&call.arguments)),
        };
        expected.push((call.tool, kind, name, namespace, status, arguments));
    }
    let mut left = expected.into_iter();
    for call in got {
        let found = left.by_ref().find(|(_, kind, name, namespace, _, _)| {
            !failed
                || (call.kind == *kind
                    && call.name == *name
                    && call.namespace.as_deref() == *namespace)
        });
        let (tool, kind, name, namespace, status, arguments) =
            found.unwrap_or_else(|| panic!("{call:?} was never made"));
        assert_eq!(
            (
                call.kind.as_str(),
                call.name.as_str(),
                call.namespace.as_deref()
            ),
            (kind, name, namespace)
        );
        if failed && call.status == "incomplete" {
            let got = call.arguments.trim_end_matches('\u{fffd}');
            assert!(arguments.starts_with(got), "{got:?} of {arguments:?}");
            continue;
        }
        assert_eq!(call.status, status);
        if tool.streams() || tool.is_custom() {
            assert_eq!(call.arguments, arguments);
        } else {
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(value(&call.arguments), value(&arguments));
        }
    }
    assert!(
        failed || left.next().is_none(),
        "a call is missing in {got:?}"
    );
}

// Generators of scripts.

fn script() -> impl Strategy<Value = Script> {
    let end = prop_oneof![
        4 => prop::sample::select(vec!["stop", "tool_calls", "length", "content_filter"]).prop_map(End::Finish),
        1 => Just(End::Silence),
        1 => (0_usize..40).prop_map(End::Error),
        1 => (0_usize..6000).prop_map(End::Cut),
    ];
    let usage = prop::option::of((
        0_u64..9000,
        0_u64..9000,
        0_u64..90,
        0_u64..9000,
        0_u64..9000,
    ))
    .prop_map(|counts| counts.map(|(a, b, c, d, e)| [a + b + c, b, c, d + e, e]));
    (vec(step(), 0..7), end, usage).prop_map(|(mut steps, end, usage)| {
        if matches!(end, End::Finish("stop" | "tool_calls")) {
            make_whole(&mut steps);
        }
        Script { steps, end, usage }
    })
}

/// Completes the calls that were cut off: an answer that ends normally with one of them is another
/// test's matter.
fn make_whole(steps: &mut [Step]) {
    let rounds = steps.iter_mut().filter_map(|step| match step {
        Step::Calls(round) => Some(round),
        _ => None,
    });
    for call in rounds.flat_map(|round| &mut round.calls) {
        let text = &mut call.arguments.text;
        if !text.is_empty() && serde_json::from_str::<Value>(text).is_err() {
            "{}".clone_into(text);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (text(), any::<bool>()).prop_map(|(text, logprobs)| Step::Text(text, logprobs)),
        1 => text().prop_map(|text| Step::Refusal(without_leading_blank(text))),
        2 => text().prop_map(|text| Step::Reasoning(without_leading_blank(text))),
        1 => prop::sample::select(vec![" ", "\n\n", "\t\r\n"]).prop_map(|text| Step::Blank(text.to_owned())),
        1 => Just(Step::Annotation),
        1 => Just(Step::Empty),
        4 => round().prop_map(Step::Calls),
    ]
}

/// White space at the very beginning of reasoning or a refusal is dropped.
fn without_leading_blank(text: SplitText) -> SplitText {
    SplitText {
        text: format!("R{}", text.text),
        ..text
    }
}

fn text() -> impl Strategy<Value = SplitText> {
    (words(), vec(0_usize..60, 0..6), any::<bool>()).prop_map(|(text, cuts, ascii)| SplitText {
        text,
        cuts,
        ascii,
    })
}

/// Text with difficult characters; never blank.
fn words() -> impl Strategy<Value = String> {
    const WORDS: [&str; 16] = [
        "a",
        "Zebra",
        " ",
        "\n",
        "\"",
        "\\",
        "\\u",
        "漢",
        "é",
        "😀",
        "👩\u{200d}🚀",
        "\u{7}",
        "\t",
        "/",
        "\u{200b}",
        "{\"input\":\"",
    ];
    vec(prop::sample::select(WORDS.to_vec()), 1..14).prop_map(|words| {
        let text = words.concat();
        if text.trim().is_empty() {
            text + "x"
        } else {
            text
        }
    })
}

fn round() -> impl Strategy<Value = Round> {
    let id_style = prop::sample::select(CallIdStyle::ALL.to_vec());
    // The text between calls is cut between characters only: the fragments of calls would come
    // between the two halves.
    let text_between = prop::option::weighted(
        0.2,
        words().prop_map(|text| SplitText {
            cuts: text
                .char_indices()
                .map(|(at, _)| text[..at].encode_utf16().count())
                .step_by(2)
                .collect(),
            text,
            ascii: false,
        }),
    );
    (
        vec(call(), 1..4),
        id_style,
        vec(0_usize..9, 1..6),
        text_between,
    )
        .prop_map(|(calls, id_style, order, text_between)| Round {
            text_between: text_between.filter(|_| id_style != CallIdStyle::IdAlone),
            calls,
            id_style,
            order,
        })
}

fn call() -> impl Strategy<Value = Call> {
    let tool = prop::sample::select(Tool::ALL.to_vec());
    let whole = (0_usize..8, any::<bool>());
    (tool, words(), whole, vec(0_usize..90, 0..6), any::<bool>()).prop_map(
        |(tool, words, (form, inner_ascii), cuts, ascii)| {
            let whole = arguments(tool, &words, inner_ascii);
            let text = match form {
                // A shell or patch call cannot be written without arguments.
                0 if !matches!(tool, Tool::LocalShell | Tool::Shell | Tool::ApplyPatch) => {
                    String::new()
                }
                1 if matches!(tool, Tool::Function | Tool::Namespaced | Tool::Unknown) => {
                    let cut = whole.floor_char_boundary(whole.len() / 2);
                    whole[..cut].to_owned()
                }
                _ => whole,
            };
            Call {
                tool,
                arguments: SplitText { text, cuts, ascii },
            }
        },
    )
}

/// Arguments as a model writes them for the tool.
fn arguments(tool: Tool, words: &str, ascii: bool) -> String {
    let units: Vec<u16> = words.encode_utf16().collect();
    let words = json_string(&units, ascii);
    match tool {
        Tool::Function | Tool::Namespaced | Tool::Unknown => {
            format!("{{ \"k\": {words},\n \"n\": [1, 2.50] }}")
        }
        Tool::Custom | Tool::NamespacedCustom => format!("{{\"input\": {words}}}"),
        Tool::Patch => json!({"input": "*** Begin Patch\n*** Add File: 漢.txt\n+one 😀\n+two \"quoted\"\n*** End Patch\n"}).to_string(),
        Tool::Search => format!("{{\"query\":{words},\"limit\":3}}"),
        Tool::LocalShell => format!("{{\"command\":[\"ls\",{words}],\"timeout_ms\":5}}"),
        Tool::Shell => format!("{{\"commands\":[{words}],\"max_output_length\":9}}"),
        Tool::ApplyPatch => {
            format!("{{\"type\":\"update_file\",\"path\":\"a.txt\",\"diff\":{words}}}")
        }
    }
}

fn framing() -> impl Strategy<Value = SseFraming> {
    let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    (line_end, any::<[bool; 6]>()).prop_map(
        |(line_end, [bom, space, comments, names, lines, done])| SseFraming {
            line_end,
            bom,
            space,
            comments,
            names,
            lines,
            done,
        },
    )
}
