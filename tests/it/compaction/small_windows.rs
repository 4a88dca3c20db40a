//! Small windows, into which the user messages that a client keeps beside a summary may not fit,
//! and sessions whose tokens have more bytes than the estimate assumes.
use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::json;

use super::session::{
    CompactionMethod, METHODS, SUMMARY, Session, messages, player_with_window, user_message,
};
use crate::faults::answer;
use crate::proxy::{Proxy, Setup};

#[kit::test]
async fn a_session_with_a_small_window_continues_after_long_user_messages() {
    for window in [8_192, 32_768] {
        // The endpoint itself leaves out the messages for which there is no room.
        for method in [
            CompactionMethod::TriggerItem,
            CompactionMethod::TriggerItemUnstreamed,
            CompactionMethod::LocalPrompt,
        ] {
            let player = player_with_window(window).await;
            let models = format!("models = [{{ id = \"m\", window = {window} }}]");
            let proxy = Proxy::start_with(&player, Setup::new().provider(&models)).await;
            let mut session = Session::with_tool_rounds(2, 500);
            let mut compactions = 0;
            for number in 0..18 {
                let long = format!("Wish {number}: {}", "do it well. ".repeat(400));
                session.items.push(user_message(&long));
                session.turn(&proxy).await;
                let sent = player.requests().last().unwrap().body.len() as u64;
                if sent * 10 / 27 > window * 7 / 10 {
                    session.items = session.compact(&proxy, method).await.items;
                    compactions += 1;
                }
            }
            assert!(compactions > 0, "{window} {method:?}");
            let sent = player.requests();
            let last = &sent.last().unwrap().body;
            assert!(last.contains("Wish 17: ") && last.contains("line 40 loses"));
        }
    }
}

/// An answer whose usage counts four bytes a token for a prompt of `bytes` bytes.
fn answer_with_usage(text: &str, bytes: usize) -> ScriptedAnswer {
    answer(json!([
        {"text": text},
        {"usage": {"prompt_tokens": bytes / 4, "completion_tokens": 40}},
    ]))
}

/// A session that fits the window at four bytes a token, but not at 2.7.
async fn large_session() -> (Player, Proxy, Session) {
    let player = crate::faults::player(PlayerWire::Chat).await;
    let setup = Setup::new()
        .provider("models = [{ id = \"m\", window = 32768 }]\nmax_retries = 0")
        .tables("[context]\noutputs = \"whole\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let session = Session::with_tool_rounds(10, 8_000);
    player.push(answer_with_usage("a turn", 80_000));
    session.turn(&proxy).await;
    (player, proxy, session)
}

#[kit::test]
async fn a_session_with_cheap_tokens_is_summarized_as_its_next_turn() {
    for method in METHODS {
        let (player, proxy, session) = large_session().await;
        player.push(answer_with_usage(SUMMARY, 80_000));
        let compacted = session.compact(&proxy, method).await;
        assert_eq!(compacted.summary, SUMMARY);
        let sent = player.requests();
        assert_eq!(sent.len(), 2, "{method:?}");
        let (before, after) = (messages(&sent[0]), messages(&sent[1]));
        assert_eq!(after[..before.len()], before, "{method:?}");
        assert_eq!(sent[1].json()["max_tokens"], 8_192, "{method:?}");
        proxy.wait_for_log("next_turn: ").await;
    }
}

#[kit::test]
async fn after_an_overflow_the_provider_gets_a_smaller_request() {
    let (player, proxy, session) = large_session().await;
    let message = "This model's maximum context length is 32768 tokens. However, your messages resulted in 40000 tokens.";
    player.push(ScriptedAnswer::error(400, message));
    player.push(answer_with_usage(SUMMARY, 40_000));
    let compacted = session.compact(&proxy, CompactionMethod::TriggerItem).await;
    assert_eq!(compacted.summary, SUMMARY);
    let sent = player.requests();
    assert!(sent[2].body.len() * 10 / 27 < 32_768 - 8_192);
    proxy.wait_for_log("cut: ").await;
}
