//! What clients may search and read in a day, and what searches cost.
use futures_util::future::join_all;
use kit::player::PlayerWire;
use kit::web::{WebAnswer, WebServer};
use serde_json::{Value, json};

use super::server::{body, engine, push_search, setup};
use super::web::{call, question};
use crate::bills;
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Reply, Setup};
use crate::status::status;
use crate::stored::{client, restarted, send};

/// A server for these clients.
fn with_clients(setup: Setup, clients: &[(&str, &str)]) -> Setup {
    let setup = setup.env("RESPONDENT_TOKEN", "local-token-1");
    let tables = clients.iter().map(|(name, limits)| client(name, limits));
    tables.fold(setup, |setup, table| setup.tables(&table))
}

async fn search(proxy: &Proxy, who: &str, words: &str) -> Reply {
    send(proxy, who, "POST /v1/search", &json!({"query": words})).await
}

/// The commands of Codex.
async fn run(proxy: &Proxy, who: &str, commands: &Value) -> Reply {
    let asked = json!({"id": "s", "commands": commands});
    send(proxy, who, "POST /v1/alpha/search", &asked).await
}

/// That a request was refused until midnight because of this.
fn assert_used_up(reply: &Reply, used: &str) {
    let error = reply.error(429);
    assert_eq!(error["code"], "rate_limit_exceeded", "{error}");
    let message = error["message"].as_str().unwrap();
    let expected = format!("The client 'alice' has used {used}. The limit is reset at ");
    assert!(message.starts_with(&expected), "{message}");
    let after: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=24 * 60 * 60).contains(&after), "{after}");
}

/// Promise: A client may be limited to a number of searches and of pages a day, which outlives a
/// restart. Beyond it the model is told so in one sentence and the turn goes on; other requests get
/// 429 until midnight. What is answered from the cache costs no search.
#[kit::test]
async fn a_client_has_searches_and_pages_of_a_day() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let limits = "max_searches_per_day = 2\nmax_pages_per_day = 1";
    let setup = with_clients(setup(&engine), &[("alice", limits), ("bob", "")]);
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    // The same search in two turns is one.
    for _ in 0..2 {
        push_search(&player);
        let asked = body(&question());
        let reply = send(&proxy, "alice", "POST /v1/responses", &asked).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    for _ in 0..2 {
        assert_eq!(search(&proxy, "alice", "q1").await.status, 200);
    }
    let page = json!({"url": "http://localhost/"});
    let read = send(&proxy, "alice", "POST /v1/scrape", &page).await;
    assert_eq!(read.status, 200, "{}", read.body);
    for _ in 0..2 {
        let searches = "2 of its 2 searches of today (max_searches_per_day)";
        assert_used_up(&search(&proxy, "alice", "q2").await, searches);
        let commands = json!({"search_query": [{"q": "q2"}]});
        assert_used_up(&run(&proxy, "alice", &commands).await, searches);
        let pages = "1 of its 1 pages of today (max_pages_per_day)";
        let refused = send(&proxy, "alice", "POST /v1/scrape", &page).await;
        assert_used_up(&refused, pages);
        let commands = json!({"open": [{"ref_id": "http://localhost/"}]});
        assert_used_up(&run(&proxy, "alice", &commands).await, pages);
        proxy = restarted(proxy, &setup).await;
    }
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "q3"})),
        call("c2", "open_page", &json!({"url": "http://localhost/"})),
    ])));
    player.push(answer(json!([{"text": "I do not know."}])));
    let reply = send(&proxy, "alice", "POST /v1/responses", &body(&question())).await;
    let response: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(response["status"], "completed", "{response}");
    assert_eq!(response["output"][0]["status"], "failed", "{response}");
    let sent = player.requests().last().unwrap().json();
    let messages = sent["messages"].as_array().unwrap().iter();
    let told: Vec<&str> = messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().trim())
        .collect();
    assert_eq!(
        told,
        [
            "Nothing was searched: the limit of the day is reached.",
            "http://localhost/ could not be read: the limit of the day is reached.",
        ]
    );
    assert_eq!(engine.requests().len(), 2);
    for who in ["bob", "local"] {
        assert_eq!(search(&proxy, who, who).await.status, 200);
        assert_eq!(
            send(&proxy, who, "POST /v1/scrape", &page).await.status,
            200
        );
    }
}

/// Promise: Searches of a client that are made at the same time do not exceed its limit of the day,
/// whoever makes them. Of commands that are sent together, those within the limit are run.
#[kit::test]
async fn searches_at_once_do_not_exceed_the_limit() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let of_alice = |limits: &str| with_clients(setup(&engine), &[("alice", limits)]);
    let proxy = Proxy::start_with(&player, of_alice("max_searches_per_day = 5")).await;
    let calls: Vec<Value> = (0..3)
        .map(|n| {
            let query = json!({"query": format!("call {n}")});
            call(&format!("c{n}"), "web_search", &query)
        })
        .collect();
    player.push(answer(json!(calls)));
    player.push(answer(json!([{"text": "It is warm."}])));
    let (asked, commands) = (
        body(&question()),
        json!({"search_query": [{"q": "x"}, {"q": "y"}]}),
    );
    let words: Vec<String> = (0..8).map(|n| format!("words {n}")).collect();
    let searches = words.iter().map(|words| search(&proxy, "alice", words));
    let (turn, run, replies) = tokio::join!(
        send(&proxy, "alice", "POST /v1/responses", &asked),
        run(&proxy, "alice", &commands),
        join_all(searches),
    );
    assert_eq!(turn.status, 200, "{}", turn.body);
    assert!([200, 429].contains(&run.status), "{}", run.body);
    assert!(replies.iter().all(|it| [200, 429].contains(&it.status)));
    assert_eq!(engine.requests().len(), 5);

    let proxy = Proxy::start_with(&player, of_alice("max_searches_per_day = 1")).await;
    let commands = json!({"search_query": [{"q": "first"}, {"q": "second"}]});
    let reply = self::run(&proxy, "alice", &commands).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.body.contains("https://weather.example/"));
    let told = "Nothing was searched: the limit of the day is reached.";
    assert_eq!(reply.body.matches(told).count(), 1, "{}", reply.body);
}

/// The sum of a metric, which a server with clients shows to its operator alone.
async fn metric_of(proxy: &Proxy, name: &str) -> f64 {
    let text = send(proxy, "local", "GET /metrics", &json!({})).await.body;
    let values = text.lines().filter(|line| line.starts_with(name));
    let values = values.filter_map(|line| line.rsplit_once(' '));
    values
        .filter_map(|(_, value)| value.parse::<f64>().ok())
        .sum()
}

/// Promise: What searches cost by the price of their search engine is part of the cost of the turn
/// and of the client's day, whose limit holds for searches too, and is shown by search engine in
/// the metrics and the status. Only searches cost that a search engine has answered.
#[kit::test]
async fn searches_cost_what_their_search_engine_costs() {
    let player = player(PlayerWire::Chat).await;
    let engine = WebServer::start(|request| {
        let (status, found) = if request.path.contains("broken") {
            (500, json!({"error": "broken"}))
        } else if request.path.contains("nothing") {
            (200, json!({"organic_results": []}))
        } else {
            let found = json!({"title": "A page", "link": "https://a.example/", "snippet": "It."});
            (200, json!({"organic_results": [found]}))
        };
        WebAnswer::new(status, "application/json", found.to_string())
    });
    let engine = engine.await.unwrap();
    let setup = bills::setup().tables(&format!(
        "[search]\norder = [\"serpapi\"]\n[search.serpapi]\nbase_url = \"{}\"\nkey = \"key\"\n\
         price_per_search = 0.25\n",
        engine.url("/serp")
    ));
    let clients = [
        ("alice", "max_cost_per_day = 1.0"),
        ("bob", "max_cost_per_day = 0.2"),
    ];
    let setup = with_clients(setup, &clients);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    // Two searches, one of which is refused by the search engine.
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "weather in Ulm"})),
        call("c2", "web_search", &json!({"query": "broken"})),
    ])));
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100});
    let used = json!([{"text": "It is warm."}, {"usage": usage}]);
    player.push(answer(used));
    let turn = send(&proxy, "alice", "POST /v1/responses", &body(&question())).await;
    assert_eq!(turn.status, 200, "{}", turn.body);
    let id = turn.header("x-request-id").unwrap();
    let log = proxy.wait_for_log(id).await;
    let record = log.lines().find(|line| line.contains(id)).unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    for (name, metric) in [
        ("cost", "respondent_cost_dollars_total"),
        (
            "unshortened_cost",
            "respondent_unshortened_cost_dollars_total",
        ),
    ] {
        let searches = record[name].as_f64().unwrap() - metric_of(&proxy, metric).await;
        assert!((searches - 0.25).abs() < 1e-9, "{name}: {record}");
    }
    let today = &status(&proxy, &setup).await["usage"]["today"][0];
    assert_eq!(today["cost"], record["cost"], "{today}");
    // A search from the cache, one that the search engine refuses, one without results, and two.
    for (words, status) in [
        ("q1", 200),
        ("q1", 200),
        ("broken", 200),
        ("nothing", 200),
        ("q2", 200),
        ("q3", 429),
    ] {
        let reply = search(&proxy, "alice", words).await;
        assert_eq!(reply.status, status, "{words}: {}", reply.body);
        if status == 429 {
            let message = reply.error(429)["message"].to_string();
            assert!(message.contains("(max_cost_per_day)"), "{message}");
        }
    }
    // The limit is reached within a turn.
    for words in ["q4", "q5"] {
        player.push(answer(json!([call(
            "c",
            "web_search",
            &json!({"query": words})
        )])));
    }
    player.push(answer(json!([{"text": "It is warm."}])));
    let turn = send(&proxy, "bob", "POST /v1/responses", &body(&question())).await;
    assert_eq!(turn.status, 200, "{}", turn.body);
    let told = "Nothing was searched: the limit of the day is reached.";
    let sent = player.requests().pop().unwrap().body;
    assert_eq!(sent.matches(told).count(), 1, "{sent}");
    let paid = metric_of(&proxy, "respondent_web_search_cost_dollars_total").await;
    assert!((paid - 1.25).abs() < 1e-9, "{paid}");
    let status = status(&proxy, &setup).await;
    assert_eq!(
        status["server"]["web"]["costs"]["serpapi"], 1.25,
        "{status}"
    );
}
