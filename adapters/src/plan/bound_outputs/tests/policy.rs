//! How much of each output is sent under each policy.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use registry::{RelayToolKind, Window, WindowSource};
use serde_json::{Value, json};

use crate::plan::output::{self, SHORTENED_MARK};
use crate::plan::{
    Bounds, CachedOutput, NoCache, OutputPolicy, Plan, PlanCache, ReplacementKind, Retention,
    SequenceEntry, plan, plan_with_cache, plan_with_unkept,
};
use crate::responses::request::TurnSource;
use crate::stop_flag::{StopFlag, StopReason};
use crate::tools::{ProviderToolUse, ProxyTool};
use crate::wire::{EncodeOptions, encode};

pub(super) fn bounds(tokens: u64, outputs: OutputPolicy) -> Bounds {
    Bounds {
        window: Window {
            tokens,
            source: WindowSource::Listed,
        },
        outputs,
        retention: Retention::Disk,
        ..Bounds::none()
    }
}

pub(super) fn planned(items: &[Value], bounds: &Bounds) -> Plan {
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    plan(&source.turn().unwrap(), bounds)
}

/// A cache that is empty, and raises a flag when it is asked for this time.
struct StoppingCache {
    stop: StopFlag,
    at: usize,
    asked: AtomicUsize,
}

impl PlanCache for StoppingCache {
    fn key(&self, _: &str) -> u128 {
        0
    }

    fn get(&self, _: u128) -> Option<CachedOutput> {
        if self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.stop.raise(StopReason::ClientLeft);
        }
        None
    }

    fn put(&self, _: u128, _: CachedOutput) {
        assert!(
            !self.stop.is_raised(),
            "what was found out before the stop is not complete"
        );
    }
}

/// A plan for three long outputs, stopped when the cache is asked for this time; how many
/// replacements it has, and how often the cache was asked.
fn plan_stopped_at(at: usize) -> (usize, usize) {
    let items = round("a", &[lines(90_000), lines(90_000), lines(90_000)]);
    let stop = StopFlag::new();
    let body = json!({"model": "m", "input": items}).to_string();
    let source = TurnSource::new(body).with_stop_flag(stop.clone());
    let turn = source.turn().unwrap();
    let cache = StoppingCache {
        stop,
        at,
        asked: AtomicUsize::new(0),
    };
    let bounds = bounds(200_000, OutputPolicy::Adaptive);
    let plan = plan_with_cache(&turn, &bounds, &cache);
    (plan.replacements.len(), cache.asked.into_inner())
}

#[test]
fn a_plan_that_is_stopped_reads_no_further_output() {
    assert_eq!(plan_stopped_at(usize::MAX), (3, 6));
    assert_eq!(plan_stopped_at(1), (0, 1));
    // The excerpt of the first output is not made to its end, and that of the next not begun.
    assert_eq!(plan_stopped_at(4), (0, 4));
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"})
}

fn output(id: &str, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

/// Calls that one answer makes, and their outputs.
fn round(name: &str, outputs: &[String]) -> Vec<Value> {
    let id = |at: usize| format!("call_{name}_{at}");
    let calls = (0..outputs.len()).map(|at| call(&id(at)));
    let outputs = outputs.iter().enumerate();
    calls
        .chain(outputs.map(|(at, text)| output(&id(at), text)))
        .collect()
}

/// Lines with this many characters in all.
fn lines(chars: usize) -> String {
    // Lines with other words, which are not folded.
    let text = "line 0123\nrow 01234\n".repeat(chars / 20 + 1);
    text.get(..chars).unwrap().to_owned()
}

fn kinds(plan: &Plan) -> Vec<(usize, ReplacementKind)> {
    let replacements = plan.replacements.iter();
    replacements
        .map(|(index, replacement)| (*index, replacement.kind))
        .collect()
}

/// The bytes that are sent of each output.
fn sent(items: &[Value], plan: &Plan) -> Vec<usize> {
    let outputs = items.iter().enumerate().filter_map(|(index, item)| {
        let own = item["output"].as_str()?;
        Some(plan.replacement_text(index).unwrap_or(own).len())
    });
    outputs.collect()
}

#[test]
fn every_kind_of_output_is_bounded() {
    let text = lines(60_000);
    let parts = json!([{"type": "input_text", "text": text}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]);
    let runs = json!([{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]);
    let object = json!({"lines": vec!["a line of it"; 5_000]});
    for (call, result, output) in [
        ("function_call", "function_call_output", json!(text)),
        ("function_call", "function_call_output", parts.clone()),
        ("custom_tool_call", "custom_tool_call_output", json!(text)),
        ("custom_tool_call", "custom_tool_call_output", parts),
        ("local_shell_call", "local_shell_call_output", json!(text)),
        ("local_shell_call", "local_shell_call_output", object),
        ("shell_call", "shell_call_output", runs),
        ("apply_patch_call", "apply_patch_call_output", json!(text)),
    ] {
        for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
            let items = [
                json!({
                    "type": call, "id": "i", "call_id": "c", "name": "read", "arguments": "{}",
                    "input": "in", "action": {"command": []}, "operation": {},
                }),
                json!({"type": result, "id": "o", "call_id": "c", "output": output}),
            ];
            let plan = planned(&items, &bounds(262_144, outputs));
            let shown = &plan.replacements[&1];
            assert_eq!(shown.kind, ReplacementKind::Excerpt, "{result}");
            assert!(shown.text.chars().count() <= 5_000 && shown.text.contains(SHORTENED_MARK));
            let artifact = shown.artifact.as_ref().unwrap();
            assert!(
                artifact.chars > 24_000 && shown.text.contains(&artifact.id),
                "{result}"
            );
        }
    }
}

#[test]
fn what_ran_on_a_server_is_bounded_in_its_result_alone() {
    let text = lines(60_000);
    let parts = json!([{"type": "input_text", "text": text}]).to_string();
    let file = json!([{"type": "input_file", "filename": "a.txt", "file_data": format!("data:text/plain,{text}")}]);
    for item in [
        json!({"type": "mcp_call", "id": "m", "name": "f", "arguments": "{\"a\":1}", "output": text}),
        json!({"type": "mcp_call", "id": "m", "name": "f", "arguments": "{\"a\":1}", "output": parts}),
        json!({"type": "code_interpreter_call", "id": "m", "code": "x", "outputs": [{"type": "logs", "logs": text}]}),
        json!({"type": "file_search_call", "id": "m", "queries": [], "results": [{"filename": "a", "text": text}]}),
        json!({"type": "function_call_output", "call_id": "c", "output": parts}),
        json!({"type": "function_call_output", "call_id": "c", "output": file}),
    ] {
        let source = TurnSource::new(json!({"model": "m", "input": [item]}).to_string());
        let turn = source.turn().unwrap();
        let plan = plan(&turn, &bounds(262_144, OutputPolicy::Adaptive));
        assert_eq!(
            plan.replacements[&0].kind,
            ReplacementKind::Excerpt,
            "{}",
            turn.items[0].type_name()
        );
        let dialect = registry::Dialect::default();
        let model = registry::Model::unlisted("m");
        let options = EncodeOptions::new(&dialect, &model, "m");
        let body = encode(&turn, &plan, &options).unwrap().encoded.body;
        assert!(body.len() < 9_000, "{}", body.len());
        if turn.items[0].type_name() == "mcp_call" {
            let body = String::from_utf8(body).unwrap();
            assert!(body.contains(r#""arguments":"{\"a\":1}""#), "{body}");
        }
    }
}

#[test]
fn results_without_a_call_are_bounded_too() {
    let items = [
        output("lost", &lines(60_000)),
        json!({"role": "user", "content": "go"}),
        call("c"),
        output("c", "short"),
        output("c", &lines(70_000)),
    ];
    let plan = planned(&items, &bounds(262_144, OutputPolicy::Adaptive));
    assert!(
        plan.sequence.contains(&SequenceEntry::Stray(0))
            && plan.sequence.contains(&SequenceEntry::Stray(4))
    );
    assert_eq!(
        kinds(&plan),
        [(0, ReplacementKind::Excerpt), (4, ReplacementKind::Excerpt)]
    );
}

/// Promise: An output within its limit is sent byte for byte; with one character more it becomes an
/// excerpt.
#[test]
fn within_the_limit_an_output_stays_byte_for_byte() {
    let long = |chars: usize| {
        ["x", "\u{4e2d}", "\u{1f980}", "\"\n"]
            .map(|it| it.chars().cycle().take(chars).collect::<String>())
    };
    for (tokens, outputs, limit) in [
        (8_192, OutputPolicy::Fixed, 4_000),
        (1_048_576, OutputPolicy::Fixed, 4_000),
        (8_192, OutputPolicy::Adaptive, 4_000),
        (131_072, OutputPolicy::Adaptive, 21_233),
        (262_144, OutputPolicy::Adaptive, 24_000),
        (1_048_576, OutputPolicy::Adaptive, 24_000),
    ] {
        let bounds = bounds(tokens, outputs);
        for (within, beyond) in long(limit).iter().zip(long(limit + 1)) {
            // Characters of several bytes fill a window sooner.
            let share = bounds.window_bytes() * 6 / 100;
            let adapts = outputs == OutputPolicy::Adaptive;
            if within.len() > bounds.window_bytes() / 3 || adapts && within.len() > limit.max(share)
            {
                continue;
            }
            assert_eq!(
                kinds(&planned(&[call("c"), output("c", within)], &bounds)),
                []
            );
            let plan = planned(&[call("c"), output("c", &beyond)], &bounds);
            assert_eq!(
                kinds(&plan),
                [(1, ReplacementKind::Excerpt)],
                "{tokens} {outputs:?} {limit}"
            );
            assert_eq!(
                plan.replacements[&1].artifact.as_ref().unwrap().id,
                output::artifact_id(&beyond)
            );
        }
    }
}

#[test]
fn the_count_of_tokens_before_a_cut_is_kept() {
    let header = "Chunk ID: 0a1b2c\nWall time: 0.0000 seconds\nProcess exited with code 0\nOriginal token count: 924828\nOutput:\n";
    let minified = "function a(t,e){return t.b(e)}".repeat(1_300);
    let items = [call("c"), output("c", &(header.to_owned() + &minified))];
    for (tokens, outputs) in [
        (262_144, OutputPolicy::Fixed),
        (131_072, OutputPolicy::Adaptive),
    ] {
        let plan = planned(&items, &bounds(tokens, outputs));
        let shown = plan.replacement_text(1).unwrap();
        assert!(shown.chars().count() <= 5_000);
        assert!(shown.contains("Original token count: 924828"), "{shown}");
    }
}

/// Promise: No output is shortened without a note that says so.
#[test]
fn nothing_is_shortened_silently_and_nothing_needs_a_store() {
    let items: Vec<Value> = (0..60)
        .flat_map(|turn| round(&turn.to_string(), &[lines(20_000), lines(90_000)]))
        .collect();
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        for retention in [Retention::Disk, Retention::Memory, Retention::Nothing] {
            let bounds = Bounds {
                retention,
                ..bounds(131_072, outputs)
            };
            let plan = planned(&items, &bounds);
            assert!(plan.replacements.len() > 60);
            for shown in plan.replacements.values() {
                assert!(shown.text.starts_with(SHORTENED_MARK), "{}", shown.text);
                let says = shown.text.contains("not kept");
                assert_eq!(says, retention == Retention::Nothing, "{}", shown.text);
            }
        }
    }
}

#[test]
fn only_outputs_that_cannot_be_kept_say_so() {
    let items: Vec<Value> = (0..30)
        .flat_map(|turn| round(&turn.to_string(), &[lines(20_000 + turn), lines(90_000)]))
        .collect();
    let bounds = bounds(131_072, OutputPolicy::Adaptive);
    let kept = planned(&items, &bounds);
    let unkept: BTreeSet<String> = kept
        .replacements
        .values()
        .filter_map(|shown| Some(shown.artifact.as_ref()?.id.clone()))
        .step_by(3)
        .collect();
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    let plan = plan_with_unkept(&source.turn().unwrap(), &bounds, &NoCache, &unkept);
    assert_eq!(plan.replacements.len(), kept.replacements.len());
    let mut lost = 0;
    for (index, before) in &kept.replacements {
        let now = &plan.replacements[index];
        let artifact = before.artifact.as_ref().unwrap();
        if unkept.contains(&artifact.id) {
            lost += 1;
            assert_eq!((now.kind, &now.artifact), (before.kind, &None));
            assert!(now.text.contains("not kept") && !now.text.contains("art_"));
        } else {
            assert_eq!(now, before);
        }
    }
    assert!(lost >= 10, "{lost}");
}

#[test]
fn outputs_of_one_round_share_the_room_and_the_newest_come_first() {
    let items = round("a", &vec![lines(4_000); 40]);
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        for (tokens, share) in [(131_072, 160_000), (32_768, 44_236), (8_192, 11_059)] {
            let plan = planned(&items, &bounds(tokens, outputs));
            let sent = sent(&items, &plan);
            let sum: usize = sent.iter().sum();
            assert!(sum <= share, "{tokens}: {sum}");
            assert!(
                tokens == 8_192 || sent.last() == Some(&4_000),
                "{tokens}: {sent:?}"
            );
            assert!(sent.last() > Some(&1_000), "{tokens}: {sent:?}");
            assert!(sent.is_sorted(), "{tokens}: {sent:?}");
            assert_eq!(plan.epochs, 0);
        }
    }
}

#[test]
fn beyond_half_of_the_window_the_oldest_become_notices() {
    // Half of the window is 176,947 bytes, a quarter 88,473.
    let bounds = bounds(131_072, OutputPolicy::Adaptive);
    let text = "words ".repeat(2_916);
    let session = |turns: usize| -> Vec<Value> {
        (0..turns)
            .flat_map(|turn| round(&turn.to_string(), std::slice::from_ref(&text)))
            .collect()
    };
    let plan = planned(&session(10), &bounds);
    assert_eq!((plan.epochs, plan.replacements.len()), (0, 0));
    let plan = planned(&session(11), &bounds);
    assert_eq!(plan.epochs, 1);
    let notices: Vec<_> = (0..7)
        .map(|turn| (turn * 2 + 1, ReplacementKind::Notice))
        .collect();
    assert_eq!(kinds(&plan), notices);
    // Nothing changes until the next epoch.
    let grown = planned(&session(17), &bounds);
    assert_eq!(grown.replacements, plan.replacements);
    let next = planned(&session(18), &bounds);
    assert_eq!(next.epochs, 2);
    assert!(
        plan.replacements
            .iter()
            .all(|(index, shown)| next.replacements.get(index) == Some(shown))
    );
}

/// Promise: All outputs together may use a share of the window and at most 400,000 bytes, assigned
/// from the newest to the oldest: the oldest are replaced by notices, and a round that is too large
/// is shortened further.
#[test]
fn a_larger_window_does_not_hold_more_than_400_000_bytes_of_outputs() {
    let text = "words ".repeat(2_916);
    let session = |turns: usize| -> Vec<Value> {
        (0..turns)
            .flat_map(|turn| round(&turn.to_string(), std::slice::from_ref(&text)))
            .collect()
    };
    for tokens in [400_000, 1_048_576] {
        let bounds = bounds(tokens, OutputPolicy::Adaptive);
        assert_eq!(planned(&session(22), &bounds).epochs, 0, "{tokens}");
        let plan = planned(&session(23), &bounds);
        assert_eq!(plan.epochs, 1, "{tokens}");
        let left = sent(&session(23), &plan);
        assert!(left.iter().sum::<usize>() < 200_000, "{tokens}");
    }
}

#[test]
fn the_current_round_is_shortened_and_gets_no_notices() {
    let bounds = bounds(131_072, OutputPolicy::Adaptive);
    let mut items = round("old", &vec![lines(17_000); 6]);
    items.extend(round("new", &vec![lines(20_000); 12]));
    let plan = planned(&items, &bounds);
    let (old, new): (Vec<_>, Vec<_>) = kinds(&plan).into_iter().partition(|(at, _)| *at < 12);
    assert_eq!(plan.epochs, 1);
    assert!(old.len() == 6 && old.iter().all(|(_, kind)| *kind == ReplacementKind::Notice));
    assert!(
        !new.is_empty()
            && new
                .iter()
                .all(|(_, kind)| *kind == ReplacementKind::Excerpt)
    );
    assert!(sent(&items, &plan).iter().sum::<usize>() <= bounds.window_bytes() / 2);
}

#[test]
fn an_output_shorter_than_a_notice_stays() {
    let bounds = bounds(8_192, OutputPolicy::Adaptive);
    let items: Vec<Value> = (0..9)
        .flat_map(|turn| round(&turn.to_string(), &["ok".to_owned(), lines(2_000)]))
        .collect();
    let plan = planned(&items, &bounds);
    assert!(plan.epochs > 0);
    for (index, item) in items.iter().enumerate() {
        assert!(item["output"] != "ok" || !plan.replacements.contains_key(&index));
    }
}

/// A part of an artifact as `artifact_read` returns it.
fn page(chars: usize) -> String {
    let heading = output::read_back_heading(&output::artifact_id("x"), "lines 1 to 900");
    format!("{heading}\n{}", lines(chars))
}

/// The same items with calls of `artifact_read`.
fn reading(mut items: Vec<Value>) -> Vec<Value> {
    for item in &mut items {
        if item["type"] == "function_call" {
            item["name"] = json!("mcp__respondent__artifact_read");
        }
    }
    items
}

/// Promise: An output that only looks like a part of an artifact is stored like any other.
#[test]
fn what_only_looks_like_an_artifact_is_kept() {
    let items = round("a", &[page(90_000), lines(500)]);
    let bounds = bounds(16_000, OutputPolicy::Adaptive);
    let plan = planned(&items, &bounds);
    let shown = &plan.replacements[&2];
    let id = output::artifact_id(items[2]["output"].as_str().unwrap());
    assert_eq!(shown.artifact.as_ref().map(|kept| &kept.id), Some(&id));
    assert!(shown.text.contains(&id), "{}", shown.text);
    let plan = planned(&reading(items), &bounds);
    assert_eq!(plan.replacements[&2].artifact, None);
}

#[test]
fn a_read_back_is_not_shortened_in_its_round_while_it_fits() {
    // A quarter of the window is 88,473 bytes.
    let bounds = bounds(131_072, OutputPolicy::Adaptive);
    for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
        let bounds = Bounds {
            outputs,
            ..bounds.clone()
        };
        let one = reading(round("a", &[page(80_000)]));
        assert_eq!(kinds(&planned(&one, &bounds)), []);
        let three = reading(round("a", &[page(80_000), page(9_000), page(80_000)]));
        let plan = planned(&three, &bounds);
        assert_eq!(
            kinds(&plan),
            [(3, ReplacementKind::Page), (5, ReplacementKind::Page)]
        );
        let sum: usize = sent(&three, &plan).iter().sum();
        assert!((80_000..=88_473).contains(&sum), "{sum}");
        // Where other outputs are shortened, the read-back is not.
        let mixed = round(
            "a",
            &[lines(20_000), page(80_000), lines(60_000), lines(20_000)],
        );
        let mixed = reading(mixed);
        assert!(!planned(&mixed, &bounds).replacements.contains_key(&5));
    }
    let mut items = round("a", &[page(80_000)]);
    items.extend(round("b", &[page(80_000)]));
    items.extend(round("c", &[page(80_000)]));
    let plan = planned(&reading(items), &bounds);
    assert_eq!(
        kinds(&plan),
        [(1, ReplacementKind::Notice), (3, ReplacementKind::Notice)]
    );
}

#[test]
fn outputs_stay_whole_under_the_policy_whole() {
    let items = round("a", &vec![lines(90_000); 20]);
    let plan = planned(&items, &bounds(8_192, OutputPolicy::Whole));
    assert_eq!((kinds(&plan), plan.epochs), (vec![], 0));
}

#[test]
fn outputs_make_room_for_other_input() {
    // The window has 353,894 bytes, of which 54,000 are kept free for an answer.
    let bounds = bounds(131_072, OutputPolicy::Adaptive);
    let session = |user_bytes: usize| -> (Vec<Value>, usize) {
        let mut items = round("old", &["words ".repeat(3_000), "words ".repeat(3_000)]);
        items.push(json!({"role": "user", "content": "x".repeat(user_bytes)}));
        items.extend(round("new", &vec!["words ".repeat(3_000); 3]));
        let plan = planned(&items, &bounds);
        let sum = sent(&items, &plan).iter().sum();
        (items, sum)
    };
    let (_, beside_little) = session(100_000);
    assert_eq!(beside_little, 90_000);
    for user_bytes in [230_000, 260_000, 280_000] {
        let (items, sum) = session(user_bytes);
        assert!(user_bytes + sum <= 353_894 - 54_000, "{user_bytes}: {sum}");
        let plan = planned(&items, &bounds);
        let newest = items.len() - 1;
        assert!(
            plan.replacements
                .get(&newest)
                .is_none_or(|shown| shown.kind == ReplacementKind::Excerpt)
        );
    }
}

/// Promise: A page that a tool of the proxy has read is sent as the tool returned it, whatever the
/// script, also where an output of that length is shortened.
#[test]
fn results_of_tools_of_the_proxy_are_sent_as_they_are() {
    let tool = ProxyTool {
        name: "open_page".to_owned(),
        description: String::new(),
        parameters: "{}".to_owned(),
        in_place_of: Some(RelayToolKind::WebSearch),
        provider_tool: ProviderToolUse::Never,
        ..ProxyTool::default()
    };
    let (latin, cjk) = (
        "A line of it.\n".repeat(857),
        "漢字かな交じり文。\n".repeat(1_200),
    );
    let long = "x".repeat(20_000);
    for (window, text, is_whole) in [
        (131_072, &cjk, true),
        (65_536, &latin, true),
        (32_768, &latin, true),
        (65_536, &long, false),
    ] {
        for name in ["open_page", "shell"] {
            let body = json!({
                "model": "m",
                "tools": [
                    {"type": "web_search"},
                    {"type": "function", "name": "shell", "parameters": {"type": "object"}},
                ],
                "input": [
                    {"type": "message", "role": "user", "content": "Look."},
                    {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": text},
                ],
            });
            let source = TurnSource::new(body.to_string()).with_proxy_tools(vec![tool.clone()]);
            let plan = plan(
                &source.turn().unwrap(),
                &bounds(window, OutputPolicy::Adaptive),
            );
            let expected = is_whole && (name == "open_page");
            assert_eq!(plan.replacements.is_empty(), expected, "{window} {name}");
        }
    }
}
