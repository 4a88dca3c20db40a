//! Which servers a request may name, and which of their tools the model gets.
use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{McpClient, allowing, defined, instructions, kinds, proxy, request, start};
use crate::artifacts::in_turns::offered;
use crate::faults::{answer, player};
use crate::proxy::Setup;
use crate::stored::says;
use crate::web_search::web::call;

async fn server(tools: Vec<Value>) -> McpPlayer {
    let server = McpPlayer::start(tools, |name, _| McpAnswer::text(name));
    server.await.unwrap()
}

/// Promise: A request may name only MCP servers whose host the operator has listed. Another one,
/// such as on loopback or a private network, is refused before anything is sent to it or to a
/// provider, and the error says which setting to change.
#[kit::test]
async fn a_server_that_is_not_listed_is_refused() {
    let server = server(vec![tool("look", true)]).await;
    let other = self::server(Vec::new()).await;
    let port = server.address().port();
    let player = player(PlayerWire::Chat).await;
    for (setup, url) in [
        (Setup::new(), server.url()),
        (allowing(&[&other]), server.url()),
        (allowing(&[&server]), format!("http://localhost:{port}/mcp")),
        (allowing(&[&server]), format!("http://[::1]:{port}/mcp")),
        (
            allowing(&[&server]),
            "http://169.254.169.254/latest".to_owned(),
        ),
    ] {
        let proxy = start(&player, setup).await;
        let mut named = defined("docs", &server);
        named["server_url"] = json!(url);
        let asked = request("hi", &[named]);
        let reply = proxy.post(&asked).await;
        assert_eq!(reply.status, 400, "{url}: {}", reply.body);
        let error = reply.error(400);
        assert_eq!(error["param"], "tools[0].server_url", "{error}");
        assert_eq!(error["code"], "mcp_server_not_allowed", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("allowed_hosts in [tools.mcp]"),
            "{message}"
        );
        // A background response is refused at once.
        let mut asked = asked;
        asked["background"] = json!(true);
        assert_eq!(proxy.post(&asked).await.status, 400, "{url}");
    }
    assert!(server.requests().is_empty());
    assert!(player.requests().is_empty());
}

/// Promise: A definition of an MCP server that the server cannot use is refused with the path of
/// its field.
#[kit::test]
async fn a_definition_that_cannot_be_used_is_refused() {
    let server = server(Vec::new()).await;
    let player = player(PlayerWire::Chat).await;
    let proxy = proxy(&player, &server).await;
    for (change, param) in [
        (json!({"server_url": null}), "tools[0].server_url"),
        (
            json!({"server_url": "ftp://a.example"}),
            "tools[0].server_url",
        ),
        (
            json!({"connector_id": "connector_gmail"}),
            "tools[0].connector_id",
        ),
        (json!({"server_label": null}), "tools[0].server_label"),
        (json!({"allowed_tools": 1}), "tools[0].allowed_tools"),
        (
            json!({"require_approval": "maybe"}),
            "tools[0].require_approval",
        ),
        (json!({"authorization": 1}), "tools[0].authorization"),
        (json!({"headers": {"Host": "a"}}), "tools[0].headers"),
    ] {
        let mut named = defined("docs", &server);
        for (name, value) in change.as_object().unwrap() {
            named[name] = value.clone();
        }
        let reply = proxy.post(&request("hi", &[named])).await;
        assert_eq!(reply.status, 400, "{change}: {}", reply.body);
        let error = reply.error(400);
        assert_eq!(error["param"], param, "{change}");
    }
    assert!(player.requests().is_empty());
}

/// Promise: A redirect of an MCP server to another server is not followed.
#[kit::test]
async fn a_redirect_is_not_followed() {
    let target = server(vec![tool("look", true)]).await;
    let url = target.url();
    let answer = move |_: &str, _: &Value| {
        let head = format!("HTTP/1.1 307 x\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n");
        Some(McpAnswer::Raw(head))
    };
    let server = McpPlayer::answering(answer).await.unwrap();
    let player = player(PlayerWire::Chat).await;
    let proxy = start(&player, allowing(&[&server, &target])).await;
    player.push(says("Done."));
    let asked = request("hi", &[defined("docs", &server)]);
    let response = proxy.response(&asked).await;
    let list = &response["output"][0];
    assert!(list["error"].as_str().unwrap().contains("307"), "{list}");
    assert!(target.requests().is_empty());
}

/// Promise: `allowed_tools` leaves out all other tools of an MCP server, for the model and for the
/// list that the client sees.
#[kit::test(on_each_wire)]
async fn only_allowed_tools_are_offered(wire: PlayerWire) {
    let tools = vec![tool("look", true), tool("change", false)];
    let server = server(tools).await;
    for (allowed, expected) in [
        (json!(["change"]), "change"),
        (json!({"tool_names": ["look"]}), "look"),
        (json!({"read_only": true}), "look"),
    ] {
        let player = player(wire).await;
        let proxy = proxy(&player, &server).await;
        player.push(says("Done."));
        let mut named = defined("docs", &server);
        named["allowed_tools"] = allowed.clone();
        let response = proxy.response(&request("hi", &[named])).await;
        let sent = player.requests().remove(0);
        assert_eq!(offered(&sent), [format!("docs__{expected}")], "{allowed}");
        let listed = response["output"][0]["tools"].as_array().unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["name"], expected);
    }
}

/// Promise: Two MCP servers may have tools of the same name: each call goes to its own.
#[kit::test(on_each_wire)]
async fn two_servers_have_a_tool_of_the_same_name(wire: PlayerWire) {
    let [docs, code] = ["docs", "code"].map(|label| {
        McpPlayer::start(vec![tool("look", true)], move |_, _| McpAnswer::text(label))
    });
    let (docs, code) = (docs.await.unwrap(), code.await.unwrap());
    let player = player(wire).await;
    let proxy = start(&player, allowing(&[&docs, &code])).await;
    let part = json!({"q": "x"});
    player.push(answer(json!([
        call("c1", "code__look", &part),
        call("c2", "docs__look", &part)
    ])));
    player.push(says("Done."));
    let servers = [defined("docs", &docs), defined("code", &code)];
    let response = proxy.stream(&request("hi", &servers)).await.response;
    let expected = [
        "mcp_list_tools",
        "mcp_list_tools",
        "mcp_call",
        "mcp_call",
        "message",
    ];
    assert_eq!(kinds(&response), expected);
    let output = &response["output"];
    for (at, label) in [(2, "code"), (3, "docs")] {
        assert_eq!(output[at]["server_label"], label);
        assert_eq!(output[at]["name"], "look");
        assert_eq!(output[at]["output"], label);
    }
    assert_eq!([docs.calls().len(), code.calls().len()], [1, 1]);
}

/// Promise: An MCP server that cannot be asked for its tools is shown with its error, and the
/// answer goes on without it.
#[kit::test(on_each_wire)]
async fn a_server_that_fails_is_shown_and_left_out(wire: PlayerWire) {
    for client in McpClient::ALL {
        let works = server(vec![tool("look", true)]).await;
        let fails = McpPlayer::answering(|_, _| Some(McpAnswer::Status(503)));
        let fails = fails.await.unwrap();
        let player = player(wire).await;
        let proxy = start(&player, allowing(&[&works, &fails])).await;
        player.push(says("Done."));
        let servers = [defined("bad", &fails), defined("docs", &works)];
        let response = client.ask(&proxy, &request("hi", &servers)).await;
        assert_eq!(response["status"], "completed", "{client:?}");
        let expected = ["mcp_list_tools", "mcp_list_tools", "message"];
        assert_eq!(kinds(&response), expected);
        let [bad, good] = [0, 1].map(|at| &response["output"][at]);
        assert!(bad["error"].as_str().unwrap().contains("503"), "{bad}");
        assert_eq!(bad["tools"], json!([]));
        assert_eq!(good["error"], json!(null));
        let sent = player.requests().remove(0);
        assert_eq!(offered(&sent), ["docs__look"]);
        let told = instructions(&sent);
        assert!(
            told.contains("These MCP servers cannot be used now: bad."),
            "{told}"
        );
    }
}

/// Promise: A provider that connects to MCP servers itself gets the request as it is, with what it
/// needs to do so.
#[kit::test]
async fn a_provider_that_connects_itself_gets_the_servers() {
    let server = server(vec![tool("look", true)]).await;
    let player = player(PlayerWire::Responses).await;
    let proxy = crate::proxy::Proxy::start_with(&player, allowing(&[&server])).await;
    player.push(says("Done."));
    let mut named = defined("docs", &server);
    named["authorization"] = json!("token-of-the-client");
    let response = proxy.response(&request("hi", &[named.clone()])).await;
    assert_eq!(kinds(&response), ["message"]);
    assert_eq!(player.requests()[0].json()["tools"], json!([named]));
    assert!(server.requests().is_empty());
}
