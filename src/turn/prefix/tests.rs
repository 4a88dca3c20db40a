use std::sync::Arc;

use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use adapters::wire::{EncodeOptions, encode};
use registry::{Dialect, Model, ReasoningControl};
use serde_json::{Value, json};

mod bills;
mod diagnostics;

use super::{
    CacheSettings, FingerprintContext, Originals, PrefixReason, PrefixReport, RecentRequests,
    RequestFingerprint, RequestPart,
};

/// A client request of a session and the context of its fingerprint.
#[derive(Clone)]
struct TestRequest {
    body: Value,
    context: FingerprintContext,
    cache_control: bool,
    bounds: Bounds,
}

fn request(items: impl Into<Value>) -> TestRequest {
    let items = items.into();
    TestRequest {
        body: json!({
            "model": "m", "instructions": "Be brief.", "input": items,
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "max_output_tokens": 1000,
        }),
        context: FingerprintContext {
            route: "acme/m".into(),
            ..FingerprintContext::default()
        },
        cache_control: false,
        bounds: Bounds::none(),
    }
}

impl TestRequest {
    fn with(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }

    fn with_context(mut self, change: impl FnOnce(&mut FingerprintContext)) -> Self {
        change(&mut self.context);
        self
    }

    fn fingerprint(&self) -> Arc<RequestFingerprint> {
        let mut dialect = Dialect::default();
        let quirks = dialect.quirks.as_chat_mut().unwrap();
        quirks.cache_control = self.cache_control;
        (quirks.prompt_cache_key, quirks.service_tier) = (true, true);
        quirks.verbosity = true;
        quirks.reasoning_control = ReasoningControl::Effort;
        let source = TurnSource::new(self.body.to_string());
        let turn = source.turn().unwrap();
        let model = Model {
            reasoning: vec!["low".to_owned(), "high".to_owned()],
            ..Model::unlisted("m")
        };
        let options = EncodeOptions::new(&dialect, &model, "m");
        let plan = plan(&turn, &self.bounds);
        let encoded = encode(&turn, &plan, &options).unwrap().encoded;
        let originals = Originals::new(&turn, &plan, model.bytes_per_token());
        let context = FingerprintContext {
            epochs: plan.epochs.max(self.context.epochs),
            settings: CacheSettings::new(&turn.controls),
            ..self.context.clone()
        };
        Arc::new(RequestFingerprint::new(&encoded, context, &originals))
    }
}

/// Compares the last of these requests of one session with those before it.
fn report(requests: &[TestRequest]) -> PrefixReport {
    let mut recent = RecentRequests::default();
    let (last, before) = requests.split_last().unwrap();
    for request in before {
        recent.put(&request.fingerprint(), "resp_1");
    }
    recent.report(&last.fingerprint())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
}

fn output(id: &str, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

fn first() -> Value {
    json!([user("go"), call("c1"), output("c1", "seen \"it}]\"")])
}

fn second() -> Value {
    let answer = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]});
    let mut items = first();
    items.as_array_mut().unwrap().extend([answer, user("on")]);
    items
}

fn reason_and_part(requests: &[TestRequest]) -> (PrefixReason, Option<RequestPart>) {
    let report = report(requests);
    (report.reason, report.differs_at)
}

#[test]
fn a_growing_history_shares_the_whole_previous_request() {
    assert_eq!(
        reason_and_part(&[request(first())]),
        (PrefixReason::First, None)
    );
    for cache_control in [false, true] {
        let steps = |count: usize| {
            let items = second().as_array().unwrap()[..count].to_vec();
            TestRequest {
                cache_control,
                ..request(Value::Array(items))
            }
        };
        // The output limit comes at the end of the body and makes no difference.
        for (before, after) in [(1, 3), (3, 5), (3, 4), (4, 5), (5, 5)] {
            let report = report(&[steps(before), steps(after)]);
            assert_eq!(report.reason, PrefixReason::NewTurn, "{before} {after}");
            assert_eq!(report.shared_bytes, report.previous_bytes);
            assert_eq!(report.to_string(), "shared=100.0%; reason=new_turn");
            assert!(report.request_bytes >= report.previous_bytes);
        }
    }
}

#[test]
fn the_report_names_why_and_where_a_prefix_breaks() {
    let tools = json!([{"type": "function", "name": "see", "parameters": {"type": "object"}}]);
    let other_output = json!([
        user("go"),
        call("c1"),
        output("c1", "[demoted]"),
        user("on")
    ]);
    let summary = json!([user("a summary")]);
    for (next, reason, part) in [
        (
            request(second()).with("tools", tools.clone()),
            PrefixReason::ToolsChanged,
            RequestPart::Tools,
        ),
        (
            request(second()).with("tools", json!([])),
            PrefixReason::ToolsChanged,
            RequestPart::Tools,
        ),
        (
            request(second()).with("instructions", json!("Be long.")),
            PrefixReason::InstructionsChanged,
            RequestPart::Instructions,
        ),
        (
            request(second()).with("instructions", Value::Null),
            PrefixReason::InstructionsChanged,
            RequestPart::Instructions,
        ),
        (
            request(second()).with("temperature", json!(0.5)),
            PrefixReason::ParametersChanged,
            RequestPart::Parameters,
        ),
        (
            request(other_output.clone()),
            PrefixReason::ClientChangedHistory,
            RequestPart::Item(2),
        ),
        (
            request(json!([user("go")])),
            PrefixReason::ClientChangedHistory,
            RequestPart::Item(1),
        ),
        (
            request(other_output).with_context(|context| context.epochs = 1),
            PrefixReason::Epoch,
            RequestPart::Item(2),
        ),
        (
            request(summary.clone()).with_context(|context| context.asks_for_summary = true),
            PrefixReason::Compaction,
            RequestPart::Item(0),
        ),
        (
            request(summary).with_context(|context| context.summaries = 1),
            PrefixReason::Compaction,
            RequestPart::Item(0),
        ),
        (
            request(second())
                .with("tools", tools)
                .with_context(|context| context.asks_for_summary = true),
            PrefixReason::Compaction,
            RequestPart::Tools,
        ),
    ] {
        assert_eq!(
            reason_and_part(&[request(first()), next]),
            (reason, Some(part))
        );
    }
    let moved = request(second()).with_context(|context| context.route = "brand/m".into());
    let report = report(&[request(first()), moved]);
    assert_eq!(report.to_string(), "shared=0.0%; reason=model_changed");
}

/// The request for a summary continues the history; the request after it does not.
#[test]
fn the_request_after_a_summary_is_a_compaction() {
    let asking = request(second()).with_context(|context| context.asks_for_summary = true);
    let requests = [
        request(first()),
        asking,
        request(json!([user("a summary")])),
    ];
    assert_eq!(reason_and_part(&requests[..2]).0, PrefixReason::NewTurn);
    assert_eq!(reason_and_part(&requests).0, PrefixReason::Compaction);
}

#[test]
fn the_share_refers_to_the_size_of_the_previous_request() {
    let long = "x".repeat(9_000);
    let history = json!([user(&long), call("c1"), output("c1", &long)]);
    let changed = json!([user(&long), call("c1"), output("c1", "other")]);
    let report = report(&[request(history), request(changed)]);
    assert!(report.shared_bytes > 9_000 && report.shared_bytes < 9_500);
    assert_eq!(
        report.to_string(),
        format!(
            "shared={}%; reason=client_changed_history; at=item 2",
            report.percent()
        )
    );
    assert!(("50.0".."51.9").contains(&report.percent().as_str()));
}

/// Agents that share a session take turns, and each continues its own history.
#[test]
fn parallel_histories_of_a_session_are_kept_apart() {
    let history = |name: &str, turns: usize| {
        let items = (0..turns).map(|turn| user(&format!("{name} {turn}")));
        request(Value::Array(items.collect()))
    };
    let mut requests = Vec::new();
    for turn in 1..6 {
        for name in ["a", "b", "c", "d"] {
            requests.push(history(name, turn));
            if turn > 1 {
                assert_eq!(
                    reason_and_part(&requests).0,
                    PrefixReason::NewTurn,
                    "{name} {turn}"
                );
            }
        }
    }
}

#[test]
fn a_history_takes_memory_for_each_item_and_only_a_little_for_each_request() {
    let items = |count: usize| (0..count).map(|turn| user(&turn.to_string())).collect();
    let long = |count| request(Value::Array(items(count))).fingerprint();
    let mut recent = RecentRequests::default();
    recent.put(&long(1_000), "resp");
    let one = recent.bytes();
    assert!((16_000..20_000).contains(&one), "{one}");
    for count in 1_001..1_200 {
        recent.put(&long(count), "resp");
    }
    let many = recent.bytes();
    assert!((one..60_000).contains(&many), "{many}");
    // Histories of many kinds take no more than one megabyte.
    for other in 0..100 {
        let mut items: Vec<Value> = items(2_000);
        items[0] = user(&format!("other {other}"));
        recent.put(&request(Value::Array(items)).fingerprint(), "resp");
    }
    let all = recent.bytes();
    assert!((500_000..1_200_000).contains(&all), "{all}");
}

/// The number of lost turns of a history after each of these requests, which were lost or not.
fn lost(requests: &[(Vec<Value>, Option<bool>)]) -> Vec<u8> {
    let mut recent = RecentRequests::default();
    let requests = requests.iter().map(|(items, is_lost)| {
        let request = request(Value::Array(items.clone())).fingerprint();
        recent.put(&request, "resp");
        is_lost.map_or(0, |is_lost| recent.count_lost(&request, is_lost))
    });
    requests.collect()
}

#[test]
fn lost_turns_are_counted_by_history() {
    let history = |name: &str, turns: usize| -> Vec<Value> {
        (0..turns)
            .map(|turn| user(&format!("{name} {turn}")))
            .collect()
    };
    let agent = |name: &str, turns, is_lost| (history(name, turns), is_lost);
    let (yes, no) = (Some(true), Some(false));
    let alone = lost(&[
        agent("a", 1, yes),
        agent("a", 2, no),
        agent("a", 3, yes),
        agent("a", 4, yes),
        agent("a", 5, yes),
    ]);
    assert_eq!(alone, [1, 0, 1, 2, 3]);
    let interleaved = lost(&[
        agent("a", 1, yes),
        agent("b", 1, no),
        agent("a", 2, yes),
        agent("b", 2, no),
        agent("a", 3, yes),
        agent("b", 3, yes),
    ]);
    assert_eq!(interleaved, [1, 0, 2, 0, 3, 1]);
    // A turn of which nothing is known changes nothing, and neither does going back.
    let mut back = history("a", 3);
    back.push(user("something else"));
    let other = lost(&[
        agent("a", 1, yes),
        agent("a", 2, yes),
        agent("a", 5, None),
        (back, yes),
    ]);
    assert_eq!(other, [1, 2, 0, 3]);
}
