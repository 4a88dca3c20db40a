//! Several clients of one server: what each may see, and its limits.

use std::collections::BTreeSet;

use kit::player::{Player, PlayerWire};
use respondent::secrets::TokenHash;
use serde_json::{Value, json};

use super::{asks, id, killed, restarted};
use crate::faults::{answer, repeating_player};
use crate::proxy::{CODEX, Proxy, Reply, Setup};

/// A table for a client whose token is its name and `-token-1`.
pub fn client(name: &str, limits: &str) -> String {
    let hash = TokenHash::of(format!("{name}-token-1").as_bytes());
    format!("[clients.{name}]\ntoken_sha256 = \"{hash}\"\n{limits}\n")
}

/// A request of a client, or of whoever runs the server.
pub async fn send(proxy: &Proxy, who: &str, route: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {who}-token-1");
    let mut headers = vec![("authorization", bearer.as_str())];
    if route == "POST /mcp" {
        headers.push(("accept", "application/json, text/event-stream"));
    }
    match route.split_once(' ').unwrap() {
        ("GET", path) => proxy.get_with(path, &headers).await,
        ("POST", path) => proxy.post_to(path, body, &headers).await,
        ("DELETE", path) => proxy.delete_with(path, &headers).await,
        (method, _) => panic!("{method}"),
    }
}

/// What a client gets on a route.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    /// The same for everybody: nothing that anybody owns.
    Same,
    /// Its own share.
    Own,
    /// 403.
    Operator,
}

/// The decision about every route of the router.
fn access(route: &str) -> Access {
    match route {
        "GET /v1/models"
        | "GET /v1/models/{id}"
        | "GET /healthz"
        | "GET /"
        | "GET /openapi.json"
        | "POST /v1/search"
        | "POST /v1/scrape" => Access::Same,
        "POST /v1/responses"
        | "GET /v1/responses"
        | "POST /v1/responses/compact"
        | "POST /v1/responses/input_tokens"
        | "GET /v1/responses/{id}"
        | "DELETE /v1/responses/{id}"
        | "POST /v1/responses/{id}/cancel"
        | "GET /v1/responses/{id}/input_items"
        | "GET /v1/responses/{id}/sources"
        | "GET /v1/responses/{id}/sources/{source}"
        | "POST /v1/conversations"
        | "GET /v1/conversations/{id}"
        | "POST /v1/conversations/{id}"
        | "DELETE /v1/conversations/{id}"
        | "POST /v1/conversations/{id}/items"
        | "GET /v1/conversations/{id}/items"
        | "GET /v1/conversations/{id}/items/{item}"
        | "DELETE /v1/conversations/{id}/items/{item}"
        | "GET /v1/artifacts"
        | "GET /v1/artifacts/{id}"
        | "GET /v1/artifacts/{id}/search"
        | "DELETE /v1/artifacts/{id}"
        | "POST /mcp"
        | "POST /v1/alpha/search"
        | "GET /diagnostics/turns"
        | "GET /diagnostics/bundle"
        | "GET /diagnostics/jobs" => Access::Own,
        "GET /metrics"
        | "GET /diagnostics/status"
        | "GET /diagnostics/models"
        | "DELETE /diagnostics/store"
        | "DELETE /v1/artifacts/expired" => Access::Operator,
        _ => panic!("nobody has decided what a client may see at {route}"),
    }
}

/// The routes of the router, as its 404 lists them.
pub async fn routes(proxy: &Proxy) -> Vec<String> {
    let message = send(proxy, "alice", "GET /nothing", &json!({})).await.body;
    let (_, list) = message.split_once("This server has ").unwrap();
    let (list, _) = list.split_once(". See ").unwrap();
    list.split(", ").map(str::to_owned).collect()
}

/// Everything of a client that another one might see.
struct Owned {
    response: String,
    job: String,
    conversation: String,
    item: String,
    artifact: String,
}

async fn owned(proxy: &Proxy, who: &str) -> Owned {
    let json = |reply: Reply| -> Value {
        assert_eq!(reply.status, 200, "{who}: {}", reply.body);
        serde_json::from_str(&reply.body).unwrap()
    };
    let secret = format!("the secret of {who}");
    let log = format!("{secret}\n").repeat(5_000);
    let input = json!([
        {"role": "user", "content": secret},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": log},
    ]);
    // Both clients name the same session.
    let body = asks(input, json!({"prompt_cache_key": "s"}));
    let response = json(send(proxy, who, "POST /v1/responses", &body).await);
    let body = asks(secret.as_str(), json!({"background": true}));
    let job = json(send(proxy, who, "POST /v1/responses", &body).await);
    let items = json!({"items": [{"type": "message", "role": "user", "content": secret}]});
    let conversation = json(send(proxy, who, "POST /v1/conversations", &items).await);
    let path = format!("GET /v1/conversations/{}/items", id(&conversation));
    let items = json(send(proxy, who, &path, &json!({})).await);
    let artifacts = json(send(proxy, who, "GET /v1/artifacts", &json!({})).await);
    assert_eq!(artifacts["data"].as_array().unwrap().len(), 1);
    Owned {
        response: id(&response),
        job: id(&job),
        conversation: id(&conversation),
        item: id(&items["data"][0]),
        artifact: id(&artifacts["data"][0]),
    }
}

/// An id that nothing has, of the form of another one.
pub fn unknown(id: &str) -> String {
    let (prefix, digits) = id.rsplit_once('_').unwrap();
    format!("{prefix}_{}", "0".repeat(digits.len()))
}

/// Promise: Every client of a server has its own responses, conversations, jobs, artifacts,
/// recorded turns and memory of sessions; what is another's is answered like what does not exist,
/// and what is about the whole server is for whoever runs it.
#[kit::test]
async fn two_clients_never_see_each_other_on_any_route() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "seen"}]))).await;
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "local-token-1")
        .tables("[capture]\nmode = \"all\"")
        .tables(&client("alice", ""))
        .tables(&client("bob", ""));
    let proxy = Proxy::start_with(&player, setup).await;
    assert_eq!(proxy.get("/v1/models").await.status, 401);
    let (alice, bob) = (owned(&proxy, "alice").await, owned(&proxy, "bob").await);
    let hers: BTreeSet<&String> = [
        &alice.response,
        &alice.job,
        &alice.conversation,
        &alice.item,
        &alice.artifact,
    ]
    .into();
    for route in routes(&proxy).await {
        match access(&route) {
            Access::Same => continue,
            Access::Operator => {
                let refused = send(&proxy, "bob", &route, &json!({})).await;
                assert_eq!(refused.status, 403, "{route}: {}", refused.body);
                assert!(refused.body.contains("only whoever runs it"));
                continue;
            }
            Access::Own => {}
        }
        for theirs in &hers {
            let path = |id: &str, item: &str| {
                let path = route.replace("{id}", id).replace("{item}", item);
                if path == "GET /diagnostics/bundle" {
                    format!("{path}?select=response:{id}")
                } else if path.ends_with("/search") {
                    format!("{path}?q=secret")
                } else {
                    path
                }
            };
            let body = |id: &str| match route.as_str() {
                "POST /mcp" => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": {"name": "artifact_read", "arguments": {"id": id}}}),
                "POST /v1/conversations" | "POST /v1/conversations/{id}" => {
                    json!({"metadata": {"a": "b"}})
                }
                "POST /v1/conversations/{id}/items" => {
                    json!({"items": [{"type": "message", "role": "user", "content": "x"}]})
                }
                _ if id.starts_with("conv_") => asks("x", json!({"conversation": id})),
                _ => asks("x", json!({"previous_response_id": id})),
            };
            let none = unknown(theirs);
            let item = unknown(&alice.item);
            let asked = send(&proxy, "bob", &path(theirs, &alice.item), &body(theirs)).await;
            let reference = send(&proxy, "bob", &path(&none, &item), &body(&none)).await;
            assert!(!asked.body.contains("secret of alice"), "{route}");
            if asked.status < 400 {
                for other in &hers {
                    // An id that was asked for may be quoted.
                    let is_seen = asked.body.contains(other.as_str());
                    assert!(!is_seen || other == theirs, "{route}: {}", asked.body);
                }
                continue;
            }
            assert_eq!(asked.status, reference.status, "{route}: {}", asked.body);
            let shown = reference
                .body
                .replace(&none, theirs)
                .replace(&item, &alice.item);
            assert_eq!(asked.body, shown, "{route}");
        }
    }
    // What is listed is one's own, and nothing of the other one is gone.
    let turns = send(&proxy, "bob", "GET /diagnostics/turns", &json!({})).await;
    assert!(!turns.body.contains("alice"), "{}", turns.body);
    let bundle = format!("GET /diagnostics/bundle?select=response:{}", alice.response);
    assert_eq!(send(&proxy, "bob", &bundle, &json!({})).await.status, 404);
    for who in ["alice", "local"] {
        assert_eq!(send(&proxy, who, &bundle, &json!({})).await.status, 200);
    }
    let jobs = send(&proxy, "bob", "GET /diagnostics/jobs", &json!({})).await;
    assert!(jobs.body.contains(&bob.job) && !jobs.body.contains(&alice.job));
    for path in [
        format!("GET /v1/responses/{}", alice.response),
        format!("GET /v1/conversations/{}", alice.conversation),
        format!("GET /v1/artifacts/{}", alice.artifact),
    ] {
        assert_eq!(send(&proxy, "alice", &path, &json!({})).await.status, 200);
        assert_eq!(send(&proxy, "local", &path, &json!({})).await.status, 404);
    }
    let listed = send(&proxy, "bob", "GET /v1/responses", &json!({})).await;
    assert!(listed.body.contains(&bob.response) && !listed.body.contains(&alice.response));
    let continued = asks("x", json!({"previous_response_id": alice.response}));
    let refused = send(&proxy, "bob", "POST /v1/responses", &continued).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("previous_response_not_found"));
}

/// Promise: Of what a client has used, that which was acknowledged counts after a kill; of a
/// response that is not stored, two seconds later.
#[kit::test]
async fn what_was_acknowledged_counts_for_the_day_after_a_kill() {
    let usage = json!({"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000});
    let said = answer(json!([{"text": "seen"}, {"usage": usage}]));
    let player = repeating_player(PlayerWire::Chat, said).await;
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "local-token-1")
        .tables(&client("alice", "max_tokens_per_day = 4000"))
        .wire_of(&player);
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    for (number, more) in [
        json!({}),
        json!({"stream": true}),
        json!({"background": true}),
        json!({"store": false}),
    ]
    .into_iter()
    .enumerate()
    {
        let before = shown_turns(&setup, &proxy).await;
        let body = asks("x", more.clone());
        let reply = send(&proxy, "alice", "POST /v1/responses", &body).await;
        assert_eq!(reply.status, 200, "{more}: {}", reply.body);
        if more["background"] == true {
            let job: Value = serde_json::from_str(&reply.body).unwrap();
            let events = format!("GET /v1/responses/{}?stream=true", id(&job));
            let ended = send(&proxy, "alice", &events, &json!({})).await.stream();
            assert_eq!(ended.response["status"], "completed");
        }
        if more["store"] == false {
            // What is not stored is counted on the disk a moment later, at the latest when
            // `respondent usage` shows it.
            while shown_turns(&setup, &proxy).await == before {}
        }
        proxy = killed(proxy, &setup).await;
        assert_eq!(player.requests().len(), number + 1);
    }
    let refused = send(&proxy, "alice", "POST /v1/responses", &asks("x", json!({}))).await;
    let error = refused.error(429);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("has used 4000 of its 4000"), "{message}");
}

/// How many turns `respondent usage` shows.
async fn shown_turns(setup: &Setup, proxy: &Proxy) -> Option<u64> {
    let usage = setup.clone().arg("usage").arg("--json");
    let (_, out, _) = usage.run(proxy.folder.path()).await;
    let usage: Value = serde_json::from_str(&out).unwrap();
    usage["owners"][0]["turns"].as_u64()
}

/// Promise: A client that has as many turns running as it may, or has used up the tokens or dollars
/// of its day in UTC, gets 429 with the limit and when it is reset; Codex is told not to send the
/// request again that day.
#[kit::test]
async fn a_limit_of_the_day_outlives_a_restart_and_usage_is_shown_by_client() {
    let usage = json!({"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000});
    let said = answer(json!([{"text": "seen"}, {"usage": usage}]));
    let player = repeating_player(PlayerWire::Chat, said).await;
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "local-token-1")
        .tables(&client("alice", "max_tokens_per_day = 1"))
        .tables(&client("bob", ""))
        .wire_of(&player);
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    let body = asks("x", json!({}));
    let first = send(&proxy, "alice", "POST /v1/responses", &body).await;
    assert_eq!(first.status, 200, "{}", first.body);
    for _ in 0..2 {
        let refused = send(&proxy, "alice", "POST /v1/responses", &body).await;
        assert_eq!(refused.status, 429, "{}", refused.body);
        let error: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(error["error"]["code"], "rate_limit_exceeded");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("(max_tokens_per_day)"), "{message}");
        assert!(message.contains("00:00:00 GMT"), "{message}");
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=24 * 60 * 60).contains(&after));
        let other = send(&proxy, "bob", "POST /v1/responses", &body).await;
        assert_eq!(other.status, 200, "{}", other.body);
        proxy = restarted(proxy, &setup).await;
    }
    // Codex gets one sentence in a stream, and stops.
    let headers = [("authorization", "Bearer alice-token-1"), CODEX[0]];
    let stream = proxy.stream_with(&body, &headers).await;
    assert_eq!(stream.response["error"]["code"], "invalid_prompt");
    assert_eq!(player.requests().len(), 3);
    // The usage of both is in the store, which is read while the server runs.
    let usage = setup.arg("usage").arg("--json");
    let (code, out, err) = usage.run(proxy.folder.path()).await;
    assert_eq!(code, 0, "{err}");
    let usage: Value = serde_json::from_str(&out).unwrap();
    let days = usage["days"].as_array().unwrap().iter();
    let of = |row: &Value| {
        let owner = row["owner"].as_str().unwrap().to_owned();
        (
            owner,
            row["turns"].as_u64().unwrap(),
            row["input_tokens"].as_u64().unwrap(),
        )
    };
    let used: BTreeSet<_> = days.filter(|row| row["turns"] != 0).map(of).collect();
    assert!(used.contains(&("bob".to_owned(), 2, 1800)), "{used:?}");
    assert!(used.contains(&("alice".to_owned(), 1, 900)), "{used:?}");
}

/// A server with a client that may use one token a day.
async fn with_one_token(player: &Player) -> Proxy {
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "local-token-1")
        .tables(&client("alice", "max_tokens_per_day = 1"))
        .wire_of(player);
    Proxy::start_with(player, setup).await
}

/// Promise: Turns that begin together share the limits of their client, and what an answer has used
/// counts when its client leaves.
#[kit::test]
async fn what_an_answer_has_used_counts_when_its_client_leaves() {
    let begun = answer(json!([{"text": "begun"}, {"stall": true}]));
    let player = repeating_player(PlayerWire::Chat, begun).await;
    let proxy = with_one_token(&player).await;
    let body = asks("x", json!({"stream": true}));
    let headers = [("authorization", "Bearer alice-token-1")];
    let mut open = proxy.open(body.to_string(), &headers).await;
    open.read_until("begun").await;
    drop(open);
    proxy.wait_for_log("disconnected").await;
    let refused = send(&proxy, "alice", "POST /v1/responses", &asks("x", json!({}))).await;
    let error = refused.error(429);
    assert!(error["message"].as_str().unwrap().contains("of its 1 tok"));
    assert_eq!(player.requests().len(), 1);
}

#[kit::test]
async fn turns_that_begin_together_share_the_limit_of_a_day() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "seen"}]))).await;
    let proxy = with_one_token(&player).await;
    let body = asks("x", json!({}));
    let sent = (0..20).map(|_| send(&proxy, "alice", "POST /v1/responses", &body));
    let replies = futures_util::future::join_all(sent).await;
    let allowed = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!((allowed, player.requests().len()), (1, 1));
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply.status, 200 | 429))
    );
}
