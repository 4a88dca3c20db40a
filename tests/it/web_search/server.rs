//! Searches of a whole server: over a restart, and in the background.
use std::sync::Arc;

use kit::player::{Player, PlayerWire, RecordedRequest};
use kit::web::{WebAnswer, WebServer};
use respondent::clock::{Clock as _, System};
use respondent::responses::ResponseStore;
use respondent::store::{DataDir, Store};
use respondent::tools::live::CallLimits;
use serde_json::{Value, json};

use super::sources::{count, wait_for_rows};
use super::web::{TestWeb, WEATHER, call, question, request};
use crate::bundles::run;
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::{RoundClient, RoundServer};
use crate::stored::background::ended;
use crate::stored::{killed, restarted};
use crate::websocket::client::Socket;

/// A search engine that has found a page about the weather.
pub async fn engine() -> WebServer {
    WebServer::start(|_| {
        let found = json!({"organic_results": [
            {"title": "Weather", "link": "https://weather.example/", "snippet": "It is 21 degrees."},
        ]});
        WebAnswer::new(200, "application/json", found.to_string())
    })
    .await
    .unwrap()
}

pub fn setup(engine: &WebServer) -> Setup {
    setup_with(engine, "")
}

/// The same with further lines of `[search]`.
fn setup_with(engine: &WebServer, lines: &str) -> Setup {
    Setup::new().tables(&format!(
        "[search]\norder = [\"serpapi\"]\n{lines}\n[search.serpapi]\nbase_url = \"{}\"\nkey = \"key\"\n",
        engine.url("/serp")
    ))
}

pub fn body(input: &Value) -> Value {
    let mut body = request(input);
    body["model"] = json!("up/m");
    body
}

pub fn push_search(player: &Player) {
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
        // Chat Completions has no annotations of a message that is sent.
        assert!(!sent[2].body.contains("url_citation"), "{}", sent[2].body);
        assert_eq!(engine.requests().len(), 1);
    }
}

/// Promise: What a model has found before its answer breaks off is part of the prompt in which the
/// client asks again, also after a restart. The stored response has the items of that answer.
#[kit::test]
async fn an_answer_that_broke_off_goes_on_after_a_restart() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let setup = setup(&engine);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let weather = json!({"query": "weather in Ulm"});
    player.push(answer(json!([call("c1", "web_search", &weather)])));
    player.push(answer(json!([{"text": "Let me "}, {"cut": "rst"}])));
    let broken = proxy.stream(&body(&question())).await.response;
    assert_eq!(broken["status"], "failed", "{broken}");
    let search = &broken["output"][0];
    assert_eq!(search["type"], "web_search_call", "{broken}");
    let id = broken["id"].as_str().unwrap();
    let stored = proxy.get(&format!("/v1/responses/{id}")).await;
    let stored: Value = serde_json::from_str(&stored.body).unwrap();
    assert_eq!(stored["output"], broken["output"], "{stored}");
    let mut items = question().as_array().unwrap().clone();
    items.push(search.clone());
    player.push(answer(json!([{"text": "Rain."}])));
    let proxy = restarted(proxy, &setup).await;
    proxy.response(&body(&json!(items))).await;
    let sent = player.requests();
    assert_eq!(messages(&sent[2]), messages(&sent[1]));
    assert_eq!(engine.requests().len(), 1);
}

/// Promise: What a model has found is stored when its round is complete: if the program is killed
/// in the middle of an answer, the client goes on from what it got with the same prompt.
#[kit::test]
async fn an_answer_goes_on_after_the_program_was_killed() {
    for rounds in [1, 2] {
        let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
        let setup = setup(&engine);
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        for round in 0..rounds {
            let query = json!({"query": format!("weather in Ulm {round}")});
            player.push(answer(json!([call(
                &format!("c{round}"),
                "web_search",
                &query
            )])));
        }
        player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
        let mut asked = body(&question());
        asked["stream"] = json!(true);
        let mut open = proxy.open(asked.to_string(), &[]).await;
        open.read_until("begun").await;
        let last = format!(
            "hidden_rounds WHERE rounds LIKE '%weather in Ulm {}%'",
            rounds - 1
        );
        wait_for_rows(proxy.folder.path(), &last, 1).await;
        let proxy = killed(proxy, &setup).await;
        assert_eq!(count(proxy.folder.path(), "hidden_rounds"), 1);
        let events = open.text.lines().filter_map(|line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
            (event["type"] == "response.output_item.done").then(|| event["item"].clone())
        });
        let mut items = question().as_array().unwrap().clone();
        items.extend(events);
        assert_eq!(items.len(), 1 + rounds, "{items:?}");
        push_search(&player);
        proxy.response(&body(&json!(items))).await;
        let sent = player.requests();
        assert_eq!(messages(&sent[rounds + 1]), messages(&sent[rounds]));
        // An answer that ends is not stored a second time.
        let proxy = restarted(proxy, &setup).await;
        assert_eq!(count(proxy.folder.path(), "hidden_rounds"), 2);
    }
}

/// Asks the question in the background, and returns the response when it has completed.
async fn in_background(proxy: &Proxy) -> Value {
    let mut asked = body(&question());
    asked["background"] = json!(true);
    let begun = proxy.post(&asked).await;
    let begun: Value = serde_json::from_str(&begun.body).unwrap();
    let ended = ended(proxy, &begun).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    ended
}

/// Promise: A background response may call tools of the client and of the proxy in one round: the
/// latter run, and the response ends with the calls of the client.
#[kit::test]
async fn background_responses_call_tools_of_both() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "weather in Ulm"})),
        call("c2", "shell", &json!({})),
    ])));
    let ended = in_background(&proxy).await;
    let output = ended["output"].as_array().unwrap().iter();
    let types: Vec<_> = output.map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["web_search_call", "function_call"], "{ended}");
    assert_eq!(ended["output"][1]["name"], "shell", "{ended}");
    assert_eq!((player.requests().len(), engine.requests().len()), (1, 1));
}

/// The response without what differs between two of the same, and the addresses of its sources.
async fn comparable(proxy: &Proxy, mut response: Value) -> Value {
    let path = format!("/v1/responses/{}/sources", response["id"].as_str().unwrap());
    let sources: Value = serde_json::from_str(&proxy.get(&path).await.body).unwrap();
    let sources: Vec<&Value> = sources["data"].as_array().unwrap().iter().collect();
    let sources: Vec<_> = sources
        .iter()
        .map(|it| [&it["url"], &it["status"]])
        .collect();
    response["sources"] = json!(sources);
    for name in ["id", "created_at", "completed_at", "background"] {
        response.as_object_mut().unwrap().remove(name);
    }
    for item in response["output"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("id");
    }
    response
}

/// Promise: A background response searches like any other: with the same items, sources and prompt.
#[kit::test]
async fn background_responses_search() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    // A search that comes from the cache says so.
    let setup = setup_with(&engine, "cache_minutes = 0");
    let proxy = Proxy::start_with(&player, setup).await;
    push_search(&player);
    let ended = in_background(&proxy).await;
    assert_eq!(ended["output"][0]["type"], "web_search_call", "{ended}");
    let annotations = &ended["output"][1]["content"][0]["annotations"];
    assert_eq!(annotations[0]["title"], "Weather", "{ended}");
    push_search(&player);
    let answered = proxy.response(&body(&question())).await;
    assert_eq!(
        comparable(&proxy, ended).await,
        comparable(&proxy, answered).await
    );
    let sent = player.requests();
    let prompt = |at: usize| messages(&sent[at]);
    assert_eq!((prompt(0), prompt(1)), (prompt(2), prompt(3)));
}

/// Promise: A bundle of a turn that searched has what the model read. Its replay is equal, and asks
/// neither a search engine nor a page.
#[kit::test]
async fn turns_that_searched_replay_without_the_web() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let setup = setup(&engine).server("data_dir = \"data\"");
    let proxy = Proxy::start_with(&player, setup).await;
    // Text, three calls at once of which two fail, a round of one call, and the answer.
    player.push(answer(json!([
        {"text": "I look."},
        call("c1", "web_search", &json!({"query": "weather in Ulm"})),
        call("c2", "open_page", &json!({"url": "http://127.0.0.1:1/"})),
        call("c3", "find_in_page", &json!({"url": "http://127.0.0.1:1/"})),
    ])));
    let again = json!({"query": "weather in Ulm", "recency_days": 2});
    player.push(answer(json!([call("c4", "web_search", &again)])));
    player.push(answer(json!([{"text": "It is warm 🦀."}])));
    proxy.response(&body(&question())).await;
    let asked = (player.requests().len(), engine.requests().len());
    assert_eq!(asked, (3, 2));
    run(&proxy, "bundle create --since 1h --output b.tar.zst")
        .await
        .ok();
    let replayed = run(&proxy, "replay b.tar.zst").await.ok();
    assert!(replayed.contains("equal"), "{replayed}");
    assert_eq!(
        (player.requests().len(), engine.requests().len()),
        asked,
        "a replay left this machine"
    );
    // Nor is anything missing where nothing can be asked.
    drop((player, engine));
    let replayed = run(&proxy, "replay b.tar.zst").await.ok();
    assert!(replayed.contains("equal"), "{replayed}");
}

/// Promise: Over a WebSocket a turn searches as over HTTP, and the next turn on the connection
/// continues its prompt.
#[kit::test]
async fn searches_over_a_websocket() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    let mut socket = Socket::open(&proxy).await;
    push_search(&player);
    let first = socket.turn(&body(&question())).await.response;
    assert_eq!(first["output"][0]["type"], "web_search_call", "{first}");
    let annotations = &first["output"][1]["content"][0]["annotations"];
    assert_eq!(annotations[0]["url"], "https://weather.example/", "{first}");
    player.push(answer(json!([{"text": "Rain."}])));
    let next = json!([{"role": "user", "content": "And tomorrow?"}]);
    let mut next = body(&next);
    next["previous_response_id"] = first["id"].clone();
    socket.turn(&next).await;
    let sent = player.requests();
    let (before, after) = (messages(&sent[1]), messages(&sent[2]));
    assert_eq!(after[..before.len()], before);
    assert_eq!(engine.requests().len(), 1);
}

/// Promise: What tools of the proxy did is counted: calls by tool, result and client, searches by
/// engine.
#[kit::test]
async fn searches_are_counted() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    push_search(&player);
    proxy.response(&body(&question())).await;
    let labels = r#"tool="web_search",result="completed",client="local""#;
    assert!((proxy.metric("respondent_tool_calls_total", labels).await - 1.0).abs() < f64::EPSILON);
}

/// Promise: Where a stored history is sent as text, it has the answers of earlier turns, and
/// nothing of what was found and read for them.
#[kit::test]
async fn a_history_of_text_has_no_results() {
    let player = player(PlayerWire::Chat).await;
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path().to_owned());
    let store = Arc::new(Store::open(&data_dir, System.unix()).unwrap());
    let server = RoundServer::with_store(
        &[&player],
        TestWeb::new().tool(CallLimits::default()),
        "\n[history]\nmode = \"text\"\n",
        ResponseStore::new(Some(store)),
    );
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "weather Ulm"})),
        call("c2", "open_page", &json!({"url": WEATHER})),
    ])));
    player.push(answer(json!([{"text": "It is warm today."}])));
    player.push(answer(json!([{"text": "Rain."}])));
    let client = RoundClient::Streaming;
    let first = server.answer(&request(&question()), client).await;
    assert_eq!(first["output"][1]["status"], "completed", "{first}");
    let mut next = request(&json!("And tomorrow?"));
    next["previous_response_id"] = first["id"].clone();
    server.answer(&next, client).await;
    let [_, second, third] = &player.requests()[..] else {
        panic!("three requests")
    };
    assert!(third.body.contains("It is warm today."), "{}", third.body);
    let found = [
        "It is 21 degrees",
        "Tomorrow it rains.",
        "Found by",
        "weather Ulm",
        WEATHER,
    ];
    for found in found {
        assert!(second.body.contains(found), "{found}: {}", second.body);
        assert!(!third.body.contains(found), "{found}: {}", third.body);
    }
    for call in ["function_call", "tool_calls"] {
        assert!(!third.body.contains(call), "{call}: {}", third.body);
    }
}

/// Promise: With the filter `respondent=debug` the log has the stages of a turn with tools in their
/// order, each with its time, and nothing of what the turn is about.
#[kit::test]
async fn the_stages_of_a_turn_are_logged() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let setup = setup(&engine).env("RESPONDENT_LOG", "info,respondent=debug");
    let proxy = Proxy::start_with(&player, setup).await;
    push_search(&player);
    let response = proxy.response(&body(&question())).await;
    assert_eq!(response["status"], "completed");
    let log = proxy.wait_for_log("stage stored took ").await;
    let of_turn = |line: &&str| line.contains("; req_") && line.contains(" ms; ");
    let lines = log.lines().filter_map(|line| line.split_once("stage "));
    let lines: Vec<&str> = lines.map(|(_, rest)| rest).filter(of_turn).collect();
    let stages = lines
        .iter()
        .map(|line| line.split_once(" took ").unwrap().0);
    let stages: Vec<&str> = stages.collect();
    let expected = ["route", "round", "tools", "round", "sources", "stored"];
    assert_eq!(stages, expected, "{log}");
    for content in ["in Ulm", "weather.example", "21 degrees"] {
        assert!(!log.contains(content), "{content}: {log}");
    }
}

/// Promise: Several requests may continue one stored response that has searched: each prompt begins
/// with the bytes of what that response was made of, and nothing is searched again.
#[kit::test]
async fn a_searched_answer_may_be_continued_twice() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    push_search(&player);
    let first = proxy.response(&body(&question())).await;
    let asked = ["And tomorrow?", "And in Rome?"];
    for text in asked {
        player.push(answer(json!([{"text": "Rain."}])));
        let mut next = body(&json!([{"role": "user", "content": text}]));
        next["previous_response_id"] = first["id"].clone();
        proxy.response(&next).await;
    }
    let sent = player.requests();
    let before = messages(&sent[1]);
    for (sent, text) in sent[2..].iter().zip(asked) {
        let messages = messages(sent);
        assert_eq!(messages[..before.len()], before);
        assert_eq!(messages.last().unwrap()["content"], text);
    }
    assert_eq!(sent.len(), 4);
    assert_eq!(engine.requests().len(), 1);
}
