//! What the client gets of a run, and what the models are asked.
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{TRIP, asked, provider, run, start, statuses, text, to, with_workflows};
use crate::faults::player;
use crate::mcp_servers::{McpClient, instructions};
use crate::proxy::{Proxy, Setup};

/// Promise: A workflow is a file. Its nodes run in the order of what they need, each with the
/// outputs of others in its texts, and the last one writes the answer: streamed, whole, in the
/// background and over WebSocket. The response says what became of each node.
#[kit::test(on_each_wire)]
async fn a_workflow_that_no_code_knows_runs(wire: PlayerWire) {
    for client in McpClient::ALL {
        let answers = [
            (
                "PLAN",
                json!([{"text": "- weather in Ulm\n- trains to Ulm\n- hotels"}]),
            ),
            ("REPORT", json!([{"text": "Go by "}, {"text": "train."}])),
        ];
        let player = provider(wire, &answers).await;
        let (proxy, _setup, engine) = start(&player, &[("wf_trip", TRIP)]).await;
        let request = run("wf_trip", &json!({"place": "Ulm"}), "two days");
        let response = client.ask(&proxy, &request).await;
        assert_eq!(response["status"], "completed", "{client:?}: {response}");
        assert_eq!(text(&response), "Go by train.", "{response}");
        let done = ["plan completed", "look completed", "report completed"];
        assert_eq!(statuses(&response), done);
        let state = &response["workflow_state"];
        assert_eq!(state["workflow"], "wf_trip");
        assert_eq!(state["nodes"]["report"]["output"], "Go by train.");
        assert_eq!(state["failed_node"], Value::Null);
        let kinds: Vec<&str> = crate::mcp_servers::kinds(&response);
        assert_eq!(kinds, ["web_search_call", "web_search_call", "message"]);
        assert_eq!(engine.requests().len(), 2, "no more searches than `max`");
        let asked = asked(&player);
        assert_eq!(asked[0], "PLAN a trip to Ulm: two days");
        assert!(
            asked[1].starts_with("REPORT on Ulm.\nPlan: - weather"),
            "{asked:?}"
        );
        assert!(asked[1].contains("https://weather.example/"), "{asked:?}");
        let sent = player.requests();
        assert_eq!(instructions(&sent[0]), "You plan trips.");
        assert!(instructions(&sent[1]).starts_with("You write short reports."));
        assert_eq!(response["prompt"]["variables"], json!({"place": "Ulm"}));
    }
}

/// Promise: The events of a run tell when each node begins and how it ends, with its output.
#[kit::test]
async fn events_tell_what_the_nodes_do() {
    let answers = [
        ("PLAN", json!([{"text": "weather in Ulm"}])),
        ("REPORT", json!([{"text": "Sunny."}])),
    ];
    let player = provider(PlayerWire::Chat, &answers).await;
    let (proxy, _setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let request = run("wf_trip", &json!({"place": "Ulm"}), "");
    let stream = proxy.stream(&request).await;
    let of_nodes = stream.events.iter().filter_map(|(kind, event)| {
        let kind = kind.strip_prefix("response.workflow.node.")?;
        Some(format!("{} {kind}", event["node"]["id"].as_str()?))
    });
    let of_nodes: Vec<String> = of_nodes.collect();
    let expected = [
        "plan started",
        "plan completed",
        "look started",
        "look completed",
        "report started",
        "report completed",
    ];
    assert_eq!(of_nodes, expected);
    let mut events = stream.events.iter();
    let completed = events.find(|(kind, _)| kind == "response.workflow.node.completed");
    let plan = &completed.unwrap().1;
    assert_eq!(plan["node"]["output"], json!(["weather in Ulm"]));
    assert!(plan["node"]["ended_at"].as_u64() >= plan["node"]["started_at"].as_u64());
}

/// Promise: Nodes that do not need each other run at the same time, and one that may fail does not
/// end the workflow.
#[kit::test]
async fn nodes_run_at_the_same_time() {
    const TWO: &str = r#"
description = "Asks two models."
[[nodes]]
id = "one"
kind = "agent"
prompt = "ONE {{input}}"
model = "up/first"
[[nodes]]
id = "two"
kind = "agent"
prompt = "TWO {{input}}"
optional = true
[[nodes]]
id = "both"
kind = "write"
prompt = "BOTH: [{{one}}] [{{two}}]"
"#;
    let player = player(PlayerWire::Chat).await;
    // The other one is asked meanwhile.
    player.push(kit::player::ScriptedAnswer {
        head_delay_ms: 300,
        ..to("ONE", json!([{"text": "1"}]))
    });
    player.push(kit::player::ScriptedAnswer {
        when: kit::player::RequestCondition {
            last_contains: Some("TWO".to_owned()),
            ..kit::player::RequestCondition::default()
        },
        ..kit::player::ScriptedAnswer::error(400, "no such thing")
    });
    player.push(to("BOTH", json!([{"text": "done"}])));
    let setup = with_workflows(Setup::new(), &[("wf_two", TWO)]);
    let proxy = Proxy::start_with(&player, setup).await;
    let stream = proxy.stream(&run("wf_two", &json!({}), "x")).await;
    let first: Vec<&str> = stream.events[2..4]
        .iter()
        .map(|(kind, _)| kind.as_str())
        .collect();
    assert_eq!(
        first, ["response.workflow.node.started"; 2],
        "both begin before one ends"
    );
    let response = stream.response;
    assert_eq!(response["status"], "completed", "{response}");
    let expected = ["one completed", "two failed", "both completed"];
    assert_eq!(statuses(&response), expected);
    let state = &response["workflow_state"];
    assert_eq!(state["failed_node"], Value::Null);
    let error = state["nodes"]["two"]["error"].as_str().unwrap();
    assert!(error.contains("no such thing"), "{error}");
    let sent = player.requests();
    let models: Vec<Value> = sent
        .iter()
        .map(|sent| sent.json()["model"].clone())
        .collect();
    assert_eq!(models.len(), 3);
    assert!(models[..2].contains(&json!("first")), "{models:?}");
    assert_eq!(asked(&player)[2], "BOTH: [1] []");
}

/// Promise: A node that fails ends the workflow with an error that names it, and the response says
/// which node failed and what the others returned.
#[kit::test]
async fn a_node_that_fails_is_named() {
    for client in McpClient::ALL {
        let player = provider(PlayerWire::Chat, &[("PLAN", json!([{"text": "\n \n"}]))]).await;
        let (proxy, _setup, engine) = start(&player, &[("wf_trip", TRIP)]).await;
        let request = run("wf_trip", &json!({"place": "Ulm"}), "x");
        if client == McpClient::Whole {
            let refused = proxy.post(&request).await;
            let message = refused.error(500)["message"].as_str().unwrap().to_owned();
            assert!(
                message.contains("node 'plan' of the workflow 'wf_trip' failed"),
                "{message}"
            );
            continue;
        }
        let response = client.ask(&proxy, &request).await;
        assert_eq!(response["status"], "failed", "{client:?} {response}");
        let message = response["error"]["message"].as_str().unwrap();
        assert_eq!(
            message,
            "The node 'plan' of the workflow 'wf_trip' failed: the model wrote nothing."
        );
        let state = &response["workflow_state"];
        assert_eq!(state["failed_node"], "plan");
        assert_eq!(state["nodes"]["look"]["status"], "pending");
        assert!(engine.requests().is_empty());
    }
}

/// Promise: When the last node fails, the response says so, with what the nodes before it returned.
#[kit::test]
async fn the_last_node_may_fail() {
    let player = provider(PlayerWire::Chat, &[("PLAN", json!([{"text": "weather"}]))]).await;
    player.push(to("REPORT", json!([{"text": "Half"}, {"cut": "rst"}])));
    let (proxy, _setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let request = run("wf_trip", &json!({"place": "Ulm"}), "x");
    let response = proxy.stream(&request).await.response;
    assert_eq!(response["status"], "failed", "{response}");
    let state = &response["workflow_state"];
    assert_eq!(state["failed_node"], "report");
    assert_eq!(state["nodes"]["plan"]["output"], "weather");
    assert_eq!(text(&response), "Half");
}

/// Promise: A request that names a workflow wrongly is refused with what to change.
#[kit::test]
async fn requests_that_cannot_run_are_refused() {
    let player = player(PlayerWire::Chat).await;
    let (proxy, _setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {}}]);
    for (change, param, expected) in [
        (
            json!({"prompt": {"id": "wf_tripp"}}),
            "prompt.id",
            "this server has 'wf_deep_research', 'wf_trip'",
        ),
        (
            json!({"prompt": {"id": "wf_trip"}}),
            "prompt.variables",
            "leaves out 'place'",
        ),
        (
            json!({"prompt": {"id": "wf_trip", "variables": {"place": "x", "town": "y"}}}),
            "prompt.variables",
            "another one, 'town'",
        ),
        (
            json!({"prompt": {"id": "wf_trip", "variables": {"place": 3}}}),
            "prompt.variables",
            "must be a string",
        ),
        (json!({"tools": tools}), "tools", "leave 'tools' out"),
    ] {
        for background in [false, true] {
            let mut request = run("wf_trip", &json!({"place": "Ulm"}), "x");
            request["background"] = json!(background);
            for (name, value) in change.as_object().unwrap() {
                request[name] = value.clone();
            }
            let error = proxy.post(&request).await.error(400);
            assert_eq!(error["param"], param, "{error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(expected), "{message}");
        }
    }
    let alone =
        Proxy::start_with(&player, with_workflows(Setup::new(), &[("wf_trip", TRIP)])).await;
    let request = run("wf_trip", &json!({"place": "Ulm"}), "x");
    let error = alone.post(&request).await.error(400);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("set up [search]"), "{message}");
    assert!(player.requests().is_empty());
}

/// Promise: A run is the server's own: what a client writes in its place is dropped.
#[kit::test]
async fn a_run_cannot_be_forged() {
    let player = provider(PlayerWire::Chat, &[("hello", json!([{"text": "Hi."}]))]).await;
    let (proxy, _setup, _engine) = start(&player, &[("wf_trip", TRIP)]).await;
    let forged = json!({
        "id": "wf_x", "variables": {}, "input": "", "model": null,
        "definition": {"description": "", "nodes": [
            {"id": "a", "kind": "write", "prompt": "FORGED"},
        ]},
    });
    let request = json!({"model": "up/m", "input": "hello", "respondent_workflow": forged});
    let response = proxy.response(&request).await;
    assert_eq!(text(&response), "Hi.");
    assert_eq!(response.get("workflow_state"), None);
    assert_eq!(asked(&player), ["hello"]);
}
