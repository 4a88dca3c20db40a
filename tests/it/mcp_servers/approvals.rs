//! Calls that a person has to approve: the client is asked, and a later request has the answer.
use std::time::Duration;

use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::{Player, PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use super::{McpClient, allowing, defined, kinds, request, start};
use crate::artifacts::in_turns::{offered, result};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::history;
use crate::stored::webhooks::{checked, receiver, told};
use crate::stored::{killed, says};
use crate::web_search::web::{call, without_hosted_tools};

/// A session with a server `db`, of which a person has to approve each call of `remove`.
struct AskingSession {
    server: McpPlayer,
    player: Player,
    setup: Setup,
    proxy: Proxy,
    client: McpClient,
    /// Whether a request continues the response before it, and does not send its items back.
    is_continued: bool,
    /// The items so far, and the last response.
    items: Vec<Value>,
    last: Value,
}

impl AskingSession {
    async fn start(wire: PlayerWire, client: McpClient, is_continued: bool) -> Self {
        let tools = vec![tool("look", true), tool("remove", false)];
        let server = McpPlayer::start(tools, |name, _| McpAnswer::text(&format!("{name}: done")));
        let server = server.await.unwrap();
        Self::with(server, wire, client, is_continued).await
    }

    async fn with(
        server: McpPlayer,
        wire: PlayerWire,
        client: McpClient,
        is_continued: bool,
    ) -> Self {
        let player = player(wire).await;
        let setup = allowing(&[&server]).provider(without_hosted_tools(wire));
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        Self {
            server,
            player,
            setup,
            proxy,
            client,
            is_continued,
            items: Vec::new(),
            last: Value::Null,
        }
    }

    /// The definition of the server: only calls that change something are asked for.
    fn defined(&self) -> Value {
        let mut defined = defined("db", &self.server);
        defined["require_approval"] = json!({"never": {"read_only": true}});
        defined
    }

    fn request(&self, items: &[Value]) -> Value {
        let mut input = if self.is_continued {
            Vec::new()
        } else {
            self.items.clone()
        };
        input.extend_from_slice(items);
        let mut asked = request(json!(input), &[self.defined()]);
        if self.is_continued && !self.last.is_null() {
            asked["previous_response_id"] = self.last["id"].clone();
        }
        asked
    }

    /// The response to these items.
    async fn ask(&mut self, items: &[Value]) -> Value {
        let asked = self.request(items);
        let response = self.client.ask(&self.proxy, &asked).await;
        assert_eq!(response["status"], "completed", "{response}");
        self.items.extend_from_slice(items);
        let output = response["output"].as_array().unwrap();
        self.items.extend(output.iter().cloned());
        self.last = response.clone();
        response
    }

    /// The model calls `remove`. Returns the item that asks a person.
    async fn ask_for_removal(&mut self) -> Value {
        self.player
            .push(answer(json!([{"text": "I remove it."}, removal("c1")])));
        let response = self.ask(&[user("Remove x.")]).await;
        let asked = response["output"].as_array().unwrap().last().unwrap();
        assert_eq!(asked["type"], "mcp_approval_request", "{response}");
        asked.clone()
    }

    fn sent(&self) -> Vec<RecordedRequest> {
        self.player.requests()
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn removal(id: &str) -> Value {
    call(id, "db__remove", &json!({"q": "x"}))
}

fn approval(asked: &Value, approve: bool) -> Value {
    json!({
        "type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": approve,
    })
}

/// Promise: A call of a tool of an MCP server that needs an approval is not run: the client gets an
/// `mcp_approval_request`. Once it sends the approval, the call runs before the model goes on, and
/// the answer begins with the `mcp_call`. The model's request begins with the bytes of the one
/// before, whether the client sends the items back or names the response.
#[kit::test(on_each_wire)]
async fn an_approved_call_runs_and_the_model_goes_on(wire: PlayerWire) {
    for client in McpClient::ALL {
        for is_continued in [false, true] {
            let mut session = AskingSession::start(wire, client, is_continued).await;
            let asked = session.ask_for_removal().await;
            assert_eq!(
                [&asked["server_label"], &asked["name"], &asked["arguments"]],
                [&json!("db"), &json!("remove"), &json!(r#"{"q":"x"}"#)],
            );
            assert!(asked["id"].as_str().unwrap().starts_with("mcpr_"));
            assert!(session.server.calls().is_empty(), "{client:?}");
            assert_eq!(offered(&session.sent()[0]), ["db__look", "db__remove"]);

            session.player.push(says("It is gone."));
            let response = session.ask(&[approval(&asked, true)]).await;
            assert_eq!(kinds(&response), ["mcp_call", "message"], "{client:?}");
            let called = &response["output"][0];
            assert_eq!(called["approval_request_id"], asked["id"]);
            assert_eq!(called["output"], "remove: done");
            let expected = json!({"name": "remove", "arguments": {"q": "x"}});
            assert_eq!(session.server.calls(), [expected]);

            session.player.push(says("Yes."));
            session.ask(&[user("Really?")]).await;
            assert_eq!(session.server.calls().len(), 1, "{client:?}");
            let sent = session.sent();
            let id = asked["id"].as_str().unwrap();
            for sent in &sent[1..] {
                assert_eq!(result(sent, id), "remove: done", "{client:?}");
            }
            let histories: Vec<Value> = sent.iter().map(history).collect();
            for pair in histories.windows(2) {
                let (before, after) = (pair[0].as_array().unwrap(), pair[1].as_array().unwrap());
                assert_eq!(&after[..before.len()], before, "{client:?} {is_continued}");
            }
        }
    }
}

/// Promise: A call that a person refuses is not run. The model is told so, with the reason, and a
/// later approval of it does nothing.
#[kit::test(on_each_wire)]
async fn a_refused_call_is_told_and_never_runs(wire: PlayerWire) {
    for client in McpClient::ALL {
        let mut session = AskingSession::start(wire, client, false).await;
        let asked = session.ask_for_removal().await;
        let before = session.items.clone();
        session.player.push(says("Then I leave it."));
        let mut refusal = approval(&asked, false);
        refusal["reason"] = json!("it is in use");
        let response = session.ask(&[refusal]).await;
        assert_eq!(kinds(&response), ["message"], "{client:?}");
        let told = result(&session.sent()[1], asked["id"].as_str().unwrap());
        assert!(told.contains("did not approve"), "{told}");
        assert!(told.contains("it is in use"), "{told}");

        session.items = before;
        session.player.push(says("It was refused."));
        let response = session.ask(&[approval(&asked, true)]).await;
        let called = &response["output"][0];
        assert_eq!(called["status"], "failed", "{called}");
        assert!(called["error"].to_string().contains("refused"), "{called}");
        assert!(session.server.calls().is_empty(), "{client:?}");
    }
}

/// Promise: An approved call runs once: a request that is sent again, such as after a connection
/// that broke, gets the result of the first one.
#[kit::test(on_each_wire)]
async fn a_request_that_is_sent_again_runs_nothing_again(wire: PlayerWire) {
    for client in McpClient::ALL {
        let mut session = AskingSession::start(wire, client, false).await;
        let asked = session.ask_for_removal().await;
        let before = session.items.clone();
        for _ in 0..3 {
            session.items.clone_from(&before);
            session.player.push(says("It is gone."));
            let response = session.ask(&[approval(&asked, true)]).await;
            assert_eq!(response["output"][0]["output"], "remove: done");
        }
        assert_eq!(session.server.calls().len(), 1, "{client:?}");
    }
}

/// Promise: An approval is good for the call that was asked for alone. In another session, with
/// other arguments, for another tool or another server, nothing runs, and the model is told why.
#[kit::test(on_each_wire)]
async fn an_approval_is_good_for_its_call_alone(wire: PlayerWire) {
    let other = McpPlayer::start(vec![tool("remove", false)], |_, _| McpAnswer::text("no"));
    let other = other.await.unwrap();
    for changed in ["session", "arguments", "tool", "server"] {
        let mut session = AskingSession::start(wire, McpClient::Streaming, false).await;
        let asked = session.ask_for_removal().await;
        let mut request = session.request(&[approval(&asked, true)]);
        let at = session.items.len() - 1;
        match changed {
            "session" => request["prompt_cache_key"] = json!("t"),
            "arguments" => request["input"][at]["arguments"] = json!(r#"{"q":"y"}"#),
            "tool" => request["input"][at]["name"] = json!("look"),
            _ => {
                session.proxy = start(&session.player, allowing(&[&session.server, &other])).await;
                request["tools"][0]["server_url"] = json!(other.url());
            }
        }
        session.player.push(says("It was not run."));
        let response = session.client.ask(&session.proxy, &request).await;
        assert_eq!(kinds(&response)[..1], ["mcp_call"], "{changed} {response}");
        let called = &response["output"][0];
        assert_eq!(called["status"], "failed", "{changed}: {called}");
        let told = result(&session.sent()[1], asked["id"].as_str().unwrap());
        assert!(told.contains("not run"), "{changed}: {told}");
        assert!(session.server.calls().is_empty(), "{changed}");
    }
    assert!(other.calls().is_empty());
}

/// Promise: In an answer with several calls each goes its way: what needs no approval runs at once,
/// the client gets its own, and a person is asked for the others. All results are in the next
/// request, with the calls of the answer.
#[kit::test(on_each_wire)]
async fn the_other_calls_of_the_answer_are_kept(wire: PlayerWire) {
    for client in McpClient::ALL {
        let mut session = AskingSession::start(wire, client, false).await;
        session.player.push(answer(json!([
            removal("c1"),
            call("c2", "db__look", &json!({"q": "x"})),
            call("c3", "clock", &json!({})),
            call("c4", "db__remove", &json!({"q": "y"})),
        ])));
        let clock = json!({"type": "function", "name": "clock", "parameters": {"type": "object"}});
        let with_clock = |mut asked: Value| {
            asked["tools"].as_array_mut().unwrap().push(clock.clone());
            asked
        };
        let question = user("Remove x and y.");
        let asked = with_clock(session.request(std::slice::from_ref(&question)));
        let response = client.ask(&session.proxy, &asked).await;
        let mut shown = kinds(&response);
        shown.sort_unstable();
        let expected = [
            "function_call",
            "mcp_approval_request",
            "mcp_approval_request",
            "mcp_call",
            "mcp_list_tools",
        ];
        assert_eq!(shown, expected, "{client:?}");
        assert_eq!(session.server.calls().len(), 1, "{client:?}");

        let output = response["output"].as_array().unwrap();
        let of_type = |kind: &str| {
            let items = output.iter().filter(|item| item["type"] == kind);
            items.cloned().collect::<Vec<_>>()
        };
        let requests = of_type("mcp_approval_request");
        session.items = vec![question];
        session.items.extend(output.iter().cloned());
        session.player.push(says("x is gone, y is there."));
        let answered = [
            approval(&requests[0], true),
            approval(&requests[1], false),
            json!({"type": "function_call_output", "call_id": "c3", "output": "noon"}),
        ];
        let asked = with_clock(session.request(&answered));
        let response = client.ask(&session.proxy, &asked).await;
        assert_eq!(kinds(&response), ["mcp_call", "message"], "{client:?}");
        let sent = &session.sent()[1];
        assert_eq!(result(sent, "c2"), "look: done");
        assert_eq!(result(sent, "c3"), "noon");
        assert_eq!(
            result(sent, requests[0]["id"].as_str().unwrap()),
            "remove: done"
        );
        let refused = result(sent, requests[1]["id"].as_str().unwrap());
        assert!(refused.contains("did not approve"), "{refused}");
        assert_eq!(session.server.calls().len(), 2, "{client:?}");
    }
}

/// Promise: A conversation goes on if nobody decides on a call: the model is told that it was not
/// run.
#[kit::test(on_each_wire)]
async fn a_call_that_nobody_decides_on_is_not_run(wire: PlayerWire) {
    let mut session = AskingSession::start(wire, McpClient::Streaming, false).await;
    let asked = session.ask_for_removal().await;
    session.player.push(says("All right."));
    session.ask(&[user("Never mind.")]).await;
    let told = result(&session.sent()[1], asked["id"].as_str().unwrap());
    assert!(told.contains("has not decided"), "{told}");
    assert!(session.server.calls().is_empty());
}

/// Promise: The arguments of a call are checked before it runs: one that does not fit the tool is
/// told to the model, and the tool is not called.
#[kit::test(on_each_wire)]
async fn an_approved_call_that_does_not_fit_its_tool_is_told(wire: PlayerWire) {
    let mut session = AskingSession::start(wire, McpClient::Streaming, false).await;
    session
        .player
        .push(answer(json!([call("c1", "db__remove", &json!({"p": 1}))])));
    let response = session.ask(&[user("Remove x.")]).await;
    let asked = response["output"][1].clone();
    session.player.push(says("I try again."));
    let response = session.ask(&[approval(&asked, true)]).await;
    let called = &response["output"][0];
    assert!(called["error"].to_string().contains('q'), "{called}");
    assert!(session.server.calls().is_empty());
}

/// Promise: An approval of what the request and its history do not have is refused, and so is one
/// that cannot be read; the error names the field, and nothing is sent to a provider.
#[kit::test]
async fn an_approval_that_cannot_be_used_is_refused() {
    let session = AskingSession::start(PlayerWire::Chat, McpClient::Whole, false).await;
    for (item, param) in [
        (
            json!({"approval_request_id": "mcpr_1", "approve": true}),
            "input",
        ),
        (json!({"approve": true}), "input[0].approval_request_id"),
        (
            json!({"approval_request_id": "mcpr_1", "approve": "yes"}),
            "input[0].approve",
        ),
    ] {
        let mut item = item;
        item["type"] = json!("mcp_approval_response");
        let reply = session.proxy.post(&session.request(&[item.clone()])).await;
        assert_eq!(reply.status, 400, "{item}: {}", reply.body);
        assert_eq!(reply.error(400)["param"], param, "{item}");
    }
    assert!(session.sent().is_empty());
}

/// Promise: Approval is required unless the request says otherwise, for all tools or some; and if
/// the operator requires it, whatever the request says.
#[kit::test(on_each_wire)]
async fn approval_is_required_unless_the_request_says_otherwise(wire: PlayerWire) {
    let tools = vec![tool("look", true), tool("remove", false)];
    let server = McpPlayer::start(tools, |_, _| McpAnswer::text("done"));
    let server = server.await.unwrap();
    let by_request = |approval: Value| {
        let mut named = defined("db", &server);
        named["require_approval"] = approval;
        (allowing(&[&server]), named)
    };
    let by_operator = Setup::new().tables(&format!(
        "[tools.mcp.servers.db]\nurl = \"{}\"\nrequire_approval = \"always\"",
        server.url()
    ));
    let never = json!({"type": "mcp", "server_label": "db", "require_approval": "never"});
    for ((setup, named), asked) in [
        (by_request(json!(null)), 2),
        (by_request(json!("always")), 2),
        (by_request(json!({"never": {"tool_names": ["look"]}})), 1),
        (by_request(json!({"never": {"read_only": true}})), 1),
        (by_request(json!("never")), 0),
        ((by_operator, never), 2),
    ] {
        let player = player(wire).await;
        let proxy = start(&player, setup).await;
        player.push(answer(json!([
            call("c1", "db__look", &json!({"q": "x"})),
            removal("c2")
        ])));
        player.push(says("Done."));
        let before = server.calls().len();
        let response = proxy
            .response(&request("hi", std::slice::from_ref(&named)))
            .await;
        let shown = kinds(&response);
        let requests = shown.iter().filter(|kind| **kind == "mcp_approval_request");
        assert_eq!(requests.count(), asked, "{named}: {response}");
        assert_eq!(server.calls().len() - before, 2 - asked, "{named}");
    }
}

/// Promise: A call that was asked for can be approved after the process was killed, and one that
/// had begun when it was killed never begins again: the model is told that its end is not known.
#[kit::test]
async fn approvals_survive_a_kill() {
    for kills_while_it_runs in [false, true] {
        let call_answer = if kills_while_it_runs {
            McpAnswer::Silence
        } else {
            McpAnswer::text("remove: done")
        };
        let server = McpPlayer::start(vec![tool("remove", false)], move |_, _| call_answer.clone());
        let server = server.await.unwrap();
        let client = McpClient::Streaming;
        let mut session = AskingSession::with(server, PlayerWire::Chat, client, false).await;
        let asked = session.ask_for_removal().await;
        if kills_while_it_runs {
            let mut body = session.request(&[approval(&asked, true)]);
            body["stream"] = json!(true);
            let mut running = session.proxy.open(body.to_string(), &[]).await;
            running.read_until("response.mcp_call_arguments.done").await;
            let called = async {
                while session.server.calls().is_empty() {
                    tokio::task::yield_now().await;
                }
            };
            let called = tokio::time::timeout(Duration::from_mins(1), called);
            called.await.expect("the server is called");
        }
        session.proxy = killed(session.proxy, &session.setup).await;
        session.player.push(says("I see."));
        let response = session.ask(&[approval(&asked, true)]).await;
        let called = &response["output"][0];
        if kills_while_it_runs {
            let error = called["error"].to_string();
            assert!(error.contains("not known how it ended"), "{called}");
        } else {
            assert_eq!(called["output"], "remove: done", "{called}");
        }
        assert_eq!(session.server.calls().len(), 1, "{kills_while_it_runs}");
    }
}

/// Promise: A background response that asks a person to approve calls says so in a webhook event of
/// its own, signed as the others are, with the calls and without their arguments. The approval in a
/// later response, also after a kill, runs the call once.
#[kit::test(on_each_wire)]
async fn webhooks_are_told_that_an_approval_is_wanted(wire: PlayerWire) {
    let receiver = receiver().await;
    let tools = vec![tool("look", true), tool("remove", false)];
    let server = McpPlayer::start(tools, |name, _| McpAnswer::text(&format!("{name}: done")));
    let server = server.await.unwrap();
    let player = player(wire).await;
    let setup = allowing(&[&server]).provider(without_hosted_tools(wire));
    let setup = told(setup, "people", &receiver).wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let client = McpClient::Background;
    let mut session = AskingSession {
        server,
        player,
        setup,
        proxy,
        client,
        is_continued: true,
        items: Vec::new(),
        last: Value::Null,
    };
    let asked = session.ask_for_removal().await;
    receiver.wait_requests(2).await;
    // What is not known to be delivered is sent again after the kill.
    session
        .proxy
        .wait_for_metric("respondent_webhook_attempts_total", "delivered", 2.0)
        .await;
    let requests = receiver.requests();
    let mut events: Vec<_> = requests.iter().map(checked).collect();
    events.sort();
    let response = session.last["id"].as_str().unwrap().to_owned();
    let kinds = ["response.approval_requested", "response.completed"];
    assert_eq!(
        events,
        kinds.map(|kind| (response.clone(), kind.to_owned()))
    );
    let event = requests.iter().map(RecordedRequest::json);
    let mut event = event.filter(|event| event["type"] == kinds[0]);
    let expected = json!({
        "id": response,
        "approval_requests": [{"id": asked["id"], "server_label": "db", "name": "remove"}],
    });
    assert_eq!(event.next().unwrap()["data"], expected);

    session.proxy = killed(session.proxy, &session.setup).await;
    session.player.push(says("It is gone."));
    let response = session.ask(&[approval(&asked, true)]).await;
    assert_eq!(response["output"][0]["output"], "remove: done");
    receiver.wait_requests(3).await;
    assert_eq!(checked(&receiver.requests()[2]).1, "response.completed");
    assert_eq!(session.server.calls().len(), 1);
}

#[kit::test]
async fn a_server_without_webhooks_logs_that_an_approval_is_wanted() {
    let client = McpClient::Background;
    let mut session = AskingSession::start(PlayerWire::Chat, client, true).await;
    session.ask_for_removal().await;
    let log = session.proxy.wait_for_log("no webhook is told").await;
    assert!(log.contains("db: remove"), "{log}");
}
