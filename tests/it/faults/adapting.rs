//! If a provider refuses a turn for a known reason, the proxy adapts the request and sends it
//! again. The next turn is adapted from the start. In notes, logs and metrics this is `healed`.
use kit::harness::rows;
use kit::player::{Player, PlayerWire, RequestCondition, ScriptedAnswer};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{answer, player, player_with, repeating_player};
use crate::proxy::{Proxy, Setup, streaming};

/// A refusal of a provider: the refused request, the error, and the adapted request.
struct AdaptationCase {
    name: &'static str,
    /// The wires on which there is something to adapt.
    wires: &'static [PlayerWire],
    /// Additional settings of the provider.
    settings: &'static str,
    /// Additional fields of the turn.
    turn: &'static str,
    /// A request that contains this is refused.
    refused: &'static str,
    error: &'static str,
    /// A part of the adapted request.
    adapted: &'static str,
}

const ADAPTATION_CASES: &[AdaptationCase] = &[
    AdaptationCase {
        name: "max_tokens",
        wires: &[PlayerWire::Chat],
        settings: "",
        turn: r#"{"max_output_tokens": 99}"#,
        refused: r#""max_tokens""#,
        error: r#"{"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "param": "max_tokens", "code": "unsupported_parameter"}"#,
        adapted: r#""max_completion_tokens":99"#,
    },
    AdaptationCase {
        name: "max_completion_tokens",
        wires: &[PlayerWire::Chat],
        settings: "quirks = { max_tokens_field = \"max_completion_tokens\" }",
        turn: r#"{"max_output_tokens": 99}"#,
        refused: r#""max_completion_tokens""#,
        error: r#"{"message": "Unrecognized request argument supplied: max_completion_tokens"}"#,
        adapted: r#""max_tokens":99"#,
    },
    AdaptationCase {
        name: "an output limit that is too high",
        wires: &PlayerWire::ALL,
        settings: "",
        turn: r#"{"max_output_tokens": 99000}"#,
        refused: ":99000",
        error: r#"{"message": "max_tokens is too large: 99000. This model supports at most 8192 completion tokens, whereas you provided 99000."}"#,
        adapted: r#"tokens":8192"#,
    },
    AdaptationCase {
        name: "the role developer",
        wires: &[PlayerWire::Chat],
        settings: "quirks = { system_role = \"developer\" }",
        turn: r#"{"instructions": "Be brief."}"#,
        refused: r#""developer""#,
        error: r#"{"message": "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"}"#,
        adapted: r#""role":"system""#,
    },
    AdaptationCase {
        name: "the role system",
        wires: &[PlayerWire::Chat],
        settings: "",
        turn: r#"{"instructions": "Be brief."}"#,
        refused: r#""system""#,
        error: r#"{"message": "System role not supported"}"#,
        adapted: "Be brief.",
    },
    AdaptationCase {
        name: "a parameter",
        wires: &PlayerWire::ALL,
        settings: "",
        turn: r#"{"parallel_tool_calls": false, "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}"#,
        refused: r#""parallel_tool_calls""#,
        error: r#"{"message": "Unknown parameter: 'parallel_tool_calls'.", "param": "parallel_tool_calls", "code": "unknown_parameter"}"#,
        adapted: r#""tools""#,
    },
    AdaptationCase {
        name: "stream_options",
        wires: &[PlayerWire::Chat],
        settings: "",
        turn: "{}",
        refused: r#""stream_options""#,
        error: r#"{"message": "body.stream_options: Extra inputs are not permitted"}"#,
        adapted: r#""stream":true"#,
    },
    AdaptationCase {
        name: "encrypted reasoning",
        wires: &[PlayerWire::Responses],
        settings: "",
        turn: "{}",
        refused: r#""include""#,
        error: r#"{"message": "Encrypted content is not supported with this model.", "type": "invalid_request_error", "param": "include", "code": null}"#,
        adapted: r#""input""#,
    },
    AdaptationCase {
        name: "effort",
        wires: &[PlayerWire::Responses],
        settings: "",
        turn: r#"{"reasoning": {"effort": "high"}}"#,
        refused: r#""effort""#,
        error: r#"{"message": "Unsupported parameter: 'reasoning.effort' is not supported with this model.", "type": "invalid_request_error", "param": "reasoning.effort", "code": "unsupported_parameter"}"#,
        adapted: r#""input""#,
    },
    AdaptationCase {
        name: "a summary of reasoning",
        wires: &[PlayerWire::Responses],
        settings: "",
        turn: r#"{"reasoning": {"effort": "high", "summary": "auto"}}"#,
        refused: r#""summary""#,
        error: r#"{"message": "Unsupported parameter: 'reasoning.summary' is not supported with the 'm' model.", "type": "invalid_request_error", "param": "reasoning.summary", "code": "unsupported_parameter"}"#,
        adapted: r#""reasoning":{"effort":"high"}"#,
    },
    AdaptationCase {
        name: "tool_choice",
        wires: &PlayerWire::ALL,
        settings: "",
        turn: r#"{"tool_choice": "none", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}"#,
        refused: r#""none""#,
        error: r#"{"message": "Only a tool_choice of 'auto' is supported for this model.", "type": "invalid_request_error", "param": "tool_choice"}"#,
        adapted: r#""stream":true"#,
    },
    AdaptationCase {
        name: "sampling",
        wires: &PlayerWire::ALL,
        settings: "",
        turn: r#"{"temperature": 0.5}"#,
        refused: r#""temperature""#,
        error: r#"{"message": "Unsupported parameter: 'temperature' is not supported with this model.", "param": "temperature", "code": "unsupported_parameter"}"#,
        adapted: r#""stream":true"#,
    },
];

/// Refuses every request that contains `when`.
fn refusal(when: &str, error: &str) -> ScriptedAnswer {
    let error: Value = serde_json::from_str(error).unwrap();
    ScriptedAnswer {
        repeat: true,
        when: body_contains(when),
        json: Some(json!({ "error": error })),
        ..ScriptedAnswer::error(400, "")
    }
}

fn body_contains(text: &str) -> RequestCondition {
    RequestCondition {
        body_contains: Some(text.to_owned()),
        ..RequestCondition::default()
    }
}

fn repeating_text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer {
        repeat: true,
        ..answer(json!([{ "text": text }]))
    }
}

/// Sends a turn, which must succeed. Returns whether the request was adapted.
async fn was_adapted(proxy: &Proxy, body: &Value) -> bool {
    let reply = proxy.post(&streaming(body)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let notes = reply.header("x-respondent-notes").unwrap_or_default();
    let adapted = notes.split(',').any(|note| note.trim() == "healed");
    assert_eq!(reply.stream().terminal, "response.completed");
    adapted
}

/// Checks that the first turn needs one additional request, and the second turn none.
async fn adapts_once(player: &Player, proxy: &Proxy, body: &Value) {
    let before = player.requests().len();
    assert!(was_adapted(proxy, body).await);
    assert_eq!(player.requests().len(), before + 2);
    assert!(!was_adapted(proxy, body).await);
    assert_eq!(player.requests().len(), before + 3);
    for name in ["respondent_healed_total", "respondent_learned_total"] {
        let count = proxy.metric(name, "provider=\"up\",model=\"m\"").await;
        assert!((count - 1.0).abs() < f64::EPSILON, "{name}");
    }
    proxy.wait_for_log("healed (").await;
}

#[test]
fn a_refused_request_is_adapted() {
    let cases = PlayerWire::ALL.into_iter().flat_map(|wire| {
        let on_wire = ADAPTATION_CASES
            .iter()
            .filter(move |case| case.wires.contains(&wire));
        on_wire.map(move |case| (format!("{}, {}", case.name, wire.name()), (wire, case)))
    });
    rows(cases, |(wire, case)| adapts(wire, case));
}

async fn adapts(wire: PlayerWire, case: &'static AdaptationCase) {
    let player = player_with(
        wire,
        vec![refusal(case.refused, case.error), repeating_text("well")],
    )
    .await;
    let proxy = Proxy::start_with(&player, Setup::new().provider(case.settings)).await;
    let mut body = super::body();
    let more: Value = serde_json::from_str(case.turn).unwrap();
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    adapts_once(&player, &proxy, &body).await;
    for request in &player.requests()[1..] {
        assert!(request.body.contains(case.adapted), "{}", request.body);
    }
}

/// A conversation in a tool loop whose items have no reasoning.
fn loop_without_reasoning() -> Value {
    json!({
        "model": "m",
        "input": [
            {"role": "user", "content": "Look."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "seen"}
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    })
}

const MISSING_REASONING_ERROR: &str = r#"{"message": "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"}"#;

#[kit::test]
async fn reasoning_that_the_provider_demands_is_sent() {
    for replay in [
        "none",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "think_tags",
        "thinking_parts",
    ] {
        let accepted = ScriptedAnswer {
            when: body_contains("reasoning_content"),
            ..repeating_text("well")
        };
        let player = player_with(
            PlayerWire::Chat,
            vec![accepted, refusal("tool_calls", MISSING_REASONING_ERROR)],
        )
        .await;
        let quirks = format!("quirks = {{ reasoning_replay = \"{replay}\" }}");
        let proxy = Proxy::start_with(&player, Setup::new().provider(&quirks)).await;
        adapts_once(&player, &proxy, &loop_without_reasoning()).await;
    }
}

#[kit::test]
async fn cached_reasoning_is_sent_for_a_client_that_does_not_send_it() {
    let thinks = answer(json!([
        {"reasoning": "I must look."},
        {"call": {"id": "c1", "name": "f", "arguments": "{}"}}
    ]));
    let player = player_with(PlayerWire::Chat, vec![thinks, repeating_text("well")]).await;
    let quirks = "quirks = { reasoning_replay = \"reasoning_content\" }";
    let proxy = Proxy::start_with(&player, Setup::new().provider(quirks)).await;
    let mut first = loop_without_reasoning();
    first["input"].as_array_mut().unwrap().truncate(1);
    proxy.stream(&first).await;
    let mut other = loop_without_reasoning();
    other["input"][0]["content"] = json!("Look elsewhere.");
    for (body, has_reasoning) in [(loop_without_reasoning(), true), (other, false)] {
        proxy.stream(&body).await;
        let sent = player.requests().pop().unwrap().body;
        assert_eq!(sent.contains("I must look."), has_reasoning, "{sent}");
    }
}

#[kit::test(on_each_wire)]
async fn a_learned_window_is_listed_and_respected(wire: PlayerWire) {
    let overflow = r#"{"message": "This model's maximum context length is 8192 tokens. However, you requested 9010 tokens (10 in the messages, 9000 in the completion).", "code": "context_length_exceeded"}"#;
    let player = player_with(
        wire,
        vec![refusal(":9000", overflow), repeating_text("well")],
    )
    .await;
    let proxy =
        Proxy::start_with(&player, Setup::new().provider("models = [{ id = \"m\" }]")).await;
    let mut body = super::body();
    body["max_output_tokens"] = json!(9000);
    adapts_once(&player, &proxy, &body).await;
    let sent: Value = serde_json::from_str(&player.requests()[2].body).unwrap();
    let limit = sent.get("max_tokens").or(sent.get("max_output_tokens"));
    let limit = limit.and_then(Value::as_u64).unwrap();
    assert!((7_000..8_192).contains(&limit), "{limit}");
    let models: Value = serde_json::from_str(&proxy.get("/v1/models").await.body).unwrap();
    assert_eq!(models["models"][0]["context_window"], 8192);
}

/// If the adapted request is refused for the same reason, the refusal was misunderstood.
#[kit::test(on_each_wire)]
async fn an_adaptation_that_does_not_help_is_dropped(wire: PlayerWire) {
    let blind = r#"{"message": "This model does not support image input."}"#;
    let player = player_with(wire, vec![refusal("first", blind), repeating_text("well")]).await;
    let proxy = Proxy::start(&player).await;
    let turn = |text: &str| {
        let image =
            json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="});
        json!({"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": text}, image]}]})
    };
    assert_eq!(proxy.post(&turn("first")).await.status, 400);
    assert_eq!(player.requests().len(), 2);
    assert!(!was_adapted(&proxy, &turn("second")).await);
    assert!(player.requests()[2].body.contains("image_url"));
}

#[kit::test]
async fn a_turn_is_adapted_at_the_fallback() {
    let quota = ScriptedAnswer {
        json: Some(json!({"error": {"message": "No money.", "code": "insufficient_quota"}})),
        ..ScriptedAnswer::error(429, "")
    };
    let up = repeating_player(PlayerWire::Chat, quota).await;
    let strict = refusal("\"system\"", r#"{"message": "System role not supported"}"#);
    let other = player_with(PlayerWire::Chat, vec![strict, repeating_text("well")]).await;
    let setup = Setup::new()
        .tables("[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]")
        .other("other", &other, "");
    let proxy = Proxy::start_with(&up, setup).await;
    let body = json!({"model": "up/m", "instructions": "Be brief.", "input": "go"});
    assert!(was_adapted(&proxy, &body).await);
    assert_eq!(other.requests().len(), 2);
    assert!(!was_adapted(&proxy, &body).await);
    assert_eq!((up.requests().len(), other.requests().len()), (1, 3));
}

/// Promise: When a turn tries whether a change that was learned is still needed, only a refusal of
/// the request shows that it is, and no other failure, such as a rate limit.
#[kit::test]
async fn a_rate_limit_is_no_refusal_that_comes_back() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().server("data_dir = \"data\"");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let turn = json!({"model": "m", "input": "go", "temperature": 0.5});
    let refusal = "Unsupported parameter: 'temperature' is not supported with this model.";
    player.push(ScriptedAnswer::error(400, refusal));
    player.push(answer(json!([{"text": "one"}])));
    assert_eq!(proxy.stream(&turn).await.text(), "one");
    let proxy = aged(proxy, &setup).await;
    let mut limit = ScriptedAnswer::error(429, "slow down");
    limit.headers.insert("retry-after-ms".into(), "1".into());
    player.push(limit);
    player.push(answer(json!([{"text": "two"}])));
    let other = json!({"model": "m", "input": "stop", "temperature": 0.5});
    assert_eq!(proxy.stream(&other).await.text(), "two");
    let has = |at: usize| player.requests()[at].json().get("temperature").is_some();
    assert_eq!([0, 1, 2, 3].map(has), [true, false, true, true]);
}

/// Ends the program, makes what it has learned nine days older, and starts it again.
async fn aged(proxy: Proxy, setup: &Setup) -> Proxy {
    let age = |database: &Connection| {
        let changed = database.execute(
            "UPDATE learned SET learned = learned - 777600,
             changes = replace(changes, CAST(learned AS TEXT), CAST(learned - 777600 AS TEXT))",
            [],
        );
        assert_eq!(changed.unwrap(), 1);
    };
    proxy.restart_with(setup, age).await
}
