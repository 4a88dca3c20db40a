//! Small windows: what a client keeps beside a summary may be more than they take.
//! And sessions whose tokens are larger than a provider's are known to be.
use kit::player::{Player, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::json;

use super::session::{DOORS, Door, SUMMARY, Session, counting, messages, user};
use crate::faults::answer;
use crate::proxy::{Proxy, Setup};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "compaction: a small window goes on behind long messages of the user",
            long_wishes,
        ),
        case(
            "compaction: a session that weighs little is summarized from the cache",
            weighs_little,
        ),
        case(
            "compaction: a provider that refuses it all the same gets a smaller request",
            refused_all_the_same,
        ),
    ]
}

async fn long_wishes() {
    for window in [8_192, 32_768] {
        // The endpoint itself leaves out what there is no room for.
        for door in [Door::Trigger, Door::WholeTrigger, Door::Local] {
            let player = counting(window).await;
            let models = format!("models = [{{ id = \"m\", window = {window} }}]");
            let proxy = Proxy::with(&player, Setup::new().provider(&models)).await;
            let mut session = Session::of(2, 500);
            let mut compactions = 0;
            for wish in 0..18 {
                let long = format!("Wish {wish}: {}", "do it well. ".repeat(400));
                session.items.push(user(&long));
                session.turn(&proxy).await;
                let sent = player.requests().last().unwrap().body.len() as u64;
                if sent * 10 / 27 > window * 7 / 10 {
                    session.items = session.compact(&proxy, door).await.items;
                    compactions += 1;
                }
            }
            assert!(compactions > 0, "{window} {door:?}");
            let sent = player.requests();
            let last = &sent.last().unwrap().body;
            assert!(last.contains("Wish 17: ") && last.contains("line 40 loses"));
        }
    }
}

/// A provider that counts four bytes a token.
fn counted(text: &str, bytes: usize) -> ScriptedAnswer {
    answer(json!([
        {"text": text},
        {"usage": {"prompt_tokens": bytes / 4, "completion_tokens": 40}},
    ]))
}

/// A session that fits at four bytes a token and not at 2.7.
async fn large() -> (Player, Proxy, Session) {
    let player = crate::faults::player().await;
    let setup = Setup::new()
        .provider("models = [{ id = \"m\", window = 32768 }]\nmax_retries = 0")
        .tables("[context]\noutputs = \"whole\"");
    let proxy = Proxy::with(&player, setup).await;
    let session = Session::of(10, 8_000);
    player.push(counted("a turn", 80_000));
    session.turn(&proxy).await;
    (player, proxy, session)
}

async fn weighs_little() {
    for door in DOORS {
        let (player, proxy, session) = large().await;
        player.push(counted(SUMMARY, 80_000));
        let compacted = session.compact(&proxy, door).await;
        assert_eq!(compacted.summary, SUMMARY);
        let sent = player.requests();
        assert_eq!(sent.len(), 2, "{door:?}");
        let (before, after) = (messages(&sent[0]), messages(&sent[1]));
        assert_eq!(after[..before.len()], before, "{door:?}");
        assert_eq!(sent[1].json()["max_tokens"], 8_192, "{door:?}");
        proxy.logged("next_turn: ").await;
    }
}

async fn refused_all_the_same() {
    let (player, proxy, session) = large().await;
    let message = "This model's maximum context length is 32768 tokens. However, your messages resulted in 40000 tokens.";
    player.push(ScriptedAnswer::error(400, message));
    player.push(counted(SUMMARY, 40_000));
    let compacted = session.compact(&proxy, Door::Trigger).await;
    assert_eq!(compacted.summary, SUMMARY);
    let sent = player.requests();
    assert!(sent[2].body.len() * 10 / 27 < 32_768 - 8_192);
    proxy.logged("cut: ").await;
}
