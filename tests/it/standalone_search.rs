//! `POST /v1/alpha/search`: the searches that Codex runs itself.
use kit::player::PlayerWire;
use serde_json::{Value, json};

use crate::fake_web::FakeServer;
use crate::faults::player;
use crate::proxy::Proxy;
use crate::proxy::Setup;
use crate::stored::{client, send};

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
    let engine = FakeServer::start(|_| {
        let found = json!({"organic_results": [
            {"title": "Tea", "link": "http://127.0.0.1:8080/tea", "snippet": "About tea."},
        ]});
        (200, "application/json", found.to_string())
    })
    .await;
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
