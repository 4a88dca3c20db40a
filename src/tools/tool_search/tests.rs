use std::fs;
use std::path::Path;

use adapters::responses::request::TurnSource;
use serde::Deserialize;
use serde_json::Value;

use super::*;

/// A request, and the tool that does what it asks for.
#[derive(Deserialize)]
struct Wanted {
    request: String,
    server: String,
    tool: String,
}

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tool-search");
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

/// The 120 tools of ten servers, deferred as functions in namespaces.
fn deferred_tools() -> (DeferredTools, String) {
    let servers: Vec<Value> = read("servers.json");
    let namespaces = servers.iter().map(|server| {
        let tools = server["tools"].as_array().unwrap().iter();
        let tools = tools.map(|tool| {
            json!({
                "type": "function", "name": tool["name"], "description": tool["description"],
                "parameters": tool["inputSchema"], "defer_loading": true,
            })
        });
        let tools: Value = tools.collect();
        json!({
            "type": "namespace", "name": server["label"],
            "description": server["description"], "tools": tools,
        })
    });
    let tools: Value = namespaces.chain([json!({"type": "tool_search"})]).collect();
    let body = json!({"model": "m", "input": "x", "tools": tools}).to_string();
    let source = TurnSource::new(body).with_proxy_tools(vec![function()]);
    let turn = source.turn().unwrap();
    let mut functions = turn.tools.iter();
    let search = functions.find(|tool| tool.wire_name == NAME).unwrap();
    let description = search.description.as_ref().unwrap().decoded();
    let tools = turn.tools.searchable_tools().unwrap();
    (tools, description.into_owned())
}

fn found(index: &ToolIndex, tools: &DeferredTools, query: &str, wanted: &Wanted) -> bool {
    let found = index.search(query, USUAL_RESULTS).unwrap();
    let mut found = found.iter().map(|place| &tools.tools[*place]);
    found.any(|tool| tool.source.as_deref() == Some(&wanted.server) && tool.name == wanted.tool)
}

/// Promise: Of each of two sets of 60 requests for one of 120 tools, at least 54 find it with the
/// first search. All find it with two, because the model knows the names of the tools.
#[test]
fn requests_find_their_tools() {
    let (tools, description) = deferred_tools();
    assert_eq!(tools.tools.len(), 120);
    let index = ToolIndex::new(&tools.tools).unwrap();
    for file in ["requests.json", "more-requests.json"] {
        let all: Vec<Wanted> = read(file);
        let missed = all
            .iter()
            .filter(|wanted| !found(&index, &tools, &wanted.request, wanted));
        let missed: Vec<&Wanted> = missed.collect();
        let requests: Vec<&str> = missed.iter().map(|it| it.request.as_str()).collect();
        assert_eq!(all.len(), 60);
        assert!(all.len() - missed.len() >= 54, "{file} {requests:#?}");
        for wanted in missed {
            assert!(description.contains(&wanted.tool), "{}", wanted.tool);
            assert!(
                found(&index, &tools, &wanted.tool, wanted),
                "{}",
                wanted.tool
            );
        }
    }
}

/// Promise: A search for tools takes any query: none is an error, and none finds more tools than
/// the model asks for, which is 20 at most.
#[test]
fn any_query_is_searched_for() {
    let (tools, _) = deferred_tools();
    let turn = ToolSearchTurn {
        tools,
        index: Mutex::default(),
    };
    let long = "find ".repeat(9_000);
    for (query, limit, most) in [
        ("", 0, 0),
        ("\"'*()^:AND OR NOT NEAR", 0, 15),
        ("name: file* -x", 3, 3),
        (long.as_str(), 99, 20),
        ("文件", 5, 5),
    ] {
        let arguments = json!({"query": query, "limit": limit}).to_string();
        let result = turn.search(&arguments);
        assert!(!result.failed, "{query} {}", result.text);
        let lines = result.text.lines().filter(|line| line.starts_with("- "));
        assert!(lines.count() <= most, "{query} {}", result.text);
    }
    let mistaken = turn.search("{}");
    assert!(mistaken.failed, "{}", mistaken.text);
}
