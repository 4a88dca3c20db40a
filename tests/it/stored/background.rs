//! Background responses: they run whether or not anybody waits, and outlive the process.

use std::time::Duration;

use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::{asks, get, id, killed, messages, ok, provider, says};
use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Reply, Setup};

pub fn path_of(response: &Value) -> String {
    format!("/v1/responses/{}", id(response))
}

/// Sends a background request, which is acknowledged as queued.
pub async fn begin(proxy: &Proxy, input: &str, more: Value) -> Value {
    begin_body(proxy, asks(input, more)).await
}

/// The same for a whole request.
pub async fn begin_body(proxy: &Proxy, mut body: Value) -> Value {
    body["background"] = json!(true);
    let queued = ok(&proxy.post(&body).await);
    assert_eq!(queued["status"], "queued");
    assert_eq!(queued["background"], true);
    kit::strict::check_running(&queued.to_string()).unwrap();
    queued
}

/// The events of a response from a number on, which is read to its end.
pub async fn events(proxy: &Proxy, response: &Value, after: Option<u64>) -> Reply {
    let after = after.map_or(String::new(), |after| format!("&starting_after={after}"));
    proxy
        .get(&format!("{}?stream=true{after}", path_of(response)))
        .await
}

/// Waits until a response has ended, by reading its events.
pub async fn ended(proxy: &Proxy, response: &Value) -> Value {
    let all = events(proxy, response, None).await;
    let streamed = all.stream().response;
    let stored = get(proxy, &path_of(response)).await;
    assert_eq!(streamed, stored);
    stored
}

/// Promise: A background response runs to its end when its client has left.
#[kit::test]
async fn a_background_response_runs_without_its_client() {
    let player = player(PlayerWire::Chat).await;
    player.push(ScriptedAnswer {
        gated: true,
        ..says("done")
    });
    let proxy = Proxy::start(&player).await;
    let body = asks("x", json!({"background": true, "stream": true}));
    let mut open = proxy.open(body.to_string(), &[]).await;
    open.read_until("response.created").await;
    let created = open.text.split("data: ").nth(1).unwrap();
    let created: Value = serde_json::from_str(created.lines().next().unwrap()).unwrap();
    drop(open);
    proxy
        .wait_for_metric("respondent_job_viewers", "", 0.0)
        .await;
    player.open_gate();
    let response = ended(&proxy, &created["response"]).await;
    assert_eq!(response["status"], "completed");
    let more = json!({"previous_response_id": id(&response)});
    player.push(says("more"));
    proxy.response(&asks("y", more)).await;
    assert_eq!(
        messages(&player, 1),
        ["user: x", "assistant: done", "user: y"]
    );
}

/// The frames of a stream.
pub fn frames(reply: &Reply) -> Vec<String> {
    let frames = reply.body.split("\n\n").filter(|frame| !frame.is_empty());
    frames.map(str::to_owned).collect()
}

/// Promise: The events of a background response are read from any number on, live and afterwards,
/// by any number of clients, with the same suffix for each.
#[kit::test]
async fn events_are_read_again_from_any_number_on() {
    let player = player(PlayerWire::Chat).await;
    let steps: Vec<Value> = (0..40)
        .map(|n| json!({"text": format!("piece {n} ")}))
        .collect();
    player.push(answer(json!(steps)));
    let setup = Setup::new().wire_of(&player);
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    let job = begin(&proxy, "x", json!({})).await;
    ended(&proxy, &job).await;
    // Once from memory, once from the disk.
    let mut before: Option<Vec<String>> = None;
    for _ in 0..2 {
        let all = events(&proxy, &job, None).await;
        all.stream();
        let whole = frames(&all);
        if let Some(before) = before.replace(whole.clone()) {
            assert_eq!(whole, before, "the disk has other events than memory had");
        }
        for after in 0..whole.len() - 1 {
            let rest = events(&proxy, &job, Some(after as u64)).await;
            assert_eq!(frames(&rest), whole[after + 1..], "after {after}");
        }
        proxy = killed(proxy, &setup).await;
    }
}

#[kit::test]
async fn events_of_a_job_are_followed_live_by_several_clients() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(
        json!([{"text": "one "}, {"gate": true}, {"text": "two"}]),
    ));
    let proxy = Proxy::start(&player).await;
    let job = begin(&proxy, "x", json!({})).await;
    let path = format!("{}?stream=true", path_of(&job));
    let mut first = proxy.open_events(&path).await;
    let mut second = proxy.open_events(&path).await;
    let third = proxy.open_events(&path).await;
    first.read_until("\"one \"").await;
    second.read_until("\"one \"").await;
    player.open_gate();
    drop(first);
    let (whole, other) = (second.read_to_end().await, third.read_to_end().await);
    assert_eq!(whole.stream().text(), "one two");
    assert_eq!(frames(&other), frames(&whole));
    assert_eq!(frames(&events(&proxy, &job, None).await), frames(&whole));
}

/// Promise: Cancelling a background response ends its request to the provider, and changes nothing
/// the second time, or when its end is being stored.
#[kit::test]
async fn cancelling_reaches_the_provider_and_is_idempotent() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let proxy = Proxy::start(&player).await;
    let job = begin(&proxy, "x", json!({})).await;
    let mut live = proxy
        .open_events(&format!("{}?stream=true", path_of(&job)))
        .await;
    live.read_until("begun").await;
    let cancel = format!("{}/cancel", path_of(&job));
    let first = ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    assert_eq!(first["status"], "cancelled");
    assert_eq!(first["output"][0]["content"][0]["text"], "begun");
    player.wait_closed(0).await;
    let stream = live.read_to_end().await.stream();
    assert_eq!(stream.response["status"], "cancelled");
    let second = ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    assert_eq!(second, first);
    assert_eq!(player.requests().len(), 1);
}

#[kit::test]
async fn what_has_ended_cannot_be_cancelled() {
    let player = player(PlayerWire::Chat).await;
    player.push(says("all"));
    player.push(answer(json!([{"text": "cut"}, {"finish": "length"}])));
    player.push(ScriptedAnswer::error(403, "not for you"));
    let proxy = Proxy::start(&player).await;
    for status in ["completed", "incomplete", "failed"] {
        let job = begin(&proxy, "go", json!({})).await;
        assert_eq!(ended(&proxy, &job).await["status"], status);
        let cancel = format!("{}/cancel", path_of(&job));
        let error = proxy.post_to(&cancel, &json!({}), &[]).await.error(400);
        let message = format!("Cannot cancel a response that is {status}.");
        assert_eq!(error["message"], message);
        assert_eq!(ended(&proxy, &job).await["status"], status);
    }
}

#[kit::test]
async fn a_job_that_is_cancelled_while_its_end_is_stored_has_ended_once() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(
        json!([{"text": "one "}, {"gate": true}, {"text": "two"}]),
    ));
    let setup = Setup::new().server("data_dir = \"data\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let job = begin(&proxy, "x", json!({})).await;
    let path = format!("{}?stream=true", path_of(&job));
    let mut live = proxy.open_events(&path).await;
    live.read_until("\"one \"").await;
    // Somebody else writes, so that the end has to wait.
    let database = proxy.folder.path().join("data/artifacts/artifacts.db");
    let writer = rusqlite::Connection::open(database).unwrap();
    writer.busy_timeout(Duration::from_secs(10)).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    player.open_gate();
    while !player.requests()[0].finished {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    proxy.wait_until_idle().await;
    let cancel = format!("{}/cancel", path_of(&job));
    let body = json!({});
    let cancelling = async { proxy.post_to(&cancel, &body, &[]).await };
    let unlocking = async {
        proxy.wait_until_idle().await;
        writer.execute_batch("COMMIT").unwrap();
    };
    let (cancelled, ()) = tokio::join!(cancelling, unlocking);
    assert_eq!(ok(&cancelled)["status"], "completed");
    let stream = live.read_to_end().await.stream();
    assert_eq!(stream.text(), "one two");
    assert_eq!(ended(&proxy, &job).await["status"], "completed");
    let items = get(&proxy, &format!("{}/input_items", path_of(&job))).await;
    assert_eq!(items["data"].as_array().unwrap().len(), 1);
}

/// Promise: Pieces of text are joined before their events are numbered, so that every reader and
/// the log have the same events.
#[kit::test]
async fn pieces_of_text_are_joined_before_they_are_numbered() {
    let player = player(PlayerWire::Chat).await;
    let steps: Vec<Value> = (0..50).map(|_| json!({"text": "a"})).collect();
    player.push(answer(json!(steps)));
    let proxy = Proxy::start(&player).await;
    let job = begin(&proxy, "x", json!({})).await;
    let stream = events(&proxy, &job, None).await.stream();
    assert_eq!(stream.text(), "a".repeat(50));
    // Ten at a time; the provider may have paused for 100 ms on a busy machine.
    let deltas = stream.count("response.output_text.delta");
    assert!((5..50).contains(&deltas), "{deltas}");
}

/// Promise: Pieces of text that wait are sent after a tenth of a second, although nothing follows.
#[kit::test]
async fn pieces_that_wait_are_sent_although_nothing_follows() {
    let player = player(PlayerWire::Chat).await;
    // The tenth piece takes the others with it; the last one has no other to wait for.
    let mut steps = vec![json!({"text": "a"}); 10];
    steps.extend([
        json!({"delay_ms": 20}),
        // No id ends like this.
        json!({"text": "b!"}),
        json!({"stall": true}),
    ]);
    player.push(answer(json!(steps)));
    let setup = Setup::new().server("heartbeat = \"1h\"\ncommit_after = \"1h\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let job = begin(&proxy, "x", json!({})).await;
    let mut live = proxy
        .open_events(&format!("{}?stream=true", path_of(&job)))
        .await;
    live.read_until("b!\"").await;
    let cancel = format!("{}/cancel", path_of(&job));
    ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    let text = live.read_to_end().await.stream().text();
    assert_eq!(text, "aaaaaaaaaab!");
}

/// Promise: Twenty background responses run at the same time, further ones wait in order, and
/// beyond the queue they are refused with 429.
#[kit::test]
async fn twenty_run_at_the_same_time_and_the_rest_wait_in_order() {
    let player = repeating_player(
        PlayerWire::Chat,
        answer(json!([{"text": "begun"}, {"stall": true}])),
    )
    .await;
    let proxy = Proxy::start(&player).await;
    let mut jobs = Vec::new();
    for n in 0..25 {
        jobs.push(begin(&proxy, &format!("job {n}"), json!({})).await);
    }
    player.wait_requests(20).await;
    let mut states = Vec::new();
    for job in &jobs {
        states.push(get(&proxy, &path_of(job)).await["status"].clone());
    }
    assert!(
        states[..20].iter().all(|state| state == "in_progress"),
        "{states:?}"
    );
    assert!(
        states[20..].iter().all(|state| state == "queued"),
        "{states:?}"
    );
    // The oldest of those that wait takes the place of the first.
    let cancel = format!("{}/cancel", path_of(&jobs[0]));
    ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    player.wait_requests(21).await;
    assert_eq!(messages(&player, 20), ["user: job 20"]);
    for job in &jobs {
        let cancel = format!("{}/cancel", path_of(job));
        ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    }
    for job in &jobs {
        assert_eq!(ended(&proxy, job).await["status"], "cancelled");
    }
    let setup = Setup::new().tables("[jobs]\nrunning = 1\nqueued = 1");
    let proxy = Proxy::start_with(&player, setup).await;
    let first = begin(&proxy, "a", json!({})).await;
    let mut live = proxy
        .open_events(&format!("{}?stream=true", path_of(&first)))
        .await;
    live.read_until("begun").await;
    begin(&proxy, "b", json!({})).await;
    let error = proxy
        .post(&asks("c", json!({"background": true})))
        .await
        .error(429);
    assert_eq!(error["code"], "rate_limit_exceeded");
}

#[kit::test]
async fn a_job_that_waits_is_cancelled_without_a_request() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let setup = Setup::new().tables("[jobs]\nrunning = 1");
    let proxy = Proxy::start_with(&player, setup).await;
    begin(&proxy, "a", json!({})).await;
    player.wait_requests(1).await;
    let waiting = begin(&proxy, "b", json!({})).await;
    let input = format!("{}/input_items", path_of(&waiting));
    let items = get(&proxy, &input).await;
    assert_eq!(items["data"][0]["content"][0]["text"], "b");
    let cancel = format!("{}/cancel", path_of(&waiting));
    let response = ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    assert_eq!(response["status"], "cancelled");
    assert_eq!(get(&proxy, &input).await, items);
    assert_eq!(ended(&proxy, &waiting).await, response);
    assert_eq!(player.requests().len(), 1);
}

#[kit::test]
async fn jobs_that_were_queued_run_after_a_restart_once() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    player.push(says("second"));
    player.push(says("third"));
    let setup = Setup::new().tables("[jobs]\nrunning = 1").wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let first = begin(&proxy, "a", json!({})).await;
    let mut live = proxy
        .open_events(&format!("{}?stream=true", path_of(&first)))
        .await;
    live.read_until("begun").await;
    let second = begin(&proxy, "b", json!({})).await;
    let third = begin(&proxy, "c", json!({})).await;
    let proxy = killed(proxy, &setup).await;
    assert_eq!(ended(&proxy, &first).await["status"], "failed");
    for (job, text) in [(&second, "second"), (&third, "third")] {
        let response = ended(&proxy, job).await;
        assert_eq!(response["status"], "completed");
        assert_eq!(response["output"][0]["content"][0]["text"], text);
    }
    let asked: Vec<String> = (0..3).map(|n| messages(&player, n)[0].clone()).collect();
    assert_eq!(asked, ["user: a", "user: b", "user: c"]);
    assert_eq!(player.requests().len(), 3);
}

/// Promise: Whenever the program is killed, each background response ends in exactly one terminal
/// state: one that had not begun runs after the restart, one that had begun fails with the items
/// that were written, and none runs twice.
#[kit::test]
async fn a_job_that_was_interrupted_ends_as_failed() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([
        {"reasoning": "I think."}, {"text": "begun"}, {"stall": true}
    ])));
    let setup = Setup::new().wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let job = begin(&proxy, "x", json!({})).await;
    let mut live = proxy
        .open_events(&format!("{}?stream=true", path_of(&job)))
        .await;
    live.read_until("begun").await;
    let proxy = killed(proxy, &setup).await;
    let stored = ended(&proxy, &job).await;
    assert_eq!(stored["status"], "failed");
    let message = stored["error"]["message"].as_str().unwrap();
    assert!(message.contains("The server ended"), "{message}");
    // Whoever saw more than was written still gets the end.
    let rest = events(&proxy, &job, Some(1_000)).await;
    assert!(
        rest.body.contains("\"sequence_number\":1001"),
        "{}",
        rest.body
    );
    assert!(rest.body.contains("response.failed"), "{}", rest.body);
    assert_eq!(player.requests().len(), 1);
}

/// Promise: A background response ends at the limit of its job.
#[kit::test]
async fn a_job_ends_at_its_limit() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let setup = Setup::new().tables("[jobs]\ntimeout = \"1s\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let job = begin(&proxy, "x", json!({})).await;
    let response = ended(&proxy, &job).await;
    assert_eq!(response["status"], "failed");
    assert_eq!(response["output"][0]["status"], "incomplete");
}

#[kit::test]
async fn a_job_in_a_conversation_adds_its_items_when_it_ends() {
    let player = provider(&["a", "b"]).await;
    let proxy = Proxy::start(&player).await;
    let created = ok(&proxy.post_to("/v1/conversations", &json!({}), &[]).await);
    let more = json!({"conversation": id(&created)});
    let job = begin(&proxy, "x", more.clone()).await;
    assert_eq!(
        ended(&proxy, &job).await["conversation"],
        json!({"id": id(&created)})
    );
    proxy.response(&asks("y", more)).await;
    assert_eq!(messages(&player, 1), ["user: x", "assistant: a", "user: y"]);
}

#[kit::test]
async fn a_job_that_is_deleted_is_gone_with_its_events() {
    let player = provider(&["done"]).await;
    let proxy = Proxy::start(&player).await;
    let job = begin(&proxy, "x", json!({})).await;
    ended(&proxy, &job).await;
    ok(&proxy.delete(&path_of(&job)).await);
    events(&proxy, &job, None).await.error(404);
    events(&proxy, &job, Some(1)).await.error(404);
}

#[kit::test]
async fn what_does_not_run_in_the_background_has_no_events_and_cannot_be_cancelled() {
    let player = provider(&["a"]).await;
    let proxy = Proxy::start(&player).await;
    let response = proxy.response(&asks("x", json!({}))).await;
    let error = events(&proxy, &response, None).await.error(400);
    assert_eq!(error["code"], "not_background");
    let cancel = format!("{}/cancel", path_of(&response));
    proxy.post_to(&cancel, &json!({}), &[]).await.error(400);
    let body = asks("x", json!({"background": true, "store": false}));
    let error = proxy.post(&body).await.error(400);
    assert_eq!(error["param"], "background");
    let body = asks("x", json!({"background": true}));
    let compacted = proxy.post_to("/v1/responses/compact", &body, &[]).await;
    assert_eq!(compacted.error(400)["param"], "background");
}
