//! An epoch that the window does not force is made when it is worth its price.
#![expect(clippy::cast_precision_loss, reason = "small numbers")]

use serde_json::{Value, json};

use super::policy::{bounds, planned};
use crate::plan::{Bounds, OutputPolicy, Retention};

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

/// Promise: Where the price of cached tokens is known, an epoch that the window does not force is
/// made when repeating the older outputs has cost as much as the provider charges for reading again
/// what follows them. It is decided from the sizes in the history alone, and only if the outputs
/// can be read back.
///
/// Half of the window is 177 KB, and 300 KB fit beside an answer. An output has 11,400 bytes as
/// JSON.
#[test]
fn an_epoch_that_the_window_does_not_force_is_worth_its_price() {
    // Nothing is known of prices.
    assert_eq!(first_epoch(&[], &priced(None)), 16);
    // Reading again costs no more than a cached token does.
    assert_eq!(first_epoch(&[], &priced(Some(1.0))), 4);
    let tenth = first_epoch(&[], &priced(Some(0.1)));
    assert!((7..=10).contains(&tenth), "{tenth}");
    let fiftieth = first_epoch(&[], &priced(Some(0.02)));
    assert!((12..=25).contains(&fiftieth), "{fiftieth}");
    // What is not kept gives way to the window alone.
    let unkept = Bounds {
        retention: Retention::Nothing,
        ..priced(Some(0.1))
    };
    let forced = first_epoch(&[], &unkept);
    assert!((26..=32).contains(&forced), "{forced}");
}

/// Promise: At no time has a session cost more than a tenth more than with nothing shortened, and
/// later it costs no more.
///
/// The sizes that the decisions are made of, for a session without and with an epoch.
#[test]
fn a_session_is_at_most_a_tenth_dearer_and_not_in_the_end() {
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
                    cost <= 1.1 * direct,
                    "{cached_price} {size} {count}: {cost} {direct}"
                );
                (sent, whole) = (texts, all);
            }
            assert!(cost <= direct, "{cached_price} {size}: {cost} {direct}");
        }
    }
}
