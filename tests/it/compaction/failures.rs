//! Providers that write no summary. The client still gets a valid compaction item.
use kit::player::{PlayerWire, RecordedRequest, ScriptedAnswer};
use serde_json::{Value, json};

use super::session::{CompactionMethod, METHODS, SUMMARY, Session};
use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup, streaming};

fn call() -> ScriptedAnswer {
    answer(
        json!([{"call": {"index": 0, "id": "c9", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"}}]),
    )
}

fn overflow() -> ScriptedAnswer {
    ScriptedAnswer::error(
        400,
        "This model's maximum context length is 100000 tokens. However, your messages resulted in 100010 tokens.",
    )
}

/// Answers that contain no summary, with a name for each.
fn answers_without_summary() -> Vec<(&'static str, ScriptedAnswer)> {
    vec![
        ("a tool call", call()),
        (
            "nothing",
            answer(json!([{"finish": "stop"}, {"done": true}])),
        ),
        ("reasoning only", answer(json!([{"reasoning": "hm"}]))),
        ("white space", answer(json!([{"text": " \n "}]))),
        ("an overflow", overflow()),
        (
            "a refusal",
            ScriptedAnswer::error(400, "unsupported something"),
        ),
        ("a broken server", ScriptedAnswer::error(500, "no")),
        (
            "a broken stream",
            answer(json!([{"text": "The user"}, {"cut": "rst"}])),
        ),
    ]
}

fn has_tools(sent: &RecordedRequest) -> bool {
    sent.json()
        .get("tools")
        .is_some_and(|tools| *tools != json!([]))
}

/// Promise: The history in a request for a summary is cut only if it does not fit, or if the uncut
/// request produced no summary.
#[kit::test]
async fn an_answer_without_a_summary_leads_to_a_second_request() {
    for method in METHODS {
        for (name, first) in answers_without_summary() {
            let player = player(PlayerWire::Chat).await;
            let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
            let session = Session::with_tool_rounds(3, 200);
            player.push(answer(json!([{"text": "a turn"}])));
            session.turn(&proxy).await;
            player.push(first);
            player.push(answer(json!([{"text": SUMMARY}])));
            let compacted = session.compact(&proxy, method).await;
            assert_eq!(compacted.summary, SUMMARY, "{method:?}: {name}");
            let sent = player.requests();
            assert_eq!(sent.len(), 3, "{method:?}: {name}");
            assert!(has_tools(&sent[1]), "{method:?}: {name}");
            assert!(
                !has_tools(&sent[2]),
                "{method:?}: {name}: no tools in the second request"
            );
            proxy.wait_for_log("cut: ").await;
            assert!(!proxy.log().contains("panicked"));
        }
    }
}

#[kit::test]
async fn without_a_summary_from_the_provider_an_extract_is_used() {
    for method in METHODS {
        for (name, answer) in answers_without_summary() {
            let player = player(PlayerWire::Chat).await;
            let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
            for _ in 0..2 {
                player.push(answer.clone());
            }
            let compacted = Session::with_tool_rounds(3, 200)
                .compact(&proxy, method)
                .await;
            assert!(!compacted.summary.trim().is_empty(), "{method:?}: {name}");
            assert_eq!(player.requests().len(), 2, "{method:?}: {name}");
            proxy.wait_for_log("compaction_extracted").await;
        }
        let proxy = Proxy::start_for_url(
            "http://127.0.0.1:9/v1",
            Setup::new().provider("max_retries = 0"),
        )
        .await;
        let compacted = Session::with_tool_rounds(3, 200)
            .compact(&proxy, method)
            .await;
        assert!(!compacted.summary.trim().is_empty(), "{method:?}");
        assert_eq!(compacted.usage["output_tokens"], 0);
        proxy
            .wait_for_log("compaction_extracted (unreachable)")
            .await;
        proxy
            .wait_for_metric("respondent_compactions_total", "result=\"extract\"", 1.0)
            .await;
        proxy
            .wait_for_metric("respondent_turns_total", "outcome=\"completed\"", 1.0)
            .await;
    }
}

#[kit::test]
async fn invalid_requests_for_a_compaction_are_refused() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let post = |body: Value| {
        let proxy = &proxy;
        async move { proxy.post_to("/v1/responses/compact", &body, &[]).await }
    };
    post(json!({"input": "a"})).await.error(400);
    post(json!({"model": "m", "input": "a", "previous_response_id": "resp_1"}))
        .await
        .error(400);
    let trigger =
        json!({"model": "m", "input": [{"type": "compaction_trigger"}], "temperature": "hot"});
    proxy.post(&trigger).await.error(400);
    assert!(player.requests().is_empty());
}

#[kit::test]
async fn a_silent_provider_leads_to_heartbeats_and_after_the_timeout_to_an_extract() {
    for method in METHODS {
        let player = repeating_player(PlayerWire::Chat, answer(json!([{"stall": true}]))).await;
        let setup = Setup::new()
            .server("heartbeat = \"50ms\"")
            .provider("max_retries = 0\ntimeouts = { idle = \"400ms\" }");
        let proxy = Proxy::start_with(&player, setup).await;
        let compacted = Session::with_tool_rounds(1, 200)
            .compact(&proxy, method)
            .await;
        assert!(compacted.summary.contains("Fix the parser."), "{method:?}");
        assert_eq!(player.requests().len(), 2, "{method:?}");
        if matches!(
            method,
            CompactionMethod::TriggerItem | CompactionMethod::LocalPrompt
        ) {
            let heartbeats = compacted.reply.body.matches("event: response.in_progress");
            assert!(heartbeats.count() > 2, "{method:?}");
        }
        proxy.wait_for_log("compaction_extracted (timeout)").await;
    }
}

#[kit::test]
async fn a_shutdown_fails_a_compaction_without_inventing_an_item() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"stall": true}]))).await;
    let setup = Setup::new().server("grace = \"10ms\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let mut items = Session::with_tool_rounds(1, 10).items;
    items.push(json!({"type": "compaction_trigger"}));
    let body = streaming(&super::session::request(&items));
    let mut reply = proxy.open(body.to_string(), &[]).await;
    reply.read_until("response.created").await;
    player.wait_requests(1).await;
    proxy.terminate();
    let stream = reply.read_to_end().await.stream();
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.response["output"], json!([]));
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}

/// The provider names its window when the summary has begun, so that the engine can do nothing.
#[kit::test]
async fn a_limit_that_is_learned_in_a_compaction_is_a_warning() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let overflow = "This model's maximum context length is 100000 tokens. However, your messages resulted in 100010 tokens.";
    player.push(answer(
        json!([{"text": "The user"}, {"error": {"message": overflow, "code": 400}}]),
    ));
    player.push(answer(json!([{"text": SUMMARY}])));
    let session = Session::with_tool_rounds(3, 200);
    let compacted = session.compact(&proxy, CompactionMethod::Endpoint).await;
    assert_eq!(compacted.summary, SUMMARY);
    proxy.wait_for_log("[MODEL_LIMIT_LEARNED]").await;
}
