//! What the client sees of searches: items, events, sources and citations.
use kit::player::PlayerWire;
use respondent::net::memory::{MemoryKind, ProcessMemory};
use respondent::tools::live::CallLimits;
use serde_json::{Value, json};

use super::web::{LONG, TestWeb, WEATHER, call, question, request, without_hosted_tools};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer, history};

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
        assert!(web.take_asked().is_empty(), "a replay asked the web");
    }
}

/// Promise: An argument that a model leaves out with null hides nothing of what it searches for.
#[kit::test(on_each_wire)]
async fn an_argument_of_null_is_one_that_is_left_out(wire: PlayerWire) {
    let player = player(wire).await;
    let arguments = json!({"query": "ulm", "queries": null, "domains": null, "recency_days": null});
    player.push(answer(json!([call("c1", "web_search", &arguments)])));
    player.push(answer(json!([{"text": "Done."}])));
    let web = TestWeb::new();
    let tool = web.tool(CallLimits::default());
    let server = RoundServer::with_tools(&[&player], tool, without_hosted_tools(wire));
    let stream = server
        .stream(&request(&question()), RoundClient::Streaming)
        .await;
    let items = stream.events.iter().filter(|(name, event)| {
        name.starts_with("response.output_item.") && event["item"]["type"] == "web_search_call"
    });
    let queries: Vec<&Value> = items
        .map(|(_, event)| &event["item"]["action"]["query"])
        .collect();
    assert_eq!(queries, ["ulm", "ulm"]);
    assert_eq!(web.take_asked(), ["search ulm [] 5"]);
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

/// Promise: The address of a search page that stands in for results which nobody found is never
/// cited, and is no source of the answer, even if the model links to it.
#[kit::test(on_each_wire)]
async fn a_synthetic_result_is_never_cited(wire: PlayerWire) {
    let address = "https://duckduckgo.com/?q=nothing";
    for query in ["nothing", "ulm"] {
        let player = player(wire).await;
        let search = json!({"query": query});
        player.push(answer(json!([call("c1", "web_search", &search)])));
        let link = if query == "ulm" { WEATHER } else { address };
        player.push(answer(json!([{"text": format!("See [this]({link}).")}])));
        let web = TestWeb::new();
        let server = RoundServer::with_tools(
            &[&player],
            web.tool(CallLimits::default()),
            without_hosted_tools(wire),
        );
        let mut asked = request(&question());
        asked["include"] = json!(["web_search_call.action.sources"]);
        let response = server.answer(&asked, RoundClient::Streaming).await;
        let told = player.requests()[1].body.contains(link);
        assert!(told, "{}", player.requests()[1].body);
        let found = if query == "ulm" { (1, 2) } else { (0, 0) };
        let count = |list: &Value| list.as_array().unwrap().len();
        let cited = count(&response["output"][1]["content"][0]["annotations"]);
        let sources = count(&response["output"][0]["action"]["sources"]);
        assert_eq!((cited, sources), found, "{response}");
    }
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
    let page =
        |id: &str, name: &str, url: &str| call(id, name, &json!({"url": url, "pattern": "Ulm"}));
    player.push(answer(json!([
        search(0),
        search(1),
        search(2),
        page("o1", "open_page", WEATHER),
    ])));
    // A page that was read in this turn is not read again, and does not count again.
    player.push(answer(json!([
        page("o2", "open_page", WEATHER),
        page("f1", "find_in_page", WEATHER),
        page("f2", "find_in_page", LONG),
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
    let requests = player.requests();
    let limit = |name: &str| format!("The call limit for {name} is reached");
    assert!(requests[1].body.contains(&limit("web_search")));
    assert!(!requests[1].body.contains(&limit("open_page")));
    assert_eq!(requests[2].body.matches(&limit("open_page")).count(), 1);
    assert_eq!(requests[2].body.matches("21 degrees in Ulm").count(), 3);
}

/// Promise: A model may search for several things in one call, at most four, each of which counts
/// as a search. The `action` of its item has the first `query` and all `queries`, and the model
/// gets what each has found, a page once. It is told how many were not run.
#[kit::test(on_each_wire)]
async fn a_call_may_have_several_queries(wire: PlayerWire) {
    let player = player(wire).await;
    let search = |id: &str, arguments: Value| call(id, "web_search", &arguments);
    player.push(answer(json!([
        search(
            "c1",
            json!({"query": "q0", "queries": ["q1", "q0", " ", "q2"]})
        ),
        search(
            "c2",
            json!({"query": "q3", "queries": ["q4", "q5", "q6", "q7"]})
        ),
    ])));
    player.push(answer(json!([
        search("c3", json!({"queries": ["q8"]})),
        search("c4", json!({"queries": ["1", "2", "3", "4", "5"]})),
        search("c5", json!({})),
    ])));
    player.push(answer(json!([{"text": "Done."}])));
    let web = TestWeb::new();
    let limits = CallLimits {
        searches: Some(6),
        pages: None,
    };
    let server = RoundServer::with_tools(&[&player], web.tool(limits), without_hosted_tools(wire));
    let mut asked = request(&question());
    asked["include"] = json!(["web_search_call.action.sources"]);
    let response = server.answer(&asked, RoundClient::Streaming).await;
    let mut searched = web.take_asked();
    searched.sort();
    let expected = ["q0", "q1", "q2", "q3", "q4", "q5"].map(|q| format!("search {q} [] 5"));
    assert_eq!(searched, expected);
    let source = |url: &str| json!({"type": "url", "url": url});
    assert_eq!(
        response["output"][0]["action"],
        json!({
            "type": "search", "query": "q0", "queries": ["q0", "q1", "q2"],
            "sources": [source(LONG), source(WEATHER)],
        })
    );
    assert_eq!(
        response["output"][1]["action"]["queries"],
        json!(["q3", "q4", "q5"])
    );
    let requests = player.requests();
    let results = |at: usize| {
        let history = history(&requests[at]);
        let items = history.as_array().unwrap().iter();
        let results = items.filter(|item| item["role"] == "tool" || !item["output"].is_null());
        let text = |item: &Value| {
            let text = item["content"].as_str().or(item["output"].as_str());
            text.unwrap().to_owned()
        };
        results.map(text).collect::<Vec<String>>()
    };
    let [first, second] = &results(1)[..] else {
        panic!("two results")
    };
    let heads: Vec<&str> = first
        .lines()
        .filter(|line| line.contains("Search"))
        .collect();
    assert_eq!(
        heads,
        ["Search for: q0", "Search for: q1", "Search for: q2"]
    );
    assert_eq!(first.matches("https://").count(), 2, "{first}");
    assert!(
        second.ends_with("Not run because of a limit: 2 more searches.\n"),
        "{second}"
    );
    let told = results(2);
    for (told, expected) in told[2..].iter().zip([
        "The call limit for web_search is reached.",
        "has more than 4 items",
        "A search needs words",
    ]) {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    server.check_replay();
}

/// Promise: Pages that were read and results count in the memory of the server as long as their
/// answer needs them. A page for which there is no room is refused with that reason, and the answer
/// goes on with what it has.
#[kit::test]
async fn pages_count_in_the_memory_of_the_server() {
    let memory = ProcessMemory::new(1 << 20);
    let mut other = memory.share(MemoryKind::Requests);
    for is_full in [true, false] {
        other.set(if is_full { 960 << 10 } else { 0 });
        let player = player(PlayerWire::Chat).await;
        player.push(answer(json!([
            call("c1", "open_page", &json!({"url": WEATHER})),
            call("c2", "open_page", &json!({"url": LONG})),
        ])));
        player.push(answer(json!([{"text": "Done."}])));
        let web = TestWeb::new();
        let tool = web.tool_within(CallLimits::default(), &memory);
        let server = RoundServer::with_tools(&[&player], tool, "");
        let response = server
            .answer(&request(&question()), RoundClient::Whole)
            .await;
        let failed = if is_full { "failed" } else { "completed" };
        assert_eq!(response["output"][0]["status"], "completed");
        assert_eq!(response["output"][1]["status"], failed);
        let told = player.requests()[1].body.clone();
        assert!(told.contains("Tomorrow it rains."), "{told}");
        let refusal = "there is not enough memory to read the page now";
        assert_eq!(told.contains(refusal), is_full, "{told}");
        assert_eq!(memory.used_for(MemoryKind::Answers), 0);
    }
}
