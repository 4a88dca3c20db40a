use std::time::Duration;

use kit::player::Player;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::measure::Measurement;
use super::report::CheckVerdict;
use super::watch::{MAX_REQUESTS, MAX_TIME, MAX_TOKENS, Used};
use super::{Config, measure_unknown};
use crate::config::{Inputs, LoadPurpose, load};

/// Measures the model of a server with this script. `overflow` allows a prompt that is too long.
async fn measured(script: Value, overflow: bool) -> (Measurement, Player) {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let script = serde_json::from_value(script).unwrap();
    let player = Player::start(script).await.unwrap();
    let config = config_at(&player.base_url());
    let (_, measured) = measure_unknown(config, "lab", "lab/m", Used::nothing(), overflow)
        .await
        .unwrap();
    (measured, player)
}

fn config_at(base_url: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[providers.lab]\nbase_url = \"{base_url}\"\nkey_required = false\ndiscover = \"off\""
    );
    std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
    load(&Inputs::under(folder.path()), LoadPurpose::AskProvider).unwrap()
}

/// The subjects of the checks with this verdict.
fn subjects(measured: &Measurement, verdict: CheckVerdict) -> Vec<&'static str> {
    let checks = measured.checks.iter();
    let checks = checks.filter(|check| check.verdict == verdict);
    checks.map(|check| check.subject).collect()
}

/// Answers of a model that calls a tool; each takes so long.
fn answers(head_delay_ms: u64, usage: &Value) -> Value {
    let call = json!({"call": {"id": "call_1", "name": "look", "arguments": "{}"}});
    json!([
        {"repeat": true, "head_delay_ms": head_delay_ms, "when": {"last_contains": "Call the tool"},
            "steps": [call, {"usage": usage}]},
        {"repeat": true, "head_delay_ms": head_delay_ms, "steps": [{"text": "No."}, {"usage": usage}]},
    ])
}

const SMALL: [(&str, u64); 3] = [
    ("prompt_tokens", 500),
    ("completion_tokens", 20),
    ("total_tokens", 520),
];

fn usage(counts: &[(&str, u64)]) -> Value {
    counts
        .iter()
        .map(|(name, count)| ((*name).to_owned(), Value::from(*count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The first wire takes 40 of the 60 seconds, and each answer in the other one 15.
#[tokio::test(start_paused = true)]
async fn a_model_is_measured_for_a_minute_in_all_wires_together() {
    let mut script = json!({"answers": answers(15_000, &usage(&SMALL))});
    let absent = json!({"repeat": true, "when": {"body_contains": "\"messages\""}, "status": 404,
        "head_delay_ms": 40_000, "json": {"error": {"message": "no such route"}}});
    script["answers"].as_array_mut().unwrap().insert(0, absent);
    let began = Instant::now();
    let (measured, player) = measured(script, false).await;
    let took = began.elapsed();
    assert!(
        (MAX_TIME..MAX_TIME + Duration::from_secs(1)).contains(&took),
        "{took:?}"
    );
    assert_eq!(measured.after.dialect.quirks.wire().name(), "responses");
    assert_eq!(subjects(&measured, CheckVerdict::Warning), ["time"]);
    // What was measured until then is kept.
    assert!(subjects(&measured, CheckVerdict::Good).contains(&"tool call"));
    assert_eq!(measured.used.requests, player.requests().len());
}

/// Promise: `respondent doctor` sends at most 12 requests for a model, uses at most 20,000 tokens
/// and takes at most a minute, over all wires together; an answer that does not end is stopped.
#[tokio::test]
async fn a_model_is_asked_twelve_times_at_most() {
    let refuse = json!([
        "developer", "system_role", "user_after_tool", "call_id_form", "bad_schema_kimi",
        "parallel_tool_calls", "stream_options", "max_tokens_unsupported", "images",
        {"missing_reasoning_content": "calls"},
        {"fields": ["presence_penalty"]}, {"fields": ["logprobs"]}, {"temperature_above": 100},
        {"tool_choice_other_than": ["auto"]}, "json_schema", {"max_tokens_limit": 8192},
    ]);
    let answers = answers(0, &usage(&SMALL));
    let (measured, player) = measured(json!({"refuse": refuse, "answers": answers}), false).await;
    let requests = player.requests().len();
    assert_eq!(requests, MAX_REQUESTS);
    assert_eq!(measured.used.requests, requests);
    // The last ones that a limit did not allow are told.
    let warnings = subjects(&measured, CheckVerdict::Warning);
    assert!(warnings.contains(&"image"), "{warnings:?}");
}

#[tokio::test]
async fn a_model_is_asked_for_twenty_thousand_tokens_at_most() {
    let counts = [
        ("prompt_tokens", 8_000),
        ("completion_tokens", 1_000),
        ("total_tokens", 9_000),
    ];
    let script = json!({"answers": answers(0, &usage(&counts))});
    let (measured, player) = measured(script, false).await;
    // The provider counts many times as many tokens as estimated: a third request could cost more
    // than is left.
    let used = measured.used;
    assert_eq!((player.requests().len(), used.tokens), (2, 18_000));
    let warnings = subjects(&measured, CheckVerdict::Warning);
    assert!(warnings.contains(&"image"), "{warnings:?}");
}

/// A model that ignores its output limit.
#[tokio::test]
async fn an_endless_answer_is_stopped() {
    let endless = json!({"repeat": {"times": 50_000, "steps": [{"text": "and on "}]}});
    let script = json!({"answers": [{"repeat": true, "steps": [endless]}]});
    let (measured, player) = measured(script, false).await;
    assert_eq!(subjects(&measured, CheckVerdict::Failed), ["answer"]);
    assert_eq!(player.requests().len(), 1);
    player.wait_closed(0).await;
    assert!(
        measured.used.tokens < MAX_TOKENS,
        "{}",
        measured.used.tokens
    );
}

/// Promise: The doctor measures limits of output and window with refusals that cost nothing, and a
/// prompt that does not fit is sent only with `--overflow`. It measures a real llama.cpp.
///
/// Limits that refusals tell are settings; a prompt that is too long is sent only if that is
/// wanted.
#[tokio::test]
async fn limits_are_measured_with_refusals_that_cost_nothing() {
    let answers = answers(0, &usage(&SMALL));
    let refuse = json!([{"max_tokens_limit": 16_384}, {"window": 65_536}]);
    let script = json!({"refuse": refuse, "answers": answers});
    let (known, player) = measured(script.clone(), false).await;
    assert_eq!(known.after.model.max_output, Some(16_384));
    let largest = player.requests().iter().map(|sent| sent.body.len()).max();
    assert!(largest < Some(10_000), "{largest:?}");
    assert!(!subjects(&known, CheckVerdict::Good).contains(&"overflow"));

    let (known, player) = measured(script, true).await;
    assert_eq!(known.after.model.max_output, Some(16_384));
    assert_eq!(known.after.model.window, Some(65_536));
    assert!(subjects(&known, CheckVerdict::Good).contains(&"overflow"));
    let refused = player.requests().pop().unwrap();
    assert!(refused.refused && refused.body.len() > 200_000);

    // Words that nobody knows, and a server that takes everything.
    let words = json!({"rule": {"window": 65_536}, "message": "Too much of a good thing."});
    for (refuse, said) in [
        (vec![words], "Too much of a good thing"),
        (vec![], "was answered"),
    ] {
        let script = json!({"refuse": refuse, "answers": answers});
        let (known, _player) = measured(script, true).await;
        let check = known
            .checks
            .iter()
            .find(|check| check.subject == "overflow")
            .unwrap();
        assert_eq!(check.verdict, CheckVerdict::Warning);
        assert!(check.found.contains(said), "{}", check.found);
    }
}

/// A rate limit is waited out if the minute allows it, and told if not.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_out() {
    let limited = |seconds: &str| {
        json!({"status": 429, "headers": {"retry-after": seconds},
            "json": {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}})
    };
    let mut script = json!({"answers": answers(0, &usage(&SMALL))});
    for (at, seconds) in ["7", "11"].into_iter().enumerate() {
        script["answers"]
            .as_array_mut()
            .unwrap()
            .insert(at, limited(seconds));
    }
    let began = Instant::now();
    let (waited, player) = measured(script.clone(), false).await;
    let took = began.elapsed().as_secs();
    assert!((18..60).contains(&took), "{took}");
    assert_eq!(subjects(&waited, CheckVerdict::Failed), [""; 0]);
    assert!(subjects(&waited, CheckVerdict::Good).contains(&"tool result"));
    assert_eq!(waited.used.requests, player.requests().len());

    script["answers"]
        .as_array_mut()
        .unwrap()
        .insert(0, limited("300"));
    let (refused, player) = measured(script, false).await;
    assert_eq!(subjects(&refused, CheckVerdict::Failed), ["answer"]);
    assert_eq!(player.requests().len(), 1);
}

/// A refusal that says nothing: what other providers need is tried, and what helps is kept.
#[tokio::test]
async fn a_refusal_without_a_reason_is_looked_into() {
    let answers = answers(0, &usage(&SMALL));
    for (rule, name, value) in [
        (
            json!("max_tokens_unsupported"),
            "max_tokens_field",
            "\"max_completion_tokens\"",
        ),
        (json!("parallel_tool_calls"), "parallel_tool_calls", "false"),
        (json!("missing_tool_names"), "tool_names", "true"),
        (json!("system_role"), "system_role", "\"developer\""),
    ] {
        let refuse = json!([{"rule": rule, "message": "Bad request."}]);
        let script = json!({"wire": "chat", "refuse": refuse, "answers": answers});
        let (repaired, player) = measured(script, false).await;
        let told = format!(
            "{name}: {:?} {}",
            repaired.checks,
            super::file::difference(&repaired.before, &repaired.after)
        );
        assert_eq!(subjects(&repaired, CheckVerdict::Failed), [""; 0], "{told}");
        assert!(
            subjects(&repaired, CheckVerdict::Good).contains(&"repair"),
            "{told}"
        );
        let (before, after) = (&repaired.before, &repaired.after);
        let changed = super::file::difference(before, after);
        assert_eq!(changed["quirks"][name].to_string(), value, "{told}");
        // What did not help is as it was.
        let tried = [
            "schema",
            "stream_usage",
            "call_ids",
            "reasoning_required",
            "call_content",
        ];
        let quirks = changed["quirks"].as_table().unwrap();
        assert!(
            tried.iter().all(|name| !quirks.contains_key(*name)),
            "{quirks}"
        );
        assert!(player.requests().len() <= MAX_REQUESTS);
    }
}

/// Where no quirk helps, the rest of the budget is used, and nothing of what was tried is kept.
#[tokio::test]
async fn what_works_without_tools_is_measured_although_tools_are_refused() {
    let refuse = json!([{"rule": {"fields": ["tools"]}, "message": "Bad request."}]);
    let script = json!({"refuse": refuse, "answers": answers(0, &usage(&SMALL))});
    let (known, player) = measured(script, false).await;
    assert_eq!(subjects(&known, CheckVerdict::Failed), ["answer"]);
    let good = subjects(&known, CheckVerdict::Good);
    assert!(good.contains(&"text"), "{:?}", known.checks);
    let quirks = super::file::difference(&known.before, &known.after);
    assert_eq!(quirks.get("quirks"), None, "{quirks}");
    let bodies: Vec<String> = player
        .requests()
        .into_iter()
        .map(|sent| sent.body)
        .collect();
    assert!(
        bodies.len() > 5 && bodies.len() <= MAX_REQUESTS,
        "{}",
        bodies.len()
    );
    // Nothing was sent twice.
    assert!((1..bodies.len()).all(|at| !bodies[..at].contains(&bodies[at])));
}

/// What is refused stays refused, whatever the answers show.
#[tokio::test]
async fn refused_reasoning_is_not_sent_although_answers_have_it() {
    let call = json!({"call": {"id": "call_1", "name": "look", "arguments": "{}"}});
    let thought = json!({"reasoning": "I must look."});
    let script = json!({
        "refuse": ["developer", "user_after_user", "reasoning_content_unknown"],
        "answers": [
            {"repeat": true, "when": {"last_contains": "Call the tool"}, "steps": [thought, call]},
            {"repeat": true, "steps": [thought, {"text": "No."}]},
        ],
    });
    let (measured, player) = measured(script, false).await;
    let quirks = super::file::quirks(&measured.after.dialect.quirks);
    let told: Vec<String> = player
        .requests()
        .iter()
        .map(|it| it.refusal.to_string())
        .collect();
    assert_eq!(
        quirks["reasoning_replay"].as_str(),
        Some("none"),
        "{told:#?}"
    );
    assert_eq!(quirks["merge_user"].as_bool(), Some(true));
}
