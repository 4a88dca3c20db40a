//! Why a prompt cannot be reused, in the form of OpenAI's API.

use adapters::responses::prompt_cache::{CacheMissReason, PromptCacheDiagnostics};
use kit::session::SeededRandom;
use serde_json::{Value, json};

use super::super::RecentRequests;
use super::{TestRequest, call, output, request, user};

/// A history of this many turns.
fn history(turns: usize, random: &mut SeededRandom) -> Vec<Value> {
    let mut items = vec![user("go")];
    for turn in 0..turns {
        let id = format!("c{turn}");
        let text = "seen ".repeat(20 + random.below(400));
        items.extend([call(&id), output(&id, &text)]);
    }
    items
}

fn with_settings(items: Vec<Value>) -> TestRequest {
    request(Value::Array(items))
        .with("prompt_cache_key", json!("key"))
        .with("reasoning", json!({"effort": "low"}))
        .with("text", json!({"verbosity": "low"}))
        .with("service_tier", json!("default"))
}

/// Changes a request so that the prompt cache misses for this reason.
fn with_reason(next: TestRequest, reason: CacheMissReason, at: usize) -> TestRequest {
    let format = json!({"type": "json_schema", "name": "f", "schema": {"type": "object"}});
    match reason {
        CacheMissReason::ModelChanged => {
            next.with_context(|context| context.route = "acme/other".to_owned())
        }
        CacheMissReason::PromptCacheKeyChanged => next.with("prompt_cache_key", json!("other")),
        CacheMissReason::ToolsChanged => next.with(
            "tools",
            json!([{"type": "function", "name": "see", "parameters": {"type": "object"}}]),
        ),
        CacheMissReason::TextFormatChanged => {
            next.with("text", json!({"verbosity": "low", "format": format}))
        }
        CacheMissReason::ReasoningEffortChanged => {
            next.with("reasoning", json!({"effort": "high"}))
        }
        CacheMissReason::VerbosityChanged => next.with("text", json!({"verbosity": "high"})),
        CacheMissReason::ContextCompacted => {
            let next = next.with("input", json!([user("a summary")]));
            next.with_context(|context| context.summaries = 1)
        }
        CacheMissReason::InputChanged => {
            let mut items = next.body["input"].clone();
            items[at] = user("something else");
            next.with("input", items)
        }
        CacheMissReason::ServiceTierChanged => next.with("service_tier", json!("flex")),
    }
}

const REASONS: [CacheMissReason; 9] = [
    CacheMissReason::ModelChanged,
    CacheMissReason::PromptCacheKeyChanged,
    CacheMissReason::ToolsChanged,
    CacheMissReason::TextFormatChanged,
    CacheMissReason::ReasoningEffortChanged,
    CacheMissReason::VerbosityChanged,
    CacheMissReason::ContextCompacted,
    CacheMissReason::InputChanged,
    CacheMissReason::ServiceTierChanged,
];

#[test]
fn each_reason_is_named() {
    let mut random = SeededRandom::new(5);
    for expected in REASONS {
        for _ in 0..20 {
            let turns = 2 + random.below(6);
            let items = history(turns, &mut random);
            let mut recent = RecentRequests::default();
            recent.put(&with_settings(items.clone()).fingerprint(), "resp_1");
            let at = random.below(items.len());
            let mut longer = items;
            longer.extend([call("new"), output("new", "more")]);
            let next = with_reason(with_settings(longer), expected, at).fingerprint();
            let Some(PromptCacheDiagnostics::CacheMiss {
                reason,
                cache_missed_tokens,
                ..
            }) = recent.diagnose(&next, "resp_1")
            else {
                panic!("{expected:?}");
            };
            assert_eq!(reason, expected);
            assert!(cache_missed_tokens > 0);
        }
    }
}

#[test]
fn a_longer_history_is_a_hit_and_an_unknown_response_is_not_found() {
    let mut random = SeededRandom::new(5);
    let items = history(3, &mut random);
    let mut recent = RecentRequests::default();
    recent.put(&with_settings(items.clone()).fingerprint(), "resp_1");
    let mut longer = items;
    longer.extend([call("new"), output("new", "more")]);
    let next = with_settings(longer).fingerprint();
    assert_eq!(
        recent.diagnose(&next, "resp_1"),
        Some(PromptCacheDiagnostics::CacheHit)
    );
    assert_eq!(recent.diagnose(&next, "resp_2"), None);
}

#[test]
fn each_of_the_last_responses_is_compared_as_it_was() {
    let mut random = SeededRandom::new(6);
    let items = history(82, &mut random);
    let mut recent = RecentRequests::default();
    // Each response is to a turn more, and the tools of every tenth are others.
    let other_tools = |next: TestRequest| with_reason(next, CacheMissReason::ToolsChanged, 0);
    let turn = |turns: usize| {
        let next = with_settings(items[..=2 * turns].to_vec());
        if turns.is_multiple_of(10) {
            other_tools(next)
        } else {
            next
        }
    };
    for turns in 1..80 {
        recent.put(&turn(turns).fingerprint(), &format!("resp_{turns}"));
    }
    let next = turn(81).fingerprint();
    let mut changed = items.clone();
    changed[2 * 70] = output("c69", "something else");
    let changed = with_settings(changed).fingerprint();
    for turns in 80 - 64..80_usize {
        let id = format!("resp_{turns}");
        let found = recent.diagnose(&next, &id).unwrap();
        let reason = match found {
            PromptCacheDiagnostics::CacheMiss { reason, .. } => Some(reason),
            _ => None,
        };
        let expected = turns
            .is_multiple_of(10)
            .then_some(CacheMissReason::ToolsChanged);
        assert_eq!(reason, expected, "{turns}");
        if expected.is_none() {
            // What comes after the seventieth turn is no part of an earlier request.
            let is_hit = recent.diagnose(&changed, &id) == Some(PromptCacheDiagnostics::CacheHit);
            assert_eq!(is_hit, turns < 70, "{turns}");
        }
    }
    assert_eq!(recent.diagnose(&next, "resp_5"), None);
}

#[test]
fn a_history_is_stored_once() {
    let mut random = SeededRandom::new(8);
    let items = history(3, &mut random);
    let mut recent = RecentRequests::default();
    let continued = (1..4).map(|turns| {
        let request = with_settings(items[..=2 * turns].to_vec()).fingerprint();
        recent.put(&request, &format!("resp_{turns}"));
        let stored = recent.stored(&request).unwrap();
        assert_eq!(*stored.response, format!("resp_{turns}"));
        // Tools, instructions and the items.
        assert_eq!(stored.parts.len(), 16 * (3 + 2 * turns));
        stored.continues.map(|response| response.to_string())
    });
    let continued: Vec<_> = continued.collect();
    assert_eq!(continued[0], None);
    assert_eq!(continued[1].as_deref(), Some("resp_1"));
    assert_eq!(continued[2].as_deref(), Some("resp_2"));
}

#[test]
fn the_tokens_before_and_after_the_difference_are_told() {
    let long = "x".repeat(27_000);
    let history = |last: &str| json!([user(&long), call("c1"), output("c1", last)]);
    let mut recent = RecentRequests::default();
    recent.put(&request(history("one")).fingerprint(), "resp_1");
    let next = request(history(&"two".repeat(9_000))).fingerprint();
    let Some(PromptCacheDiagnostics::CacheMiss {
        reason,
        cache_missed_tokens,
        comparison_reusable_tokens,
    }) = recent.diagnose(&next, "resp_1")
    else {
        panic!("a hit");
    };
    assert_eq!(reason, CacheMissReason::InputChanged);
    assert!(
        (10_000..10_300).contains(&cache_missed_tokens),
        "{cache_missed_tokens}"
    );
    assert!((10_000..10_300).contains(&comparison_reusable_tokens));
}
