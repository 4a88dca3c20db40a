//! What one client has waiting, running or open leaves room for another one.

use bytes::Bytes;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::clients::stalls;
use super::{asks, client, id, messages, ok, says, send};
use crate::faults::player;
use crate::proxy::{Proxy, Setup};
use crate::websocket::client::Socket;

/// A server for alice and bob.
fn two_clients() -> Setup {
    let setup = Setup::new().env("RESPONDENT_TOKEN", "operator-token-1");
    let setup = setup
        .tables(&client("alice", ""))
        .tables(&client("bob", ""));
    setup.tables("[capture]\nmode = \"off\"")
}

/// Queues a job.
async fn queue(proxy: &Proxy, who: &str, input: &str) -> String {
    let body = asks(input, json!({"background": true}));
    id(&ok(&send(proxy, who, "POST /v1/responses", &body).await))
}

/// Waits for the end of a job, and returns its status.
async fn end(proxy: &Proxy, who: &str, job: &str) -> Value {
    let events = format!("GET /v1/responses/{job}?stream=true");
    let ended = send(proxy, who, &events, &Value::Null).await.stream();
    ended.response["status"].clone()
}

#[kit::test(minutes = 5)]
async fn requests_of_jobs_that_wait_are_on_the_disk_alone() {
    const BUDGET: usize = 128 << 20;
    const LARGE: usize = 8 << 20;
    let player = player(PlayerWire::Chat).await;
    player.push(stalls());
    player.push(ScriptedAnswer {
        repeat: true,
        ..says("done")
    });
    let setup = two_clients().wire_of(&player);
    let setup = setup.server(&format!("memory = {BUDGET}"));
    let proxy = Proxy::start_with(&player, setup.tables("[jobs]\nrunning = 1")).await;
    let first = queue(&proxy, "alice", "hi").await;
    player.wait_requests(1).await;
    let image = format!("data:image/png;base64,{}", "A".repeat(LARGE));
    let image = json!([{"type": "input_image", "image_url": image}]);
    let large = json!([{"role": "user", "content": image}]);
    let large = Bytes::from(asks(large, json!({"background": true})).to_string());
    let alice = [("authorization", "Bearer alice-token-1")];
    let mut jobs = Vec::new();
    for _ in 0..BUDGET / LARGE {
        jobs.push(id(&ok(&proxy.post_bytes(large.clone(), &alice).await)));
    }
    let usual = asks("word ".repeat(100_000), json!({}));
    ok(&send(&proxy, "bob", "POST /v1/responses", &usual).await);
    let cancel = format!("POST /v1/responses/{first}/cancel");
    ok(&send(&proxy, "alice", &cancel, &json!({})).await);
    for job in &jobs {
        assert_eq!(end(&proxy, "alice", job).await, "completed");
    }
}

/// Promise: No client takes the last places for jobs, connections and searches, and connections
/// without an accepted request give way to others.
#[kit::test]
async fn jobs_that_hang_leave_a_place_for_another_client() {
    let player = player(PlayerWire::Chat).await;
    for _ in 0..3 {
        player.push(stalls());
    }
    player.push(says("done"));
    let setup = two_clients().wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.tables("[jobs]\nrunning = 4")).await;
    for _ in 0..5 {
        queue(&proxy, "alice", "hers").await;
    }
    player.wait_requests(3).await;
    let his = queue(&proxy, "bob", "his").await;
    player.wait_requests(4).await;
    assert_eq!(messages(&player, 3), ["user: his"]);
    assert_eq!(end(&proxy, "bob", &his).await, "completed");
    assert_eq!(player.requests().len(), 4);
}

#[kit::test]
async fn idle_sockets_leave_connections_for_another_client() {
    let player = player(PlayerWire::Chat).await;
    player.push(says("done"));
    let setup = two_clients().wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.server("max_connections = 32")).await;
    let open = async |who: &str| {
        let header = format!("Authorization: Bearer {who}-token-1\r\n");
        Socket::shake(&proxy, &header).await
    };
    let mut sockets = Vec::new();
    for _ in 0..24 {
        let (socket, head) = open("alice").await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        sockets.push(socket);
    }
    let (_, head) = open("alice").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    ok(&send(&proxy, "bob", "POST /v1/responses", &asks("hi", json!({}))).await);
    let (_, head) = open("bob").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // One that ends leaves its place.
    sockets.pop();
    while !open("alice").await.1.starts_with("HTTP/1.1 101 ") {}
}

#[kit::test]
async fn connections_without_an_accepted_request_give_way_to_others() {
    const PLACES: usize = 8;
    let player = player(PlayerWire::Chat).await;
    let limits = format!("max_connections = {PLACES}\nheader_timeout = \"1h\"");
    let setup = two_clients().wire_of(&player).server(&limits);
    let proxy = Proxy::start_with(&player, setup).await;
    let mut hers = Socket::open_with(&proxy, "Authorization: Bearer alice-token-1\r\n").await;
    let mut crowd = Vec::new();
    for begin in [
        "",
        "POST /v1/responses HTTP/1.1\r\nHo",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong-token\r\n\r\n",
    ] {
        for _ in 0..PLACES {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            stream.write_all(begin.as_bytes()).await.unwrap();
            if begin.ends_with("\r\n\r\n") {
                stream.read_u8().await.expect("an answer");
            }
            crowd.push(stream);
        }
        player.push(says("done"));
        ok(&send(&proxy, "bob", "POST /v1/responses", &asks("hi", json!({}))).await);
    }
    player.push(says("done"));
    // Whoever is known keeps the connection.
    let events = hers.turn(&asks("hi", json!({}))).await;
    assert_eq!(events.response["status"], "completed");
}
