//! An epoch that the window does not force is paid from what was saved before.
#![expect(clippy::cast_precision_loss, reason = "small numbers")]

use serde_json::{Value, json};

use super::policy::{bounds, planned};
use crate::plan::{Bounds, OutputPolicy};

const WINDOW: u64 = 131_072;

/// A session whose outputs have these lengths.
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

fn priced(cached_price: Option<f64>) -> Bounds {
    Bounds {
        cached_price,
        ..bounds(WINDOW, OutputPolicy::Adaptive)
    }
}

/// The number of outputs of 10,000 bytes in the first request with an epoch. `first` are the
/// lengths of outputs before them.
fn first_epoch(first: &[usize], bounds: &Bounds) -> usize {
    let epochs = |count: usize| {
        let mut lengths = first.to_vec();
        lengths.extend(vec![10_000; count]);
        planned(&history(&lengths), bounds).epochs
    };
    (1..60).find(|count| epochs(*count) > 0).unwrap()
}

/// Promise: Where the price of cached tokens is known, an epoch that the window does not force
/// waits until what was saved in the session pays for the prompt that the provider has to read
/// again, so that the session is not dearer than with nothing shortened. It is decided from the
/// sizes in the history alone.
///
/// Half of the window is 177 KB, and 300 KB fit beside an answer. An output has 11,400 bytes as
/// JSON.
#[test]
fn an_epoch_that_the_window_does_not_force_is_paid_from_the_savings() {
    // Nothing is known of prices, or a cached token costs as much as any other.
    assert_eq!(first_epoch(&[], &priced(None)), 16);
    assert_eq!(first_epoch(&[], &priced(Some(1.0))), 16);
    // Nothing was saved: only the window makes an epoch.
    let forced = first_epoch(&[], &priced(Some(0.1)));
    assert!((26..=32).contains(&forced), "{forced}");
    // An excerpt of a long output saves so much that an early epoch is paid.
    let paid = first_epoch(&[900_000], &priced(Some(0.1)));
    assert!(paid <= 16, "{paid}");
    // A shorter one does not, where cached tokens cost next to nothing.
    let unpaid = first_epoch(&[25_000], &priced(Some(0.02)));
    assert!(unpaid > 16, "{unpaid}");
}

/// The sizes that the decisions are made of, for a session without and with an epoch.
#[test]
fn a_session_is_never_dearer_than_with_nothing_shortened() {
    for cached_price in [0.02, 0.1, 0.25, 0.5] {
        for size in [3_000, 9_000, 20_000, 30_000] {
            let bounds = priced(Some(cached_price));
            let (mut cost, mut direct) = (0.0, 0.0);
            let (mut sent, mut whole): (Vec<String>, usize) = (Vec::new(), 0);
            for count in 1..40 {
                let items = history(&vec![size; count]);
                let plan = planned(&items, &bounds);
                let texts: Vec<String> = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| match plan.replacements.get(&at) {
                        Some(shown) => shown.text.to_string(),
                        None => item.to_string(),
                    })
                    .collect();
                let bytes = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
                let same = texts
                    .iter()
                    .zip(&sent)
                    .take_while(|(one, other)| one == other);
                let reused = bytes(texts.get(..same.count()).unwrap());
                let all: usize = items.iter().map(|item| item.to_string().len()).sum();
                if all > bounds.bytes_for(bounds.window.max_input()) {
                    break;
                }
                let price = |bytes: usize, cached: usize| {
                    (bytes - cached) as f64 + cached_price * cached as f64
                };
                cost += price(bytes(&texts), reused);
                direct += price(all, whole);
                assert!(
                    cost <= direct,
                    "{cached_price} {size} {count}: {cost} {direct}"
                );
                (sent, whole) = (texts, all);
            }
        }
    }
}
