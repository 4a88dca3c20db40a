//! What a turn is billed, beside what it would have been billed with nothing shortened, and what a
//! response says of its prompt.
mod diagnostics;
mod simulated_cache;
mod token_ratios;
mod whole_sessions;

use serde_json::{Value, json};

use crate::proxy::{Proxy, Setup};
use simulated_cache::SimulatedCache;

/// A model with a price and a window of 131,072 tokens.
const MODEL: &str = "[[providers.up.models]]\nid = \"m\"\nwindow = 131072\n\
    price = { input = 1.0, cached_input = 0.1, output = 10.0 }\n";

pub fn setup() -> Setup {
    Setup::new()
        .server("log = \"info\"\nlog_format = \"json\"")
        .tables(MODEL)
}

/// The history of a session with outputs of these sizes, each the only one of its turn.
fn history(sizes: &[usize]) -> Vec<Value> {
    let mut items = vec![json!({"role": "user", "content": "Find the fault."})];
    for (number, size) in sizes.iter().enumerate() {
        let id = format!("call_{number}");
        // 20 bytes each, with the end of the line escaped.
        let lines = (0..size / 20).map(|line| format!("line {number:02} {line:010}\n"));
        items.extend([
            json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": id, "output": lines.collect::<String>()}),
        ]);
    }
    items
}

fn turn(items: &[Value]) -> Value {
    json!({"model": "up/m", "input": items, "prompt_cache_key": "s1"})
}

/// Sends a turn and returns its record in the log.
async fn record(proxy: &Proxy, body: &Value) -> Value {
    let reply = proxy.post(body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = reply.header("x-request-id").unwrap();
    let log = proxy.wait_for_log(id).await;
    let line = log.lines().find(|line| line.contains(id));
    serde_json::from_str(line.unwrap()).unwrap()
}

fn assert_near(found: f64, expected: f64) {
    let difference = (found - expected).abs();
    assert!(difference <= 0.02 * expected, "{found}, not {expected}");
}

/// Promise: Each turn shows two bills in its log line, the metrics and the status: what the
/// provider counted for the request that was sent, and what it would have counted for the same
/// request with nothing shortened, by its prices and the rules of its cache.
///
/// The same session through a server that shortens nothing shows what the bill without shortening
/// would really have been.
#[kit::test]
async fn a_turn_shows_both_bills_in_its_log_line_the_metrics_and_the_status() {
    let sizes = [2_000, 90_000, 1_000, 60_000, 500];
    let whole = "[context]\noutputs = \"whole\"";
    let mut bills = Vec::new();
    for setup in [setup(), setup().tables(whole)] {
        let player = SimulatedCache::new(3.4).serve().await;
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        let mut records = Vec::new();
        for count in 1..=sizes.len() {
            let body = turn(&history(&sizes[..count]));
            records.push(record(&proxy, &body).await);
        }
        let read = |name: &str| -> Vec<f64> {
            let values = records.iter().map(|record| record[name].as_f64().unwrap());
            values.collect()
        };
        let (cost, unshortened) = (read("cost"), read("unshortened_cost"));
        for (name, sum) in [
            ("respondent_cost_dollars_total", &cost),
            ("respondent_unshortened_cost_dollars_total", &unshortened),
        ] {
            assert_near(proxy.metric(name, "").await, sum.iter().sum());
        }
        let status = crate::status::status(&proxy, &setup).await;
        let today = &status["usage"]["today"][0];
        assert_near(today["cost"].as_f64().unwrap(), cost.iter().sum());
        let whole = today["unshortened_cost"].as_f64().unwrap();
        assert_near(whole, unshortened.iter().sum());
        bills.push((cost, unshortened));
    }
    let (shortened, whole) = (&bills[0], &bills[1]);
    // Nothing is longer than the limit in the first turn.
    assert_near(shortened.0[0], whole.0[0]);
    assert!(shortened.0[1] < whole.0[1] / 3.0, "{bills:?}");
    for (reckoned, real) in shortened.1.iter().zip(&whole.0) {
        assert_near(*reckoned, *real);
    }
    assert_eq!(whole.0, whole.1, "nothing was shortened");
}

/// Promise: A request that would have left no room for an answer unshortened says so; metrics and
/// status count such turns, and those of which nothing is known, apart from those that cost the
/// same.
///
/// The window has 131,072 tokens of 2.7 bytes, of which 20,000 are for the answer.
#[kit::test]
async fn a_turn_that_leaves_no_room_for_an_answer_unshortened_says_so() {
    let player = SimulatedCache::new(2.7).serve().await;
    let proxy = Proxy::start_with(&player, setup()).await;
    for (size, is_too_long) in [(280_000, false), (330_000, true), (380_000, true)] {
        let mut body = turn(&history(&[size]));
        body["prompt_cache_key"] = json!(size.to_string());
        let record = record(&proxy, &body).await;
        let expected = if is_too_long {
            json!(true)
        } else {
            Value::Null
        };
        assert_eq!(record["too_long_unshortened"], expected, "{size}");
        let bills = ["cost", "unshortened_cost"].map(|name| record[name].as_f64().unwrap());
        assert_eq!(bills[0] < bills[1] / 5.0, !is_too_long, "{bills:?}");
    }
    // They are not mixed with turns that cost the same.
    for (kind, count) in [("reckoned", 1.0), ("too_long", 2.0)] {
        let label = format!("kind=\"{kind}\"");
        let found = proxy.metric("respondent_unshortened_bills_total", &label);
        assert_near(found.await, count);
    }
    let status = crate::status::status(&proxy, &setup()).await;
    let today = &status["usage"]["today"][0];
    assert_eq!(today["turns_too_long_unshortened"], 2, "{today}");
    assert_eq!(today["turns_not_reckoned_unshortened"], 0, "{today}");
}
