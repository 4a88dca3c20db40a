//! Clients that are added, changed and removed while the server runs, and what several of them ask
//! for at the same time.

use kit::player::{Player, PlayerWire, ScriptedAnswer};
use respondent::secrets::TokenHash;
use serde_json::{Value, json};

use super::owners::{client, send, unknown};
use super::{asks, id, messages, ok, says};
use crate::faults::{answer, player, repeating_player};
use crate::proxy::{OpenReply, Proxy, Setup, streaming, write};

/// A server for these clients, which whoever runs it has another token for.
fn setup(player: &Player, clients: &[String]) -> Setup {
    let setup = Setup::new().env("RESPONDENT_TOKEN", "local-token-1");
    let setup = clients.iter().fold(setup, |setup, it| setup.tables(it));
    setup.wire_of(player)
}

/// Replaces the clients in the configuration, and waits until that is in force.
async fn reload(proxy: &Proxy, player: &Player, clients: &[String], change: &str) {
    let text = setup(player, clients).config(&player.base_url());
    write(proxy.folder.path(), "proxy-config.toml", &text);
    proxy.wait_for_log(change).await;
}

async fn create(proxy: &Proxy, who: &str, more: Value) -> crate::proxy::Reply {
    send(proxy, who, "POST /v1/responses", &asks("x", more)).await
}

#[kit::test]
async fn clients_are_added_limited_and_removed_while_the_server_runs() {
    let player = repeating_player(PlayerWire::Chat, says("seen")).await;
    let (alice, bob) = (client("alice", ""), client("bob", ""));
    let proxy = Proxy::start_with(&player, setup(&player, std::slice::from_ref(&alice))).await;
    let hers = id(&ok(&create(&proxy, "alice", json!({})).await));
    let hers = format!("GET /v1/responses/{hers}");
    assert_eq!(create(&proxy, "bob", json!({})).await.status, 401);
    reload(&proxy, &player, &[alice.clone(), bob.clone()], "bob added").await;
    assert_eq!(create(&proxy, "bob", json!({})).await.status, 200);
    assert_eq!(send(&proxy, "bob", &hers, &Value::Null).await.status, 404);
    // What was used before the limit counts.
    let limited = client("alice", "max_tokens_per_day = 1");
    reload(&proxy, &player, &[limited, bob.clone()], "alice changed").await;
    let refused = create(&proxy, "alice", json!({})).await;
    let error = refused.error(429);
    assert!(error["message"].as_str().unwrap().contains("of its 1 tok"));
    assert_eq!(create(&proxy, "bob", json!({})).await.status, 200);
    ok(&send(&proxy, "alice", &hers, &Value::Null).await);
    reload(&proxy, &player, std::slice::from_ref(&bob), "alice removed").await;
    for route in ["POST /v1/responses", &hers, "GET /v1/models"] {
        let refused = send(&proxy, "alice", route, &asks("x", json!({}))).await;
        assert_eq!(refused.status, 401, "{route}: {}", refused.body);
    }
    let asked = player.requests().len();
    assert_eq!(asked, 3);
    reload(&proxy, &player, &[alice, bob], "alice added").await;
    ok(&send(&proxy, "alice", &hers, &Value::Null).await);
    assert_eq!(create(&proxy, "alice", json!({})).await.status, 200);
}

/// A stream of a client which has begun and goes on until it is dropped.
async fn open(proxy: &Proxy, who: &str) -> OpenReply {
    let bearer = format!("Bearer {who}-token-1");
    let body = streaming(&asks("x", json!({}))).to_string();
    let headers = [("authorization", bearer.as_str())];
    let mut open = proxy.open(body, &headers).await;
    open.read_until("begun").await;
    open
}

pub fn stalls() -> ScriptedAnswer {
    answer(json!([{"text": "begun"}, {"stall": true}]))
}

#[kit::test]
async fn a_client_has_as_many_turns_at_once_as_it_may_and_others_are_not_held_up() {
    let player = player(PlayerWire::Chat).await;
    player.push(stalls());
    player.push(ScriptedAnswer {
        repeat: true,
        ..says("seen")
    });
    let limited = client("alice", "max_concurrent_requests = 1");
    let proxy = Proxy::start_with(&player, setup(&player, &[limited, client("bob", "")])).await;
    let running = open(&proxy, "alice").await;
    let refused = create(&proxy, "alice", json!({})).await;
    let error = refused.error(429);
    assert_eq!(error["code"], "rate_limit_exceeded");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("(max_concurrent_requests)"), "{message}");
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert_eq!(player.requests().len(), 1);
    assert_eq!(create(&proxy, "bob", json!({})).await.status, 200);
    // A job in the background waits instead.
    let queued = ok(&create(&proxy, "alice", json!({"background": true})).await);
    assert_eq!(queued["status"], "queued");
    drop(running);
    let events = format!("GET /v1/responses/{}?stream=true", id(&queued));
    let ended = send(&proxy, "alice", &events, &Value::Null).await.stream();
    assert_eq!(ended.response["status"], "completed");
}

#[kit::test]
async fn the_events_of_a_job_end_with_the_token_that_asked_for_them() {
    let player = repeating_player(PlayerWire::Chat, stalls()).await;
    let setup_of = |hash: &TokenHash| format!("[clients.alice]\ntoken_sha256 = \"{hash}\"\n");
    let tokens = ["alice-token-1", "alice-token-2"];
    let [old, new] = tokens.map(|token| setup_of(&TokenHash::of(token.as_bytes())));
    let proxy = Proxy::start_with(&player, setup(&player, &[old])).await;
    let bearers = tokens.map(|token| format!("Bearer {token}"));
    let [old, current] = bearers
        .each_ref()
        .map(|it| [("authorization", it.as_str())]);
    let body = asks("x", json!({"background": true, "stream": true}));
    let mut sender = proxy.open(body.to_string(), &old).await;
    sender.read_until("begun").await;
    let (_, id) = sender.text.split_once("\"id\":\"resp_").unwrap();
    let path = format!("/v1/responses/resp_{}", id.split_once('"').unwrap().0);
    let events = format!("{path}?stream=true");
    let mut viewer = proxy.open_get(&events, &old).await;
    viewer.read_until("begun").await;
    reload(&proxy, &player, &[new], "alice changed").await;
    let mut other = proxy.open_get(&events, &current).await;
    other.read_until("begun").await;
    ok(&proxy
        .post_to(&format!("{path}/cancel"), &json!({}), &current)
        .await);
    let seen = other.read_to_end().await.stream();
    assert_eq!(seen.response["status"], "cancelled");
    for ended in [sender, viewer] {
        let seen = ended.read_to_end().await.body;
        assert!(seen.ends_with("\n\n"), "{seen}");
        assert!(
            !seen.contains("cancelled") && !seen.contains("[DONE]"),
            "{seen}"
        );
    }
}

/// What the provider was asked, without the roles.
fn asked(player: &Player) -> Vec<String> {
    let numbers = 0..player.requests().len();
    let texts = numbers.map(|number| messages(player, number).concat());
    texts.map(|text| text.replace("user: ", "")).collect()
}

/// Sends background requests with these texts, and returns the ids of the responses.
async fn queue(proxy: &Proxy, who: &str, texts: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for text in texts {
        let body = asks(*text, json!({"background": true}));
        let queued = ok(&send(proxy, who, "POST /v1/responses", &body).await);
        assert_eq!(queued["status"], "queued");
        ids.push(id(&queued));
    }
    ids
}

async fn cancel(proxy: &Proxy, who: &str, id: &str) {
    let route = format!("POST /v1/responses/{id}/cancel");
    ok(&send(proxy, who, &route, &json!({})).await);
}

#[kit::test]
async fn jobs_of_several_clients_begin_in_turn() {
    let player = player(PlayerWire::Chat).await;
    player.push(stalls());
    player.push(ScriptedAnswer {
        repeat: true,
        ..says("seen")
    });
    let setup = setup(&player, &[client("alice", ""), client("bob", "")]);
    let setup = setup.tables("[jobs]\nrunning = 1");
    let proxy = Proxy::start_with(&player, setup).await;
    let first = queue(&proxy, "alice", &["a0"]).await;
    player.wait_requests(1).await;
    queue(&proxy, "alice", &["a1", "a2", "a3"]).await;
    queue(&proxy, "bob", &["b0", "b1"]).await;
    cancel(&proxy, "alice", &first[0]).await;
    player.wait_requests(6).await;
    assert_eq!(asked(&player), ["a0", "a1", "b0", "a2", "b1", "a3"]);
}

#[kit::test]
async fn a_client_at_its_limit_is_passed_over() {
    let player = player(PlayerWire::Chat).await;
    player.push(stalls());
    player.push(ScriptedAnswer {
        repeat: true,
        ..says("seen")
    });
    let limited = client("alice", "max_concurrent_requests = 1");
    let setup = setup(&player, &[limited, client("bob", "")]).tables("[jobs]\nrunning = 2");
    let proxy = Proxy::start_with(&player, setup).await;
    let hers = queue(&proxy, "alice", &["a0", "a1"]).await;
    player.wait_requests(1).await;
    queue(&proxy, "bob", &["b0"]).await;
    player.wait_requests(2).await;
    assert_eq!(asked(&player), ["a0", "b0"]);
    cancel(&proxy, "alice", &hers[0]).await;
    player.wait_requests(3).await;
    assert_eq!(asked(&player), ["a0", "b0", "a1"]);
}

#[kit::test]
async fn the_tokens_of_two_owners_in_one_request_are_refused_wherever_they_are() {
    let player = repeating_player(PlayerWire::Chat, says("seen")).await;
    let clients = [client("alice", ""), client("bob", "")];
    let proxy = Proxy::start_with(&player, setup(&player, &clients)).await;
    let bearer = |who: &str| ("authorization", format!("Bearer {who}-token-1"));
    let bare = |name: &'static str, who: &str| (name, format!("{who}-token-1"));
    for (headers, is_allowed) in [
        ([bearer("alice"), bare("x-api-key", "bob")], false),
        ([bearer("bob"), bare("x-api-key", "alice")], false),
        ([bare("api-key", "alice"), bare("x-api-key", "bob")], false),
        ([bearer("local"), bare("x-api-key", "bob")], false),
        ([bearer("alice"), bare("x-api-key", "alice")], true),
        ([bearer("nobody"), bare("x-api-key", "alice")], true),
    ] {
        let headers = headers.each_ref().map(|(name, token)| (*name, &**token));
        let reply = proxy.post_with(&asks("x", json!({})), &headers).await;
        if is_allowed {
            assert_eq!(reply.status, 200, "{headers:?}: {}", reply.body);
            continue;
        }
        let error = reply.error(401);
        assert_eq!(error["code"], "several_api_keys", "{headers:?}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("send only one"), "{message}");
        let listed = proxy.get_with("/v1/artifacts", &headers).await;
        assert_eq!(listed.error(401)["code"], "several_api_keys");
    }
    assert_eq!(player.requests().len(), 2);
}

/// The output of a command of whoever runs the server, and whether it succeeded.
async fn command(proxy: &Proxy, setup: &Setup, args: &str) -> (bool, String) {
    let args: Vec<&str> = args.split(' ').collect();
    let (code, out, err) = proxy.run_command(setup, &args).await;
    (code == 0, out + &err)
}

#[kit::test]
async fn whoever_runs_the_server_sees_the_jobs_and_the_usage_of_every_client() {
    let player = repeating_player(PlayerWire::Chat, says("seen")).await;
    let clients = [client("alice", ""), client("bob", "")];
    let with_clients = setup(&player, &clients);
    let proxy = Proxy::start_with(&player, with_clients.clone()).await;
    let mut jobs = Vec::new();
    for who in ["alice", "bob", "local"] {
        let job = queue(&proxy, who, &["x"]).await.remove(0);
        let events = format!("GET /v1/responses/{job}?stream=true");
        send(&proxy, who, &events, &Value::Null).await.stream();
        jobs.push((who, job));
    }
    let owners = |listed: &Value| -> Vec<(String, String)> {
        let of = |job: &Value| {
            let owner = job["owner"].as_str().unwrap().to_owned();
            (owner, id(job))
        };
        listed["data"].as_array().unwrap().iter().map(of).collect()
    };
    for (who, job) in &jobs {
        let listed = send(&proxy, who, "GET /diagnostics/jobs", &Value::Null).await;
        let mut seen = owners(&ok(&listed));
        seen.reverse();
        let expected = match *who {
            "local" => jobs.iter().collect(),
            _ => vec![jobs.iter().find(|(_, own)| own == job).unwrap()],
        };
        let expected = expected
            .into_iter()
            .map(|(who, job)| ((*who).to_owned(), job.clone()));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }
    for args in ["jobs list", "status", "bundle list", "usage"] {
        let (is_done, text) = command(&proxy, &with_clients, args).await;
        assert!(is_done, "{args}: {text}");
        for who in ["alice", "bob", "local"] {
            assert!(text.contains(who), "{args}: {text}");
        }
    }
    let (_, hers) = &jobs[0];
    let (is_done, text) = command(&proxy, &with_clients, &format!("jobs show {hers}")).await;
    assert!(!is_done && text.contains("of the client alice"), "{text}");
    let (_, own) = &jobs[2];
    let (is_done, text) = command(&proxy, &with_clients, &format!("jobs show {own}")).await;
    assert!(is_done && text.contains("completed"), "{text}");
    // Without clients nobody is named.
    let alone = Setup::new().wire_of(&player);
    let proxy = Proxy::start_with(&player, alone.clone()).await;
    ok(&proxy.post(&asks("x", json!({}))).await);
    for args in ["status", "bundle list"] {
        let (is_done, text) = command(&proxy, &alone, args).await;
        assert!(is_done && !text.contains("client"), "{args}: {text}");
    }
}

#[kit::test]
async fn an_item_of_another_client_is_no_place_in_a_list() {
    let player = repeating_player(PlayerWire::Chat, says("seen")).await;
    let clients = [client("alice", ""), client("bob", "")];
    let proxy = Proxy::start_with(&player, setup(&player, &clients)).await;
    let items = json!({"items": [{"type": "message", "role": "user", "content": "x"}]});
    let mut lists = Vec::new();
    let mut items_of = Vec::new();
    for who in ["alice", "bob"] {
        let response = id(&ok(&create(&proxy, who, json!({})).await));
        let made = send(&proxy, who, "POST /v1/conversations", &items).await;
        let conversation = id(&ok(&made));
        let own = [
            format!("GET /v1/responses/{response}/input_items"),
            format!("GET /v1/conversations/{conversation}/items"),
        ];
        for list in &own {
            let listed = ok(&send(&proxy, who, list, &Value::Null).await);
            items_of.push(id(&listed["data"][0]));
        }
        lists.extend(own);
    }
    for list in &lists[2..] {
        for theirs in &items_of[..2] {
            let ask = async |item: &str| {
                let path = format!("{list}?after={item}");
                send(&proxy, "bob", &path, &Value::Null).await
            };
            let (asked, none) = (ask(theirs).await, ask(&unknown(theirs)).await);
            assert_eq!((asked.status, &asked.body), (400, &none.body));
            assert_eq!(none.error(400)["param"], "after");
        }
    }
}
