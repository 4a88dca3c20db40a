//! A session whose outputs are sent whole from a point on.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::policy::{bounds, planned};
use crate::plan::{Bounds, OutputMark, OutputPolicy, Plan, WholeFrom};
use crate::responses::request::TurnSource;

/// The history of a session whose outputs have these lengths.
fn history(lengths: &[usize]) -> Vec<Value> {
    let mut items = vec![json!({"role": "user", "content": "go"})];
    for (number, length) in lengths.iter().enumerate() {
        let id = format!("call_{number}");
        items.extend([
            json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": id, "output": "a word\n".repeat(length / 7)}),
        ]);
    }
    items
}

/// The same bounds from the end of this history on, where outputs are sent whole.
fn whole_after(items: &[Value], bounds: Bounds) -> Bounds {
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    let turn = source.turn().unwrap();
    let newest = turn.items.iter().rev().find_map(OutputMark::of);
    bounds.with_whole(Some(WholeFrom::after(newest)))
}

/// The texts that are sent instead of the first items.
fn shown(plan: &Plan, items: usize) -> Vec<(usize, String)> {
    let shown = plan.replacements.range(..items);
    shown.map(|(at, one)| (*at, one.text.to_string())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn r42_what_was_sent_stays_and_only_the_window_shortens_more(
        lengths in proptest::collection::vec(100..25_000usize, 2..14),
        point in any::<prop::sample::Index>(),
        tokens in prop_oneof![Just(20_000u64), Just(60_000), Just(131_072)],
    ) {
        let normal = bounds(tokens, OutputPolicy::Adaptive);
        let point = 1 + point.index(lengths.len() - 1);
        let before = history(&lengths[..point]);
        let sent = planned(&before, &normal);
        let whole = whole_after(&before, normal);
        for count in point..=lengths.len() {
            let items = history(&lengths[..count]);
            let now = planned(&items, &whole);
            if now.epochs == sent.epochs {
                prop_assert_eq!(shown(&now, before.len()), shown(&sent, before.len()));
            }
            let bytes: usize = items.iter().map(|item| item.to_string().len()).sum();
            if bytes < normal.bytes_for(normal.window.max_input()) {
                prop_assert_eq!(now.epochs, sent.epochs);
                prop_assert_eq!(now.replacements.len(), sent.replacements.len());
            }
            // What is sent still fits.
            let outputs = now.replacements.values().map(|one| one.text.len()).sum::<usize>()
                + items.iter().enumerate()
                    .filter(|(at, _)| !now.replacements.contains_key(at))
                    .map(|(_, item)| item.to_string().len()).sum::<usize>();
            prop_assert!(outputs <= normal.window_bytes());
        }
    }
}

#[test]
fn r42_a_history_that_began_later_is_whole() {
    let normal = bounds(131_072, OutputPolicy::Adaptive);
    let whole = whole_after(&history(&[30_000, 30_000]), normal);
    let mut other = history(&[29_000, 31_000]);
    assert_eq!(planned(&other, &normal).replacements.len(), 2);
    assert_eq!(planned(&other, &whole).replacements.len(), 0);
    // A summary may keep a part of the history.
    other.splice(1..1, history(&[30_000, 30_000]).split_off(3));
    assert_eq!(planned(&other, &whole).replacements.len(), 1);
}

/// Results of one answer belong together, in whatever order they come.
#[test]
fn r42_all_outputs_of_a_request_were_sent_before() {
    let normal = bounds(131_072, OutputPolicy::Adaptive);
    let text = "a word\n".repeat(5_000);
    let call =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output =
        |id: &str| json!({"type": "function_call_output", "call_id": id, "output": text.clone()});
    let mut items = vec![
        json!({"role": "user", "content": "go"}),
        call("a"),
        call("b"),
        output("b"),
        output("a"),
    ];
    let whole = whole_after(&items, normal);
    items.extend([call("c"), output("c")]);
    let plan = planned(&items, &whole);
    assert_eq!(
        plan.replacements.keys().copied().collect::<Vec<_>>(),
        [3, 4]
    );
}
