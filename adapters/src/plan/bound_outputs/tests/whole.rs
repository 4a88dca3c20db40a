//! A session whose outputs are sent whole from a point on.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::policy::{bounds, planned};
use crate::plan::{Bounds, OutputPolicy, Plan, UnshortenedFrom};

/// The most bytes by which the plan takes an item of these histories to be longer than it is.
const FRAME: usize = 100;

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

/// The same bounds after these histories of a session, from where on outputs are sent whole.
fn whole_after_all(histories: &[Vec<Value>], bounds: &Bounds) -> Bounds {
    let plans = histories.iter().map(|items| planned(items, bounds));
    let marks: Vec<_> = plans.map(|plan| plan.output_marks).collect();
    let from = UnshortenedFrom::after(marks.iter().map(Vec::as_slice));
    bounds.clone().with_unshortened_from(Some(from))
}

fn whole_after(items: &[Value], bounds: &Bounds) -> Bounds {
    whole_after_all(&[items.to_vec()], bounds)
}

/// The texts that are sent instead of the first items.
fn shown(plan: &Plan, items: usize) -> Vec<(usize, String)> {
    let shown = plan.replacements.range(..items);
    shown.map(|(at, one)| (*at, one.text.to_string())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_sent_stays_and_only_the_window_shortens_more(
        lengths in proptest::collection::vec(100..25_000usize, 2..14),
        point in any::<prop::sample::Index>(),
        tokens in prop_oneof![Just(20_000u64), Just(60_000), Just(131_072)],
    ) {
        let normal = bounds(tokens, OutputPolicy::Adaptive);
        let point = 1 + point.index(lengths.len() - 1);
        let before = history(&lengths[..point]);
        let sent = planned(&before, &normal);
        let whole = whole_after(&before, &normal);
        for count in point..=lengths.len() {
            let items = history(&lengths[..count]);
            let now = planned(&items, &whole);
            if now.epochs == sent.epochs {
                prop_assert_eq!(shown(&now, before.len()), shown(&sent, before.len()));
            }
            // The plan reckons with a longer frame around an item than these items have.
            let bytes: usize = items.iter().map(|item| item.to_string().len() + FRAME).sum();
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
fn a_history_that_began_later_is_whole() {
    let normal = bounds(131_072, OutputPolicy::Adaptive);
    let whole = whole_after(&history(&[30_000, 30_000]), &normal);
    let mut other = history(&[29_000, 31_000]);
    assert_eq!(planned(&other, &normal).replacements.len(), 2);
    assert_eq!(planned(&other, &whole).replacements.len(), 0);
    // A summary may keep a part of the history, but no cache knows that after another beginning.
    other.splice(1..1, history(&[30_000, 30_000]).split_off(3));
    assert_eq!(planned(&other, &whole).replacements.len(), 0);
}

/// Results of one answer belong together, in whatever order they come.
#[test]
fn all_outputs_of_a_request_were_sent_before() {
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
    let whole = whole_after(&items, &normal);
    items.extend([call("c"), output("c")]);
    let plan = planned(&items, &whole);
    assert_eq!(
        plan.replacements.keys().copied().collect::<Vec<_>>(),
        [3, 4]
    );
}

/// The indices of the items that are shortened.
fn shortened(items: &[Value], bounds: &Bounds) -> Vec<usize> {
    let plan = planned(items, bounds);
    plan.replacements.keys().copied().collect()
}

#[test]
fn each_of_many_histories_keeps_what_was_sent() {
    let normal = bounds(131_072, OutputPolicy::Adaptive);
    let agent = |number: usize, turns: usize| {
        let lengths: Vec<usize> = (0..turns)
            .map(|turn| 30_000 + 70 * (100 * turn + number))
            .collect();
        history(&lengths)
    };
    let histories: Vec<_> = (0..11).map(|number| agent(number, 3)).collect();
    let whole = whole_after_all(&histories, &normal);
    for number in 0..11 {
        assert_eq!(shortened(&agent(number, 5), &whole), [2, 4, 6], "{number}");
    }
    assert!(shortened(&agent(11, 5), &whole).is_empty());
}

#[test]
fn a_history_that_goes_back_keeps_what_was_sent() {
    let normal = bounds(131_072, OutputPolicy::Adaptive);
    let whole = whole_after(&history(&[30_000, 31_000, 32_000, 33_000]), &normal);
    let back = history(&[30_000, 31_000, 39_000, 38_000]);
    assert_eq!(shortened(&back, &whole), [2, 4]);
    // The same output in another history is another one, also under the same call id.
    let other = history(&[29_000, 31_000, 32_000, 33_000]);
    assert!(shortened(&other, &whole).is_empty());
}

/// Of a very long session only the newest outputs are known. What may be older is not changed.
#[test]
fn a_history_that_may_be_older_is_not_changed() {
    let normal = bounds(1_000_000, OutputPolicy::Adaptive);
    let mut lengths = vec![70; 600];
    lengths[..2].fill(50_000);
    let all = history(&lengths);
    let whole = whole_after(&all, &normal);
    assert_eq!(shortened(&all, &whole), [2, 4]);
    let back = history(&lengths[..50]);
    assert_eq!(shortened(&back, &whole), [2, 4]);
}
