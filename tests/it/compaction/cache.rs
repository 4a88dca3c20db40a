//! A summary is asked for as the next turn, so that the provider has its history in
//! the cache; what comes of it is understood later, after a restart and elsewhere.
use kit::player::{RecordedRequest, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::json;

use super::session::{DOORS, Door, SUMMARY, Session, messages};
use crate::faults::{always, answer};
use crate::proxy::{Proxy, Setup};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "compaction: a summary is asked for as the next turn of its history",
            next_turn,
        ),
        case(
            "compaction: a summary is understood after a restart and by another provider",
            elsewhere,
        ),
        case("compaction: it shows signs of life", alive),
        case("compaction: a client that leaves ends it", leaves),
    ]
}

async fn next_turn() {
    for door in DOORS {
        let player = always(answer(json!([
            {"text": SUMMARY},
            {"usage": {"prompt_tokens": 5000, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 4900}}},
        ])))
        .await;
        let proxy = Proxy::start(&player).await;
        let session = Session::of(5, 3000);
        session.turn(&proxy).await;
        let compacted = session.compact(&proxy, door).await;
        assert_eq!(compacted.summary, SUMMARY, "{door:?}");
        assert_eq!(compacted.usage["input_tokens"], 5000, "{door:?}");
        assert_eq!(
            compacted.usage["input_tokens_details"]["cached_tokens"],
            4900
        );

        let sent: Vec<RecordedRequest> = player.requests();
        assert_eq!(sent.len(), 2, "{door:?}");
        let (before, after) = (messages(&sent[0]), messages(&sent[1]));
        assert_eq!(
            after.len(),
            before.len() + 1,
            "{door:?}: the prompt alone is new"
        );
        assert_eq!(after[..before.len()], before[..], "{door:?}");
        assert!(
            after[before.len()].starts_with(r#"{"role":"user""#),
            "{door:?}"
        );
        let (before, after) = (sent[0].json(), sent[1].json());
        assert_eq!(after["tools"], before["tools"], "{door:?}");
        assert_eq!(after["tool_choice"], "none", "{door:?}");
        if door != Door::Endpoint {
            // The endpoint's request names no effort.
            assert_eq!(after["reasoning_effort"], before["reasoning_effort"]);
        }

        Session::behind(&compacted).turn(&proxy).await;
        let sent = player.requests();
        let body = &sent[2].body;
        assert!(body.contains("line 40 loses the last byte"), "{door:?}");
        assert_eq!(body.matches("- art_").count(), 5, "{door:?}: {body}");
        let listed = body.split("- art_").nth(1).unwrap();
        let id = listed.split(' ').next().unwrap();
        let read = proxy.get(&format!("/v1/artifacts/art_{id}")).await;
        let newest = session.items.last().unwrap()["output"].as_str();
        assert_eq!(Some(read.body.as_str()), newest, "{door:?}: it reads back");
        assert!(!body.contains("rsc1."), "{door:?}: {body}");
        assert!(!body.contains("call_0"), "{door:?}: the history is gone");
        let log = proxy.log();
        assert!(log.contains("compaction"), "{log}");
        proxy.logged("next_turn: ").await;
        proxy
            .until("respondent_compactions_total", "result=\"next_turn\"", 1.0)
            .await;
    }
}

async fn elsewhere() {
    for door in DOORS {
        let first = always(answer(json!([{"text": SUMMARY}]))).await;
        let proxy = Proxy::start(&first).await;
        let compacted = Session::of(2, 100).compact(&proxy, door).await;
        drop(proxy);
        let second = always(answer(json!([{"text": "on it"}]))).await;
        let quirks = "quirks = { system_role = \"system\" }";
        let proxy = Proxy::with(&second, Setup::new().provider(quirks)).await;
        Session::behind(&compacted).turn(&proxy).await;
        let body = &second.requests()[0].body;
        assert!(body.contains("line 40 loses the last byte"), "{door:?}");
        assert!(!body.contains("rsc1."), "{door:?}");
    }
}

async fn alive() {
    let player = always(ScriptedAnswer {
        head_delay_ms: 400,
        ..answer(json!([{"text": SUMMARY}]))
    })
    .await;
    let setup = Setup::new().server("heartbeat = \"50ms\"");
    let proxy = Proxy::with(&player, setup).await;
    for door in [Door::Trigger, Door::Local] {
        let compacted = Session::of(1, 10).compact(&proxy, door).await;
        let signs = compacted
            .reply
            .body
            .matches("event: response.in_progress")
            .count();
        assert!(signs > 2, "{door:?}: {signs} signs of life");
        assert_eq!(compacted.summary, SUMMARY);
    }
}

async fn leaves() {
    let player = always(answer(json!([{"stall": true}]))).await;
    let proxy = Proxy::start(&player).await;
    let mut items = Session::of(1, 10).items;
    items.push(json!({"type": "compaction_trigger"}));
    let body = crate::proxy::streaming(&super::session::request(&items));
    let mut open = proxy.open(body.to_string(), &[]).await;
    // At once: nothing came from the provider.
    open.until("response.created").await;
    player.wait_requests(1).await;
    drop(open);
    player.wait_closed(0).await;
    proxy.until("respondent_open_streams", "", 0.0).await;
}
