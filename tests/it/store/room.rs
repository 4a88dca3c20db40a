//! Artifacts that have no room: a request names only what can be read back.
use adapters::plan::output::artifact_id;
use kit::player::{Player, PlayerWire};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup};

/// A text that does not repeat itself.
fn text(seed: usize, bytes: usize) -> String {
    let line = |line: usize| format!("{seed} {line} is all well\n");
    let mut text: String = (0..).map(line).take(bytes / 12).collect();
    text.truncate(bytes);
    text
}

/// The items of a call with this output.
fn call(number: usize, output: &str) -> [Value; 2] {
    let id = format!("call_{number}");
    [
        json!({"type": "function_call", "call_id": id, "name": "run", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": id, "output": output}),
    ]
}

/// A history with these outputs.
fn history(outputs: &[String]) -> Vec<Value> {
    let calls = outputs.iter().enumerate();
    let calls = calls.flat_map(|(number, output)| call(number, output));
    std::iter::once(json!({"role": "user", "content": "go"}))
        .chain(calls)
        .collect()
}

/// Sends a turn and returns the bodies of the results in the upstream request.
async fn results(proxy: &Proxy, player: &Player, input: &[Value]) -> Vec<String> {
    player.push(answer(json!([{"text": "I have seen it."}])));
    proxy.response(&json!({"model": "m", "input": input})).await;
    let requests = player.requests();
    let request: Value = serde_json::from_str(&requests.last().unwrap().body).unwrap();
    let messages = request["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Checks that each result names its artifact, which can be read, or says that it was not kept.
/// Returns which ones are kept.
async fn assert_truthful(proxy: &Proxy, outputs: &[String], results: &[String]) -> Vec<bool> {
    assert_eq!(outputs.len(), results.len());
    let mut kept = Vec::new();
    for (output, result) in outputs.iter().zip(results) {
        let id = artifact_id(output);
        assert!(result.len() < 10_000, "{} bytes", result.len());
        let is_named = result.contains("art_");
        assert_ne!(is_named, result.contains("was not kept"), "{result}");
        if is_named {
            assert!(result.contains(&id), "{result}");
            let reply = proxy.get(&format!("/v1/artifacts/{id}")).await;
            assert_eq!(reply.status, 200, "{id} is named and missing");
            assert!(reply.body == *output, "{id} is another text");
        }
        kept.push(is_named);
    }
    kept
}

async fn memory_proxy(player: &Player, memory: usize) -> Proxy {
    let tables = format!("[artifacts]\nmode = \"memory\"\nmemory = {memory}");
    Proxy::start_with(player, Setup::new().tables(&tables)).await
}

#[kit::test]
async fn an_output_for_which_memory_has_no_room_is_not_named() {
    let player = player(PlayerWire::Chat).await;
    let proxy = memory_proxy(&player, 1_000_000).await;
    let outputs = [text(1, 5_000_000), text(2, 200_000)];
    let sent = results(&proxy, &player, &history(&outputs)).await;
    let kept = assert_truthful(&proxy, &outputs, &sent).await;
    assert_eq!(kept, [false, true]);
}

/// Promise: The complete text of a shortened output is stored before the request that names it is
/// sent, and a request names no other.
#[kit::test]
async fn all_outputs_that_a_request_names_can_be_read() {
    let player = player(PlayerWire::Chat).await;
    let proxy = memory_proxy(&player, 1_000_000).await;
    let outputs: Vec<String> = (0..10).map(|seed| text(seed, 200_000)).collect();
    let first = results(&proxy, &player, &history(&outputs[..3])).await;
    assert_eq!(
        assert_truthful(&proxy, &outputs[..3], &first).await,
        [true; 3]
    );
    let all = results(&proxy, &player, &history(&outputs)).await;
    let kept = assert_truthful(&proxy, &outputs, &all).await;
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 4, "{kept:?}");
    // The history is sent as before, and the same request is the same again.
    assert_eq!(all[..3], first);
    assert_eq!(results(&proxy, &player, &history(&outputs)).await, all);
    assert_truthful(&proxy, &outputs, &all).await;
}

#[kit::test]
async fn a_disk_that_fails_in_a_turn() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new()
        .server("data_dir = \"data\"")
        .tables("[artifacts]\nmemory = 500000");
    let proxy = Proxy::start_with(&player, setup).await;
    let outputs: Vec<String> = (0..6).map(|seed| text(seed, 200_000)).collect();
    let first = results(&proxy, &player, &history(&outputs[..1])).await;
    assert_eq!(assert_truthful(&proxy, &outputs[..1], &first).await, [true]);
    let database = proxy.folder.path().join("data/artifacts/artifacts.db");
    let other = Connection::open(database).unwrap();
    let rename = |from: &str, to: &str| {
        let sql = format!("ALTER TABLE blobs RENAME COLUMN {from} TO {to}");
        other.execute_batch(&sql).unwrap();
    };
    rename("stored", "gone");
    let sent = results(&proxy, &player, &history(&outputs)).await;
    let kept = assert_truthful(&proxy, &outputs, &sent).await;
    assert_eq!(kept, [true, true, true, false, false, false]);
    assert_eq!(sent[0], first[0]);
    rename("gone", "stored");
    let sent = results(&proxy, &player, &history(&outputs)).await;
    assert_eq!(assert_truthful(&proxy, &outputs, &sent).await, [true; 6]);
}

/// A text that no compression makes much smaller.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed;
    let letters = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'0' + u8::try_from(state >> 58).unwrap())
    });
    letters.take(bytes).collect()
}

#[kit::test]
async fn a_limit_of_the_size_of_files_is_a_full_disk() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start_with(
        &player,
        Setup::new().shell(r#"ulimit -f 8192 && exec "$0" "$@""#),
    )
    .await;
    let stored = proxy.response(&json!({"model": "m", "input": "x"})).await;
    let path = format!("/v1/responses/{}", stored["id"].as_str().unwrap());
    let is_full = async |seed| {
        let input = noise(seed, 400_000);
        let body = json!({"model": "m", "input": input, "background": true});
        let reply = proxy.post(&body).await;
        assert!(matches!(reply.status, 200 | 503), "{}", reply.body);
        reply.status == 503
    };
    let mut seed = 1;
    while !is_full(seed).await {
        seed += 1;
        assert!(seed < 100, "the limit is not reached");
    }
    // Turns go on, and what is stored can be read.
    let body = json!({"model": "m", "input": noise(0, 400_000)});
    proxy.response(&body).await;
    let read = proxy.get(&path).await;
    assert_eq!(read.status, 200, "{}", read.body);
    assert_eq!(proxy.get("/healthz").await.status, 200);
}

#[kit::test]
async fn a_log_that_cannot_be_written_ends_nothing() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    for format in ["human", "json"] {
        let setup = Setup::new().server(&format!("log_format = \"{format}\""));
        let setup = setup.shell(r#"exec "$0" "$@" 2>/dev/full"#);
        let proxy = Proxy::start_with(&player, setup).await;
        // Each turn is logged.
        for _ in 0..2 {
            proxy.response(&json!({"model": "m", "input": "x"})).await;
        }
    }
}
