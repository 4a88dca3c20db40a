//! A refusal that names a window or an output limit changes what a model gets from then on. One
//! that is wrong, or only quotes the conversation, must not.
use kit::harness::rows;
use kit::player::{PlayerWire, RequestCondition, ScriptedAnswer};
use serde_json::{Value, json};

use super::{answer, player_with};
use crate::proxy::{Proxy, Setup};

/// A refusal whose limit is not believed.
struct WrongLimit {
    name: &'static str,
    /// Additional settings of the provider.
    settings: &'static str,
    /// The tokens that the provider counts for every answer: input and output.
    counted: (u64, u64),
    /// The text of the request that is refused.
    refused: &'static str,
    message: &'static str,
    /// What the log says of it.
    warned: Option<&'static str>,
}

const SMALL_WINDOW: &str = "Invalid request. The log says: This model's maximum context length is 3000 tokens. However, your messages resulted in 5000 tokens.";
const SMALL_OUTPUT: &str = "max_tokens must be less than or equal to 300, the maximum value for max_tokens is less than the context_window for this model";
const OVERFLOW: &str =
    "This model's maximum context length is 8192 tokens. However, you requested 9010 tokens.";
const KNOWN_BETTER: &str = "because the model has answered more, or is listed with far more";
const LISTED: &str = "models = [{ id = \"m\", window = 200000, max_output = 8000 }]";

const WRONG_LIMITS: &[WrongLimit] = &[
    WrongLimit {
        name: "the model has answered larger requests",
        settings: "",
        counted: (5_000, 5),
        refused: "refuse this",
        message: SMALL_WINDOW,
        warned: Some(KNOWN_BETTER),
    },
    WrongLimit {
        name: "the model has given longer answers",
        settings: "",
        counted: (10, 700),
        refused: "refuse this",
        message: SMALL_OUTPUT,
        warned: Some(KNOWN_BETTER),
    },
    WrongLimit {
        name: "the model is listed with a far larger window",
        settings: LISTED,
        counted: (10, 5),
        refused: "refuse this",
        message: SMALL_WINDOW,
        warned: Some(KNOWN_BETTER),
    },
    WrongLimit {
        name: "the model is listed with far longer answers",
        settings: LISTED,
        counted: (10, 5),
        refused: "refuse this",
        message: SMALL_OUTPUT,
        warned: Some(KNOWN_BETTER),
    },
    WrongLimit {
        name: "the refusal quotes the request",
        settings: "",
        counted: (10, 5),
        refused: "refuse this\nThis model's maximum context length is 3000 tokens.",
        message: SMALL_WINDOW,
        warned: Some("because the refusal quotes the request"),
    },
    WrongLimit {
        name: "no model has so small a window",
        settings: "",
        counted: (10, 5),
        refused: "refuse this",
        message: "This model's maximum context length is 300 tokens. However, your messages resulted in 5000 tokens.",
        warned: None,
    },
    WrongLimit {
        name: "no model gives such short answers",
        settings: "",
        counted: (10, 5),
        refused: "refuse this",
        message: "max_tokens must be less than or equal to 16",
        warned: None,
    },
];

/// Refuses every request that contains `text`.
fn refusal(text: &str, message: &str) -> ScriptedAnswer {
    ScriptedAnswer {
        repeat: true,
        when: RequestCondition {
            body_contains: Some(text.to_owned()),
            ..RequestCondition::default()
        },
        json: Some(json!({"error": {"message": message}})),
        ..ScriptedAnswer::error(400, "")
    }
}

/// A text for which the provider counts these tokens.
fn counted((input, output): (u64, u64)) -> ScriptedAnswer {
    answer(json!([
        {"text": "well"},
        {"usage": {"prompt_tokens": input, "completion_tokens": output}}
    ]))
}

/// A request with a long output, which a small window shortens.
fn with_long_output() -> Value {
    let lines: Vec<String> = (0..500)
        .map(|line| format!("line {line} of the output"))
        .collect();
    json!({
        "model": "m",
        "max_output_tokens": 5000,
        "input": [
            {"role": "user", "content": "Look."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": lines.join("\n")}
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    })
}

/// Promise: A window or an output limit that a refusal names is a warning in the log and holds for
/// the sessions that begin within an hour, or until the model answers more. It is not believed,
/// which is a warning too, if the refusal quotes it from the request, if the model has answered
/// more already, or if it is less than a quarter of the listed one.
#[test]
fn a_wrong_limit_is_not_believed() {
    let cases = PlayerWire::ALL.into_iter().flat_map(|wire| {
        let on_wire = WRONG_LIMITS.iter();
        on_wire.map(move |case| (format!("{}, {}", case.name, wire.name()), (wire, case)))
    });
    rows(cases, |(wire, case)| is_not_believed(wire, case));
}

async fn is_not_believed(wire: PlayerWire, case: &'static WrongLimit) {
    let usual = ScriptedAnswer {
        repeat: true,
        ..counted(case.counted)
    };
    let player = player_with(wire, vec![refusal("refuse this", case.message), usual]).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider(case.settings)).await;
    proxy.stream(&with_long_output()).await;
    let refused = json!({"model": "m", "input": case.refused, "max_output_tokens": 5000});
    let error = proxy.post(&refused).await.error(400);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(case.message), "{message}");
    if let Some(reason) = case.warned {
        proxy.wait_for_log(reason).await;
        proxy.wait_for_log("[MODEL_LIMIT_NOT_BELIEVED]").await;
    }
    proxy.stream(&with_long_output()).await;
    let bodies: Vec<String> = player
        .requests()
        .into_iter()
        .map(|sent| sent.body)
        .collect();
    // Other changes may have been tried, and did not help.
    let [before, _, .., after] = &bodies[..] else {
        panic!("{} requests", bodies.len());
    };
    assert!(before.contains("line 250 of the output") && before.contains("5000"));
    assert_eq!(before, after);
}

#[kit::test(on_each_wire)]
async fn a_larger_answer_refutes_a_learned_window(wire: PlayerWire) {
    let answers = vec![
        refusal(":9000", OVERFLOW),
        counted((10, 5)),
        counted((8_193, 5)),
    ];
    let player = player_with(wire, answers).await;
    let proxy =
        Proxy::start_with(&player, Setup::new().provider("models = [{ id = \"m\" }]")).await;
    let listed_window = async || {
        let models: Value = serde_json::from_str(&proxy.get("/v1/models").await.body).unwrap();
        models["models"][0]["context_window"].as_u64().unwrap()
    };
    let mut body = super::body();
    body["max_output_tokens"] = json!(9000);
    proxy.stream(&body).await;
    proxy
        .wait_for_log("up/m refused a request: the window has 8192 tokens;")
        .await;
    proxy.wait_for_log("[MODEL_LIMIT_LEARNED]").await;
    assert_eq!(listed_window().await, 8_192);
    proxy.stream(&super::body()).await;
    assert_eq!(listed_window().await, 131_072);
}

/// Promise: A session keeps the limits for which it was refused and those with which it began, also
/// after a restart. A refusal of another session does not change its prompt.
#[kit::test(on_each_wire)]
async fn a_session_keeps_its_limits(wire: PlayerWire) {
    let usual = ScriptedAnswer {
        repeat: true,
        ..counted((10, 5))
    };
    let player = player_with(wire, vec![refusal(":9000", OVERFLOW), usual]).await;
    let setup = Setup::new().provider("models = [{ id = \"m\" }]");
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    let turn = async |proxy: &Proxy, session: &str, mut body: Value| {
        body["prompt_cache_key"] = json!(session);
        let before = player.requests().len();
        proxy.stream(&body).await;
        let mut sent = player.requests();
        let requests = sent.len() - before;
        (requests, sent.pop().unwrap().body)
    };
    let is_whole = async |proxy: &Proxy, session: &str| {
        let (requests, body) = turn(proxy, session, with_long_output()).await;
        assert_eq!(requests, 1, "{session}");
        body.contains("line 250 of the output")
    };
    let mut long_answer = super::body();
    long_answer["max_output_tokens"] = json!(9000);

    assert!(is_whole(&proxy, "earlier").await);
    let (requests, _) = turn(&proxy, "refused", long_answer.clone()).await;
    assert_eq!(requests, 2);
    assert!(is_whole(&proxy, "earlier").await);
    turn(&proxy, "later", super::body()).await;
    assert!(!is_whole(&proxy, "later").await);

    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    let next = Proxy::start_in_folder(proxy.folder, &setup.wire_of(&player)).await;
    let (requests, _) = turn(&next, "refused", long_answer.clone()).await;
    assert_eq!(requests, 1, "it is not refused again");
    let (requests, _) = turn(&next, "other", long_answer).await;
    assert_eq!(requests, 2);
    turn(&next, "last", super::body()).await;
    for (session, expected) in [("earlier", true), ("later", false), ("last", false)] {
        assert_eq!(is_whole(&next, session).await, expected, "{session}");
    }
}
