//! Nodes that wait for a person: the response ends with a question, and a later request answers it.
use kit::player::{Player, PlayerWire};
use serde_json::{Value, json};

use super::{asked, provider, run, start, statuses, text, with_workflows};
use crate::mcp_servers::{McpClient, kinds};
use crate::proxy::{Proxy, Setup};
use crate::stored::{client, killed, send};

/// A workflow that asks before it publishes.
const PUBLISH: &str = r#"
description = "Publishes what a person approves."
[[nodes]]
id = "draft"
kind = "agent"
prompt = "DRAFT {{input}}"
[[nodes]]
id = "check"
kind = "approve"
question = "Publish this? {{draft}}"
refused = "Not published: {{check}}"
[[nodes]]
id = "publish"
kind = "write"
needs = ["check"]
prompt = "PUBLISH {{draft}}"
"#;

async fn model(wire: PlayerWire) -> Player {
    let answers = [
        ("DRAFT", json!([{"text": "a poem"}])),
        ("PUBLISH", json!([{"text": "Published."}])),
    ];
    provider(wire, &answers).await
}

/// The response that asks, and the id of its question.
async fn paused(proxy: &Proxy, client: McpClient) -> (Value, String) {
    let response = client.ask(proxy, &run("wf_publish", &json!({}), "x")).await;
    assert_eq!(response["status"], "completed", "{response}");
    assert_eq!(kinds(&response), ["mcp_approval_request"], "{response}");
    let item = &response["output"][0];
    assert_eq!(item["server_label"], "workflow");
    assert_eq!(item["name"], "check");
    let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(
        arguments,
        json!({"workflow": "wf_publish", "question": "Publish this? a poem"})
    );
    assert_eq!(
        statuses(&response),
        ["draft completed", "check awaiting_approval"]
    );
    assert_eq!(response["workflow_state"]["awaiting_approval"], "check");
    (response.clone(), item["id"].as_str().unwrap().to_owned())
}

/// A request that goes on from a response with what the person has decided.
fn decides(asking: &Value, question: &str, approve: bool) -> Value {
    json!({
        "model": "up/m", "previous_response_id": asking["id"],
        "input": [{
            "type": "mcp_approval_response", "approval_request_id": question,
            "approve": approve, "reason": "too short",
        }],
    })
}

/// Promise: A node may wait for a person. The response ends with an `mcp_approval_request`, and a
/// later request with the answer goes on from there, also after the server was killed and over
/// another kind of connection. Nodes that had ended do not run again.
#[kit::test(on_each_wire)]
async fn a_person_approves_after_a_restart(wire: PlayerWire) {
    for (first, second) in [
        (McpClient::Background, McpClient::WebSocket),
        (McpClient::WebSocket, McpClient::Background),
        (McpClient::Streaming, McpClient::Whole),
        (McpClient::Whole, McpClient::Streaming),
    ] {
        let player = model(wire).await;
        let (proxy, setup, _engine) = start(&player, &[("wf_publish", PUBLISH)]).await;
        let (asking, question) = paused(&proxy, first).await;
        let proxy = killed(proxy, &setup).await;
        let response = second.ask(&proxy, &decides(&asking, &question, true)).await;
        assert_eq!(response["status"], "completed", "{response}");
        assert_eq!(text(&response), "Published.");
        let expected = ["draft completed", "check completed", "publish completed"];
        assert_eq!(statuses(&response), expected);
        assert_eq!(kinds(&response), ["mcp_call", "message"]);
        let call = &response["output"][0];
        assert_eq!(call["approval_request_id"], question.as_str());
        assert_eq!(asked(&player), ["DRAFT x", "PUBLISH a poem"]);
        // The conversation goes on without the workflow.
        player.push(super::to("Thanks", json!([{"text": "Welcome."}])));
        let more = json!({
            "model": "up/m", "input": "Thanks", "previous_response_id": response["id"],
        });
        let more = second.ask(&proxy, &more).await;
        assert_eq!(text(&more), "Welcome.");
        assert_eq!(more.get("workflow_state"), None);
    }
}

/// Promise: If the person refuses, the nodes that need the approval are left out, and the answer
/// says so in the words of the workflow.
#[kit::test]
async fn a_person_may_refuse() {
    for client in McpClient::ALL {
        let player = model(PlayerWire::Chat).await;
        let (proxy, _setup, _engine) = start(&player, &[("wf_publish", PUBLISH)]).await;
        let (asking, question) = paused(&proxy, client).await;
        let response = client
            .ask(&proxy, &decides(&asking, &question, false))
            .await;
        assert_eq!(response["status"], "completed", "{response}");
        assert_eq!(text(&response), "Not published: too short");
        let expected = ["draft completed", "check refused", "publish skipped"];
        assert_eq!(statuses(&response), expected);
        assert_eq!(asked(&player), ["DRAFT x"]);
    }
}

/// Promise: A question of a workflow is answered once, by its owner.
#[kit::test]
async fn a_question_is_answered_once() {
    let player = model(PlayerWire::Chat).await;
    let (proxy, _setup, _engine) = start(&player, &[("wf_publish", PUBLISH)]).await;
    let (asking, question) = paused(&proxy, McpClient::Streaming).await;
    let decision = decides(&asking, &question, true);
    let done = proxy.response(&decision).await;
    assert_eq!(text(&done), "Published.");
    for approve in [true, false] {
        let again = proxy.post(&decides(&asking, &question, approve)).await;
        let error = again.error(400);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("was answered before"), "{message}");
    }
    assert_eq!(asked(&player).len(), 2);
}

/// Promise: A workflow that asks a person is refused where nothing is stored, before it runs.
#[kit::test]
async fn a_question_needs_a_stored_response() {
    let player = model(PlayerWire::Chat).await;
    let (proxy, _setup, _engine) = start(&player, &[("wf_publish", PUBLISH)]).await;
    let mut request = run("wf_publish", &json!({}), "x");
    request["store"] = json!(false);
    let error = proxy.post(&request).await.error(400);
    assert_eq!(error["param"], "store");
    assert!(player.requests().is_empty());
}

/// Promise: Nobody answers the questions of others: to another client there is no such question.
#[kit::test]
async fn nobody_answers_for_others() {
    let player = model(PlayerWire::Chat).await;
    let setup = Setup::new().env("RESPONDENT_TOKEN", "local-token-1");
    let setup = setup
        .tables(&client("alice", ""))
        .tables(&client("bob", ""));
    let setup = with_workflows(setup, &[("wf_publish", PUBLISH)]);
    let proxy = Proxy::start_with(&player, setup).await;
    let route = "POST /v1/responses";
    let begun = run("wf_publish", &json!({}), "x");
    let asking = send(&proxy, "alice", route, &begun).await;
    let asking: Value = serde_json::from_str(&asking.body).unwrap();
    let question = asking["output"][0]["id"].as_str().unwrap();
    let mut decision = decides(&asking, question, true);
    let refused = send(&proxy, "bob", route, &decision).await;
    assert_eq!(refused.error(400)["code"], "previous_response_not_found");
    decision["previous_response_id"] = Value::Null;
    let refused = send(&proxy, "bob", route, &decision).await;
    refused.error(400);
    assert_eq!(asked(&player).len(), 1);
    let done = send(&proxy, "alice", route, &decides(&asking, question, true)).await;
    let done: Value = serde_json::from_str(&done.body).unwrap();
    assert_eq!(text(&done), "Published.");
}
