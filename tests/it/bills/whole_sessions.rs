//! A session in which shortening costs more than it saves.
use kit::player::Player;
use serde_json::{Value, json};

use super::simulated_cache::SimulatedCache;
use super::{MODEL, history};
use crate::proxy::{Proxy, Reply, Setup};
use crate::status::{run_status, status};

/// The provider caches no prompt of fewer tokens. So the shortened requests are never cached, and
/// those with nothing shortened would be.
const MIN_TOKENS: u64 = 20_000;

fn setup() -> Setup {
    Setup::new().tables(&format!(
        "[providers.up.prompt_cache]\nmin_tokens = {MIN_TOKENS}\n{MODEL}"
    ))
}

async fn provider() -> (SimulatedCache, Player) {
    let provider = SimulatedCache::new(3.0).min_tokens(MIN_TOKENS);
    let player = provider.clone().serve().await;
    (provider, player)
}

/// A turn after so many outputs of 24,000 bytes, each a little more than what is sent whole.
async fn turn(proxy: &Proxy, outputs: usize) -> Reply {
    send(proxy, history(&vec![24_000; outputs])).await
}

/// A turn of one session with this history.
async fn send(proxy: &Proxy, items: Vec<Value>) -> Reply {
    let rules = "Do as you are told. ".repeat(2_200);
    let body = json!({
        "model": "up/m", "instructions": rules, "input": items, "prompt_cache_key": "s1",
    });
    let reply = proxy.post(&body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

fn is_sent_whole(reply: &Reply) -> bool {
    let notes = reply.header("x-respondent-notes").unwrap_or_default();
    notes.contains("outputs_whole")
}

/// The lengths of the outputs of a request.
fn output_lengths(request: &str) -> Vec<usize> {
    let request: Value = serde_json::from_str(request).unwrap();
    let messages = request["messages"].as_array().unwrap();
    let outputs = messages.iter().filter(|message| message["role"] == "tool");
    outputs
        .map(|output| output["content"].as_str().unwrap().len())
        .collect()
}

fn assert_continues(later: &str, earlier: &str) {
    let messages = |request: &str| -> Vec<Value> {
        let request: Value = serde_json::from_str(request).unwrap();
        request["messages"].as_array().unwrap().clone()
    };
    let (later, earlier) = (messages(later), messages(earlier));
    assert!(later.starts_with(&earlier), "the prefix is broken");
}

const LOG: &str = "more than it saved in 3 turns in a row";

/// Promise: If three turns in a row of one history of a session cost more than they would have cost
/// with nothing shortened, nothing more of the session is shortened unless the window forces it;
/// what was sent before stays as it was sent, in each of up to 64 histories and where a client goes
/// back. The log says so once, the notes of each later turn and the status say so, a recorded turn
/// knows it, and it holds after a restart.
#[kit::test]
async fn a_session_that_shortening_makes_dearer_is_sent_whole_also_after_a_restart() {
    let (provider, player) = provider().await;
    let setup = setup();
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    // In the first turn there is nothing that could be cached; the next three are lost.
    for outputs in 1..=4 {
        assert!(!proxy.log().contains(LOG), "{outputs}");
        assert!(!is_sent_whole(&turn(&proxy, outputs).await), "{outputs}");
    }
    proxy.wait_for_log(LOG).await;
    assert!(is_sent_whole(&turn(&proxy, 5).await));
    let now = status(&proxy, &setup).await;
    assert_eq!(now["server"]["whole_sessions"], 1);
    let text = run_status(&proxy, &setup, &[]).await;
    assert!(
        text.contains("In one session outputs are no longer shortened"),
        "{text}"
    );
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    assert_eq!(proxy.log().matches(LOG).count(), 1);
    let next = Proxy::start_in_folder(proxy.folder, &setup.clone().wire_of(&player)).await;
    assert!(is_sent_whole(&turn(&next, 6).await));
    let now = status(&next, &setup).await;
    assert_eq!(now["server"]["whole_sessions"], 1);

    let requests = provider.requests();
    for pair in requests.windows(2) {
        assert_continues(&pair[1], &pair[0]);
    }
    let lengths = output_lengths(requests.last().unwrap());
    let is_whole: Vec<bool> = lengths.iter().map(|length| *length > 20_000).collect();
    assert_eq!(is_whole, [false, false, false, false, true, true]);
}

#[kit::test]
async fn a_recorded_turn_of_a_session_that_is_sent_whole_is_replayed_as_it_was() {
    let (_provider, player) = provider().await;
    let setup = setup();
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    for outputs in 1..=4 {
        turn(&proxy, outputs).await;
    }
    let reply = turn(&proxy, 5).await;
    assert!(is_sent_whole(&reply));
    let id = reply.header("x-request-id").unwrap();
    let setup = setup.wire_of(&player);
    let file = format!("respondent-{id}.tar.zst");
    let create = ["bundle", "create", "--request", id];
    let (code, out, err) = proxy.run_command(&setup, &create).await;
    assert_eq!(code, 0, "{out}{err}");
    // When the file was written, the turn was run again and compared with what was sent.
    let show = ["bundle", "show", &file];
    let (code, out, err) = proxy.run_command(&setup, &show).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("outputs_whole"), "{out}");
    assert!(!out.contains("differs from what was sent"), "{out}");
    let replay = ["replay", &file];
    let (code, out, err) = proxy.run_command(&setup, &replay).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("equal"), "{out}");
}

/// Promise: Of the turns that make a session be sent whole, one that would not have fitted
/// unshortened does not count and interrupts nothing.
#[kit::test]
async fn a_session_that_would_not_have_fitted_unshortened_goes_on_being_shortened() {
    let (provider, player) = provider().await;
    let proxy = Proxy::start_with(&player, setup()).await;
    let body = |outputs: usize| {
        json!({
            "model": "up/m", "input": history(&vec![400_000; outputs]), "prompt_cache_key": "s2",
        })
    };
    for outputs in 1..=6 {
        let reply = proxy.post(&body(outputs)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(!is_sent_whole(&reply), "{outputs}");
    }
    let requests = provider.requests();
    let lengths = output_lengths(requests.last().unwrap());
    assert_eq!(lengths.len(), 6);
    assert!(lengths.iter().all(|length| *length < 5_000), "{lengths:?}");
}

#[kit::test]
async fn each_of_eleven_agents_keeps_what_was_sent_when_their_session_is_sent_whole() {
    const AGENTS: usize = 11;
    let (provider, player) = provider().await;
    let proxy = Proxy::start_with(&player, setup()).await;
    // Their outputs differ in nothing but their length, as the ids of their calls do not.
    for turn in 1..=6 {
        for agent in 0..AGENTS {
            let reply = send(&proxy, history(&vec![24_000 + 20 * agent; turn])).await;
            assert_eq!(is_sent_whole(&reply), turn > 4 || turn == 4 && agent > 0);
        }
    }
    let requests = provider.requests();
    for (earlier, later) in requests.iter().zip(requests.iter().skip(AGENTS)) {
        assert_continues(later, earlier);
    }
    let lengths = output_lengths(requests.last().unwrap());
    let is_whole: Vec<bool> = lengths.iter().map(|length| *length > 20_000).collect();
    assert_eq!(is_whole, [false, false, false, true, true, true]);
}

#[kit::test]
async fn a_turn_that_fits_only_shortened_interrupts_no_lost_turns_nor_does_going_back() {
    let (provider, player) = provider().await;
    let proxy = Proxy::start_with(&player, setup()).await;
    // The first turn has nothing that could be cached. The fourth would not have fitted.
    for sizes in [
        &[24_000][..],
        &[24_000, 24_000],
        &[24_000, 24_000, 24_000],
        &[24_000, 24_000, 24_000, 400_000],
        &[24_000, 24_000, 24_000, 25_000],
    ] {
        assert!(!is_sent_whole(&send(&proxy, history(sizes)).await));
    }
    proxy.wait_for_log(LOG).await;
    // The client goes back once more.
    for sizes in [
        &[24_000, 24_000, 24_000, 25_000, 24_000][..],
        &[24_000, 24_000, 26_000],
    ] {
        assert!(is_sent_whole(&send(&proxy, history(sizes)).await));
    }
    let requests = provider.requests();
    let is_whole = |request: &String| -> Vec<bool> {
        let lengths = output_lengths(request);
        lengths.iter().map(|length| *length > 20_000).collect()
    };
    assert_eq!(is_whole(&requests[5]), [false, false, false, false, true]);
    assert_eq!(is_whole(&requests[6]), [false, false, true]);
}
