//! Runs in the background that outlive the process.
use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::{TRIP, asked, provider, run, start, statuses, text, to, with_workflows};
use crate::faults::{answer, player};
use crate::mcp_servers::kinds;
use crate::proxy::{Proxy, Setup, write};
use crate::stored::background::{begin_body, ended, path_of};
use crate::stored::{killed, restarted};
use crate::web_search::web::call;

/// The number of an event.
fn number(event: &Value) -> u64 {
    event["sequence_number"].as_u64().unwrap()
}

/// The events in a part of a stream, whose last one may be cut off.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

/// The state of a run that goes on.
async fn state(proxy: &Proxy, job: &Value) -> Value {
    let reply = proxy.get(&path_of(job)).await;
    kit::strict::check_running(&reply.body).unwrap();
    let response: Value = serde_json::from_str(&reply.body).unwrap();
    response["workflow_state"].clone()
}

/// Promise: A run in the background goes on after the server was killed in the middle of a node:
/// nodes that had ended do not run again, the response has the items of before, and its events are
/// read from any number on.
#[kit::test(on_each_wire)]
async fn a_run_goes_on_where_it_was(wire: PlayerWire) {
    let player = provider(wire, &[("PLAN", json!([{"text": "weather in Ulm"}]))]).await;
    // The first answer to the last node never ends.
    player.push(to("REPORT", json!([{"text": "Half a"}, {"stall": true}])));
    let (proxy, setup, engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let job = begin_body(&proxy, run("wf_trip", &json!({"place": "Ulm"}), "x")).await;
    let mut open = proxy
        .open_events(&format!("{}?stream=true", path_of(&job)))
        .await;
    open.read_until("Half a").await;
    let before = state(&proxy, &job).await;
    assert_eq!(before["current"], json!(["report"]), "{before}");
    assert_eq!(before["nodes"]["plan"]["output"], "weather in Ulm");
    player.push(to("REPORT", json!([{"text": "Whole."}])));
    let proxy = killed(proxy, &setup).await;
    let response = ended(&proxy, &job).await;
    assert_eq!(response["status"], "completed", "{response}");
    let done = ["plan completed", "look completed", "report completed"];
    assert_eq!(statuses(&response), done);
    assert_eq!(
        response["workflow_state"]["nodes"]["report"]["output"],
        "Whole."
    );
    assert_eq!(kinds(&response), ["web_search_call", "message", "message"]);
    assert_eq!(response["output"][1]["status"], "incomplete");
    assert_eq!(response["output"][1]["content"][0]["text"], "Half a");
    assert_eq!(engine.requests().len(), 1);
    let asked = asked(&player);
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[1], asked[2], "the last node is asked the same again");
    // What a client had read before is the beginning of what all read now.
    let path = format!("{}?stream=true", path_of(&job));
    let all = proxy.get(&path).await.stream().events;
    let all: Vec<Value> = all.into_iter().map(|(_, event)| event).collect();
    assert!(all.iter().map(number).eq(0..all.len() as u64));
    for after in 0..all.len() {
        let rest = proxy.get(&format!("{path}&starting_after={after}")).await;
        let numbers: Vec<u64> = events(&rest.body).iter().map(number).collect();
        let expected: Vec<u64> = (after as u64 + 1..all.len() as u64).collect();
        assert_eq!(numbers, expected, "{after}");
    }
    for event in events(&open.text) {
        let same = &all[usize::try_from(number(&event)).unwrap()];
        assert_eq!(event["type"], same["type"], "{event}");
        assert_eq!(event["delta"], same["delta"]);
    }
}

/// Promise: A run goes on after the server was stopped as well: it does not fail because the server
/// is updated, whether a node before the last one runs or the last one writes.
#[kit::test]
async fn a_run_goes_on_after_the_server_was_stopped() {
    for stopped_at in ["PLAN", "REPORT"] {
        let player = provider(PlayerWire::Chat, &[]).await;
        for (asked, text) in [("PLAN", "weather"), ("REPORT", "Whole.")] {
            if asked == stopped_at {
                player.push(to(asked, json!([{"text": "Half"}, {"stall": true}])));
            }
            player.push(to(asked, json!([{"text": text}])));
        }
        let (proxy, setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
        let job = begin_body(&proxy, run("wf_trip", &json!({"place": "Ulm"}), "x")).await;
        let path = format!("{}?stream=true", path_of(&job));
        let mut open = proxy.open_events(&path).await;
        if stopped_at == "PLAN" {
            player.wait_requests(1).await;
        } else {
            open.read_until("Half").await;
        }
        let proxy = restarted(proxy, &setup).await;
        let response = ended(&proxy, &job).await;
        assert_eq!(response["status"], "completed", "{stopped_at}: {response}");
        let report = &response["workflow_state"]["nodes"]["report"];
        assert_eq!(report["output"], "Whole.");
        assert_eq!(player.requests().len(), 3);
    }
}

/// A workflow with a node whose tools may have effects.
fn acting(server: &McpPlayer, rerun: &str) -> String {
    format!(
        r#"
description = "Acts."
[[nodes]]
id = "prepare"
kind = "agent"
prompt = "PREPARE"
[[nodes]]
id = "act"
kind = "agent"
prompt = "ACT on {{{{prepare}}}}"
{rerun}
tools = [{{type = "mcp", server_label = "db", server_url = "{}", require_approval = "never"}}]
[[nodes]]
id = "tell"
kind = "write"
prompt = "TELL {{{{act}}}}"
"#,
        server.url()
    )
}

/// Promise: A node whose tools may have effects does not run again after the server was killed
/// while it ran: the run fails and names it. A node of which its file says that it may run again
/// does.
#[kit::test]
async fn a_node_with_effects_runs_once() {
    for rerun in [false, true] {
        let server = McpPlayer::start(vec![tool("remove", false)], |_, _| McpAnswer::Silence);
        let server = server.await.unwrap();
        let player = player(PlayerWire::Chat).await;
        player.push(to("PREPARE", json!([{"text": "ready"}])));
        for _ in 0..2 {
            player.push(to(
                "ACT",
                json!([call("c1", "db__remove", &json!({"q": "x"}))]),
            ));
        }
        let line = if rerun { "rerun = true" } else { "" };
        let workflow = acting(&server, line);
        let setup = crate::mcp_servers::allowing(&[&server]);
        let setup = with_workflows(setup, &[("wf_act", &workflow)]);
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        let job = begin_body(&proxy, run("wf_act", &json!({}), "x")).await;
        server.wait_for_calls(1).await;
        let proxy = killed(proxy, &setup).await;
        if rerun {
            server.wait_for_calls(2).await;
            let path = format!("{}/cancel", path_of(&job));
            proxy.post_to(&path, &json!({}), &[]).await;
            continue;
        }
        let response = ended(&proxy, &job).await;
        assert_eq!(response["status"], "failed", "{response}");
        assert_eq!(response["workflow_state"]["failed_node"], "act");
        let message = response["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("the server ended while it ran"),
            "{message}"
        );
        assert_eq!(statuses(&response), ["prepare completed", "act failed"]);
        assert_eq!(server.calls().len(), 1);
        assert_eq!(asked(&player), ["PREPARE", "ACT on ready"]);
    }
}

/// Promise: A run whose node ends the server again and again is given up.
#[kit::test]
async fn a_run_is_not_taken_up_for_ever() {
    let player = player(PlayerWire::Chat).await;
    player.push(ScriptedAnswer {
        repeat: true,
        ..to("PLAN", json!([{"stall": true}]))
    });
    let (mut proxy, setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let job = begin_body(&proxy, run("wf_trip", &json!({"place": "Ulm"}), "x")).await;
    for starts in 1..=5 {
        player.wait_requests(starts).await;
        proxy = killed(proxy, &setup).await;
    }
    let response = ended(&proxy, &job).await;
    assert_eq!(response["status"], "failed", "{response}");
    let message = response["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("the server ended each time while it ran"),
        "{message}"
    );
    assert_eq!(player.requests().len(), 5);
}

/// Promise: A run keeps the workflow that it began with, also if its file was changed or removed
/// while the server was down.
#[kit::test]
async fn a_run_keeps_its_workflow() {
    let player = provider(PlayerWire::Chat, &[]).await;
    player.push(to("PLAN", json!([{"stall": true}])));
    player.push(to("PLAN", json!([{"text": "weather"}])));
    player.push(to("REPORT", json!([{"text": "Done."}])));
    let (mut proxy, setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let job = begin_body(&proxy, run("wf_trip", &json!({"place": "Ulm"}), "x")).await;
    player.wait_requests(1).await;
    proxy.kill().await;
    proxy.wait_for_exit().await;
    std::fs::remove_file(proxy.folder.path().join("workflows/wf_trip.toml")).unwrap();
    let proxy = Proxy::start_in_folder(proxy.folder, &setup).await;
    let response = ended(&proxy, &job).await;
    assert_eq!(text(&response), "Done.", "{response}");
}

/// Promise: A run that is cancelled ends as cancelled, with what it has done.
#[kit::test]
async fn a_run_is_cancelled_with_what_it_has_done() {
    let player = provider(PlayerWire::Chat, &[("PLAN", json!([{"text": "weather"}]))]).await;
    player.push(to("REPORT", json!([{"stall": true}])));
    let (proxy, setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let job = begin_body(&proxy, run("wf_trip", &json!({"place": "Ulm"}), "x")).await;
    player.wait_requests(2).await;
    let path = format!("{}/cancel", path_of(&job));
    let cancelled = proxy.post_to(&path, &json!({}), &[]).await;
    let cancelled: Value = serde_json::from_str(&cancelled.body).unwrap();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert_eq!(kinds(&cancelled), ["web_search_call"]);
    let expected = ["plan completed", "look completed", "report stopped"];
    assert_eq!(statuses(&cancelled), expected);
    let plan = &cancelled["workflow_state"]["nodes"]["plan"];
    assert_eq!(plan["output"], "weather");
    let proxy = killed(proxy, &setup).await;
    assert_eq!(ended(&proxy, &job).await, cancelled);
}

/// Promise: Only workflows go on after a restart: another background response ends as failed, also
/// if its request has the words of a workflow.
#[kit::test]
async fn only_workflows_go_on() {
    for text in [r"\u0060code\u0060", r#"{\"respondent_workflow\": 1}"#] {
        let player = player(PlayerWire::Chat).await;
        player.push(answer(json!([{"text": "Half"}, {"stall": true}])));
        let setup = Setup::new();
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        let body = format!(
            r#"{{"model":"up/m","input":"{text}","background":true,"metadata":{{"respondent_workflow":"x"}}}}"#
        );
        let queued = proxy.post_bytes(body, &[]).await;
        let job: Value = serde_json::from_str(&queued.body).unwrap();
        player.wait_requests(1).await;
        let proxy = killed(proxy, &setup).await;
        let response = ended(&proxy, &job).await;
        assert_eq!(response["status"], "failed", "{response}");
        assert_eq!(player.requests().len(), 1);
    }
}

/// Promise: A run that cannot go on after a restart ends as failed, behind the events and with the
/// items of before.
#[kit::test]
async fn a_run_that_cannot_go_on_ends_in_order() {
    let player = provider(PlayerWire::Chat, &[("PLAN", json!([{"text": "weather"}]))]).await;
    player.push(to("REPORT", json!([{"text": "Half"}, {"stall": true}])));
    let (mut proxy, _setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let job = begin_body(&proxy, run("wf_trip", &json!({"place": "Ulm"}), "x")).await;
    player.wait_requests(2).await;
    proxy.kill().await;
    proxy.wait_for_exit().await;
    // The server does not search the web any more.
    let without = Setup::new().wire_of(&player);
    let config = without.config(&player.base_url());
    write(proxy.folder.path(), "proxy-config.toml", &config);
    let proxy = Proxy::start_in_folder(proxy.folder, &without).await;
    let response = ended(&proxy, &job).await;
    assert_eq!(response["status"], "failed", "{response}");
    let message = response["error"]["message"].as_str().unwrap();
    assert!(message.contains("set up [search]"), "{message}");
    assert_eq!(kinds(&response)[0], "web_search_call");
    assert_eq!(
        response["workflow_state"]["nodes"]["plan"]["output"],
        "weather"
    );
    let all = proxy.get(&format!("{}?stream=true", path_of(&job))).await;
    let all = all.stream().events;
    assert!(
        all.iter()
            .map(|(_, event)| number(event))
            .eq(0..all.len() as u64)
    );
}
