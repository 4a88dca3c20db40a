//! `context_management`: a history that exceeds the client's threshold is compacted inside the
//! turn.
use kit::player::PlayerWire;
use libtest_mimic::Trial;
use serde_json::json;

use super::session::{SUMMARY, Session, messages, request, user_message};
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
            "compaction: a client that sends its whole history again is not compacted again",
            once,
        ),
        case(
            "compaction: a turn below its threshold is not compacted",
            below,
        ),
        case(
            "compaction: a turn that fails after its compaction reports the failure",
            fails,
        ),
    ]
}

async fn inside() {
    for stream in [true, false] {
        let player = player(PlayerWire::Chat).await;
        let proxy = Proxy::start(&player).await;
        player.push(answer(json!([{"text": SUMMARY}])));
        player.push(answer(json!([{"text": "the tests pass"}])));
        let mut items = Session::with_tool_rounds(4, 2000).items;
        items.push(user_message("Now the tests."));
        let mut body = request(&items);
        body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
        let response = if stream {
            proxy.post(&streaming(&body)).await.stream().response
        } else {
            proxy.response(&body).await
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
        assert_eq!(
            last.len(),
            3,
            "instructions, summary, user message: {last:?}"
        );
        assert!(last[0].contains("You are a coding agent."));
        assert!(last[1].contains("line 40 loses the last byte"));
        assert!(last[2].contains("Now the tests."));
        proxy
            .wait_for_metric("respondent_compactions_total", "door=\"threshold\"", 1.0)
            .await;
    }
}

async fn once() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    player.push(answer(json!([{"text": SUMMARY}])));
    player.push(answer(json!([{"text": "the tests pass"}])));
    player.push(answer(json!([{"text": "it is done"}])));
    let mut items = Session::with_tool_rounds(4, 2000).items;
    items.push(user_message("Now the tests."));
    let request_for = |items: &[serde_json::Value]| {
        let mut body = request(items);
        body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1500}]);
        body
    };
    let response = proxy.response(&request_for(&items)).await;
    items.extend(response["output"].as_array().unwrap().iter().cloned());
    items.push(user_message("Then commit."));
    let response = proxy.response(&request_for(&items)).await;
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
    let sent = player.requests();
    assert_eq!(sent.len(), 3);
    let (before, after) = (messages(&sent[1]), messages(&sent[2]));
    assert_eq!(
        after[..before.len()],
        before,
        "the prompt cache has these messages"
    );
    assert_eq!(after.len(), before.len() + 2);
}

async fn below() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    player.push(answer(json!([{"text": "the tests pass"}])));
    let mut body = request(&Session::with_tool_rounds(4, 2000).items);
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": 100_000}]);
    let response = proxy.post(&streaming(&body)).await.stream().response;
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
    assert_eq!(player.requests().len(), 1);
}

async fn fails() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let mut body = request(&Session::with_tool_rounds(4, 2000).items);
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
    for stream in [true, false] {
        player.push(answer(json!([{"text": SUMMARY}])));
        player.push(kit::player::ScriptedAnswer::error(400, "no"));
        if stream {
            let stream = proxy.post(&streaming(&body)).await.stream();
            assert_eq!(stream.terminal, "response.failed");
        } else {
            proxy.post(&body).await.error(400);
        }
    }
}
