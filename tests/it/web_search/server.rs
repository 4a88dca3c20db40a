//! Searches of a whole server: over a restart, and in the background.
use kit::player::{Player, PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use super::web::{call, question, request};
use crate::fake_web::FakeServer;
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::stored::background::ended;
use crate::stored::{killed, restarted};

/// A search engine that has found a page about the weather.
async fn engine() -> FakeServer {
    FakeServer::start(|_| {
        let found = json!({"organic_results": [
            {"title": "Weather", "link": "https://weather.example/", "snippet": "It is 21 degrees."},
        ]});
        (200, "application/json", found.to_string())
    })
    .await
}

fn setup(engine: &FakeServer) -> Setup {
    Setup::new().tables(&format!(
        "[search]\norder = [\"serpapi\"]\n[search.serpapi]\nbase_url = \"{}\"\nkey = \"key\"\n",
        engine.url("/serp")
    ))
}

fn body(input: &Value) -> Value {
    let mut body = request(input);
    body["model"] = json!("up/m");
    body
}

fn push_search(player: &Player) {
    player.push(answer(json!([call(
        "c1",
        "web_search",
        &json!({"query": "weather in Ulm"})
    ),])));
    let text = "It is [21 degrees](https://weather.example/) in Ulm today, the weather page says.";
    player.push(answer(json!([{"text": text}])));
}

fn messages(sent: &RecordedRequest) -> Vec<Value> {
    sent.json()["messages"].as_array().unwrap().clone()
}

/// Promise: What a model has found with `web_search` is part of the prompt of the next turn, byte
/// for byte, also if the server was killed or restarted in between.
#[kit::test]
async fn a_session_goes_on_after_a_restart() {
    for is_killed in [false, true] {
        let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
        let setup = setup(&engine);
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        push_search(&player);
        let first = proxy.response(&body(&question())).await;
        let found = first["output"][1]["content"][0]["annotations"].clone();
        assert_eq!(found[0]["url"], "https://weather.example/", "{first}");
        let mut items = question().as_array().unwrap().clone();
        items.extend(first["output"].as_array().unwrap().iter().cloned());
        items.push(json!({"role": "user", "content": "And tomorrow?"}));
        player.push(answer(json!([{"text": "Rain."}])));
        let proxy = if is_killed {
            killed(proxy, &setup).await
        } else {
            restarted(proxy, &setup).await
        };
        proxy.response(&body(&json!(items))).await;
        let sent = player.requests();
        let (before, after) = (messages(&sent[1]), messages(&sent[2]));
        assert_eq!(after[..before.len()], before, "killed: {is_killed}");
        assert_eq!(engine.requests().len(), 1);
    }
}

/// Promise: A background response searches like any other: with the same items, sources and prompt.
#[kit::test]
async fn background_responses_search() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    push_search(&player);
    let mut asked = body(&question());
    asked["background"] = json!(true);
    let begun = proxy.post(&asked).await;
    let begun: Value = serde_json::from_str(&begun.body).unwrap();
    let ended = ended(&proxy, &begun).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["output"][0]["type"], "web_search_call", "{ended}");
    let annotations = &ended["output"][1]["content"][0]["annotations"];
    assert_eq!(annotations[0]["title"], "Weather", "{ended}");
}

/// Promise: What tools of the proxy did is counted: calls by tool and result, searches by engine.
#[kit::test]
async fn searches_are_counted() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    push_search(&player);
    proxy.response(&body(&question())).await;
    let labels = r#"tool="web_search",result="completed""#;
    assert!((proxy.metric("respondent_tool_calls_total", labels).await - 1.0).abs() < f64::EPSILON);
}
