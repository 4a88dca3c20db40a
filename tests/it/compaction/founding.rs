//! The founding case: a session of 850 KB with many outputs of at most 40 KB each, and a provider
//! that counts 2.7 bytes a token and refuses requests of more than 262,144 tokens.
use serde_json::json;

use super::session::{METHODS, SUMMARY, Session, player_with_window};
use crate::proxy::{Proxy, Setup};

const WINDOW: u64 = 262_144;

#[kit::test]
async fn a_session_that_is_larger_than_its_window_compacts_by_every_method_and_continues() {
    let models = format!("models = [{{ id = \"m\", window = {WINDOW} }}]");
    compacts_and_continues(&models, 0).await;
}

/// The window is learned from the refusals.
#[kit::test]
async fn a_session_compacts_and_continues_although_the_window_is_not_configured() {
    compacts_and_continues("", 2).await;
}

async fn compacts_and_continues(models: &str, max_refusals: usize) {
    let session = Session::with_tool_rounds(22, 39_000);
    let bytes = json!(session.items).to_string().len();
    assert!(bytes > 850_000, "{bytes}");
    for method in METHODS {
        let player = player_with_window(WINDOW).await;
        let setup = Setup::new()
            .provider(models)
            .tables("[context]\noutputs = \"whole\"");
        let proxy = Proxy::start_with(&player, setup).await;
        let compacted = session.compact(&proxy, method).await;
        assert_eq!(compacted.summary, SUMMARY, "{method:?}: {}", proxy.log());
        let sent = player.requests();
        let refused = sent.iter().filter(|sent| sent.refused).count();
        assert!(refused <= max_refusals, "{method:?}: {refused} refused");
        let last = sent.last().unwrap();
        // There is room for the summary, too.
        let tokens = last.body.len() as u64 * 10 / 27;
        assert!(tokens <= WINDOW - 20_000, "{method:?}: {tokens}");
        assert!(
            tokens > WINDOW / 2,
            "{method:?}: {tokens} tokens waste the window"
        );
        Session::after_compaction(&compacted).turn(&proxy).await;
    }
}
