//! `POST /v1/alpha/search`: the searches that Codex runs itself.
use kit::player::PlayerWire;
use kit::web::{WebAnswer, WebServer};
use serde_json::{Value, json};

use crate::faults::player;
use crate::proxy::Proxy;
use crate::proxy::Setup;
use crate::stored::{client, killed, restarted, send};

const ROUTE: &str = "POST /v1/alpha/search";

async fn run(proxy: &Proxy, token: &str, commands: Value) -> String {
    let body = json!({"id": "session", "commands": commands});
    let reply = send(proxy, token, ROUTE, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let reply: Value = serde_json::from_str(&reply.body).unwrap();
    reply["output"].as_str().unwrap().to_owned()
}

/// Promise: The ids of one client's session mean nothing to another client, whatever the session is
/// called. A page of this machine is not read, and neither is anything while searches are off.
#[kit::test]
async fn the_ids_of_a_session_are_those_of_its_client() {
    let engine = WebServer::start(|_| {
        let found = json!({"organic_results": [
            {"title": "Tea", "link": "http://127.0.0.1:8080/tea", "snippet": "About tea."},
        ]});
        WebAnswer::new(200, "application/json", found.to_string())
    })
    .await
    .unwrap();
    let player = player(PlayerWire::Chat).await;
    let tables = format!(
        "[search]\norder = [\"serpapi\"]\n[search.serpapi]\nbase_url = \"{}\"\nkey = \"key\"\n",
        engine.url("/serp")
    );
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "local-token-1")
        .tables(&client("alice", ""));
    let proxy = Proxy::start_with(&player, setup.clone().tables(&tables)).await;
    let search = json!({"search_query": [{"q": "tea"}]});
    let found = run(&proxy, "local", search.clone()).await;
    assert!(
        found.contains("[turn0search0] Tea\nhttp://127.0.0.1:8080/tea\nAbout tea."),
        "{found}"
    );
    assert_eq!(engine.requests().len(), 1);
    let open = json!({"open": [{"ref_id": "turn0search0"}]});
    let private = run(&proxy, "local", open.clone()).await;
    assert!(
        private
            .contains("http://127.0.0.1:8080/tea could not be read: 127.0.0.1 is not an address"),
        "{private}"
    );
    let unknown = run(&proxy, "alice", open).await;
    assert!(
        unknown.contains("is no reference of this session"),
        "{unknown}"
    );
    let own = run(&proxy, "alice", search.clone()).await;
    assert!(own.contains("[turn1search0] Tea"), "{own}");
    let off = Proxy::start_with(&player, setup).await;
    let body = json!({"id": "session", "commands": search});
    let refused = send(&off, "local", ROUTE, &body).await.error(404);
    assert_eq!(refused["code"], "search_off");
}

/// Promise: The ids by which a session names pages mean the same pages after a restart or a kill,
/// and are not given again. Another session has its own.
#[kit::test]
async fn the_ids_of_a_session_outlive_the_program() {
    let engine = WebServer::start(|request| {
        let nth = if request.path.contains("coffee") { 2 } else { 1 };
        let found = json!({"organic_results": [
            {"title": "Drinks", "link": format!("http://127.0.0.1:8080/{nth}"), "snippet": "A text."},
        ]});
        WebAnswer::new(200, "application/json", found.to_string())
    })
    .await
    .unwrap();
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().tables(&format!(
        "[search]\norder = [\"serpapi\"]\n[search.serpapi]\nbase_url = \"{}\"\nkey = \"key\"\n",
        engine.url("/serp")
    ));
    let search = |q: &str| json!({"search_query": [{"q": q}]});
    let open = |id: &str| json!({"open": [{"ref_id": id}]});
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    run(&proxy, "", search("tea")).await;
    for is_killed in [false, true] {
        proxy = if is_killed {
            killed(proxy, &setup).await
        } else {
            restarted(proxy, &setup).await
        };
        let opened = run(&proxy, "", open("turn0search0")).await;
        let address = "http://127.0.0.1:8080/1 could not be read: 127.0.0.1 is not an address";
        assert!(opened.contains(address), "killed: {is_killed}: {opened}");
        let found = run(&proxy, "", search("coffee")).await;
        assert!(!found.contains("[turn0search0]"), "{found}");
        let other = json!({"id": "other", "commands": open("turn0search0")});
        let other = send(&proxy, "", ROUTE, &other).await.body;
        assert!(other.contains("is no reference of this session"), "{other}");
    }
}
