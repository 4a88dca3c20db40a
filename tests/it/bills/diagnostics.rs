//! What a response says of its prompt in the form of OpenAI's API: how it compares with that of an
//! earlier response, and which reasoning was left out.
use kit::player::{Player, PlayerWire};
use kit::session::SeededRandom;
use serde_json::{Value, json};

use crate::faults::{answer, repeating_player};
use crate::proxy::{Proxy, Setup};

/// How often each reason is brought about.
const REPEATS: usize = 20;

const REASONS: [&str; 9] = [
    "model_changed",
    "prompt_cache_key_changed",
    "tools_changed",
    "text_format_changed",
    "reasoning_effort_changed",
    "verbosity_changed",
    "context_compacted",
    "input_changed",
    "service_tier_changed",
];

/// A provider that takes every parameter on which a cache can depend.
fn setup() -> Setup {
    let model = |id: &str| {
        format!(
            "[[providers.up.models]]\nid = \"{id}\"\nreasoning = [\"low\", \"medium\", \"high\"]\n"
        )
    };
    let quirks = "[providers.up.quirks]\nprompt_cache_key = true\nservice_tier = true\n\
        verbosity = true\nreasoning_control = \"effort\"\n";
    Setup::new().tables(&(quirks.to_owned() + &model("m") + &model("other")))
}

async fn proxy() -> (Player, Proxy) {
    let answer = answer(json!([{"text": "Seen."}]));
    let player = repeating_player(PlayerWire::Chat, answer).await;
    let proxy = Proxy::start_with(&player, setup()).await;
    (player, proxy)
}

fn output(call: &str, text: &str) -> [Value; 2] {
    [
        json!({"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": call, "output": text}),
    ]
}

/// A request with a history of random length.
fn request(key: &str, random: &mut SeededRandom) -> Value {
    let mut items = vec![json!({"role": "user", "content": format!("Look at {key}.")})];
    for turn in 0..=random.below(8) {
        let text = "seen ".repeat(1 + random.below(2_000));
        items.extend(output(&format!("call_{turn}"), &text));
    }
    json!({
        "model": "up/m", "instructions": "Be brief.", "input": items, "store": false,
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        "prompt_cache_key": key, "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"}, "service_tier": "default",
    })
}

/// The next request of the session, which compares itself with an earlier response.
fn next(request: &Value, compared: &Value) -> Value {
    let mut next = request.clone();
    let items = next["input"].as_array_mut().unwrap();
    items.extend(output("call_next", "more"));
    next["prompt_cache_options"] = json!({"comparison_response_id": compared["id"]});
    next
}

fn diagnostics(response: &Value) -> &Value {
    &response["prompt_cache_diagnostics"]
}

/// Changes the next request so that this is why the cache misses.
async fn bring_about(reason: &str, next: &mut Value, random: &mut SeededRandom, proxy: &Proxy) {
    match reason {
        "model_changed" => next["model"] = json!("up/other"),
        "prompt_cache_key_changed" => {
            next["prompt_cache_key"] = json!(format!("other {}", random.next_u64()));
        }
        "tools_changed" => match random.below(3) {
            0 => next["tools"] = json!([]),
            1 => next["tools"][0]["description"] = json!("Looks."),
            _ => {
                let more =
                    json!({"type": "function", "name": "see", "parameters": {"type": "object"}});
                next["tools"].as_array_mut().unwrap().push(more);
            }
        },
        "text_format_changed" => {
            let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
            next["text"]["format"] = match random.below(2) {
                0 => json!({"type": "json_object"}),
                _ => json!({"type": "json_schema", "name": "f", "schema": schema}),
            };
        }
        "reasoning_effort_changed" => {
            let effort = random.pick(&["medium", "high"]).unwrap();
            next["reasoning"]["effort"] = json!(effort);
        }
        "verbosity_changed" => {
            let verbosity = random.pick(&["medium", "high"]).unwrap();
            next["text"]["verbosity"] = json!(verbosity);
        }
        "context_compacted" => {
            let compaction = json!({"model": "up/m", "input": next["input"],
                "prompt_cache_key": next["prompt_cache_key"]});
            let reply = proxy
                .post_to("/v1/responses/compact", &compaction, &[])
                .await;
            let summary: Value = serde_json::from_str(&reply.body).unwrap();
            next["input"] = summary["output"].clone();
        }
        "input_changed" => {
            let items = next["input"].as_array_mut().unwrap();
            // The last two items are new.
            let at = random.below(items.len() - 2);
            match random.below(2) {
                0 if at > 0 => {
                    // A call goes with its output.
                    let call = at - (at - 1) % 2;
                    items.drain(call..call + 2);
                }
                _ => items[at] = json!({"role": "user", "content": "Something else."}),
            }
        }
        "service_tier_changed" => {
            let tier = random.pick(&["flex", "priority", "auto"]).unwrap();
            next["service_tier"] = json!(tier);
        }
        other => panic!("{other}"),
    }
}

/// Promise: A response says how its prompt compares with that of the response that the request
/// names, in OpenAI's form (`prompt_cache_diagnostics`): each of the nine reasons for a broken
/// prefix by its name, whatever session the other response belongs to, for each of the last 64
/// responses of a session, and after a restart for those that are stored.
#[kit::test]
async fn each_of_the_nine_reasons_for_a_cache_miss_is_named() {
    let (_player, proxy) = proxy().await;
    let mut random = SeededRandom::new(41);
    for reason in REASONS {
        for number in 0..REPEATS {
            let first = request(&format!("{reason} {number}"), &mut random);
            let earlier = proxy.response(&first).await;
            let mut next = next(&first, &earlier);
            bring_about(reason, &mut next, &mut random, &proxy).await;
            let later = proxy.response(&next).await;
            let found = diagnostics(&later);
            assert_eq!(found["type"], "cache_miss", "{reason} {number}: {found}");
            assert_eq!(found["reason"], reason, "{number}: {found}");
            assert!(found["cache_missed_tokens"].as_u64() > Some(0), "{found}");
            assert!(found["comparison_reusable_tokens"].is_u64(), "{found}");
        }
    }
}

#[kit::test]
async fn a_prompt_that_goes_on_is_a_hit_and_an_unknown_response_is_not_found() {
    let (_player, proxy) = proxy().await;
    let mut random = SeededRandom::new(4);
    let first = request("hit", &mut random);
    let earlier = proxy.response(&first).await;
    assert_eq!(*diagnostics(&earlier), Value::Null, "nobody asked");
    let later = proxy.response(&next(&first, &earlier)).await;
    assert_eq!(*diagnostics(&later), json!({"type": "cache_hit"}));
    let unknown = json!({"id": "resp_unknown"});
    let later = proxy.response(&next(&first, &unknown)).await;
    let expected = json!({"type": "comparison_response_not_found"});
    assert_eq!(*diagnostics(&later), expected);
}

#[kit::test]
async fn a_response_several_turns_back_is_compared_also_after_a_restart() {
    let (player, mut proxy) = proxy().await;
    let mut random = SeededRandom::new(7);
    let mut body = request("long", &mut random);
    body["store"] = json!(true);
    let mut unstored = body.clone();
    unstored["store"] = json!(false);
    let unstored = proxy.response(&unstored).await;
    let mut earlier = Vec::new();
    for number in 0..4 {
        earlier.push(proxy.response(&body).await);
        let items = body["input"].as_array_mut().unwrap();
        items.extend(output(&format!("call_later_{number}"), "more"));
    }
    let mut changed = body.clone();
    let items = changed["input"].as_array_mut().unwrap();
    let at = items.len() - 5;
    items[at] = json!({"role": "user", "content": "Something else."});
    for is_restarted in [false, true] {
        if is_restarted {
            proxy.terminate();
            assert!(proxy.wait_for_exit().await.success());
            proxy = Proxy::start_in_folder(proxy.folder, &setup().wire_of(&player)).await;
        }
        for (number, earlier) in earlier.iter().enumerate() {
            let same = proxy.response(&next(&body, earlier)).await;
            let expected = json!({"type": "cache_hit"});
            assert_eq!(*diagnostics(&same), expected, "{number} {is_restarted}");
            // What differs came only after the first two responses.
            let later = proxy.response(&next(&changed, earlier)).await;
            let found = diagnostics(&later);
            let is_hit = found["type"] == "cache_hit";
            assert_eq!(is_hit, number < 2, "{number} {is_restarted}: {found}");
            assert!(is_hit || found["reason"] == "input_changed", "{found}");
        }
        let mut other = next(&body, &earlier[1]);
        other["tools"] = json!([]);
        let later = proxy.response(&other).await;
        assert_eq!(diagnostics(&later)["reason"], "tools_changed");
        // Nothing of it was written to the disk.
        let later = proxy.response(&next(&body, &unstored)).await;
        let is_found = diagnostics(&later)["type"] == "cache_hit";
        assert_eq!(is_found, !is_restarted, "{}", diagnostics(&later));
    }
}

#[kit::test]
async fn reasoning_that_a_model_does_not_get_is_listed() {
    let thinking = answer(json!([{"reasoning": "First I look."}, {"text": "Seen."}]));
    let player = repeating_player(PlayerWire::Chat, thinking).await;
    let replays = "[providers.replaying.quirks]\nreasoning_replay = \"reasoning_content\"";
    let none = "[providers.up.quirks]\nreasoning_replay = \"none\"";
    let setup = Setup::new()
        .tables(none)
        .other("replaying", &player, replays);
    let proxy = Proxy::start_with(&player, setup).await;
    for (first, second, reason) in [
        ("replaying/m", "replaying/m", None),
        ("replaying/m", "up/m", Some("model_mismatch")),
        ("up/m", "up/m", Some("turn_boundary")),
    ] {
        let mut body = json!({
            "model": first, "input": [{"role": "user", "content": "Look."}],
            "include": ["reasoning.encrypted_content"], "store": false,
        });
        let answered = proxy.response(&body).await;
        assert_eq!(answered["input_transformations"], Value::Null);
        let items = body["input"].as_array_mut().unwrap();
        items.extend(answered["output"].as_array().unwrap().clone());
        items.push(json!({"role": "user", "content": "And now?"}));
        body["model"] = json!(second);
        let next = proxy.response(&body).await;
        let id = answered["output"][0]["id"].clone();
        let expected = reason.map_or(Value::Null, |reason| {
            json!([{"type": "reasoning", "id": id, "action": "removed", "reason": reason}])
        });
        assert_eq!(
            next["input_transformations"], expected,
            "{first} and {second}"
        );
    }
}
