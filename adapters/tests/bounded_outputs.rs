//! How long tool outputs are shortened on the way from the client's request to the body that is
//! sent to the provider.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

mod common;

use common::dialects::DIALECTS;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use registry::{Dialect, Model};
use responses_translate::compact::extract;
use responses_translate::compaction_blob::CompactionBlob;
use responses_translate::encoded::Encoded;
use responses_translate::plan::output::{self, SHORTENED_MARK};
use responses_translate::plan::{Bounds, OutputPolicy, Plan, Retention, plan};
use responses_translate::purpose::{Purpose, SummaryMode};
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};
use serde_json::{Value, json};

/// The window of the model in the session whose failure led to the bounding of outputs.
const WINDOW: u64 = 262_144;

/// Codex compacts at nine tenths of a window by default.
const COMPACTS_AT: u64 = WINDOW / 10 * 9;

fn bounds(window: u64, outputs: OutputPolicy) -> Bounds {
    let model = Model {
        window: Some(window),
        ..Model::unlisted("m")
    };
    Bounds::for_model(&model, outputs, Retention::Disk)
}

/// A request, its plan, and the encoded body.
struct Sent {
    plan: Plan,
    encoded: Encoded,
    body: Value,
}

fn send(request: &Value, purpose: Purpose, bounds: &Bounds, dialect: &Dialect) -> Sent {
    let mut request = request.clone();
    request["model"] = json!("m");
    let source = TurnSource::new(request.to_string()).with_purpose(purpose);
    let turn = source.turn().unwrap();
    let plan = plan(&turn, bounds);
    let model = Model::unlisted("m");
    let encoded = encode(&turn, &plan, &EncodeOptions::new(dialect, &model, "m"))
        .unwrap()
        .encoded;
    let body = serde_json::from_slice(&encoded.body).unwrap();
    Sent {
        plan,
        encoded,
        body,
    }
}

fn answer(items: &[Value], bounds: &Bounds) -> Sent {
    let request = json!({"input": items});
    send(&request, Purpose::Answer, bounds, &Dialect::default())
}

impl Sent {
    fn messages(&self) -> &[Value] {
        let wires = [&self.body["messages"], &self.body["input"]];
        wires.into_iter().find_map(Value::as_array).unwrap()
    }

    /// The texts of the tool messages, or of the outputs.
    fn results(&self) -> Vec<&str> {
        let is_result = |it: &&Value| it["role"] == "tool" || it.get("output").is_some();
        let tools = self.messages().iter().filter(is_result);
        tools
            .map(|it| {
                let text = it["content"].as_str().or(it["output"].as_str());
                text.or(it["content"][0]["text"].as_str()).unwrap()
            })
            .collect()
    }
}

/// A call and its output.
fn round(id: usize, output: &Value) -> [Value; 2] {
    let id = format!("call_{id}");
    [
        json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": id, "output": output}),
    ]
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Numbered lines of 20 bytes each.
fn lines(count: usize) -> String {
    let lines: Vec<String> = (0..count)
        .map(|at| format!("line {at:07} of it.\n"))
        .collect();
    lines.concat()
}

/// The output of a search as Codex sends it: 924,828 tokens of minified code, truncated to
/// 40,000 bytes.
fn cut_by_codex() -> String {
    let header = "Chunk ID: 0a1b2c\nWall time: 0.4120 seconds\nProcess exited with code 0\nOriginal token count: 924828\nOutput:\n";
    header.to_owned() + &"!function(e,t){return e.exports=t(n)};".repeat(1_050)
}

/// The session whose failure led to the bounding of outputs: outputs of at most 40 KB each and more
/// than 850 KB together.
fn founding() -> Vec<Value> {
    let mut items = vec![user("Find the bug.")];
    for id in 0..21 {
        items.extend(round(id, &json!(lines(1_950))));
    }
    items.extend(round(21, &json!(cut_by_codex())));
    items
}

/// Promise: Bounded outputs alone keep the founding session below Codex's own compaction threshold;
/// no threshold is lowered for it.
#[test]
fn bounding_alone_keeps_the_founding_session_below_the_threshold() {
    let items = founding();
    let whole = answer(&items, &bounds(WINDOW, OutputPolicy::Whole));
    assert!(whole.encoded.estimated_tokens > WINDOW);
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        for length in (1..=items.len()).rev().step_by(14) {
            let sent = answer(&items[..length], &bounds(WINDOW, outputs));
            let tokens = sent.encoded.estimated_tokens;
            assert!(tokens < COMPACTS_AT, "{outputs:?}: {tokens} tokens");
        }
    }
}

/// Promise: Every provider receives the same text of an output, whatever its dialect.
#[test]
fn every_provider_gets_the_same_excerpt() {
    let mut items = vec![user("Go.")];
    let texts = [
        lines(100),
        lines(1_500),
        "潮汐".repeat(11_000),
        cut_by_codex(),
    ];
    for (id, text) in texts.iter().enumerate() {
        items.extend(round(id, &json!(text)));
    }
    let request = json!({"input": items});
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        let bounds = bounds(131_072, outputs);
        let plain = answer(&items, &bounds);
        assert_eq!(plain.plan.replacements.len(), 3, "{outputs:?}");
        for dialect in DIALECTS.iter() {
            let sent = send(&request, Purpose::Answer, &bounds, dialect);
            assert_eq!(sent.plan.replacements, plain.plan.replacements);
            let results = sent.results();
            assert_eq!(results[0], texts[0], "{dialect:?}");
            for (at, result) in results.iter().enumerate().skip(1) {
                let shown = plain.plan.replacement_text(2 + 2 * at).unwrap();
                assert_eq!(*result, shown, "{dialect:?}");
            }
        }
    }
}

#[test]
fn an_excerpt_describes_its_output() {
    let text = lines(4_000);
    let path = "src/cart.rs:12: error: no such field\n";
    let output = format!("Exit code: 3\nOutput:\n{text}{path}{text}");
    let sent = answer(
        &round(7, &json!(output)),
        &bounds(131_072, OutputPolicy::Adaptive),
    );
    let shown = sent.results()[0];
    let head = format!(
        "[Tool output shortened]\nartifact: {}\nkind: command_output\nsize: 160058 characters, 8003 lines, 160058 bytes\ncall: call_7\nexit code: 3\nFirst lines:\nline 0000000 of it.\n",
        output::artifact_id(&output)
    );
    assert!(shown.starts_with(&head), "{shown}");
    assert!(
        shown.contains("\n4003: src/cart.rs:12: error: no such field\n"),
        "{shown}"
    );
    let (_, end) = shown
        .split_once("\nline 0003999 of it.\n[Left out: ")
        .unwrap();
    let (left_out, how) = end.split_once(" lines]\n").unwrap();
    let (chars, lines) = left_out.split_once(" characters, ").unwrap();
    let (chars, lines): (usize, usize) = (chars.parse().unwrap(), lines.parse().unwrap());
    assert!((150_000..160_000).contains(&chars) && (7_700..8_000).contains(&lines));
    assert!(how.starts_with("[Read the rest with the tools artifact_read or artifact_search"));
}

/// Promise: Shortening outputs adds no tool to a request: the model is offered only tools that the
/// client sent.
#[test]
fn a_request_gets_no_tools_that_its_client_did_not_send() {
    let own = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}}]);
    let items = round(1, &json!(lines(1_200)));
    for dialect in DIALECTS.iter() {
        for (tools, names) in [(json!([]), vec![]), (own.clone(), vec!["read"])] {
            let request = json!({"input": items, "tools": tools});
            let bounds = bounds(131_072, OutputPolicy::Adaptive);
            let sent = send(&request, Purpose::Answer, &bounds, dialect);
            assert!(sent.results()[0].contains("artifact_read"));
            let offered = sent.body["tools"].as_array().into_iter().flatten();
            let name = |tool: &'_ Value| tool.get("function").unwrap_or(tool)["name"].clone();
            let offered: Vec<Value> = offered.map(name).collect();
            assert_eq!(offered, names, "{dialect:?}");
        }
    }
}

/// Promise: An artifact's id depends only on its content, and the same request produces the same
/// bytes.
#[test]
fn an_artifact_has_the_id_of_its_content() {
    let text = lines(9_000);
    let other = text.replace("line 0004999", "Line 0004999");
    let items = [
        round(1, &json!(text)),
        round(2, &json!(text)),
        round(3, &json!(other)),
    ]
    .concat();
    let mut ids = Vec::new();
    for (window, outputs) in [
        (131_072, OutputPolicy::Adaptive),
        (WINDOW, OutputPolicy::Adaptive),
        (WINDOW, OutputPolicy::Fixed),
    ] {
        let [once, again] = [(); 2].map(|()| answer(&items, &bounds(window, outputs)));
        assert!(once.encoded.body == again.encoded.body);
        for shown in once.plan.replacements.values() {
            ids.push(shown.artifact.as_ref().unwrap().id.clone());
        }
    }
    assert_eq!([&ids[..3]; 3].concat(), ids);
    assert!(ids[0] == ids[1] && ids[1] != ids[2]);
}

/// The text of an output of up to 5 MB: a piece that is repeated.
fn large() -> impl Strategy<Value = String> {
    let pieces = [
        "a line of words\n",
        "潮汐表",
        "{\"a\":[1,\"x\"]}\n",
        "\u{1}\"\\",
        "<p><a href=\"https://a.example/\">a</a></p>",
        "error: src/a.rs:1\n",
        "!function(e){return e};",
    ];
    (select(pieces.to_vec()), ".{0,20}", 0_u32..23, 0_usize..12).prop_map(
        |(piece, end, power, more)| {
            let bytes = (1_usize << power) * more / 10;
            piece.repeat(bytes.min(5_000_000) / piece.len()) + &end
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Promise: An excerpt never has more than 5,000 characters, for outputs of up to 5 MB.
    #[test]
    fn fixed_bounds_hold_for_every_text_of_up_to_5_mb(text in large()) {
        let sent = answer(&round(1, &json!(text)), &bounds(16_777_216, OutputPolicy::Fixed));
        let result = sent.results()[0];
        if text.is_empty() {
            prop_assert_eq!(result, "(no output)");
        } else if text.chars().count() <= 4_000 {
            prop_assert!(result == text);
        } else {
            prop_assert!(result.starts_with(SHORTENED_MARK));
            prop_assert!(result.chars().count() <= 5_000);
        }
    }

    /// Promise: Bounding changes only the texts of outputs: ids, the pairing of calls and results,
    /// and the order stay.
    #[test]
    fn only_the_texts_of_outputs_change(
        rounds in vec((1_usize..4, 0_usize..1_500, any::<bool>()), 1..12),
        fixed in any::<bool>(),
    ) {
        let mut items = vec![user("Go.")];
        for (number, (calls, length, said)) in rounds.iter().enumerate() {
            let all = (0..*calls).map(|at| round(number * 9 + at, &json!(lines(*length))));
            let (calls, outputs): (Vec<_>, Vec<_>) = all.map(|[call, output]| (call, output)).unzip();
            items.extend(calls);
            items.extend(outputs.into_iter().rev());
            items.extend(said.then(|| user("And then?")));
        }
        let outputs = if fixed { OutputPolicy::Fixed } else { OutputPolicy::Adaptive };
        let blank = |sent: &Sent| {
            let mut body = sent.body.clone();
            for message in body["messages"].as_array_mut().unwrap() {
                if message["role"] == "tool" {
                    message["content"] = Value::Null;
                }
            }
            body
        };
        let whole = answer(&items, &bounds(32_768, OutputPolicy::Whole));
        let sent = answer(&items, &bounds(32_768, outputs));
        prop_assert_eq!(blank(&sent), blank(&whole));
    }
}

/// Promise: A request body is bounded by constants, names what it leaves out, and stays unchanged
/// until the next epoch.
#[test]
fn a_body_is_bounded_by_constants_and_says_what_it_leaves_out() {
    let mut items = Vec::new();
    for id in 0..30 {
        items.extend(round(id, &json!(lines(1_000 * (1 + id % 4)))));
    }
    let sent = answer(&items, &bounds(1_048_576, OutputPolicy::Fixed));
    assert!(
        sent.encoded.body.len() < 30 * (5_000 + 500),
        "{}",
        sent.encoded.body.len()
    );
    for result in sent.results() {
        for part in ["\nartifact: art_", "\nsize: ", "\n[Left out: "] {
            assert!(result.contains(part), "{part} is missing: {result}");
        }
    }
}

// An output of the session that failed.
#[test]
fn a_search_result_that_codex_cut_is_bounded_and_keeps_its_count() {
    let text = cut_by_codex();
    let sent = answer(
        &round(1, &json!(text)),
        &bounds(WINDOW, OutputPolicy::Fixed),
    );
    let result = sent.results()[0];
    assert!(result.chars().count() <= 5_000 && result.contains("Original token count: 924828"));
    assert!(sent.plan.replacements[&1].artifact.as_ref().unwrap().chars > 39_000);
}

/// Promise: A compaction, by a model or without one, sees no more of an output than the turns did;
/// the complete output is only in the artifact store.
///
/// A summary is made from the excerpts that the turns were sent, not from more.
#[test]
fn a_compaction_gets_no_more_than_the_turns_did() {
    let mut items = vec![user("Go.")];
    items.extend(round(1, &json!(lines(9_000))));
    items.push(json!({"role": "assistant", "content": "I see."}));
    let deep = "line 0004500";
    assert!(items[2].to_string().contains(deep));
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        let bounds = bounds(131_072, outputs);
        let turn = answer(&items, &bounds);
        let request = json!({"input": items});
        let summary = |form| {
            let purpose = Purpose::summary(form);
            send(&request, purpose, &bounds, &Dialect::default())
        };
        let next = summary(SummaryMode::NextTurn);
        assert_eq!(next.messages()[..4], *turn.messages());
        for sent in [&turn, &next, &summary(SummaryMode::FitWindow)] {
            assert!(!sent.body.to_string().contains(deep));
            assert!(
                sent.body
                    .to_string()
                    .contains(&output::artifact_id(&lines(9_000)))
            );
        }
        let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
        let asked = source.turn().unwrap();
        let extract = extract(&asked, &plan(&asked, &bounds), 20_000);
        assert!(!extract.contains(deep), "{extract}");
    }
}

#[test]
fn a_small_output_is_sent_unchanged() {
    for text in ["ok", "\r\n\t\u{0}\u{1f980} \"\\\n\n", &"潮".repeat(4_000)] {
        for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
            let sent = answer(&round(1, &json!(text)), &bounds(WINDOW, outputs));
            assert_eq!(sent.results(), [text]);
            assert!(sent.plan.replacements.is_empty());
        }
    }
}

#[test]
fn an_output_that_is_not_a_string_is_bounded_as_text() {
    let rows: Vec<Value> = (0..9_000)
        .map(|at| json!({"id": at, "name": "a name"}))
        .collect();
    for rows in [json!(rows), json!({"rows": rows})] {
        let items = [
            json!({"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["q"]}}),
            json!({"type": "local_shell_call_output", "call_id": "c", "output": rows}),
        ];
        let sent = answer(&items, &bounds(WINDOW, OutputPolicy::Fixed));
        let result = sent.results()[0];
        assert!(
            result.contains("\nkind: json\n") && result.contains("id: number 0"),
            "{result}"
        );
        assert!(result.contains(&output::artifact_id(&rows.to_string())));
        assert!(result.chars().count() <= 5_000);
    }
}

/// Promise: These cases are handled correctly: the result that broke the founding session, entering
/// a compaction, small outputs, outputs that are not strings, results without a call, and
/// summaries.
#[test]
fn an_output_without_its_call_is_bounded() {
    let [_, output] = round(1, &json!(lines(9_000)));
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        let sent = answer(&[user("Go."), output.clone()], &bounds(131_072, outputs));
        assert_eq!(sent.results(), [""; 0]);
        let message = sent.messages()[1].to_string();
        assert!(
            message.contains(SHORTENED_MARK) && message.contains("call: call_1"),
            "{message}"
        );
        assert!(!message.contains("line 0004500"));
    }
}

#[test]
fn a_summary_is_not_shortened() {
    let blob = CompactionBlob {
        summary: lines(2_000),
        ..CompactionBlob::default()
    };
    let item = json!({"type": "compaction", "encrypted_content": blob.seal()});
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        let sent = answer(&[item.clone(), user("Go.")], &bounds(131_072, outputs));
        assert_eq!(sent.messages()[0], user(&blob.message()));
    }
}
