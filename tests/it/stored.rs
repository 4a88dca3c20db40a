//! Stored responses, conversations and background responses, over HTTP and across restarts.

use kit::player::{Player, PlayerWire, ScriptedAnswer};
pub use owners::{client, routes, send, unknown};
use serde_json::{Value, json};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Reply, Setup};

mod answers;
pub mod background;
mod clients;
mod conversations;
mod fair;
mod owners;
mod responses;
mod shares;
mod two_owners;
pub mod webhooks;

/// A provider that answers each request with the next of these texts.
pub async fn provider(texts: &[&str]) -> Player {
    let player = player(PlayerWire::Chat).await;
    for text in texts {
        player.push(says(text));
    }
    player
}

pub fn says(text: &str) -> ScriptedAnswer {
    answer(json!([{"text": text}]))
}

/// The contents of the messages that the provider got with its request of this number, each with
/// its role before it.
pub fn messages(player: &Player, number: usize) -> Vec<String> {
    let request = player.requests()[number].json();
    let messages = request["messages"].as_array().unwrap().clone();
    let shown = messages.iter().map(|message| {
        let content = match &message["content"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("{}: {content}", message["role"].as_str().unwrap())
    });
    shown.collect()
}

/// A request for this input, with more parameters.
pub fn asks(input: impl Into<Value>, more: Value) -> Value {
    let mut body = json!({"model": "up/m", "input": input.into()});
    let Value::Object(more) = more else {
        panic!("{more}")
    };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

/// Stops the program with SIGTERM and starts it again in the same folder.
pub async fn restarted(mut proxy: Proxy, setup: &Setup) -> Proxy {
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    Proxy::start_in_folder(proxy.folder, setup).await
}

/// Kills the program and starts it again in the same folder.
pub async fn killed(mut proxy: Proxy, setup: &Setup) -> Proxy {
    proxy.kill().await;
    proxy.wait_for_exit().await;
    Proxy::start_in_folder(proxy.folder, setup).await
}

/// What a request for something of this server returns.
async fn get(proxy: &Proxy, path: &str) -> Value {
    ok(&proxy.get(path).await)
}

fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    serde_json::from_str(&reply.body).unwrap()
}
