//! Prompt templates: what a provider gets for a request that names one.

use kit::player::{Player, ScriptedAnswer};
use serde_json::{Value, json};

use crate::bundles::run;
use crate::proxy::{Proxy, Setup};
use crate::stored::{messages, provider};
use crate::websocket::client::Socket;

const GREETING: &str = r#"
model = "up/m"
temperature = 0.5
instructions = "You greet the customers of {{shop}}."

[[messages]]
role = "user"
content = "Greet {{name}}."
"#;

async fn greeter(player: &Player) -> Proxy {
    let setup = Setup::new()
        .tables("[prompts]\nfolder = \"prompts\"")
        .file("prompts/greeting/1.toml", "instructions = \"old\"")
        .file("prompts/greeting/2.toml", GREETING)
        .wire_of(player);
    Proxy::start_with(player, setup).await
}

fn asks(more: Value) -> Value {
    let mut body =
        json!({"prompt": {"id": "greeting", "variables": {"shop": "Bear & Co", "name": "Ada"}}});
    let Value::Object(more) = more else {
        panic!("{more}")
    };
    body.as_object_mut().unwrap().extend(more);
    body
}

/// Promise: For a `prompt` its template from a folder of the configuration is filled in, with the
/// variables filled in and the parameters of the request above those of the template, in the same
/// way over HTTP, in the background, over a WebSocket, in an estimate and for a compaction. The
/// response repeats it with its version. Templates are limited, read again when they change, and
/// not read for a configuration that was found and not named.
#[kit::test]
async fn a_prompt_is_filled_in_on_every_way_to_a_turn() {
    let player = provider(&["one", "two", "three", "four", "five"]).await;
    let proxy = greeter(&player).await;
    let filled = [
        "system: You greet the customers of Bear & Co.",
        "user: Greet Ada.",
    ];
    let first = proxy.response(&asks(json!({}))).await;
    assert_eq!(
        first["instructions"],
        "You greet the customers of Bear & Co."
    );
    assert_eq!(first["model"], "up/m");
    assert_eq!(first["temperature"], 0.5);
    let named = json!({"id": "greeting", "version": "2", "variables": {"shop": "Bear & Co", "name": "Ada"}});
    assert_eq!(first["prompt"], named);
    let streamed = proxy.stream(&asks(json!({"temperature": 1}))).await;
    assert_eq!(streamed.response["prompt"], named);
    let job = proxy.post(&asks(json!({"background": true}))).await;
    let job: Value = serde_json::from_str(&job.body).unwrap();
    let events = format!("/v1/responses/{}?stream=true", job["id"].as_str().unwrap());
    assert_eq!(job["prompt"], named);
    let ran = proxy.get(&events).await.stream();
    assert_eq!(ran.response["prompt"], named);
    let mut socket = Socket::open(&proxy).await;
    let sent = socket.turn(&asks(json!({}))).await;
    assert_eq!(sent.response["prompt"], named);
    for response in [&first, &ran.response] {
        let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
        let stored: Value = serde_json::from_str(&proxy.get(&path).await.body).unwrap();
        assert_eq!(stored["prompt"], named);
    }
    for number in 0..4 {
        assert_eq!(messages(&player, number), filled, "request {number}");
        assert!(player.requests()[number].json().get("prompt").is_none());
        let temperature = &player.requests()[number].json()["temperature"];
        assert_eq!(
            temperature.as_f64(),
            Some(if number == 1 { 1.0 } else { 0.5 })
        );
    }
    // Its messages are in the history of what continues it, and its instructions are not.
    let more = json!({"model": "up/m", "input": "Again.", "previous_response_id": first["id"]});
    proxy.response(&more).await;
    assert_eq!(
        messages(&player, 4),
        ["user: Greet Ada.", "assistant: one", "user: Again."]
    );
    // An estimate counts what is filled in.
    let mut counted = Vec::new();
    for name in ["Ada", &"Ada ".repeat(500)] {
        let variables = json!({"shop": "s", "name": name});
        let body = json!({"prompt": {"id": "greeting", "variables": variables}});
        let reply = proxy
            .post_to("/v1/responses/input_tokens", &body, &[])
            .await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let count: Value = serde_json::from_str(&reply.body).unwrap();
        counted.push(count["input_tokens"].as_u64().unwrap());
    }
    assert!(counted[1] > counted[0] + 300, "{counted:?}");
}

#[kit::test]
async fn a_prompt_that_cannot_be_filled_in_is_refused_on_every_way() {
    let player = provider(&[]).await;
    let proxy = greeter(&player).await;
    let unknown = json!({"prompt": {"id": "../../proxy-config"}});
    for (path, more) in [
        ("/v1/responses", json!({})),
        ("/v1/responses", json!({"stream": true})),
        ("/v1/responses", json!({"background": true})),
        ("/v1/responses/compact", json!({})),
        ("/v1/responses/input_tokens", json!({})),
    ] {
        let mut body = unknown.clone();
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let error = proxy.post_to(path, &body, &[]).await.error(400);
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("prompt_not_found"), &json!("prompt.id")),
            "{path} {body}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(
            message.ends_with("this server has the prompts 'greeting'."),
            "{message}"
        );
    }
    let mut socket = Socket::open(&proxy).await;
    socket.create(&unknown).await;
    assert_eq!(socket.error(400).await, "prompt_not_found");
    // A server without templates says how to have some.
    let proxy = Proxy::start(&player).await;
    let error = proxy.post(&asks(json!({}))).await.error(400);
    assert_eq!(error["param"], "prompt");
    assert!(
        error["message"].as_str().unwrap().contains("[prompts]"),
        "{error}"
    );
    assert!(player.requests().is_empty());
}

/// Promise: A turn replays without the templates, also one that was refused for its prompt.
#[kit::test]
async fn a_turn_replays_without_the_templates_of_its_prompt() {
    let player = provider(&[]).await;
    let proxy = greeter(&player).await;
    player.push(ScriptedAnswer::error(400, "the provider says no"));
    proxy.post(&asks(json!({}))).await.error(400);
    check_replay(&proxy, "the provider says no").await;
    for (prompt, says) in [
        (json!({"id": "parting"}), "Prompt 'parting' not found"),
        (json!({"id": "greeting", "version": "7"}), "no such version"),
    ] {
        proxy.post(&json!({"prompt": prompt})).await.error(400);
        check_replay(&proxy, says).await;
    }
    let proxy = Proxy::start(&player).await;
    proxy.post(&asks(json!({}))).await.error(400);
    check_replay(&proxy, "This server has no prompt templates").await;
}

/// Checks that the last turn, which failed for this reason, replays as it was.
async fn check_replay(proxy: &Proxy, says: &str) {
    let file = format!("{}.tar.zst", says.replace(' ', "-").replace('\'', ""));
    run(proxy, &format!("bundle create --last --output {file}"))
        .await
        .ok();
    let shown = run(proxy, &format!("bundle show {file}")).await.ok();
    assert!(shown.contains(says), "{shown}");
    let replayed = run(proxy, &format!("replay {file}")).await.ok();
    assert!(replayed.contains("equal"), "{replayed}");
}
