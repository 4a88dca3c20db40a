//! What the model has found and read for earlier answers of the conversation.
use kit::player::PlayerWire;
use respondent::artifacts::Artifacts;
use respondent::tools::live::CallLimits;
use serde_json::{Value, json};

use super::web::{LONG, MOVED, TestWeb, WEATHER, call, question, request, without_hosted_tools};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer, history};

/// The request that follows a response: all of its items, the outputs of its calls, and this.
fn next(asked: &Value, response: &Value, text: &str) -> Value {
    let mut items = asked["input"].as_array().unwrap().clone();
    let output = response["output"].as_array().unwrap();
    items.extend(output.iter().cloned());
    for item in output.iter().filter(|item| item["type"] == "function_call") {
        items.push(
            json!({"type": "function_call_output", "call_id": item["call_id"], "output": "done"}),
        );
    }
    if !text.is_empty() {
        items.push(json!({"role": "user", "content": text}));
    }
    request(&json!(items))
}

/// The annotations of the last item of a response.
fn annotations(response: &Value) -> Vec<Value> {
    let message = response["output"].as_array().unwrap().last().unwrap();
    let annotations = message["content"][0]["annotations"].as_array();
    annotations.unwrap().clone()
}

/// Promise: A page that an earlier answer of the conversation has read is read from its artifact
/// for an hour, under the address that was asked for and the one to which it has led, and cited
/// under either. Where the client allows no access to the web, it is all that can be read.
#[kit::test(on_each_wire)]
async fn pages_of_earlier_answers_are_read_from_their_artifacts(wire: PlayerWire) {
    let player = player(wire).await;
    let web = TestWeb::new();
    let server = RoundServer::with_tools(
        &[&player],
        web.tool_keeping(Artifacts::memory(1 << 20)),
        without_hosted_tools(wire),
    );
    let open = |id: &str, url: &str| call(id, "open_page", &json!({"url": url}));
    player.push(answer(json!([open("c1", MOVED)])));
    player.push(answer(json!([{"text": format!("It is [warm]({MOVED}).")}])));
    let first = request(&question());
    let response = server.answer(&first, RoundClient::Streaming).await;
    assert_eq!(web.take_asked(), [format!("open {MOVED}")]);
    let cited = annotations(&response);
    assert_eq!(cited.len(), 1, "{response}");
    assert_eq!(cited[0]["url"], MOVED);
    server.check_replay();

    let find = json!({"url": MOVED, "pattern": "tomorrow"});
    player.push(answer(json!([
        open("c2", WEATHER),
        call("c3", "find_in_page", &find)
    ])));
    player.push(answer(json!([{"text": format!("[It rains]({WEATHER}).")}])));
    let second = next(&first, &response, "And tomorrow?");
    let response = server.answer(&second, RoundClient::Streaming).await;
    assert!(web.take_asked().is_empty(), "the page was read again");
    let cited = annotations(&response);
    assert_eq!(cited[0]["title"], "Weather in Ulm", "{response}");
    let told = history(player.requests().last().unwrap()).to_string();
    assert_eq!(told.matches("It is 21 degrees in Ulm").count(), 3, "{told}");
    server.check_replay();

    player.push(answer(json!([open("c4", WEATHER), open("c5", LONG)])));
    player.push(answer(json!([{"text": "Done."}])));
    let mut third = next(&second, &response, "Without the web?");
    third["tools"][0]["external_web_access"] = json!(false);
    let response = server.answer(&third, RoundClient::Streaming).await;
    assert!(web.take_asked().is_empty(), "the web was asked");
    let statuses = [0, 1].map(|at| response["output"][at]["status"].clone());
    assert_eq!(statuses, ["completed", "failed"]);
    let told = history(player.requests().last().unwrap()).to_string();
    assert_eq!(told.matches("It is 21 degrees in Ulm").count(), 4, "{told}");
    assert!(told.contains("was not read before"), "{told}");
    server.check_replay();
}

/// Promise: An answer may cite what earlier answers of the conversation have found: where the
/// client has run a call of its own between the search and the text, for example.
#[kit::test(on_each_wire)]
async fn the_pages_of_earlier_answers_are_cited(wire: PlayerWire) {
    let player = player(wire).await;
    let web = TestWeb::new();
    let tool = web.tool(CallLimits::default());
    let server = RoundServer::with_tools(&[&player], tool, without_hosted_tools(wire));
    let search = json!({"query": "weather Ulm"});
    player.push(answer(json!([
        call("c1", "web_search", &search),
        call("c2", "shell", &json!({}))
    ])));
    let first = request(&question());
    let response = server.answer(&first, RoundClient::Streaming).await;
    let text = format!("It is [warm]({WEATHER}), not [cold](https://other.example/).");
    for request in [
        next(&first, &response, ""),
        next(&first, &response, "Are you sure?"),
    ] {
        player.push(answer(json!([{"text": text}])));
        let response = server.answer(&request, RoundClient::Streaming).await;
        let cited = annotations(&response);
        assert_eq!(cited.len(), 1, "{response}");
        assert_eq!(cited[0]["title"], "Weather in Ulm");
        server.check_replay();
    }
    // What is no part of the conversation is not cited.
    player.push(answer(json!([{"text": text}])));
    let other = server.answer(&first, RoundClient::Streaming).await;
    assert_eq!(annotations(&other), Vec::<Value>::new());
}
