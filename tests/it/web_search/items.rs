//! What the client sees of searches: items, events, sources and citations.
use kit::player::PlayerWire;
use respondent::tools::live::CallLimits;
use serde_json::{Value, json};

use super::web::{TestWeb, WEATHER, call, question, request, without_hosted_tools};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer};

fn types(response: &Value) -> Vec<&str> {
    let items = response["output"].as_array().unwrap().iter();
    items.map(|item| item["type"].as_str().unwrap()).collect()
}

/// Promise: A client that offers `web_search` gets one answer, in which the proxy has searched,
/// opened a page and found text in it: each a `web_search_call` with its action, never a call of a
/// function. The model's links to what was found are `url_citation` annotations with the offsets of
/// characters.
#[kit::test(on_each_wire)]
async fn a_search_is_part_of_the_answer(wire: PlayerWire) {
    for client in [
        RoundClient::Streaming,
        RoundClient::Codex,
        RoundClient::Whole,
    ] {
        let player = player(wire).await;
        player.push(answer(json!([
            {"text": "I look."},
            call("c1", "web_search", &json!({"query": "weather Ulm"})),
        ])));
        player.push(answer(json!([
            call("c2", "open_page", &json!({"url": WEATHER})),
            call(
                "c3",
                "find_in_page",
                &json!({"url": WEATHER, "pattern": "TOMORROW"})
            ),
        ])));
        let text = format!("例え🦀: [21 degrees]({WEATHER}), and https://other.example/ says so.");
        player.push(answer(json!([{"text": text}])));
        let web = TestWeb::new();
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let response = server.answer(&request(&question()), client).await;
        assert_eq!(
            types(&response),
            [
                "message",
                "web_search_call",
                "web_search_call",
                "web_search_call",
                "message"
            ],
            "{response}"
        );
        let actions: Vec<&Value> = [1, 2, 3].map(|at| &response["output"][at]["action"]).into();
        assert_eq!(
            json!(actions),
            json!([
                {"type": "search", "query": "weather Ulm", "queries": ["weather Ulm"]},
                {"type": "open_page", "url": WEATHER},
                {"type": "find_in_page", "url": WEATHER, "pattern": "TOMORROW"},
            ])
        );
        let part = &response["output"][4]["content"][0];
        let annotations = part["annotations"].as_array().unwrap();
        assert_eq!(annotations.len(), 1, "{annotations:?}");
        let chars: Vec<char> = part["text"].as_str().unwrap().chars().collect();
        let index = |name: &str| usize::try_from(annotations[0][name].as_u64().unwrap()).unwrap();
        let span: String = chars[index("start_index")..index("end_index")]
            .iter()
            .collect();
        assert_eq!(span, format!("[21 degrees]({WEATHER})"));
        assert_eq!(annotations[0]["title"], "Weather in Ulm");
        // The page was read once.
        assert_eq!(
            web.take_asked(),
            [
                "search weather Ulm [] 5".to_owned(),
                format!("open {WEATHER}")
            ]
        );
        let tools = response["tools"].as_array().unwrap();
        assert_eq!(tools[0], json!({"type": "web_search"}), "{tools:?}");
        server.check_replay();
    }
}

/// Promise: `include` decides whether a search lists the addresses that it found, and its results.
#[kit::test(on_each_wire)]
async fn sources_and_results_are_listed_if_they_are_wanted(wire: PlayerWire) {
    for (include, sources, results) in [
        (json!([]), false, false),
        (json!(["web_search_call.action.sources"]), true, false),
        (json!(["web_search_call.results"]), false, true),
    ] {
        let player = player(wire).await;
        player.push(answer(json!([call(
            "c1",
            "web_search",
            &json!({"query": "ulm"})
        )])));
        player.push(answer(json!([{"text": "Done."}])));
        let web = TestWeb::new();
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let mut asked = request(&question());
        asked["include"] = include.clone();
        let response = server.answer(&asked, RoundClient::Streaming).await;
        let search = &response["output"][0];
        let found = &search["action"]["sources"];
        assert_eq!(found.is_array(), sources, "{include}: {search}");
        assert_eq!(search["results"].is_array(), results, "{include}: {search}");
        if sources {
            assert_eq!(found[1], json!({"type": "url", "url": WEATHER}));
        }
        server.check_replay();
    }
}

/// Promise: A search that finds nothing and a page that cannot be read are failed items of an
/// answer that completes; the model is told what went wrong.
#[kit::test(on_each_wire)]
async fn failures_are_told_and_end_nothing(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "nothing"})),
        call("c2", "open_page", &json!({"url": "https://gone.example/"})),
        call("c3", "open_page", &json!({})),
    ])));
    player.push(answer(json!([{"text": "I could not find it."}])));
    let web = TestWeb::new();
    let server = RoundServer::with_tools(
        &[&player],
        web.tool(CallLimits::default()),
        without_hosted_tools(wire),
    );
    let stream = server
        .stream(&request(&question()), RoundClient::Streaming)
        .await;
    assert_eq!(stream.terminal, "response.completed");
    let statuses: Vec<&Value> = [0, 1]
        .map(|at| &stream.response["output"][at]["status"])
        .into();
    assert_eq!(statuses, ["failed", "failed"]);
    let told = player.requests()[1].body.clone();
    for expected in ["404", "url", "could not be read"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    server.check_replay();
}

/// Promise: The operator's limits of searches and pages hold for each answer; a call beyond them
/// reaches no search engine and no server, and the model is told.
#[kit::test(on_each_wire)]
async fn searches_and_pages_are_limited(wire: PlayerWire) {
    let player = player(wire).await;
    let search = |n: u32| {
        call(
            &format!("s{n}"),
            "web_search",
            &json!({"query": format!("q{n}")}),
        )
    };
    let open = |n: u32| {
        call(
            &format!("o{n}"),
            "open_page",
            &json!({"url": format!("https://docs.example/{n}")}),
        )
    };
    player.push(answer(json!([
        search(0),
        search(1),
        search(2),
        open(0),
        open(1)
    ])));
    player.push(answer(json!([{"text": "Enough."}])));
    let web = TestWeb::new();
    let limits = CallLimits {
        searches: Some(2),
        pages: Some(1),
    };
    let server = RoundServer::with_tools(&[&player], web.tool(limits), without_hosted_tools(wire));
    server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    assert_eq!(web.take_asked().len(), 3);
    let told = player.requests()[1].body.clone();
    assert!(
        told.contains("The call limit for web_search is reached"),
        "{told}"
    );
    assert!(
        told.contains("The call limit for open_page is reached"),
        "{told}"
    );
}
