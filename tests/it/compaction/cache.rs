//! A summary is requested as the next turn of the session, so that the provider has the history
//! in its prompt cache. The summary can be used later, after a restart and with another provider.
use kit::player::{PlayerWire, RecordedRequest, ScriptedAnswer};
use serde_json::json;

use super::session::{CompactionMethod, METHODS, SUMMARY, Session, messages};
use crate::faults::{answer, repeating_player};
use crate::proxy::{Proxy, Setup};

#[kit::test]
async fn the_request_for_a_summary_is_the_next_turn_of_its_history() {
    for method in METHODS {
        let player = repeating_player(PlayerWire::Chat, answer(json!([
            {"text": SUMMARY},
            {"usage": {"prompt_tokens": 5000, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 4900}}},
        ])))
        .await;
        let proxy = Proxy::start(&player).await;
        let session = Session::with_tool_rounds(5, 3000);
        session.turn(&proxy).await;
        let compacted = session.compact(&proxy, method).await;
        assert_eq!(compacted.summary, SUMMARY, "{method:?}");
        assert_eq!(compacted.usage["input_tokens"], 5000, "{method:?}");
        assert_eq!(
            compacted.usage["input_tokens_details"]["cached_tokens"],
            4900
        );

        let sent: Vec<RecordedRequest> = player.requests();
        assert_eq!(sent.len(), 2, "{method:?}");
        let (before, after) = (messages(&sent[0]), messages(&sent[1]));
        assert_eq!(
            after.len(),
            before.len() + 1,
            "{method:?}: only the prompt is new"
        );
        assert_eq!(after[..before.len()], before[..], "{method:?}");
        assert!(
            after[before.len()].starts_with(r#"{"role":"user""#),
            "{method:?}"
        );
        let (before, after) = (sent[0].json(), sent[1].json());
        assert_eq!(after["tools"], before["tools"], "{method:?}");
        assert_eq!(after["tool_choice"], "none", "{method:?}");
        if method != CompactionMethod::Endpoint {
            // The request to the endpoint has no reasoning effort.
            assert_eq!(after["reasoning_effort"], before["reasoning_effort"]);
        }

        // The turn before it and the summary, each counted once.
        for (kind, tokens) in [("input", 10_000.0), ("output", 80.0)] {
            let labels = format!("kind=\"{kind}\"");
            proxy
                .wait_for_metric("respondent_tokens_total", &labels, tokens)
                .await;
        }

        Session::after_compaction(&compacted).turn(&proxy).await;
        let sent = player.requests();
        let body = &sent[2].body;
        assert!(body.contains("line 40 loses the last byte"), "{method:?}");
        assert_eq!(body.matches("- art_").count(), 5, "{method:?}: {body}");
        let first_listed = body.split("- art_").nth(1).unwrap();
        let id = first_listed.split(' ').next().unwrap();
        let read = proxy.get(&format!("/v1/artifacts/art_{id}")).await;
        let newest = session.items.last().unwrap()["output"].as_str();
        assert_eq!(
            Some(read.body.as_str()),
            newest,
            "{method:?}: the artifact can be read"
        );
        assert!(!body.contains("rsc1."), "{method:?}: {body}");
        assert!(
            !body.contains("call_0"),
            "{method:?}: the history is replaced"
        );
        proxy.wait_for_log("compaction").await;
        proxy.wait_for_log("next_turn: ").await;
        proxy
            .wait_for_metric("respondent_compactions_total", "result=\"next_turn\"", 1.0)
            .await;
    }
}

#[kit::test]
async fn a_summary_can_be_used_after_a_restart_and_by_another_provider() {
    for method in METHODS {
        let first = repeating_player(PlayerWire::Chat, answer(json!([{"text": SUMMARY}]))).await;
        let proxy = Proxy::start(&first).await;
        let compacted = Session::with_tool_rounds(2, 100)
            .compact(&proxy, method)
            .await;
        drop(proxy);
        let second = repeating_player(PlayerWire::Chat, answer(json!([{"text": "on it"}]))).await;
        let quirks = "quirks = { system_role = \"system\" }";
        let proxy = Proxy::start_with(&second, Setup::new().provider(quirks)).await;
        Session::after_compaction(&compacted).turn(&proxy).await;
        let body = &second.requests()[0].body;
        assert!(body.contains("line 40 loses the last byte"), "{method:?}");
        assert!(!body.contains("rsc1."), "{method:?}");
    }
}

#[kit::test]
async fn heartbeats_are_sent_while_the_summary_is_awaited() {
    let player = repeating_player(
        PlayerWire::Chat,
        ScriptedAnswer {
            head_delay_ms: 2_000,
            ..answer(json!([{"text": SUMMARY}]))
        },
    )
    .await;
    let setup = Setup::new().server("heartbeat = \"50ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    for method in [CompactionMethod::TriggerItem, CompactionMethod::LocalPrompt] {
        let compacted = Session::with_tool_rounds(1, 10)
            .compact(&proxy, method)
            .await;
        let heartbeats = compacted
            .reply
            .body
            .matches("event: response.in_progress")
            .count();
        assert!(heartbeats > 2, "{method:?}: {heartbeats} heartbeats");
        assert_eq!(compacted.summary, SUMMARY);
    }
}

#[kit::test]
async fn a_client_that_disconnects_cancels_a_compaction() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"stall": true}]))).await;
    let proxy = Proxy::start(&player).await;
    let mut items = Session::with_tool_rounds(1, 10).items;
    items.push(json!({"type": "compaction_trigger"}));
    let body = crate::proxy::streaming(&super::session::request(&items));
    let mut reply = proxy.open(body.to_string(), &[]).await;
    // The stream begins at once, although the provider has sent nothing.
    reply.read_until("response.created").await;
    player.wait_requests(1).await;
    drop(reply);
    player.wait_closed(0).await;
    proxy
        .wait_for_metric("respondent_open_streams", "", 0.0)
        .await;
}
