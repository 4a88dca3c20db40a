//! What the model is offered and reads, in this turn and the next.
use kit::player::{PlayerWire, RecordedRequest};
use respondent::app::web::{ScrapeBody, SearchBody, scrape_answer, search_answer};
use respondent::tools::live::CallLimits;
use serde_json::{Value, json};

use super::web::{LONG, TestWeb, WEATHER, call, question, request, without_hosted_tools};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer, history};

fn names(sent: &RecordedRequest) -> Vec<String> {
    let sent = sent.json();
    let tools = sent["tools"].as_array().unwrap().iter();
    let name = |tool: &Value| {
        let name = tool["function"]["name"].as_str().or(tool["name"].as_str());
        name.or(tool["type"].as_str()).unwrap().to_owned()
    };
    tools.map(name).collect()
}

/// Promise: A model that cannot search is offered functions that do; a client's function of the
/// same name stays what it was. Nothing is said to be missing.
#[kit::test(on_each_wire)]
async fn the_model_is_offered_functions(wire: PlayerWire) {
    let web = TestWeb::new();
    for (own, expected) in [
        (json!([]), "shell web_search open_page find_in_page"),
        (
            json!([{"type": "function", "name": "web_search", "parameters": {"type": "object"}}]),
            "shell web_search hosted_web_search open_page find_in_page",
        ),
    ] {
        let player = player(wire).await;
        player.push(answer(json!([{"text": "Hello."}])));
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let mut asked = request(&question());
        let tools = asked["tools"].as_array_mut().unwrap();
        tools.extend(own.as_array().unwrap().iter().cloned());
        server.answer(&asked, RoundClient::Streaming).await;
        let sent = &player.requests()[0];
        assert_eq!(names(sent).join(" "), expected);
        assert!(!sent.body.contains("not available here"), "{}", sent.body);
    }
    // A provider that searches itself gets the client's definition.
    if wire == PlayerWire::Responses {
        let player = player(wire).await;
        player.push(answer(json!([{"text": "Hello."}])));
        let server = RoundServer::with_tools(&[&player], web.tool(CallLimits::default()), "");
        server
            .answer(&request(&question()), RoundClient::Streaming)
            .await;
        assert_eq!(names(&player.requests()[0]), ["web_search", "shell"]);
    }
    // A request that does not offer it is sent as before.
    let player = player(wire).await;
    player.push(answer(json!([{"text": "Hello."}])));
    let server = RoundServer::with_tools(
        &[&player],
        web.tool(CallLimits::default()),
        without_hosted_tools(wire),
    );
    let mut asked = request(&question());
    asked["tools"].as_array_mut().unwrap().remove(0);
    server.answer(&asked, RoundClient::Streaming).await;
    assert_eq!(names(&player.requests()[0]), ["shell"]);
}

/// Promise: `tool_choice` and `allowed_tools` may name `web_search`: then the model must search, or
/// may call its functions alone.
#[kit::test(on_each_wire)]
async fn tool_choice_may_name_the_search(wire: PlayerWire) {
    let web = TestWeb::new();
    for (choice, expected) in [
        (json!({"type": "web_search"}), "web_search"),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}),
            "",
        ),
    ] {
        let player = player(wire).await;
        player.push(answer(json!([call(
            "c1",
            "web_search",
            &json!({"query": "ulm"})
        )])));
        player.push(answer(json!([{"text": "Done."}])));
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let mut asked = request(&question());
        asked["tool_choice"] = choice.clone();
        let response = server.answer(&asked, RoundClient::Streaming).await;
        assert_eq!(response["tool_choice"], choice);
        let sent = player.requests()[0].json();
        let forced = &sent["tool_choice"];
        let name = forced["function"]["name"]
            .as_str()
            .or(forced["name"].as_str());
        assert_eq!(name.unwrap_or_default(), expected, "{forced}");
        if expected.is_empty() {
            let offered = names(&player.requests()[0]);
            assert_eq!(offered, ["web_search", "open_page", "find_in_page"]);
        }
        // It was called.
        let relaxed = player.requests()[1].json();
        assert!(matches!(
            relaxed["tool_choice"].as_str(),
            None | Some("auto")
        ));
    }
}

/// Promise: The settings of the client's `web_search` hold: domains, the size of the context, and
/// whether the web may be asked.
#[kit::test(on_each_wire)]
async fn the_clients_settings_hold(wire: PlayerWire) {
    let web = TestWeb::new();
    for (settings, asked_of_web) in [
        (
            json!({"search_context_size": "high"}),
            vec!["search ulm [] 10".to_owned(), format!("open {WEATHER}")],
        ),
        (
            json!({"filters": {"allowed_domains": ["docs.example"]}, "search_context_size": "low"}),
            vec!["search ulm [docs.example] 3".to_owned()],
        ),
    ] {
        let player = player(wire).await;
        player.push(answer(json!([
            call("c1", "web_search", &json!({"query": "ulm"})),
            call("c2", "open_page", &json!({"url": WEATHER})),
        ])));
        player.push(answer(json!([{"text": "Done."}])));
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let mut asked = request(&question());
        asked["tools"][0] = settings.clone();
        asked["tools"][0]["type"] = json!("web_search_2025_08_26");
        server.answer(&asked, RoundClient::Streaming).await;
        let mut found = web.take_asked();
        found.sort_by_key(|one| !one.starts_with("search"));
        assert_eq!(found, asked_of_web, "{settings}");
    }
}

/// Promise: Of a long page the model gets at most 12,000 characters: those that fit what it looks
/// for.
#[kit::test(on_each_wire)]
async fn a_long_page_is_an_excerpt(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([call(
        "c1",
        "open_page",
        &json!({"url": LONG, "query": "Line 3777"})
    )])));
    player.push(answer(json!([{"text": "Done."}])));
    let web = TestWeb::new();
    let server = RoundServer::with_tools(
        &[&player],
        web.tool(CallLimits::default()),
        without_hosted_tools(wire),
    );
    server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    let history = history(&player.requests()[1]);
    let read = history.as_array().unwrap().last().unwrap();
    let read = read["content"]
        .as_str()
        .or(read["output"].as_str())
        .unwrap();
    assert!(read.contains("Line 3777 of the text."), "{read:.300}");
    assert!(read.chars().count() <= 12_000, "{}", read.chars().count());
}

/// Promise: `POST /v1/scrape` and `POST /v1/search` answer with the bytes that the model of a turn
/// reads for the same call.
#[kit::test(on_each_wire)]
async fn the_endpoints_answer_with_the_bytes_of_a_turn(wire: PlayerWire) {
    let player = player(wire).await;
    let gone = "https://gone.example/";
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "weather Ulm"})),
        call(
            "c2",
            "open_page",
            &json!({"url": LONG, "query": "Line 3777"})
        ),
        call(
            "c3",
            "open_page",
            &json!({"url": LONG, "query": null, "from": 11_000})
        ),
        call(
            "c4",
            "find_in_page",
            &json!({"url": WEATHER, "pattern": "TOMORROW"})
        ),
        call("c5", "open_page", &json!({"url": gone})),
    ])));
    player.push(answer(json!([{"text": "Done."}])));
    let web = TestWeb::new();
    let tool = web.tool(CallLimits::default());
    let server = RoundServer::with_tools(&[&player], tool, without_hosted_tools(wire));
    let client = RoundClient::Streaming;
    server.answer(&request(&question()), client).await;
    let history = history(&player.requests()[1]);
    let items = history.as_array().unwrap().iter();
    let results = items.filter(|item| item["role"] == "tool" || !item["output"].is_null());
    let text = |item: &Value| {
        let text = item["content"].as_str().or(item["output"].as_str());
        text.unwrap().to_owned()
    };
    let results: Vec<String> = results.map(text).collect();
    let tools = web.tools();
    let search = SearchBody {
        query: "weather Ulm".to_owned(),
        ..SearchBody::default()
    };
    let mut expected = vec![search_answer(&tools, search).await.unwrap().text];
    for (url, query, from, find) in [
        (LONG, Some("Line 3777"), None, None),
        (LONG, None, Some(11_000), None),
        (WEATHER, None, None, Some("TOMORROW")),
        (gone, None, None, None),
    ] {
        let body = ScrapeBody {
            url: url.to_owned(),
            query: query.map(str::to_owned),
            from,
            find: find.map(str::to_owned),
            markdown: false,
        };
        expected.push(scrape_answer(&tools, &body).await.unwrap().text);
    }
    assert_eq!(results, expected);
}

/// The history in a request to the provider as bytes, without the brackets that close it.
fn history_bytes(sent: &RecordedRequest) -> String {
    let list = ["\"messages\":[", "\"input\":["];
    let found = list.iter().find_map(|list| sent.body.split_once(list));
    let (_, history) = found.unwrap();
    history.strip_suffix("]}").unwrap_or(history).to_owned()
}

/// Promise: The next turn of a session begins with what the model has read, byte for byte, whether
/// or not the client sends back ids, reasoning and the items of the searches.
#[kit::test(on_each_wire)]
async fn the_next_turn_continues_the_prompt(wire: PlayerWire) {
    let kept: &[&str] = match wire {
        PlayerWire::Chat => &["all", "no ids", "messages only"],
        // Without its id an item of this provider is another one.
        PlayerWire::Responses => &["all"],
    };
    for keeps in kept {
        let player = player(wire).await;
        player.push(answer(json!([
            {"text": "I look."}, call("c1", "web_search", &json!({"query": "weather Ulm"})),
        ])));
        player.push(answer(
            json!([{"text": "It is 21 degrees in Ulm today, as its weather page says."}]),
        ));
        player.push(answer(json!([{"text": "Rain."}])));
        let web = TestWeb::new();
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let response = server
            .answer(&request(&question()), RoundClient::Streaming)
            .await;
        let mut items = question().as_array().unwrap().clone();
        for item in response["output"].as_array().unwrap() {
            let mut item = item.clone();
            if *keeps != "all" {
                item.as_object_mut().unwrap().remove("id");
            }
            if *keeps != "messages only" || item["type"] == "message" {
                items.push(item);
            }
        }
        items.push(json!({"role": "user", "content": "And tomorrow?"}));
        server
            .answer(&request(&json!(items)), RoundClient::Streaming)
            .await;
        let [_, second, third] = &player.requests()[..] else {
            panic!("three requests")
        };
        let (before, after) = (history_bytes(second), history_bytes(third));
        assert!(after.starts_with(&before), "{keeps}\n{before}\n\n{after}");
        assert_eq!(
            after.matches("weather Ulm").count(),
            before.matches("weather Ulm").count()
        );
        server.check_replay();
    }
}

/// Promise: A client that repeats a turn that broke off after searches, with the items that it got,
/// continues the prompt: nothing is searched again.
#[kit::test(on_each_wire)]
async fn a_turn_that_broke_off_goes_on(wire: PlayerWire) {
    let player = player(wire).await;
    let weather = json!({"query": "weather Ulm"});
    player.push(answer(json!([call("c1", "web_search", &weather)])));
    player.push(answer(json!([{"text": "Let me "}, {"cut": "fin"}])));
    player.push(answer(json!([{"text": "Rain."}])));
    let web = TestWeb::new();
    let server = RoundServer::with_tools(
        &[&player],
        web.tool(CallLimits::default()),
        without_hosted_tools(wire),
    );
    let client = RoundClient::Streaming;
    let broken = server.answer(&request(&question()), client).await;
    assert_eq!(broken["status"], "failed", "{broken}");
    let search = &broken["output"][0];
    assert_eq!(search["type"], "web_search_call", "{broken}");
    let mut items = question().as_array().unwrap().clone();
    items.push(search.clone());
    server.answer(&request(&json!(items)), client).await;
    let sent = player.requests();
    let (before, after) = (history_bytes(&sent[1]), history_bytes(&sent[2]));
    assert_eq!(after, before);
    server.check_replay();
}
