//! How long a provider that is not there is waited for, and what Codex shows of a wait.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kit::address::ReservedAddress;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{answer, body, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::websocket::client::Socket;

/// A whole answer of Chat Completions.
const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
    {\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"there\"},\
    \"finish_reason\":\"stop\"}]}";

/// A refusal of a prompt.
const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\n\
    connection: close\r\n\r\n{\"error\":{\"message\":\"You may not use this.\"}}";

/// A server that gives its first connections these answers and closes the others.
struct Leaving {
    base_url: String,
    connections: Arc<AtomicUsize>,
}

impl Leaving {
    async fn after(answers: usize) -> Self {
        Self::with(vec![ANSWER; answers]).await
    }

    async fn with(answers: Vec<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = answers.get(counter.fetch_add(1, Ordering::SeqCst));
                if let Some(answer) = answer {
                    let _ = stream.read(&mut vec![0; 65536]).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        });
        Self {
            base_url,
            connections,
        }
    }

    fn requests(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The code with which a turn of Codex ends; `None` if it is answered.
async fn ends_with(proxy: &Proxy, input: &str) -> Option<String> {
    let body = streaming(&json!({"model": "m", "input": input}));
    let reply = proxy.post_with(&body, CODEX).await;
    let stream = reply.stream_for_codex();
    stream.error_code().map(str::to_owned)
}

/// Promise: If nobody is there at the first request to a provider, one more request is sent; then
/// Codex and clients that honour `x-should-retry` stop, at once.
#[tokio::test]
async fn a_provider_that_was_never_there_gets_one_more_request() {
    let provider = Leaving::after(0).await;
    let proxy = Proxy::start_for_url(&provider.base_url, Setup::new()).await;
    let stop = Some("invalid_prompt".to_owned());
    assert_eq!(ends_with(&proxy, "go").await, stop);
    assert_eq!(provider.requests(), 2);
    // The same prompt again.
    assert_eq!(ends_with(&proxy, "go").await, stop);
    assert_eq!(provider.requests(), 3);
    let reply = proxy.post(&body()).await;
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    let error = reply.error(502);
    let message = error["message"].as_str().unwrap();
    assert!(
        !message.contains("have failed for this prompt"),
        "{message}"
    );
    assert_eq!(provider.requests(), 5);
}

#[tokio::test]
async fn nobody_at_all_gets_one_more_request() {
    let closed = ReservedAddress::new().unwrap();
    let base_url = format!("http://{closed}/v1");
    for url in [base_url.as_str(), "https://no-such-host.invalid/v1"] {
        let proxy = Proxy::start_for_url(url, Setup::new()).await;
        let stop = Some("invalid_prompt".to_owned());
        assert_eq!(ends_with(&proxy, "go").await, stop, "{url}");
        let retries = proxy.metric("respondent_upstream_retries_total", "").await;
        assert!((retries - 1.0).abs() < 0.1, "{retries} {url}");
    }
}

/// Promise: A provider that has answered within the last hour and is gone gets all eight requests
/// of a prompt, so that a network that is gone for a moment does not end a long session. Once it
/// was given up, one more request is enough again.
#[tokio::test]
async fn a_provider_that_has_answered_is_waited_for_longer() {
    let provider = Leaving::after(1).await;
    let setup = Setup::new().provider("max_retries = 0");
    let proxy = Proxy::start_for_url(&provider.base_url, setup).await;
    assert_eq!(ends_with(&proxy, "hello").await, None);
    let mut codes = Vec::new();
    for _ in 0..8 {
        codes.push(ends_with(&proxy, "go").await.unwrap());
    }
    assert_eq!(codes[..7], ["server_error"; 7]);
    assert_eq!(codes[7], "invalid_prompt");
    proxy
        .wait_for_log("8 requests have failed for this prompt")
        .await;
    for code in ["server_error", "invalid_prompt"] {
        assert_eq!(ends_with(&proxy, "go on").await.as_deref(), Some(code));
    }
}

/// A refusal by which a local server says that it is loading its model.
fn loading() -> ScriptedAnswer {
    let mut answer = ScriptedAnswer::error(503, "Loading model");
    answer.headers.insert("retry-after-ms".into(), "1".into());
    answer
}

/// What a provider refuses to one prompt says nothing of whether it is there.
#[tokio::test]
async fn a_prompt_that_is_refused_takes_no_patience_from_others() {
    let mut answers = vec![REFUSAL; 9];
    answers[0] = ANSWER;
    let provider = Leaving::with(answers).await;
    let setup = Setup::new().provider("max_retries = 0");
    let proxy = Proxy::start_for_url(&provider.base_url, setup).await;
    assert_eq!(ends_with(&proxy, "hello").await, None);
    for _ in 0..8 {
        assert!(ends_with(&proxy, "go").await.is_some());
    }
    assert_eq!(provider.requests(), 9);
    // A provider that was given up gets two requests for a prompt.
    for _ in 0..3 {
        let code = ends_with(&proxy, "go on").await;
        assert_eq!(code.as_deref(), Some("server_error"));
    }
}

/// The lines about waiting in the stream of a turn, in their order.
fn lines(stream: &kit::strict::CheckedStream) -> Vec<&str> {
    let is_line = |data: &&Value| {
        data["item_id"]
            .as_str()
            .is_some_and(|it| it.starts_with("rs_wait_"))
    };
    let events = stream.events.iter();
    let deltas = events.filter(|(kind, _)| kind == "response.reasoning_summary_text.delta");
    let lines = deltas.map(|(_, data)| data).filter(is_line);
    lines.map(|data| data["delta"].as_str().unwrap()).collect()
}

/// Promise: A server that says that it is loading its model is waited for as long as for the first
/// byte of an answer, with at most four requests a second, whatever pause it asks for; a fallback
/// is taken instead.
#[kit::test(on_each_wire)]
async fn a_model_that_is_loading_is_waited_for(wire: PlayerWire) {
    for headers in [&[], CODEX] {
        let player = player(wire).await;
        let proxy = Proxy::start(&player).await;
        (0..12).for_each(|_| player.push(loading()));
        player.push(answer(json!([{"text": "there"}])));
        let begun = Instant::now();
        let reply = proxy.post_with(&streaming(&body()), headers).await;
        assert_eq!(reply.stream_for_codex().text(), "there");
        assert_eq!(player.requests().len(), 13);
        assert!(begun.elapsed() >= Duration::from_secs(3));
    }
    let (up, other) = (player(wire).await, player(wire).await);
    let setup = Setup::new().other("other", &other, "");
    let setup = setup.tables("[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]");
    let proxy = Proxy::start_with(&up, setup).await;
    (0..2).for_each(|_| up.push(loading()));
    other.push(answer(json!([{"text": "elsewhere"}])));
    let body = json!({"model": "up/m", "input": "go"});
    assert_eq!(proxy.stream(&body).await.text(), "elsewhere");
}

#[kit::test(on_each_wire)]
async fn nothing_is_sent_again_after_content_although_the_model_is_loading(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    let error = json!({"code": 503, "message": "Loading model", "type": "unavailable_error"});
    player.push(answer(json!([{"text": "Hello"}, {"error": error}])));
    let stream = proxy.stream(&body()).await;
    assert_eq!(
        (stream.text(), stream.terminal.as_str()),
        ("Hello".into(), "response.failed")
    );
    assert_eq!(player.requests().len(), 1);
}

/// Promise: While a turn of Codex waits for more than two seconds, or for a model to load, its
/// stream says for what, in an item that never ends: it is no part of the response, and Codex does
/// not keep it. Other clients see nothing of it.
#[kit::test(on_each_wire)]
async fn codex_shows_what_a_turn_waits_for(wire: PlayerWire) {
    let mut limit = ScriptedAnswer::error(429, "slow down");
    limit.headers.insert("retry-after-ms".into(), "2100".into());
    let load = "**Waiting for up to load its model**\n\n";
    let wait = "**Waiting 3 s for the rate limit of up**\n\n";
    let work = "**Working**\n\n";
    for (refusals, expected) in [
        (vec![loading(), loading()], vec![load, work]),
        (vec![loading(), limit], vec![load, wait, work]),
    ] {
        let player = player(wire).await;
        let proxy = Proxy::start(&player).await;
        let steps = json!([{"reasoning": "I think."}, {"text": "there"}]);
        for headers in [CODEX, &[]] {
            for refusal in &refusals {
                player.push(refusal.clone());
            }
            player.push(answer(steps.clone()));
            let reply = proxy.post_with(&streaming(&body()), headers).await;
            let stream = if headers.is_empty() {
                reply.stream()
            } else {
                reply.stream_for_codex()
            };
            let expected = if headers.is_empty() {
                &[]
            } else {
                &expected[..]
            };
            assert_eq!(lines(&stream), expected);
            assert_eq!(
                (stream.text(), stream.reasoning()),
                ("there".into(), "I think.".into())
            );
            let output = stream.response["output"].as_array().unwrap();
            assert_eq!(output.len(), 2, "{output:?}");
        }
    }
    // A turn that fails after all.
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    player.push(loading());
    player.push(ScriptedAnswer::error(400, "no"));
    let reply = proxy.post_with(&streaming(&body()), CODEX).await;
    let stream = reply.stream_for_codex();
    assert_eq!(lines(&stream), [load]);
    assert_eq!(stream.error_code(), Some("invalid_prompt"));
    assert_eq!(stream.response["output"], json!([]));
    // Over a WebSocket.
    player.push(loading());
    player.push(answer(json!([{"text": "there"}])));
    let mut socket = Socket::open_with(&proxy, "originator: codex_exec\r\n").await;
    let stream = socket.turn(&body()).await;
    assert_eq!(lines(&stream), [load, work]);
    assert_eq!(stream.text(), "there");
}
