//! A model searches for the tools that the client defers.
use std::fs;
use std::path::Path;

use adapters::token_count::text_tokens;
use kit::mcp::{McpAnswer, McpPlayer};
use kit::player::{PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use super::{McpClient, allowing, kinds, request, start};
use crate::artifacts::in_turns::{offered, result};
use crate::faults::{answer, player};
use crate::web_search::web::call;

/// Ten servers with 120 tools, which list them as `label`, `description` and `tools`.
fn servers() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tool-search/servers.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

async fn start_servers() -> Vec<McpPlayer> {
    let mut started = Vec::new();
    for server in servers() {
        let tools = server["tools"].as_array().unwrap().clone();
        let player = McpPlayer::start(tools, |name, arguments| {
            McpAnswer::text(&format!("{name} {arguments}"))
        });
        started.push(player.await.unwrap());
    }
    started
}

/// The definitions of these servers.
fn defined(players: &[McpPlayer], is_deferred: bool) -> Vec<Value> {
    let servers = servers();
    let definition = |(server, player): (&Value, &McpPlayer)| {
        json!({
            "type": "mcp", "server_label": server["label"], "server_url": player.url(),
            "server_description": server["description"], "require_approval": "never",
            "defer_loading": is_deferred,
        })
    };
    servers.iter().zip(players).map(definition).collect()
}

fn search() -> Value {
    json!({"type": "tool_search"})
}

/// The tools of the files server as functions of the client in a namespace.
fn namespace() -> Value {
    let server = &servers()[0];
    let tools = server["tools"].as_array().unwrap().iter();
    let tools: Vec<Value> = tools
        .map(|tool| {
            json!({
                "type": "function", "name": tool["name"], "description": tool["description"],
                "parameters": tool["inputSchema"], "strict": false, "defer_loading": true,
            })
        })
        .collect();
    json!({
        "type": "namespace", "name": server["label"], "description": server["description"],
        "tools": tools,
    })
}

fn find(id: &str, query: &str) -> Value {
    call(id, "tool_search", &json!({"query": query, "limit": 3}))
}

fn tokens_of_tools(sent: &RecordedRequest) -> u64 {
    text_tokens(&sent.json()["tools"].to_string())
}

/// Promise: With `defer_loading` and the tool `tool_search`, a model of any provider gets one
/// function, which finds the tools of MCP servers by what they do, and then those that it has
/// found. The client sees the search and the call, in the foreground, in the background and over
/// WebSocket. With ten servers and 120 tools the first request to the model has less than three
/// tenths of the tokens for its tools.
#[kit::test(on_each_wire)]
async fn a_model_finds_tools_of_mcp_servers(wire: PlayerWire) {
    let servers = start_servers().await;
    let allowed: Vec<&McpPlayer> = servers.iter().collect();
    let player = player(wire).await;
    let proxy = start(&player, allowing(&allowed)).await;
    player.push(answer(json!([{"text": "Hello."}])));
    proxy
        .response(&request("Hello", &defined(&servers, false)))
        .await;
    let all = player.requests().pop().unwrap();
    assert_eq!(offered(&all).len(), 120);
    let mut tools = defined(&servers, true);
    tools.push(search());
    let part = json!({"path": "tmp", "recursive": true});
    for client in McpClient::ALL {
        player.push(answer(json!([find("c1", "remove a directory")])));
        player.push(answer(json!([call("c2", "files__delete_path", &part)])));
        player.push(answer(json!([{"text": "Gone."}])));
        let before = player.requests().len();
        let response = client.ask(&proxy, &request("Clear tmp.", &tools)).await;
        assert_eq!(response["status"], "completed", "{client:?} {response}");
        let kinds = kinds(&response);
        assert!(kinds[..10].iter().all(|kind| *kind == "mcp_list_tools"));
        let expected = [
            "tool_search_call",
            "tool_search_output",
            "mcp_call",
            "message",
        ];
        assert_eq!(kinds[10..], expected, "{client:?}");
        let [search, found] = [10, 11].map(|place| &response["output"][place]);
        for item in [search, found] {
            assert_eq!(item["execution"], "server");
            assert_eq!(item["call_id"], Value::Null);
        }
        let of_files = found["tools"].as_array().unwrap().iter();
        let of_files = of_files.filter(|tool| tool["server_label"] == "files");
        let names: Vec<&Value> = of_files.map(|tool| &tool["allowed_tools"]).collect();
        assert!(names[0].as_array().unwrap().contains(&json!("delete_path")));
        let paths = search["arguments"]["paths"].as_array().unwrap();
        assert!(paths.contains(&json!("files")), "{search}");
        let sent = player.requests().split_off(before);
        assert_eq!(offered(&sent[0]), ["tool_search"], "{client:?}");
        assert!(sent[0].body.contains("delete_path"), "{}", sent[0].body);
        let (few, many) = (tokens_of_tools(&sent[0]), tokens_of_tools(&all));
        assert!(few * 10 < many * 3, "{few} of {many}");
        let found = offered(&sent[1]);
        assert_eq!((found.len(), found[0].as_str()), (4, "tool_search"));
        assert!(
            found.contains(&"files__delete_path".to_owned()),
            "{found:?}"
        );
        assert!(result(&sent[1], "c1").contains("files__delete_path"));
        assert_eq!(offered(&sent[2]), found, "{client:?}");
    }
    let called = servers[0].calls();
    assert_eq!(called.len(), McpClient::ALL.len());
    assert_eq!(called[0], json!({"name": "delete_path", "arguments": part}));
}

/// Promise: Deferred functions of the client are found in the same way; the client gets their calls
/// behind the search. What was found stays offered in later requests, behind what was found before
/// it, whether the client sends the items of the search back, leaves them out, or continues a
/// stored response.
#[kit::test(on_each_wire)]
async fn what_a_model_has_found_stays_offered(wire: PlayerWire) {
    let tools = json!([namespace(), search()]);
    let ask = |input: Value| json!({"model": "up/m", "prompt_cache_key": "s", "tools": tools, "input": input});
    for keeps in ["items", "calls", "response"] {
        let player = player(wire).await;
        let proxy = start(&player, allowing(&[])).await;
        player.push(answer(json!([find("c1", "remove a directory")])));
        let part = json!({"path": "tmp"});
        player.push(answer(json!([call("c2", "files__delete_path", &part)])));
        let first = proxy.response(&ask(json!("Clear tmp."))).await;
        let expected = ["tool_search_call", "tool_search_output", "function_call"];
        assert_eq!(kinds(&first), expected, "{keeps} {first}");
        let called = &first["output"][2];
        assert_eq!(
            [&called["namespace"], &called["name"]],
            ["files", "delete_path"]
        );
        let output = json!({"type": "function_call_output", "call_id": "c2", "output": "gone"});
        let user = json!({"role": "user", "content": "Clear tmp."});
        let items = first["output"].as_array().unwrap();
        let body = match keeps {
            "items" => {
                let input = [vec![user], items.clone(), vec![output]].concat();
                ask(input.into())
            }
            "calls" => ask(json!([user, items[2], output])),
            _ => {
                let mut body = ask(json!([output]));
                body["previous_response_id"] = first["id"].clone();
                body
            }
        };
        player.push(answer(json!([find("c3", "read a file")])));
        player.push(answer(json!([{"text": "Done."}])));
        let second = proxy.response(&body).await;
        let expected = ["tool_search_call", "tool_search_output", "message"];
        assert_eq!(kinds(&second), expected, "{keeps} {second}");
        let sent = player.requests();
        let lists: Vec<Vec<String>> = sent.iter().map(offered).collect();
        assert_eq!(lists[0], ["tool_search"], "{keeps}");
        assert_eq!(lists[1].len(), 4, "{keeps}");
        assert_eq!(lists[2], lists[1], "{keeps}");
        assert!(lists[3].starts_with(&lists[2]), "{keeps} {lists:?}");
        assert!(lists[3].len() > lists[2].len(), "{keeps} {lists:?}");
        assert!(
            lists[3].contains(&"files__read_text".to_owned()),
            "{lists:?}"
        );
        assert_eq!(result(&sent[3], "c2"), "gone");
        assert!(
            result(&sent[3], "c1").contains("files__delete_path"),
            "{keeps}"
        );
    }
}

/// Promise: Tools that the client defers are offered at once where a search would cost more than
/// it saves, and one that the client makes the model call is offered in any case. A client's own
/// function keeps the name of the search. A search that finds nothing says so, and the model is
/// told what can be found.
#[kit::test(on_each_wire)]
async fn a_search_is_offered_where_it_is_worth_one(wire: PlayerWire) {
    let mut few = namespace();
    few["tools"].as_array_mut().unwrap().truncate(2);
    let own = json!({"type": "function", "name": "tool_search", "parameters": {}});
    let forced = json!({"type": "function", "name": "delete_path", "namespace": "files"});
    let some = few["tools"].as_array().unwrap().iter();
    let some: Vec<String> = some
        .map(|tool| format!("files__{}", tool["name"].as_str().unwrap()))
        .collect();
    let some: Vec<&str> = some.iter().map(String::as_str).collect();
    for (tools, choice, expected) in [
        (json!([few, search()]), json!("auto"), some),
        (
            json!([namespace(), search()]),
            json!("auto"),
            vec!["tool_search"],
        ),
        (
            json!([namespace(), search()]),
            forced,
            vec!["tool_search", "files__delete_path"],
        ),
        (
            json!([own, namespace(), search()]),
            json!("required"),
            vec!["tool_search", "hosted_tool_search"],
        ),
        (
            json!([namespace(), search()]),
            json!({"type": "tool_search"}),
            vec!["tool_search"],
        ),
    ] {
        let player = player(wire).await;
        let proxy = start(&player, allowing(&[])).await;
        let name = expected.iter().rfind(|name| name.ends_with("tool_search"));
        let name = name.copied().unwrap_or_default();
        if !name.is_empty() {
            player.push(answer(json!([call(
                "c1",
                name,
                &json!({"query": "xyzzy"})
            )])));
        }
        player.push(answer(json!([{"text": "Done."}])));
        let mut body = request("go", &[]);
        body["tools"] = tools;
        body["tool_choice"] = choice.clone();
        let response = proxy.response(&body).await;
        assert_eq!(response["status"], "completed", "{response}");
        let sent = player.requests();
        assert_eq!(offered(&sent[0]), expected, "{choice}");
        let Some(second) = sent.get(1) else { continue };
        assert_eq!(response["output"][1]["tools"], json!([]), "{response}");
        assert!(result(second, "c1").starts_with("No tool fits."));
        // A search is not the call that the client asks for, unless it asks for a search.
        let choices = sent.iter().map(|sent| sent.json()["tool_choice"].clone());
        let choices: Vec<Value> = choices.collect();
        match choice.as_str() {
            Some("required") => assert_eq!(choices, ["required", "required"]),
            None if choice["type"] == "tool_search" => {
                assert_ne!(choices[0], choices[1], "{choices:?}");
                assert!(
                    choices[0].to_string().contains("\"tool_search\""),
                    "{choices:?}"
                );
            }
            _ => {}
        }
    }
}
