//! Models read artifacts within a turn, for clients without the MCP server that has these tools.
use adapters::plan::output::artifact_id;
use kit::player::{Player, PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use crate::bundles::run;
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::history;
use crate::stored::{asks, client, says, send};
use crate::web_search::web::call;

const READ: &str = "artifact_read";
const SEARCH: &str = "artifact_search";
const LIST: &str = "artifact_list";

/// An output that is too long for any request. `topic` tells it from others.
fn log_of(topic: &str) -> String {
    let lines = (0..9_000).map(|number| format!("{topic} line {number}\n"));
    lines.collect()
}

/// The history of a session whose tool has returned this.
fn items(output: &str) -> Vec<Value> {
    vec![
        json!({"role": "user", "content": "What does the log say?"}),
        json!({"type": "function_call", "call_id": "c0", "name": "shell", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c0", "output": output}),
    ]
}

fn shell() -> Value {
    json!({"type": "function", "name": "shell", "parameters": {"type": "object"}})
}

/// A request of a client with the tool `shell` alone.
fn request(items: &[Value]) -> Value {
    json!({
        "model": "up/m", "input": items, "prompt_cache_key": "s", "tools": [shell()],
    })
}

async fn proxy(player: &Player) -> Proxy {
    Proxy::start_with(player, Setup::new()).await
}

/// The names of the functions that a request offers.
fn offered(sent: &RecordedRequest) -> Vec<String> {
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
fn result(sent: &RecordedRequest, id: &str) -> String {
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
    let output = stream.response["output"].as_array().unwrap().clone();
    let kinds: Vec<&str> = output
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["message", "mcp_call", "message"], "{output:?}");
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
    let expected = format!(
        "[artifact {id} lines 5001-5002 of 9000, bytes 84890-84923 of 156890]\ndisk line 5000\ndisk line 5001\n[There is more: read on with from_line 5003.]"
    );
    assert!(
        read.contains("\ndisk line 5000\ndisk line 5001\n["),
        "{read}"
    );
    assert_eq!(read.lines().count(), expected.lines().count(), "{read}");
    assert_eq!(shown["output"], read, "{shown}");
}
