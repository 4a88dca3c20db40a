//! A server is killed in the middle of turns with long outputs.
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapters::plan::output::artifact_id;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use kit::player::{Player, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{id_length, kill_count, setup_with_data_dir};
use crate::proxy::Proxy;
use crate::turns::parse_steps;

/// The number of sessions that send turns at the same time.
const SESSIONS: u64 = 4;

/// The ids of all artifacts that occurred in requests to the model.
#[derive(Default)]
struct SeenArtifactIds {
    ids: Mutex<BTreeSet<String>>,
    changed: Notify,
}

impl SeenArtifactIds {
    fn record(&self, request: &str) {
        let ids = request.match_indices("art_").filter_map(|(at, prefix)| {
            let id = request.get(at..at + id_length())?;
            let digits = id.get(prefix.len()..)?;
            let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            hex.then(|| id.to_owned())
        });
        self.ids.lock().unwrap().extend(ids);
        self.changed.notify_waiters();
    }

    fn all(&self) -> BTreeSet<String> {
        self.ids.lock().unwrap().clone()
    }

    /// Waits until there are at least `count` ids.
    async fn wait_for_count(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.ids.lock().unwrap().len() >= count {
                return;
            }
            changed.await;
        }
    }
}

// An hour, because there may be many kills.
#[kit::test(minutes = 60)]
async fn artifacts_that_a_model_was_shown_survive_a_kill_of_the_server() {
    let data = tempfile::tempdir().unwrap();
    let setup = setup_with_data_dir(&data);
    let seen = Arc::<SeenArtifactIds>::default();
    let recorder = Arc::clone(&seen);
    let player = Player::serve(
        vec!["m".to_owned()],
        Box::new(move |request| {
            recorder.record(&request.body);
            ScriptedAnswer::steps(parse_steps(json!([{"text": "go on"}])))
        }),
    );
    let player = player.await.unwrap();
    let mut checked = BTreeSet::new();
    for kill in 0..kill_count() {
        let mut proxy = Proxy::start_with(&player, setup.clone()).await;
        let before = seen.all();
        assert_all_readable(&proxy, before.difference(&checked)).await;
        checked.clone_from(&before);
        let mut sessions = JoinSet::new();
        for session in 0..SESSIONS {
            let number = kill as u64 * SESSIONS + session;
            sessions.spawn(self::session(proxy.address, number));
        }
        seen.wait_for_count(before.len() + 1 + kill * 7 % 23).await;
        // Kill the server at varying points of the turns that follow.
        tokio::time::sleep(Duration::from_micros(kill as u64 * 7_919 % 30_000)).await;
        proxy.kill().await;
        sessions.abort_all();
        while let Some(ended) = sessions.join_next().await {
            assert!(
                !ended.is_err_and(|error| error.is_panic()),
                "a session panicked, see above"
            );
        }
    }
    let proxy = Proxy::start_with(&player, setup).await;
    let all = seen.all();
    assert_all_readable(&proxy, all.iter()).await;
}

/// Checks that each artifact is stored on disk and complete.
async fn assert_all_readable(proxy: &Proxy, ids: impl Iterator<Item = &String>) {
    assert!(!proxy.log().contains("ARTIFACT_STORE"), "{}", proxy.log());
    for id in ids {
        let reply = proxy.get(&format!("/v1/artifacts/{id}")).await;
        assert_eq!(
            reply.status, 200,
            "{id} was shown to the model and is missing"
        );
        assert_eq!(reply.header("x-artifact-persistent"), Some("true"));
        assert_eq!(artifact_id(&reply.body), *id);
    }
}

/// Sends the turns of a session with a long tool output each, until the server is gone.
async fn session(server: SocketAddr, number: u64) {
    let mut input = vec![json!({"role": "user", "content": format!("session {number}")})];
    for turn in 0.. {
        let call = format!("call_{turn}");
        input.push(
            json!({"type": "function_call", "call_id": call, "name": "run", "arguments": "{}"}),
        );
        let output = tool_output(number * 1_000 + turn);
        input.push(json!({"type": "function_call_output", "call_id": call, "output": output}));
        if send(server, &json!({"model": "m", "input": input}))
            .await
            .is_none()
        {
            return;
        }
    }
}

/// A text that exceeds every limit on outputs: 50,000 bytes or ten times that.
fn tool_output(seed: u64) -> String {
    let lines = if seed.is_multiple_of(5) {
        16_000
    } else {
        1_600
    };
    let mut text = String::new();
    for line in 0..lines {
        let noise = ((seed << 20) | line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(text, "{seed} {line} {noise:020}").unwrap();
    }
    text
}

/// Sends a turn. Returns `None` if the server is gone.
async fn send(server: SocketAddr, turn: &Value) -> Option<()> {
    let stream = TcpStream::connect(server).await.ok()?;
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.ok()?;
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let request = Request::post("/v1/responses")
        .header("host", server.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(turn.to_string())))
        .unwrap();
    let answer = sender.send_request(request).await.ok()?;
    let status = answer.status();
    answer.into_body().collect().await.ok()?;
    assert_eq!(status, 200);
    Some(())
}
