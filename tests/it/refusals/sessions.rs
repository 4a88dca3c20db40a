//! A session meets each refusal once, also after a restart, and its prompt keeps its beginning.
use kit::harness::rows;
use kit::player::{Player, PlayerScript};
use serde_json::{Value, json};

use crate::proxy::{Proxy, Setup};
use crate::stored::{client, send};

/// A server that refuses by these rules.
async fn strict(refuse: Value) -> Player {
    let mut answer = serde_json::to_value(json!({"steps": [{"text": "Done."}]})).unwrap();
    answer["repeat"] = true.into();
    let script = json!({"refuse": refuse, "models": ["m"], "answers": [answer]});
    let script: PlayerScript = serde_json::from_value(script).unwrap();
    Player::start(script).await.unwrap()
}

/// A turn of a session with so many earlier turns, two tools and two images.
fn turn(session: &str, earlier: usize) -> Value {
    let image = |data: &str| {
        let url = format!("data:image/png;base64,{data}");
        json!({"type": "input_image", "image_url": url})
    };
    let text = |text: String| json!({"type": "input_text", "text": text});
    let mut input = vec![json!({"role": "user", "content": [
        text("What do you see?".into()), image("b25l"), image("YmFk")]})];
    for number in 0..earlier {
        let call = format!("call_{number}");
        input.extend([
            json!({"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": call, "output": "a wall"}),
            json!({"role": "user", "content": [text(format!("And now, {number}?"))]}),
        ]);
    }
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["b"]}}});
    let tool = |name: &str| json!({"type": "function", "name": name, "parameters": schema});
    json!({
        "model": "up/m", "input": input, "tools": [tool("look"), tool("odd")], "stream": true,
        "prompt_cache_key": session, "top_p": 0.9,
    })
}

/// The rules, each with what it costs a new session of the same client.
fn cases() -> Vec<(&'static str, (Value, usize))> {
    let at = |rule: Value, message: &str| json!([{"rule": {"at": rule}, "message": message}]);
    vec![
        (
            "a field",
            (at(json!({"path": "top_p"}), "weg damit: {path}"), 1),
        ),
        (
            "a form",
            (
                at(
                    json!({"path": "messages[*].content", "is": "null"}),
                    "{path}?",
                ),
                1,
            ),
        ),
        (
            "a tool",
            (
                at(
                    json!({"path": "tools[*].function.name", "in": ["odd"]}),
                    "工具 'odd' 无效",
                ),
                3,
            ),
        ),
        (
            "an image",
            (
                at(
                    json!({"path": "messages[*].content[*].image_url.url", "contains": "YmFk"}),
                    "{path}: image_url ist kaputt",
                ),
                3,
            ),
        ),
    ]
}

/// Promise: A session that has met a refusal does not meet it again, also after a restart.
#[test]
fn a_session_meets_a_refusal_once() {
    rows(cases(), async |(refuse, of_new_session)| {
        let player = strict(refuse).await;
        let setup = Setup::new();
        let mut proxy = Proxy::start_with(&player, setup.clone()).await;
        let requests = async |proxy: &Proxy, session: &str, earlier| {
            let before = player.requests().len();
            let stream = proxy.stream(&turn(session, earlier)).await;
            assert_eq!(stream.terminal, "response.completed", "{}", proxy.log());
            player.requests().len() - before
        };
        assert!(requests(&proxy, "s1", 1).await > 1);
        assert_eq!(requests(&proxy, "s1", 2).await, 1);
        proxy.terminate();
        assert!(proxy.wait_for_exit().await.success());
        let next = Proxy::start_in_folder(proxy.folder, &setup.wire_of(&player)).await;
        assert_eq!(requests(&next, "s1", 3).await, 1);
        assert!(requests(&next, "s2", 1).await <= of_new_session);
    });
}

/// Promise: Three hundred turns of a session that was refused keep the beginning of their prompt.
#[kit::test]
async fn three_hundred_turns_keep_their_prefix() {
    let refuse: Vec<Value> = cases()
        .into_iter()
        .map(|(_, (rules, _))| rules[0].clone())
        .collect();
    let player = strict(refuse.into()).await;
    let proxy = Proxy::start(&player).await;
    // One turn tries four changes at most.
    for _ in 0..3 {
        proxy.post(&turn("s1", 1)).await;
    }
    let mut earlier: Option<Vec<Value>> = None;
    for number in 1..=300 {
        let before = player.requests().len();
        let stream = proxy.stream(&turn("s1", number)).await;
        assert_eq!(stream.terminal, "response.completed", "{}", proxy.log());
        let sent = player.requests();
        assert_eq!(sent.len(), before + 1, "turn {number}");
        let body = sent.last().unwrap().json();
        let messages = body["messages"].as_array().unwrap().clone();
        if let Some(earlier) = earlier {
            assert!(messages.starts_with(&earlier), "turn {number}");
        }
        earlier = Some(messages);
    }
}

/// Promise: What one client's refusals teach takes nothing away from another client.
#[kit::test]
async fn what_one_client_is_refused_is_sent_for_another() {
    let refuse = json!([
        {"rule": {"at": {"path": "top_p"}}, "message": "{path}: nein"},
        {"rule": {"at": {"path": "messages[*].content[*].image_url.url", "contains": "YmFk"}},
            "message": "{path}: image_url ist kaputt"},
    ]);
    let player = strict(refuse).await;
    let setup = Setup::new()
        .tables(&client("ana", ""))
        .tables(&client("ben", ""));
    let proxy = Proxy::start_with(&player, setup).await;
    let first = async |who: &str| {
        let before = player.requests().len();
        let reply = send(&proxy, who, "POST /v1/responses", &turn("s1", 1)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        player.requests()[before].body.clone()
    };
    for who in ["ana", "ben"] {
        let sent = first(who).await;
        assert!(
            sent.contains("top_p") && sent.contains("YmFk"),
            "{who}: {sent}"
        );
        assert!(!first(who).await.contains("top_p"), "{who}");
    }
}
