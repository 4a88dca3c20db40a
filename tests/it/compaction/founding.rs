//! The founding case: a session of 850 KB, many outputs of at most 40 KB, at a
//! provider that counts 2.7 bytes a token and refuses what is more than 262,144.
use libtest_mimic::Trial;
use serde_json::json;

use super::session::{DOORS, SUMMARY, Session, counting};
use crate::proxy::{Proxy, Setup};
use crate::trial::case;

const WINDOW: u64 = 262_144;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "S2-Ea S2-Ec S2-P2a S2-P2h compaction: a session that is larger than its window compacts through every door and goes on",
            || async {
                let models = format!("models = [{{ id = \"m\", window = {WINDOW} }}]");
                goes_on(&models, 0).await;
            },
        ),
        // Here the refusals teach the window.
        case(
            "S2-Ea S2-Ec compaction: the same at a provider whose window nobody knows",
            || goes_on("", 2),
        ),
    ]
}

async fn goes_on(models: &str, refusals: usize) {
    let session = Session::of(22, 39_000);
    let bytes = json!(session.items).to_string().len();
    assert!(bytes > 850_000, "{bytes}");
    for door in DOORS {
        let player = counting(WINDOW).await;
        let setup = Setup::new()
            .provider(models)
            .tables("[context]\noutputs = \"whole\"");
        let proxy = Proxy::with(&player, setup).await;
        let compacted = session.compact(&proxy, door).await;
        assert_eq!(compacted.summary, SUMMARY, "{door:?}: {}", proxy.log());
        let sent = player.requests();
        let refused = sent.iter().filter(|sent| sent.refused).count();
        assert!(refused <= refusals, "{door:?}: {refused} refused");
        let asked = sent.last().unwrap();
        // The summary has room, too.
        let tokens = asked.body.len() as u64 * 10 / 27;
        assert!(tokens <= WINDOW - 20_000, "{door:?}: {tokens}");
        assert!(tokens > WINDOW / 2, "{door:?}: {tokens} wastes the window");
        Session::behind(&compacted).turn(&proxy).await;
    }
}
