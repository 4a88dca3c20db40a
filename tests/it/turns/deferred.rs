//! Turns with tools that a search finds: their calls have a namespace, and where the client leaves
//! the search to the server, the items of the search come before the first call.
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::rows::tool;
use super::{TurnCase, summarize_output, turn_case};
use crate::faults::{answer, player};
use crate::proxy::Proxy;

fn deferred(name: &str) -> Value {
    let mut tool = tool(name);
    tool["defer_loading"] = true.into();
    tool
}

fn search() -> Value {
    json!({"type": "tool_search"})
}

fn call(id: &str, name: &str) -> Value {
    json!({"call": {"id": id, "name": name, "arguments": "{\"n\":1}", "pieces": 3}})
}

/// The items of a search that finds these definitions.
fn found(path: &str, tools: &Value) -> [Value; 2] {
    [
        json!(["tool_search_call", null, {"paths": [path]}]),
        json!(["tool_search_output", null, tools]),
    ]
}

/// A call of a function in a namespace.
fn called(id: &str, namespace: &str, name: &str) -> Value {
    json!(["function_call", id, namespace, name, "{\"n\":1}"])
}

fn output(parts: impl IntoIterator<Item = Vec<Value>>) -> Value {
    parts.into_iter().flatten().collect()
}

pub fn deferred_tools() -> Vec<TurnCase> {
    let crm = json!({"type": "namespace", "name": "crm", "description": "Customers.", "tools": [
        tool("ping"), deferred("find"), deferred("tickets"),
    ]});
    let mut crm_found = crm.clone();
    crm_found["tools"] = json!([deferred("find"), deferred("tickets")]);
    let mixed = json!({"tools": [deferred("eta"), deferred("price"), tool("look"), crm, search()]});
    let eta = || found("eta", &json!([deferred("eta")])).to_vec();
    let price = || found("price", &json!([deferred("price")])).to_vec();
    let of_crm = || found("crm", &json!([crm_found])).to_vec();
    let user = json!({"role": "user", "content": "go"});
    let earlier_search = |execution: &str, id: Value| {
        json!([
            user,
            {"type": "tool_search_call", "execution": execution, "call_id": id, "status": "completed", "arguments": {"paths": ["eta"]}},
            {"type": "tool_search_output", "execution": execution, "call_id": id, "status": "completed", "tools": [deferred("eta")]},
            {"type": "function_call", "call_id": "c0", "name": "eta", "namespace": "eta", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c0", "output": "soon"},
            user,
        ])
    };
    vec![
        turn_case(
            "a deferred function is found and called in its own namespace",
            mixed.clone(),
            json!([call("c1", "eta")]),
            output([eta(), vec![called("c1", "eta", "eta")]]),
        ),
        turn_case(
            "reasoning and text come before the search",
            mixed.clone(),
            json!([{"reasoning": "so"}, {"text": "I look."}, call("c1", "price")]),
            output([
                vec![
                    json!(["reasoning", "so"]),
                    json!(["message", "commentary", "I look."]),
                ],
                price(),
                vec![called("c1", "price", "price")],
            ]),
        ),
        turn_case(
            "each deferred tool is found once, before its first call",
            mixed.clone(),
            json!([
                call("c1", "eta"),
                call("c2", "crm__tickets"),
                call("c3", "eta"),
                call("c4", "crm__find"),
            ]),
            output([
                eta(),
                vec![called("c1", "eta", "eta")],
                of_crm(),
                vec![
                    called("c2", "crm", "tickets"),
                    called("c3", "eta", "eta"),
                    called("c4", "crm", "find"),
                ],
            ]),
        ),
        turn_case(
            "what is not deferred is not searched for",
            mixed.clone(),
            json!([call("c1", "look"), call("c2", "crm__ping")]),
            json!([
                ["function_call", "c1", "look", "{\"n\":1}"],
                called("c2", "crm", "ping")
            ]),
        ),
        turn_case(
            "what a search of the history found is not found again",
            json!({"tools": mixed["tools"], "input": earlier_search("server", Value::Null)}),
            json!([call("c1", "eta"), call("c2", "price")]),
            output([
                vec![called("c1", "eta", "eta")],
                price(),
                vec![called("c2", "price", "price")],
            ]),
        ),
        turn_case(
            "the client may have searched before",
            json!({"tools": mixed["tools"], "input": earlier_search("client", json!("s1"))}),
            json!([call("c1", "eta")]),
            json!([called("c1", "eta", "eta")]),
        ),
        turn_case(
            "a client that searches gets the namespace alone",
            json!({"tools": [{"type": "tool_search", "execution": "client"}], "input": earlier_search("client", json!("s1"))}),
            json!([call("c1", "eta")]),
            json!([called("c1", "eta", "eta")]),
        ),
        turn_case(
            "a deferred function without a search is called in its own namespace",
            json!({"tools": [deferred("eta"), tool("look")]}),
            json!([call("c1", "eta"), call("c2", "look")]),
            json!([
                called("c1", "eta", "eta"),
                ["function_call", "c2", "look", "{\"n\":1}"]
            ]),
        ),
        turn_case(
            "a forced search may call what it finds",
            json!({"tools": mixed["tools"], "tool_choice": {"type": "tool_search"}}),
            json!([call("c1", "eta")]),
            output([eta(), vec![called("c1", "eta", "eta")]]),
        ),
    ]
}

/// Promise: A function that was deferred or found by a search is called with its namespace, which
/// is its own name where it has none, on each wire and whoever runs the search. A search that the
/// client leaves to the server comes as `tool_search_call` and `tool_search_output` before the
/// first call of a deferred tool, and is not repeated for what the history has found.
///
/// What was found stays found, and offered, in the responses that continue the answer.
#[kit::test(on_each_wire)]
async fn what_a_search_has_found_stays_found_in_a_stored_history(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    let mut last = Value::Null;
    let mut turn = async |tools: Value, input: Value, steps: Value| -> Value {
        player.push(answer(steps));
        let body =
            json!({"model": "m", "tools": tools, "input": input, "previous_response_id": last});
        let response = proxy.response(&body).await;
        last = response["id"].clone();
        summarize_output(&response)
    };
    let result =
        |id: &str| json!([{"type": "function_call_output", "call_id": id, "output": "soon"}]);
    let tools = json!([deferred("eta"), search()]);
    let first = turn(tools.clone(), json!("go"), json!([call("c1", "eta")])).await;
    assert_eq!(first.as_array().unwrap().len(), 3, "{first}");
    let again = turn(tools, result("c1"), json!([call("c2", "eta")])).await;
    assert_eq!(again, json!([called("c2", "eta", "eta")]));
    // The same with a client that searches.
    let tools = json!([{"type": "tool_search", "execution": "client"}]);
    turn(
        tools.clone(),
        result("c2"),
        json!([call("s1", "tool_search")]),
    )
    .await;
    let found = json!([{"type": "tool_search_output", "call_id": "s1", "execution": "client", "tools": [deferred("price")]}]);
    for (input, id) in [(found, "c3"), (result("c3"), "c4")] {
        let output = turn(tools.clone(), input, json!([call(id, "price")])).await;
        assert_eq!(output, json!([called(id, "price", "price")]));
    }
}
