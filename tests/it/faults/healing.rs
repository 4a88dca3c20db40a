//! A turn that a provider refuses for a known reason mends itself, and the next one
//! needs no mending.
use kit::player::{Player, PlayerScript, RequestCondition, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::{always, answer};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = REFUSALS
        .iter()
        .map(|refusal| case(&format!("heals: {}", refusal.name), || heals(refusal)))
        .collect();
    trials.extend([
        case("reasoning that is missed goes back", missed),
        case("reasoning goes back for a client without it", forgetful),
        case("a learned window is shown and kept to", window),
        case("a lesson that does not help is forgotten", in_vain),
        case("a turn heals at the fallback", elsewhere),
    ]);
    trials
}

/// What a provider refuses, and what it says.
struct Refusal {
    name: &'static str,
    /// More lines of the provider.
    settings: &'static str,
    /// More fields of the turn.
    turn: &'static str,
    /// A request that holds this is refused.
    refused: &'static str,
    error: &'static str,
    /// What the mended request holds.
    mended: &'static str,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        name: "max_tokens",
        settings: "",
        turn: r#"{"max_output_tokens": 99}"#,
        refused: r#""max_tokens""#,
        error: r#"{"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "param": "max_tokens", "code": "unsupported_parameter"}"#,
        mended: r#""max_completion_tokens":99"#,
    },
    Refusal {
        name: "max_completion_tokens",
        settings: "quirks = { max_tokens_field = \"max_completion_tokens\" }",
        turn: r#"{"max_output_tokens": 99}"#,
        refused: r#""max_completion_tokens""#,
        error: r#"{"message": "Unrecognized request argument supplied: max_completion_tokens"}"#,
        mended: r#""max_tokens":99"#,
    },
    Refusal {
        name: "an output limit that is too high",
        settings: "",
        turn: r#"{"max_output_tokens": 99000}"#,
        refused: ":99000",
        error: r#"{"message": "max_tokens is too large: 99000. This model supports at most 8192 completion tokens, whereas you provided 99000."}"#,
        mended: r#""max_tokens":8192"#,
    },
    Refusal {
        name: "the role developer",
        settings: "quirks = { system_role = \"developer\" }",
        turn: r#"{"instructions": "Be brief."}"#,
        refused: r#""developer""#,
        error: r#"{"message": "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"}"#,
        mended: r#""role":"system""#,
    },
    Refusal {
        name: "the role system",
        settings: "",
        turn: r#"{"instructions": "Be brief."}"#,
        refused: r#""system""#,
        error: r#"{"message": "System role not supported"}"#,
        mended: "Be brief.",
    },
    Refusal {
        name: "a parameter",
        settings: "",
        turn: r#"{"parallel_tool_calls": false, "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}"#,
        refused: r#""parallel_tool_calls""#,
        error: r#"{"message": "Unknown parameter: 'parallel_tool_calls'.", "param": "parallel_tool_calls", "code": "unknown_parameter"}"#,
        mended: r#""tools""#,
    },
    Refusal {
        name: "stream_options",
        settings: "",
        turn: "{}",
        refused: r#""stream_options""#,
        error: r#"{"message": "body.stream_options: Extra inputs are not permitted"}"#,
        mended: r#""stream":true"#,
    },
];

fn refusal(when: &str, error: &str) -> ScriptedAnswer {
    let error: Value = serde_json::from_str(error).unwrap();
    ScriptedAnswer {
        repeat: true,
        when: holding(when),
        json: Some(json!({ "error": error })),
        ..ScriptedAnswer::error(400, "")
    }
}

fn holding(text: &str) -> RequestCondition {
    RequestCondition {
        body_contains: Some(text.to_owned()),
        ..RequestCondition::default()
    }
}

fn says(text: &str) -> ScriptedAnswer {
    ScriptedAnswer {
        repeat: true,
        ..answer(json!([{ "text": text }]))
    }
}

async fn player(answers: Vec<ScriptedAnswer>) -> Player {
    let script = PlayerScript {
        answers,
        ..PlayerScript::default()
    };
    Player::start(script).await.unwrap()
}

/// A turn ends well; whether it was healed.
async fn healed(proxy: &Proxy, body: &Value) -> bool {
    let reply = proxy.post(&streaming(body)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let notes = reply.header("x-respondent-notes").unwrap_or_default();
    let healed = notes.split(',').any(|note| note.trim() == "healed");
    assert_eq!(reply.stream().terminal, "response.completed");
    healed
}

/// The turn is healed by one more request, and another one needs none.
async fn heals_once(player: &Player, proxy: &Proxy, body: &Value) {
    let before = player.requests().len();
    assert!(healed(proxy, body).await);
    assert_eq!(player.requests().len(), before + 2);
    assert!(!healed(proxy, body).await);
    assert_eq!(player.requests().len(), before + 3);
    let figure = proxy.figure("respondent_healed_total", "provider=\"up\",model=\"m\"");
    assert!((figure.await - 1.0).abs() < f64::EPSILON);
    proxy.logged("healed (").await;
}

async fn heals(refusal: &'static Refusal) {
    let player = player(vec![
        self::refusal(refusal.refused, refusal.error),
        says("well"),
    ])
    .await;
    let proxy = Proxy::with(&player, Setup::new().provider(refusal.settings)).await;
    let mut body = super::body();
    let more: Value = serde_json::from_str(refusal.turn).unwrap();
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    heals_once(&player, &proxy, &body).await;
    for request in &player.requests()[1..] {
        assert!(request.body.contains(refusal.mended), "{}", request.body);
    }
}

/// A conversation in a tool loop, without any reasoning.
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

const MISSED: &str = r#"{"message": "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"}"#;

async fn missed() {
    for replay in [
        "none",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "think_tags",
        "thinking_parts",
    ] {
        let fine = ScriptedAnswer {
            when: holding("reasoning_content"),
            ..says("well")
        };
        let player = player(vec![fine, refusal("tool_calls", MISSED)]).await;
        let quirks = format!("quirks = {{ reasoning_replay = \"{replay}\" }}");
        let proxy = Proxy::with(&player, Setup::new().provider(&quirks)).await;
        heals_once(&player, &proxy, &loop_without_reasoning()).await;
    }
}

async fn forgetful() {
    let thinks = answer(json!([
        {"reasoning": "I must look."},
        {"call": {"id": "c1", "name": "f", "arguments": "{}"}}
    ]));
    let player = player(vec![thinks, says("well")]).await;
    let quirks = "quirks = { reasoning_replay = \"reasoning_content\" }";
    let proxy = Proxy::with(&player, Setup::new().provider(quirks)).await;
    let mut first = loop_without_reasoning();
    first["input"].as_array_mut().unwrap().truncate(1);
    proxy.stream(&first).await;
    let mut other = loop_without_reasoning();
    other["input"][0]["content"] = json!("Look elsewhere.");
    for (body, comes_back) in [(loop_without_reasoning(), true), (other, false)] {
        proxy.stream(&body).await;
        let sent = player.requests().pop().unwrap().body;
        assert_eq!(sent.contains("I must look."), comes_back, "{sent}");
    }
}

async fn window() {
    let overflow = r#"{"message": "This model's maximum context length is 8192 tokens. However, you requested 9010 tokens (10 in the messages, 9000 in the completion).", "code": "context_length_exceeded"}"#;
    let player = player(vec![refusal(":9000", overflow), says("well")]).await;
    let proxy = Proxy::with(&player, Setup::new().provider("models = [{ id = \"m\" }]")).await;
    let mut body = super::body();
    body["max_output_tokens"] = json!(9000);
    heals_once(&player, &proxy, &body).await;
    let sent: Value = serde_json::from_str(&player.requests()[2].body).unwrap();
    let limit = sent["max_tokens"].as_u64().unwrap();
    assert!((7_000..8_192).contains(&limit), "{limit}");
    let models: Value = serde_json::from_str(&proxy.get("/v1/models").await.body).unwrap();
    assert_eq!(models["models"][0]["context_window"], 8192);
}

/// Who refuses the same again has not been understood.
async fn in_vain() {
    let blind = r#"{"message": "This model does not support image input."}"#;
    let player = player(vec![refusal("first", blind), says("well")]).await;
    let proxy = Proxy::start(&player).await;
    let turn = |text: &str| {
        let image =
            json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="});
        json!({"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": text}, image]}]})
    };
    assert_eq!(proxy.post(&turn("first")).await.status, 400);
    assert_eq!(player.requests().len(), 2);
    assert!(!healed(&proxy, &turn("second")).await);
    assert!(player.requests()[2].body.contains("image_url"));
}

async fn elsewhere() {
    let quota = ScriptedAnswer {
        json: Some(json!({"error": {"message": "No money.", "code": "insufficient_quota"}})),
        ..ScriptedAnswer::error(429, "")
    };
    let up = always(quota).await;
    let strict = refusal("\"system\"", r#"{"message": "System role not supported"}"#);
    let other = player(vec![strict, says("well")]).await;
    let setup = Setup::new().tables(&format!(
        "[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]\n\
         [providers.other]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false",
        other.base_url()
    ));
    let proxy = Proxy::with(&up, setup).await;
    let body = json!({"model": "up/m", "instructions": "Be brief.", "input": "go"});
    assert!(healed(&proxy, &body).await);
    assert_eq!(other.requests().len(), 2);
    assert!(!healed(&proxy, &body).await);
    assert_eq!((up.requests().len(), other.requests().len()), (1, 3));
}
