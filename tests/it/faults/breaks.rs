//! The upstream's answer breaks off, at every possible event.
use kit::player::{ConnectionCut, PlayerWire, ScriptStep, ScriptedAnswer};
use serde_json::{Value, json};

use super::{answer, body, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::turns::parse_steps;

/// How the upstream breaks off.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Break {
    Fin,
    Rst,
    Error,
    NotJson,
}

impl Break {
    fn steps(self) -> Vec<ScriptStep> {
        match self {
            Self::Fin => vec![ScriptStep::Cut(ConnectionCut::Fin)],
            // The upstream keeps the connection open, so the proxy has to close it.
            Self::Error => vec![
                ScriptStep::Error(json!({"message": "upstream fell over", "code": 500})),
                ScriptStep::Stall(true),
            ],
            Self::NotJson => vec![
                ScriptStep::Raw("data: {\"a\": [}\n\n".into()),
                ScriptStep::Stall(true),
            ],
            Self::Rst => vec![ScriptStep::Cut(ConnectionCut::Rst)],
        }
    }

    fn stalls(self) -> bool {
        matches!(self, Self::Error | Self::NotJson)
    }

    fn status(self) -> u16 {
        match self {
            Self::Fin | Self::Rst | Self::NotJson => 502,
            Self::Error => 500,
        }
    }
}

/// An answer of twenty events, one for each step.
fn script() -> Vec<ScriptStep> {
    let reasoning = ["I ", "think ", "so"].map(|text| json!({ "reasoning": text }));
    let text = ["one ", "two ", "three ", "four ", "five ", "six ", "seven"]
        .map(|text| json!({ "text": text }));
    let call = |index: u64, id: &str| json!({"call": {"index": index, "id": id, "name": "look"}});
    let args = |index: u64, text: &str| json!({"args": {"index": index, "text": text.to_owned()}});
    let calls = [
        call(0, "c1"),
        args(0, "{\"a\":"),
        args(0, "[1,"),
        args(0, "2]"),
        args(0, "}"),
        call(1, "c2"),
        args(1, "{\"b\":"),
        args(1, "\"x"),
        args(1, "\""),
        args(1, "}"),
    ];
    let all: Vec<Value> = reasoning.into_iter().chain(text).chain(calls).collect();
    assert_eq!(all.len(), 20);
    parse_steps(Value::Array(all))
}

/// The text and the reasoning that these steps send.
fn text_and_reasoning(steps: &[ScriptStep]) -> (String, String) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    for step in steps {
        match step {
            ScriptStep::Text(piece) => text.push_str(piece),
            ScriptStep::Reasoning(piece) => reasoning.push_str(piece),
            _ => {}
        }
    }
    (text, reasoning)
}

/// Promise: If the upstream breaks off at any event, the client's stream ends at once with a
/// terminal event and keeps the output so far.
#[kit::test(on_each_wire)]
async fn upstream_ends_at_every_event(wire: PlayerWire) {
    at_every_event(wire, Break::Fin).await;
}

#[kit::test(on_each_wire)]
async fn upstream_is_reset_at_every_event(wire: PlayerWire) {
    at_every_event(wire, Break::Rst).await;
}

#[kit::test(on_each_wire)]
async fn upstream_sends_an_error_at_every_event(wire: PlayerWire) {
    at_every_event(wire, Break::Error).await;
}

#[kit::test(on_each_wire)]
async fn upstream_sends_invalid_json_at_every_event(wire: PlayerWire) {
    at_every_event(wire, Break::NotJson).await;
}

async fn at_every_event(wire: PlayerWire, break_kind: Break) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let mut body = body();
    body["tools"] = tools;
    let mut sent = 0;
    for k in 0..=20 {
        let script = script();
        let before = &script[..k];
        for (stream, headers) in [(true, &[][..]), (true, CODEX), (false, &[])] {
            let all = [before, &break_kind.steps()].concat();
            player.push(ScriptedAnswer::steps(all));
            let body = if stream {
                streaming(&body)
            } else {
                body.clone()
            };
            let reply = proxy.post_with(&body, headers).await;
            let turn = sent;
            sent += 1;
            if break_kind.stalls() {
                player.wait_closed(turn).await;
            }
            // A connection reset may arrive before data that was sent earlier.
            let early = k == 0 || (break_kind == Break::Rst && reply.status != 200);
            let codex = !headers.is_empty();
            if !stream || (early && !codex) {
                let error = reply.error(break_kind.status());
                assert_eq!(error["type"], "server_error", "{k}");
                continue;
            }
            // Codex gets the error in a stream even if no event was sent.
            let stream = if codex {
                reply.stream_for_codex()
            } else {
                reply.stream()
            };
            assert_eq!(stream.terminal, "response.failed", "{k}");
            assert_eq!(stream.error_code(), Some("server_error"), "{k}");
            let (text, reasoning) = text_and_reasoning(before);
            if break_kind == Break::Rst || codex {
                assert!(text.starts_with(&stream.text()), "{k}");
                assert!(reasoning.starts_with(&stream.reasoning()), "{k}");
                continue;
            }
            assert_eq!(
                (stream.text(), stream.reasoning()),
                (text, reasoning),
                "{k}"
            );
            // The first call is complete once the second has begun.
            let calls = stream.calls();
            let first = calls.first().map(|call| call.status.as_str());
            let (whole, open) = (k > 15, k > 10);
            match first {
                Some("completed") => assert!(whole, "{k}"),
                Some("incomplete") => assert!(open && !whole && headers.is_empty(), "{k}"),
                other => assert!(!whole && (!open || !headers.is_empty()), "{k}: {other:?}"),
            }
        }
    }
    assert_eq!(player.requests().len(), sent, "no request was retried");
    proxy
        .wait_for_metric("respondent_open_streams", "", 0.0)
        .await;
    assert!(!proxy.whole_log().await.contains("panicked"));
}

#[kit::test(on_each_wire)]
async fn errors_inside_the_stream_keep_their_kind(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let overflow = "This model's maximum context length is 8 tokens.";
    for (error, code) in [
        (
            json!({"message": "slow", "code": 429}),
            "rate_limit_exceeded",
        ),
        (
            json!({"message": "full", "code": 503}),
            "server_is_overloaded",
        ),
        (json!({"message": "no", "code": 400}), "invalid_prompt"),
        (json!({"message": "key", "code": 401}), "invalid_prompt"),
        (
            json!({"message": "money", "code": 429, "type": "insufficient_quota"}),
            "insufficient_quota",
        ),
        (
            json!({"message": "long", "code": "context_length_exceeded"}),
            "context_length_exceeded",
        ),
        (json!({"message": overflow}), "context_length_exceeded"),
        (json!("only text"), "server_error"),
        (json!({"message": null}), "server_error"),
    ] {
        player.push(answer(
            json!([{"text": "a"}, {"error": error}, {"finish": "stop"}]),
        ));
        let stream = proxy.stream(&body()).await;
        assert_eq!(stream.error_code(), Some(code), "{error}");
        let message = stream.response["error"]["message"].as_str().unwrap();
        let upstream_message = error["message"].as_str().or(error.as_str());
        assert!(
            message.contains(upstream_message.unwrap_or_default()),
            "{message}"
        );
        assert!(!message.is_empty());
    }
}

#[kit::test(on_each_wire)]
async fn codex_never_gets_an_incomplete_call(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    player.push(answer(json!([
        {"text": "I look."},
        {"call": {"id": "c1", "name": "look", "arguments": "{\"path\": \"/etc"}},
        {"cut": "fin"}
    ])));
    let reply = proxy.post_with(&streaming(&body()), CODEX).await;
    let stream = reply.stream_for_codex();
    assert_eq!(stream.text(), "I look.");
    assert_eq!(stream.calls(), []);
}
