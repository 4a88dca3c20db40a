//! How many bytes of a request are one token is learned from what the provider counts.
use kit::player::Player;
use serde_json::{Value, json};

use super::history;
use super::simulated_cache::SimulatedCache;
use crate::proxy::{Proxy, Reply, Setup};
use crate::stored::{client, send};

/// An output that is sent whole to a model whose tokens have four bytes each, and shortened for one
/// of which that is not known: a limit is 6 % of 131,072 tokens.
const OUTPUT: usize = 22_500;

async fn provider() -> (SimulatedCache, Player) {
    let provider = SimulatedCache::new(4.0);
    let player = provider.clone().serve().await;
    (provider, player)
}

/// A turn of a session with so many outputs.
async fn turn(proxy: &Proxy, session: &str, outputs: usize) -> Reply {
    turn_of(proxy, "local", session, outputs).await
}

async fn turn_of(proxy: &Proxy, who: &str, session: &str, outputs: usize) -> Reply {
    let items = history(&vec![OUTPUT; outputs]);
    let rules = "Do as you are told. ".repeat(500);
    let body = json!({
        "model": "up/m", "instructions": rules, "input": items, "prompt_cache_key": session,
    });
    let reply = send(proxy, who, "POST /v1/responses", &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

/// The last request: its outputs, and whether each is whole.
fn last_outputs(provider: &SimulatedCache) -> (Vec<String>, Vec<bool>) {
    let request: Value = serde_json::from_str(provider.requests().last().unwrap()).unwrap();
    let messages = request["messages"].as_array().unwrap();
    let outputs = messages.iter().filter(|message| message["role"] == "tool");
    let outputs = outputs.map(|output| output["content"].as_str().unwrap().to_owned());
    let outputs: Vec<String> = outputs.collect();
    let whole = outputs.iter().map(|output| output.len() > 20_000).collect();
    (outputs, whole)
}

/// Promise: How many bytes are a token of a model for which that is not listed is learned from what
/// its provider counts. A session keeps the ratio with which it began, so that its prompt stays
/// cached, and a new one of the same client begins with what the earlier ones have shown; both hold
/// after a restart.
#[kit::test]
async fn a_session_keeps_its_prefix_while_the_tokens_of_its_model_are_learned() {
    let (provider, player) = provider().await;
    let setup = Setup::new();
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    let mut earlier = Vec::new();
    for outputs in 1..=4 {
        turn(&proxy, "s1", outputs).await;
        let (sent, whole) = last_outputs(&provider);
        assert_eq!(whole, vec![false; outputs]);
        assert!(sent.starts_with(&earlier), "the prefix is broken");
        earlier = sent;
    }
    turn(&proxy, "s2", 1).await;
    assert_eq!(last_outputs(&provider).1, [true]);
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    let next = Proxy::start_in_folder(proxy.folder, &setup.wire_of(&player)).await;
    for (session, outputs, expected) in [("s2", 2, true), ("s3", 1, true), ("s1", 5, false)] {
        turn(&next, session, outputs).await;
        assert_eq!(
            last_outputs(&provider).1,
            vec![expected; outputs],
            "{session}"
        );
    }
}

/// Promise: A new session with a model of which nothing is listed is estimated as the provider
/// counts, once it has counted a session.
#[kit::test]
async fn a_new_session_is_estimated_as_the_provider_counts() {
    let (_provider, player) = provider().await;
    let proxy = Proxy::start_with(&player, Setup::new()).await;
    let tokens = async |kind: &str| proxy.metric("respondent_input_estimates_total", kind).await;
    let mut before = (0.0, 0.0);
    for (session, error) in [("s1", 4.0 / 2.7), ("s2", 1.0), ("s3", 1.0)] {
        turn(&proxy, session, 1).await;
        let now = (tokens("estimated").await, tokens("counted").await);
        super::assert_near((now.0 - before.0) / (now.1 - before.1), error);
        before = now;
    }
}

#[kit::test]
async fn a_listed_ratio_is_kept() {
    let (provider, player) = provider().await;
    let tables = "[[providers.up.models]]\nid = \"m\"\nwindow = 131072\nbytes_per_token = 2.7\n";
    let proxy = Proxy::start_with(&player, Setup::new().tables(tables)).await;
    for session in ["s1", "s2"] {
        turn(&proxy, session, 1).await;
        assert_eq!(last_outputs(&provider).1, [false], "{session}");
    }
}

/// Promise: What one client's requests show of the tokens of a model changes nothing for others.
#[kit::test]
async fn what_one_client_shows_changes_nothing_for_another() {
    let (provider, player) = provider().await;
    let setup = Setup::new()
        .tables(&client("ana", ""))
        .tables(&client("ben", ""));
    let proxy = Proxy::start_with(&player, setup).await;
    for (who, session, is_whole) in [
        ("ana", "s1", false),
        ("ana", "s2", true),
        ("ben", "s1", false),
        ("ben", "s2", true),
    ] {
        turn_of(&proxy, who, session, 1).await;
        assert_eq!(last_outputs(&provider).1, [is_whole], "{who} {session}");
    }
}

/// Promise: A turn is replayed with the ratio of bytes to tokens that its session had.
#[kit::test]
async fn a_recorded_turn_is_replayed_with_the_ratio_of_its_session() {
    let (provider, player) = provider().await;
    let setup = Setup::new();
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    turn(&proxy, "s1", 1).await;
    let setup = setup.wire_of(&player);
    for (session, outputs, is_whole) in [("s2", 1, true), ("s2", 2, true), ("s1", 2, false)] {
        let reply = turn(&proxy, session, outputs).await;
        assert_eq!(last_outputs(&provider).1, vec![is_whole; outputs]);
        let id = reply.header("x-request-id").unwrap();
        let file = format!("respondent-{id}.tar.zst");
        for (command, expected) in [
            (&["bundle", "create", "--request", id][..], ""),
            // When the file was written, the turn was run again and compared with what was sent.
            (&["bundle", "show", &file], "estimated"),
            (&["replay", &file], "equal"),
        ] {
            let (code, out, err) = proxy.run_command(&setup, command).await;
            assert_eq!(code, 0, "{out}{err}");
            assert!(out.contains(expected), "{session}: {out}");
            assert!(!out.contains("differs from what was sent"), "{out}");
        }
    }
}
