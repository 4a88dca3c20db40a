//! `context_management`: a history that has become too long is compacted inside the
//! turn.
use libtest_mimic::Trial;
use serde_json::json;

use super::session::{SUMMARY, Session, messages, request, user};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "compaction: context_management compacts inside a turn",
            inside,
        ),
        case(
            "compaction: a turn below its threshold is not compacted",
            below,
        ),
        case(
            "compaction: a turn that fails behind its compaction says so",
            fails,
        ),
    ]
}

async fn inside() {
    for stream in [true, false] {
        let player = player().await;
        let proxy = Proxy::start(&player).await;
        player.push(answer(json!([{"text": SUMMARY}])));
        player.push(answer(json!([{"text": "the tests pass"}])));
        let mut items = Session::of(4, 2000).items;
        items.push(user("Now the tests."));
        let mut body = request(&items);
        body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
        let response = if stream {
            proxy.post(&streaming(&body)).await.stream().response
        } else {
            proxy.whole(&body).await
        };
        let output = response["output"].as_array().unwrap();
        let kinds: Vec<&str> = output
            .iter()
            .map(|item| item["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["compaction", "message"]);
        assert_eq!(output[1]["content"][0]["text"], "the tests pass");
        let sent = player.requests();
        assert_eq!(sent.len(), 2);
        let last = messages(&sent[1]);
        assert_eq!(last.len(), 3, "rules, summary, wish: {last:?}");
        assert!(last[0].contains("You are a coding agent."));
        assert!(last[1].contains("line 40 loses the last byte"));
        assert!(last[2].contains("Now the tests."));
        assert_eq!(sent[1].json()["tool_choice"], sent[1].json()["tool_choice"]);
        proxy
            .until("respondent_compactions_total", "door=\"threshold\"", 1.0)
            .await;
    }
}

async fn below() {
    let player = player().await;
    let proxy = Proxy::start(&player).await;
    player.push(answer(json!([{"text": "the tests pass"}])));
    let mut body = request(&Session::of(4, 2000).items);
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": 100_000}]);
    let response = proxy.post(&streaming(&body)).await.stream().response;
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
    assert_eq!(player.requests().len(), 1);
}

async fn fails() {
    let player = player().await;
    let proxy = Proxy::with(&player, Setup::new().provider("max_retries = 0")).await;
    let mut body = request(&Session::of(4, 2000).items);
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
    for stream in [true, false] {
        player.push(answer(json!([{"text": SUMMARY}])));
        player.push(respondent::sandbox::Answer::error(400, "no"));
        if stream {
            let stream = proxy.post(&streaming(&body)).await.stream();
            assert_eq!(stream.terminal, "response.failed");
        } else {
            proxy.post(&body).await.error(400);
        }
    }
}
