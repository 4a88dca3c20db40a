//! What is stored of searches and pages: sources, and the calls of tools that found them.
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kit::player::PlayerWire;
use respondent::artifacts::Artifacts;
use respondent::clock::{Clock as _, System};
use respondent::config::ArtifactConfig;
use respondent::responses::ResponseStore;
use respondent::store::{DataDir, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::server::{body, engine, push_search, setup};
use super::web::{LONG, TestWeb, WEATHER, call, question, request};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::{RoundClient, RoundServer};
use crate::store::open_existing;
use crate::stored::killed;

fn data_dir(folder: &Path) -> DataDir {
    DataDir::new(folder.join(".local/share/respondent"))
}

async fn get(proxy: &Proxy, path: &str) -> Value {
    let reply = proxy.get(path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    serde_json::from_str(&reply.body).unwrap()
}

async fn markdown(proxy: &Proxy, id: &Value, number: u32) -> String {
    let id = id.as_str().unwrap();
    let path = format!("/v1/responses/{id}/sources/{number}?format=markdown");
    let reply = proxy.get(&path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    assert_eq!(
        reply.header("content-type"),
        Some("text/markdown; charset=utf-8")
    );
    reply.body
}

/// How many rows a table has.
pub fn count(folder: &Path, table: &str) -> i64 {
    let path = data_dir(folder).database_path();
    let connection = Connection::open(path).unwrap();
    let select = format!("SELECT count(*) FROM {table}");
    connection.query_row(&select, [], |row| row.get(0)).unwrap()
}

/// Waits until a table has this many rows: answers do not wait for the disk.
pub async fn wait_for_rows(folder: &Path, table: &str, rows: i64) {
    let stored = async {
        while count(folder, table) != rows {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let stored = tokio::time::timeout(Duration::from_secs(10), stored).await;
    assert!(stored.is_ok(), "{table} has {}", count(folder, table));
}

/// Promise: What was found, read and not read for a stored answer is listed at
/// `GET /v1/responses/{id}/sources`, once for each address: with its state, and at most 12,000
/// characters of a page that was read, which are in no item of the answer; the artifact that it
/// names has the whole page. What fits badly, as the search engine says, is marked. As Markdown it
/// is what the model saw, if the metadata of the request has `debug_sources`, or is made of what is
/// stored.
#[kit::test]
async fn an_answer_has_its_sources() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new();
    let folder = setup.folder(&player.base_url());
    let mut ids = Vec::new();
    let data_dir = data_dir(folder.path());
    let store = Arc::new(Store::open(&data_dir, System.unix()).unwrap());
    for debug in [false, true] {
        player.push(answer(json!([call(
            "c1",
            "web_search",
            &json!({"query": "barely the weather of Ulm"})
        )])));
        player.push(answer(json!([
            call("c2", "open_page", &json!({"url": WEATHER})),
            call("c3", "open_page", &json!({"url": "https://gone.example/x"})),
            call("c4", "open_page", &json!({"url": LONG})),
            call("c5", "open_page", &json!({"url": WEATHER})),
        ])));
        player.push(answer(json!([{"text": "It is warm."}])));
        let web = TestWeb::new();
        let server = RoundServer::with_store(
            &[&player],
            web.tool_keeping(Artifacts::of_store(
                &ArtifactConfig::default(),
                Arc::clone(&store),
            )),
            "",
            ResponseStore::new(Some(Arc::clone(&store))),
        );
        let mut asked = request(&question());
        if debug {
            asked["metadata"] = json!({"debug_sources": "true"});
        }
        let response = server.answer(&asked, RoundClient::Streaming).await;
        server.check_replay();
        ids.push(response["id"].clone());
    }
    let connection = Connection::open(data_dir.database_path()).unwrap();
    let runs = "SELECT round || ' ' || call_id || ' ' || name || ' ' || status || ' '
            || (ended >= started AND started > 1000000000000) || ' ' || (bytes > 0) || ' '
            || (error IS NOT NULL)
         FROM tool_runs WHERE response = 1 ORDER BY place";
    let mut select = connection.prepare(runs).unwrap();
    let runs = select.query_map([], |row| row.get(0)).unwrap();
    let runs: Vec<String> = runs.map(Result::unwrap).collect();
    assert_eq!(
        runs,
        [
            "1 c1 web_search completed 1 1 0",
            "2 c2 open_page completed 1 1 0",
            "2 c3 open_page failed 1 1 1",
            "2 c4 open_page completed 1 1 0",
            "2 c5 open_page repeated 1 1 0",
        ]
    );
    drop(select);
    let shown = "SELECT response, count(shown) FROM sources GROUP BY response ORDER BY response";
    let mut select = connection.prepare(shown).unwrap();
    let shown = select.query_map([], |row| row.get(1)).unwrap();
    let shown: Vec<u32> = shown.map(Result::unwrap).collect();
    assert_eq!(shown, [0, 3]);
    drop(select);
    drop((connection, store));
    // Connections of the servers may not have noticed yet that these are gone.
    drop(open_existing(&data_dir).await.unwrap());
    let proxy = Proxy::start_in_folder(folder, &setup).await;
    for (id, debug) in ids.iter().zip([false, true]) {
        let path = format!("/v1/responses/{}/sources", id.as_str().unwrap());
        let listed = get(&proxy, &format!("{path}?order=asc")).await;
        // The items of the answer have nothing of what was read.
        let stored = format!("/v1/responses/{}", id.as_str().unwrap());
        for path in [stored.clone(), format!("{stored}/input_items")] {
            let items = get(&proxy, &path).await.to_string();
            assert!(!items.contains("Line 1 of the text"), "{items}");
            assert!(!items.contains("Tomorrow it rains"), "{items}");
        }
        let of = |name: &str| -> Vec<Value> {
            let sources = listed["data"].as_array().unwrap().iter();
            sources.map(|source| source[name].clone()).collect()
        };
        assert_eq!(of("url"), [LONG, WEATHER, "https://gone.example/x"]);
        assert_eq!(of("status"), ["read", "read", "failed"]);
        assert_eq!(of("call_id"), ["c1", "c1", "c3"]);
        assert_eq!(
            of("domain"),
            ["docs.example", "weather.example", "gone.example"]
        );
        assert_eq!(of("low_relevance"), [true, true, false]);
        assert!(of("error")[2].as_str().unwrap().contains("404"), "{listed}");
        assert_eq!(
            (&listed["has_more"], &listed["first_id"]),
            (&json!(false), &json!("1"))
        );
        let long = get(&proxy, &format!("{path}/1")).await;
        assert_eq!(long["body"].as_str().unwrap().chars().count(), 12_000);
        assert!(
            long["characters"].as_u64().unwrap() > 80_000,
            "{}",
            long["characters"]
        );
        assert_eq!(long["sha256"].as_str().unwrap().len(), 64);
        let artifact = long["artifact_id"].as_str().unwrap();
        let whole = proxy.get(&format!("/v1/artifacts/{artifact}")).await.body;
        assert_eq!(whole.chars().count() as u64, long["characters"]);
        assert!(whole.ends_with("Line 5999 of the text.\n"), "{whole:.100}");
        let (read, failed) = (markdown(&proxy, id, 2).await, markdown(&proxy, id, 3).await);
        let sent = player.requests();
        let sent = &sent[if debug { 5 } else { 2 }].json()["messages"];
        let results = sent.as_array().unwrap().iter();
        let results = results.filter(|message| message["role"] == "tool");
        let results: Vec<&str> = results
            .map(|message| message["content"].as_str().unwrap().trim())
            .collect();
        let (_, found) = results[0].split_once("2. ").unwrap();
        if debug {
            assert_eq!(read, format!("2. {found}\n\n{}", results[1]));
            assert!(results[4].ends_with(results[1]), "{}", results[4]);
            assert_eq!(failed, results[2]);
        } else {
            assert!(
                read.starts_with("# Weather in Ulm\n\nhttps://weather"),
                "{read}"
            );
            assert!(read.contains("Tomorrow it rains."), "{read}");
            assert!(failed.contains("The page was not read: "), "{failed}");
        }
    }
    let path = format!("/v1/responses/{}/sources", ids[0].as_str().unwrap());
    proxy.get(&format!("{path}/4")).await.error(404);
    proxy.get(&format!("{path}/x")).await.error(404);
    proxy.get(&format!("{path}/1?format=pdf")).await.error(400);
    proxy.get(&format!("{path}?after=9")).await.error(400);
}

/// Promise: A response and its sources are on the disk together: a server that is killed before an
/// answer has ended leaves neither, and one that is killed afterwards both. Deleting the response
/// deletes them, and one that is not stored has none; only what the next prompt of its session
/// needs is kept of it.
#[kit::test]
async fn sources_are_stored_with_the_response() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let setup = setup(&engine);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    player.push(answer(json!([call(
        "c1",
        "web_search",
        &json!({"query": "weather in Ulm"})
    )])));
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let mut asked = body(&question());
    asked["stream"] = json!(true);
    let mut open = proxy.open(asked.to_string(), &[]).await;
    open.read_until("begun").await;
    wait_for_rows(proxy.folder.path(), "hidden_rounds", 1).await;
    let proxy = killed(proxy, &setup).await;
    drop(open);
    let tables = ["responses", "sources", "tool_runs"];
    let rows = |proxy: &Proxy| tables.map(|table| count(proxy.folder.path(), table));
    assert_eq!(rows(&proxy), [0, 0, 0]);
    push_search(&player);
    let mut unstored = body(&question());
    unstored["store"] = json!(false);
    proxy.response(&unstored).await;
    assert_eq!(rows(&proxy), [0, 0, 0]);
    // What the next prompts need of all three answers is kept all the same.
    push_search(&player);
    let response = proxy.response(&body(&question())).await;
    wait_for_rows(proxy.folder.path(), "hidden_rounds", 3).await;
    let proxy = killed(proxy, &setup).await;
    assert_eq!(rows(&proxy), [1, 1, 1]);
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    let listed = get(&proxy, &format!("{path}/sources")).await;
    assert_eq!(listed["data"][0]["url"], "https://weather.example/");
    assert_eq!(listed["data"][0]["status"], "found");
    proxy.delete(&path).await;
    assert_eq!(rows(&proxy), [0, 0, 0]);
    proxy.get(&format!("{path}/sources")).await.error(404);
}

/// Promise: What is stored of sources is in no prompt: the next turn is the same with and without
/// what the model saw of them.
#[kit::test]
async fn no_prompt_has_what_is_stored_of_sources() {
    let mut prompts = Vec::new();
    for debug in [false, true] {
        let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
        let proxy = Proxy::start_with(&player, setup(&engine)).await;
        push_search(&player);
        let mut asked = body(&question());
        if debug {
            asked["metadata"] = json!({"debug_sources": "true"});
        }
        let first = proxy.response(&asked).await;
        assert!(markdown(&proxy, &first["id"], 1).await.contains("Weather"));
        player.push(answer(json!([{"text": "Rain."}])));
        let mut next = body(&json!("And tomorrow?"));
        next["previous_response_id"] = first["id"].clone();
        proxy.response(&next).await;
        prompts.push(player.requests()[2].json());
    }
    assert_eq!(prompts[0], prompts[1]);
}

/// Promise: The sources that the input of a request names are sources of its response, as such.
#[kit::test]
async fn the_sources_of_the_input_are_sources_of_the_answer() {
    let (player, engine) = (player(PlayerWire::Chat).await, engine().await);
    let proxy = Proxy::start_with(&player, setup(&engine)).await;
    player.push(answer(json!([{"text": "Rain."}])));
    let cited = "https://cited.example/";
    let annotation = json!({
        "type": "url_citation", "url": cited, "title": "Cited", "start_index": 0, "end_index": 3,
    });
    let text = json!({"type": "output_text", "text": "Sun", "annotations": [annotation]});
    let input = json!([
        {"role": "user", "content": "How is the weather in Ulm?"},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [text]},
        {"role": "user", "content": "And tomorrow?"},
    ]);
    let response = proxy.response(&body(&input)).await;
    let path = format!("/v1/responses/{}/sources", response["id"].as_str().unwrap());
    let listed = get(&proxy, &path).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["data"][0]["url"], cited);
    assert_eq!(listed["data"][0]["status"], "input");
}
