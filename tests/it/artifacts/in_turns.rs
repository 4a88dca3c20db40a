//! Models read artifacts within a turn, for clients without the MCP server that has these tools.
use adapters::plan::output::artifact_id;
use kit::player::{Player, PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::history;
use crate::rounds::table::types;
use crate::stored::says;
use crate::web_search::web::call;

pub const READ: &str = "artifact_read";
pub const SEARCH: &str = "artifact_search";
pub const LIST: &str = "artifact_list";

/// An output that is too long for any request. `topic` tells it from others.
pub fn log_of(topic: &str) -> String {
    let lines = (0..9_000).map(|number| format!("{topic} line {number}\n"));
    lines.collect()
}

/// The history of a session whose tool has returned this.
pub fn items(output: &str) -> Vec<Value> {
    vec![
        json!({"role": "user", "content": "What does the log say?"}),
        json!({"type": "function_call", "call_id": "c0", "name": "shell", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c0", "output": output}),
    ]
}

pub fn shell() -> Value {
    json!({"type": "function", "name": "shell", "parameters": {"type": "object"}})
}

/// A request of a client with the tool `shell` alone.
pub fn request(items: &[Value]) -> Value {
    json!({
        "model": "up/m", "input": items, "prompt_cache_key": "s", "tools": [shell()],
    })
}

pub async fn proxy(player: &Player) -> Proxy {
    Proxy::start_with(player, Setup::new()).await
}

/// The names of the functions that a request offers.
pub fn offered(sent: &RecordedRequest) -> Vec<String> {
    let sent = sent.json();
    let tools = sent["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| {
        tool["function"]["name"]
            .as_str()
            .or(tool["name"].as_str())
            .map(str::to_owned)
    };
    tools.filter_map(name).collect()
}

/// The result of the call with this id, as the model gets it.
pub fn result(sent: &RecordedRequest, id: &str) -> String {
    let history = history(sent);
    let items = history.as_array().unwrap().iter();
    let mut results = items.filter_map(|item| {
        let is_it = item["tool_call_id"] == id
            || (item["call_id"] == id && item["type"] == "function_call_output");
        let text = item["content"].as_str().or(item["output"].as_str());
        text.filter(|_| is_it).map(str::to_owned)
    });
    results.next().unwrap_or_default()
}

/// Promise: A model that sees an excerpt can read the artifact within the turn, with tools that the
/// server runs. The client need not know them: it gets an `mcp_call` item and the answer.
#[kit::test(on_each_wire)]
async fn a_model_reads_an_artifact_in_its_turn(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    let log = log_of("disk");
    let id = artifact_id(&log);
    let part = json!({"id": id, "from_line": 5_001, "lines": 2});
    player.push(answer(
        json!([{"text": "I look."}, call("c1", READ, &part)]),
    ));
    player.push(answer(json!([{"text": "Line 5000 is there."}])));
    let stream = proxy.stream(&request(&items(&log))).await;
    assert_eq!(types(&stream.response), "message mcp_call message");
    let output = stream.response["output"].as_array().unwrap();
    let shown = &output[1];
    assert_eq!(shown["server_label"], "respondent", "{shown}");
    assert_eq!(
        [&shown["name"], &shown["status"]],
        [READ, "completed"],
        "{shown}"
    );
    assert_eq!(output[2]["content"][0]["text"], "Line 5000 is there.");
    let sent = player.requests();
    assert_eq!(sent.len(), 2);
    assert!(sent[0].body.contains(&format!("artifact: {id}")));
    for sent in &sent {
        assert_eq!(offered(sent), ["shell", READ, SEARCH, LIST]);
    }
    let read = result(&sent[1], "c1");
    let (heading, text) = read.split_once('\n').unwrap();
    assert!(heading.starts_with(&format!("[artifact {id} lines 5001-5002 of 9000, ")));
    let more = "[There is more: read on with from_line 5003.]";
    assert_eq!(text, format!("disk line 5000\ndisk line 5001\n{more}"));
    assert_eq!(shown["output"], read, "{shown}");
}

/// Promise: A request that names no artifact is sent as if there were no tools to read them, byte
/// for byte, and so is any request with `artifacts = false` in `[tools]`.
#[kit::test(on_each_wire)]
async fn nothing_is_offered_without_an_artifact(wire: PlayerWire) {
    let off = Setup::new().tables("[tools]\nartifacts = false");
    let short = items("nothing");
    let long = items(&log_of("disk"));
    let mut sent = Vec::new();
    for (setup, items) in [(Setup::new(), &short), (off.clone(), &short), (off, &long)] {
        let player = player(wire).await;
        let proxy = Proxy::start_with(&player, setup).await;
        // A call of a tool that was not offered is the client's, as it was.
        player.push(answer(json!([call("c1", READ, &json!({"id": "art_1"}))])));
        let response = proxy.stream(&request(items)).await.response;
        let output = &response["output"][0];
        assert_eq!([&output["type"], &output["name"]], ["function_call", READ]);
        sent.push(player.requests().remove(0));
    }
    assert_eq!(sent[0].body, sent[1].body);
    assert!(sent[2].body.contains("artifact: art_"));
    assert_eq!(offered(&sent[2]), ["shell"]);
}

/// Promise: A client that has tools to read artifacts itself, such as those of the server's own MCP
/// server, keeps them: the server offers none. Nor does it if the client forbids calls.
#[kit::test(on_each_wire)]
async fn the_tools_of_the_client_win(wire: PlayerWire) {
    let function =
        |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let namespace = json!({
        "type": "namespace", "name": "mcp__respondent", "description": "Artifacts.",
        "tools": [function(SEARCH)],
    });
    let log = log_of("disk");
    // The last row has no such tool of the client.
    for (tools, choice, expected) in [
        (json!([shell(), function(READ)]), "auto", 1),
        (
            json!([shell(), function("mcp__respondent__artifact_list")]),
            "auto",
            0,
        ),
        (json!([shell(), namespace]), "auto", 0),
        (json!([shell()]), "none", 0),
        (json!([shell(), function("my_artifact_read")]), "auto", 3),
    ] {
        let player = player(wire).await;
        let proxy = proxy(&player).await;
        player.push(says("Done."));
        let mut asked = request(&items(&log));
        asked["tools"] = tools;
        asked["tool_choice"] = json!(choice);
        proxy.response(&asked).await;
        let mut names = offered(&player.requests()[0]);
        let all = names.clone();
        names.retain(|name| [READ, SEARCH, LIST].contains(&name.as_str()));
        assert_eq!(
            names.len(),
            expected,
            "{}, {choice}: {all:?}",
            asked["tools"]
        );
    }
}

/// A client's own tool is called although the server has one of its name.
#[kit::test(on_each_wire)]
async fn a_tool_of_the_client_with_the_same_name_is_the_clients(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    player.push(answer(json!([call("c1", READ, &json!({"id": "x"}))])));
    let mut asked = request(&items(&log_of("disk")));
    asked["tools"] = json!([{"type": "function", "name": READ, "parameters": {"type": "object"}}]);
    let response = proxy.stream(&asked).await.response;
    assert_eq!(response["output"][0]["type"], "function_call", "{response}");
    assert_eq!(player.requests().len(), 1);
}

/// Promise: A call that the client demands (`tool_choice`) is demanded until the model has made it:
/// reading an artifact does not count. Where the client allows some tools only, the model cannot
/// read.
#[kit::test(on_each_wire)]
async fn the_choice_of_the_client_holds(wire: PlayerWire) {
    let log = log_of("disk");
    let named = json!({"type": "function", "name": "shell"});
    for choice in [json!("required"), named] {
        let player = player(wire).await;
        let proxy = proxy(&player).await;
        let part = json!({"id": artifact_id(&log), "lines": 2});
        player.push(answer(json!([call("c1", READ, &part)])));
        player.push(answer(json!([call("c2", "shell", &json!({}))])));
        let mut asked = request(&items(&log));
        asked["tool_choice"] = choice.clone();
        let response = proxy.stream(&asked).await.response;
        assert_eq!(types(&response), "mcp_call function_call", "{choice}");
        let sent = player.requests();
        let choices: Vec<Value> = sent
            .iter()
            .map(|it| it.json()["tool_choice"].clone())
            .collect();
        assert!(!choices[0].is_null(), "{choice}");
        assert_eq!(choices[0], choices[1], "{choice}");
    }
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    player.push(says("Done."));
    let mut asked = request(&items(&log));
    asked["tool_choice"] = json!({
        "type": "allowed_tools", "mode": "auto",
        "tools": [{"type": "function", "name": "shell"}],
    });
    proxy.response(&asked).await;
    let sent = player.requests().remove(0);
    match wire {
        PlayerWire::Chat => assert_eq!(offered(&sent), ["shell"]),
        // The list stays as it is for the cache, and the choice says what may be called.
        PlayerWire::Responses => assert_eq!(sent.json()["tool_choice"], asked["tool_choice"]),
    }
}
