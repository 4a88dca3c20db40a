//! Providers that write no summary: the client gets a valid item all the same.
use kit::player::{RecordedRequest, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::session::{DOORS, Door, SUMMARY, Session};
use crate::faults::{always, answer, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "S2-Ca compaction: what is no summary is asked for once more",
            again,
        ),
        case(
            "compaction: a summary that no provider writes is an extract",
            extract,
        ),
        case("compaction: a request for one can be wrong itself", wrong),
        case(
            "compaction: a provider that falls silent is waited for, with signs of life, and stood in for",
            silent,
        ),
        case(
            "compaction: the end of the program ends it, and no item is made up",
            stops,
        ),
    ]
}

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

/// Answers that are no summaries.
fn useless() -> Vec<(&'static str, ScriptedAnswer)> {
    vec![
        ("a call", call()),
        (
            "nothing",
            answer(json!([{"finish": "stop"}, {"done": true}])),
        ),
        ("thoughts alone", answer(json!([{"reasoning": "hm"}]))),
        ("blanks", answer(json!([{"text": " \n "}]))),
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

async fn again() {
    for door in DOORS {
        for (name, first) in useless() {
            let player = player().await;
            let proxy = Proxy::with(&player, Setup::new().provider("max_retries = 0")).await;
            let session = Session::of(3, 200);
            player.push(answer(json!([{"text": "a turn"}])));
            session.turn(&proxy).await;
            player.push(first);
            player.push(answer(json!([{"text": SUMMARY}])));
            let compacted = session.compact(&proxy, door).await;
            assert_eq!(compacted.summary, SUMMARY, "{door:?}: {name}");
            let sent = player.requests();
            assert_eq!(sent.len(), 3, "{door:?}: {name}");
            assert!(has_tools(&sent[1]), "{door:?}: {name}");
            assert!(!has_tools(&sent[2]), "{door:?}: {name}: the tools go");
            proxy.logged("cut: ").await;
            assert!(!proxy.log().contains("panicked"));
        }
    }
}

async fn extract() {
    for door in DOORS {
        for (name, useless) in useless() {
            let player = player().await;
            let proxy = Proxy::with(&player, Setup::new().provider("max_retries = 0")).await;
            for _ in 0..2 {
                player.push(useless.clone());
            }
            let compacted = Session::of(3, 200).compact(&proxy, door).await;
            assert!(!compacted.summary.trim().is_empty(), "{door:?}: {name}");
            assert_eq!(player.requests().len(), 2, "{door:?}: {name}");
            proxy.logged("compaction_extracted").await;
        }
        let proxy = Proxy::at(
            "http://127.0.0.1:9/v1",
            Setup::new().provider("max_retries = 0"),
        )
        .await;
        let compacted = Session::of(3, 200).compact(&proxy, door).await;
        assert!(!compacted.summary.trim().is_empty(), "{door:?}");
        assert_eq!(compacted.usage["output_tokens"], 0);
        proxy.logged("compaction_extracted (unreachable)").await;
        proxy
            .until("respondent_compactions_total", "result=\"extract\"", 1.0)
            .await;
        proxy
            .until("respondent_turns_total", "outcome=\"completed\"", 1.0)
            .await;
    }
}

async fn wrong() {
    let player = player().await;
    let proxy = Proxy::start(&player).await;
    let at = |body: Value| {
        let proxy = &proxy;
        async move { proxy.post_at("/v1/responses/compact", &body, &[]).await }
    };
    at(json!({"input": "a"})).await.error(400);
    at(json!({"model": "m", "input": "a", "previous_response_id": "resp_1"}))
        .await
        .error(400);
    let trigger =
        json!({"model": "m", "input": [{"type": "compaction_trigger"}], "temperature": "hot"});
    proxy.post(&trigger).await.error(400);
    assert!(player.requests().is_empty());
}

async fn silent() {
    for door in DOORS {
        let player = always(answer(json!([{"stall": true}]))).await;
        let setup = Setup::new()
            .server("heartbeat = \"50ms\"")
            .provider("max_retries = 0\ntimeouts = { idle = \"400ms\" }");
        let proxy = Proxy::with(&player, setup).await;
        let compacted = Session::of(1, 200).compact(&proxy, door).await;
        assert!(compacted.summary.contains("Fix the parser."), "{door:?}");
        assert_eq!(player.requests().len(), 2, "{door:?}");
        if matches!(door, Door::Trigger | Door::Local) {
            let signs = compacted.reply.body.matches("event: response.in_progress");
            assert!(signs.count() > 2, "{door:?}");
        }
        proxy.logged("compaction_extracted (timeout)").await;
    }
}

async fn stops() {
    let player = always(answer(json!([{"stall": true}]))).await;
    let setup = Setup::new().server("grace = \"10ms\"");
    let mut proxy = Proxy::with(&player, setup).await;
    let mut items = Session::of(1, 10).items;
    items.push(json!({"type": "compaction_trigger"}));
    let body = streaming(&super::session::request(&items));
    let mut open = proxy.open(body.to_string(), &[]).await;
    open.until("response.created").await;
    player.wait_requests(1).await;
    proxy.terminate().await;
    let stream = open.rest().await.stream();
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.response["output"], json!([]));
    assert_eq!(proxy.ended().await.code(), Some(0));
}
