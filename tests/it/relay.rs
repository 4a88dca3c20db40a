//! An upstream that speaks the Responses API itself, and sessions that change between it and Chat
//! Completions. The upstream refuses what OpenAI refuses.

use kit::player::{Player, PlayerScript, RefusalRule, ScriptedAnswer, ScriptedRefusal};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::faults::{answer, body};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "relay: a tool loop of forty turns gives the upstream its items back",
            tool_loop,
        ),
        case(
            "relay: a session changes between both wires, with a compaction in between",
            both_wires,
        ),
        case("relay: an answer that breaks off has failed", breaks),
        case("relay: a turn is retried before content", retries),
        case("relay: another wire takes over", failover),
        case("relay: a refusal is adapted to", adapting),
        case("relay: Codex gets calls when they are complete", codex),
        case("relay: Codex gets a refusal as text", refusals),
    ]
}

/// A player that refuses what OpenAI refuses.
pub async fn strict_player() -> Player {
    let refusal = ScriptedRefusal {
        rule: RefusalRule::InvalidResponsesRequest,
        status: None,
        message: None,
        json: None,
    };
    Player::start(PlayerScript {
        refuse: vec![refusal],
        ..PlayerScript::default()
    })
    .await
    .unwrap()
}

fn relay() -> Setup {
    Setup::new().wire("responses")
}

/// Tools of every kind that Codex offers.
pub fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"cmd": {"type": "string"}}});
    json!([
        {"type": "function", "name": "exec_command", "strict": false, "parameters": parameters},
        {"type": "custom", "name": "apply_patch", "description": "Patches.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
        {"type": "namespace", "name": "mcp__demo", "description": "Demo.",
         "tools": [{"type": "function", "name": "echo", "parameters": parameters}]},
    ])
}

/// The result of a call item.
fn result(call: &Value) -> Value {
    let kind = call["type"].as_str().unwrap();
    json!({"type": format!("{kind}_output"), "call_id": call["call_id"], "output": "done"})
}

/// Adds the output of a response to a history, with a result for each call.
pub fn extend(items: &mut Vec<Value>, response: &Value) {
    let output = response["output"].as_array().unwrap();
    items.extend(output.iter().cloned());
    let calls = output.iter().filter(|item| item.get("call_id").is_some());
    items.extend(calls.map(result).collect::<Vec<_>>());
}

async fn tool_loop() {
    let player = strict_player().await;
    let proxy = Proxy::start_with(&player, relay()).await;
    let mut items = vec![json!({"role": "user", "content": "go"})];
    let mut sent = Vec::new();
    for turn in 0..40 {
        let call = match turn % 3 {
            0 => {
                json!({"id": format!("call_{turn}"), "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "pieces": 3})
            }
            1 => {
                json!({"id": format!("call_{turn}"), "name": "apply_patch", "arguments": "{\"input\":\"*** Begin Patch\"}"})
            }
            _ => {
                json!({"id": format!("call_{turn}"), "name": "mcp__demo__echo", "arguments": "{}"})
            }
        };
        player.push(answer(json!([
            {"reasoning": "thinking"}, {"text": "I look."}, {"call": call}
        ])));
        let request = json!({"model": "m", "input": items, "tools": tools()});
        let stream = proxy.stream(&request).await;
        assert_eq!(stream.terminal, "response.completed", "turn {turn}");
        extend(&mut items, &stream.response);
        let upstream = player.requests()[turn].json();
        let input = upstream["input"].as_array().unwrap().clone();
        assert!(
            input.starts_with(&sent),
            "turn {turn}: an older item changed"
        );
        sent = input;
        // What the upstream made comes back with its own ids and its encrypted reasoning.
        let kinds = ["reasoning", "message", "function_call", "custom_tool_call"];
        let own = sent.iter().filter(|item| {
            item.get("id").is_some() && kinds.contains(&item["type"].as_str().unwrap())
        });
        assert_eq!(own.count(), 3 * turn, "turn {turn}");
        assert_eq!(upstream["store"], false);
    }
    let calls: Vec<_> = items
        .iter()
        .filter(|item| item["namespace"] == "mcp__demo")
        .collect();
    assert_eq!(calls.len(), 13);
    assert!(items.iter().any(|item| item["type"] == "custom_tool_call"));
}

async fn both_wires() {
    let player = strict_player().await;
    let other = format!(
        "[providers.other]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\n[providers.other.quirks]\nreasoning_replay = \"reasoning_content\"",
        player.base_url()
    );
    let proxy = Proxy::start_with(&player, relay().tables(&other)).await;
    let mut items = vec![json!({"role": "user", "content": "go"})];
    for (turn, provider) in ["up", "other", "up", "up", "other"].into_iter().enumerate() {
        if turn == 3 {
            player.push(answer(json!([{"text": "The user wants to go on. Done: four calls of exec_command, with good results. Next: the fifth call."}])));
            items.push(json!({"type": "compaction_trigger"}));
            let request = json!({"model": "up/m", "input": items, "tools": tools()});
            let compacted = proxy.stream(&request).await.response;
            items = vec![json!({"role": "user", "content": "go"})];
            extend(&mut items, &compacted);
            items.push(json!({"role": "user", "content": "on"}));
        }
        let call = json!({"id": format!("call_{turn}"), "name": "exec_command", "arguments": "{}"});
        player.push(answer(json!([{"reasoning": "hm"}, {"call": call}])));
        let request = json!({"model": format!("{provider}/m"), "input": items, "tools": tools()});
        let stream = proxy.stream(&request).await;
        assert_eq!(stream.terminal, "response.completed", "turn {turn}");
        extend(&mut items, &stream.response);
    }
    let requests = player.requests();
    let last = requests.last().unwrap();
    assert!(last.json()["messages"].is_array());
    for request in &requests {
        let text = request.json().to_string();
        for ours in ["rsp1.", "rsc1.", "rse1.", "compaction"] {
            assert!(!text.contains(ours), "{ours} went to the upstream");
        }
    }
    assert!(last.json().to_string().contains("Next: the fifth call"));
    assert!(!last.json().to_string().contains("gAAAA-scripted-"));
}

async fn breaks() {
    let begun = [
        json!([{"text": "a"}, {"cut": "fin"}]),
        json!([{"text": "a"}, {"cut": "rst"}]),
        json!([{"text": "a"}, {"error": {"code": "server_error", "message": "broke"}}]),
        json!([{"text": "a"}, {"raw": "data: {\"type\": [}\n\n"}, {"stall": true}]),
        json!([{"text": "a"}, {"done": true}]),
    ];
    for steps in begun {
        let player = strict_player().await;
        player.push(answer(steps.clone()));
        let proxy = Proxy::start_with(&player, relay()).await;
        let stream = proxy.stream(&body()).await;
        assert_eq!(stream.terminal, "response.failed", "{steps}");
        assert_eq!(stream.text(), "a", "{steps}");
        assert_eq!(player.requests().len(), 1, "{steps}");
    }
}

async fn retries() {
    let player = strict_player().await;
    player.push(ScriptedAnswer::error(503, "overloaded"));
    player.push(answer(json!([{"cut": "fin"}])));
    player.push(answer(json!([{"text": "there"}, {"finish": "length"}])));
    let proxy = Proxy::start_with(&player, relay()).await;
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.incomplete");
    assert_eq!(stream.text(), "there");
    assert_eq!(player.requests().len(), 3);
}

async fn failover() {
    for (up, other) in [("responses", "chat"), ("chat", "responses")] {
        let (first, second) = (strict_player().await, strict_player().await);
        for _ in 0..8 {
            first.push(ScriptedAnswer::error(503, "down"));
        }
        second.push(answer(json!([{"reasoning": "hm"}, {"text": "here"}])));
        let fallback = format!(
            "[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]\n[providers.other]\nwire = \"{other}\"\nbase_url = \"{}\"\nkey_required = false",
            second.base_url()
        );
        let proxy = Proxy::start_with(&first, Setup::new().wire(up).tables(&fallback)).await;
        let request = json!({"model": "up/m", "input": "go"});
        let stream = proxy.stream(&request).await;
        assert_eq!(stream.text(), "here", "{up} to {other}");
        assert_eq!(second.requests().len(), 1);
    }
}

async fn adapting() {
    let player = strict_player().await;
    player.push(ScriptedAnswer {
        status: 400,
        json: Some(json!({"error": {
            "message": "Encrypted content is not supported with this model.",
            "type": "invalid_request_error", "param": "include", "code": null,
        }})),
        ..ScriptedAnswer::default()
    });
    player.push(answer(json!([{"text": "fine"}])));
    let proxy = Proxy::start_with(&player, relay()).await;
    assert_eq!(proxy.stream(&body()).await.text(), "fine");
    let requests = player.requests();
    assert!(requests[0].json()["include"].is_array());
    assert!(requests[1].json().get("include").is_none());
}

async fn codex() {
    let player = strict_player().await;
    let proxy = Proxy::start_with(&player, relay()).await;
    let call = json!({"id": "c1", "name": "exec_command", "arguments": "{\"cmd\":1}", "pieces": 4});
    player.push(answer(json!([{"text": "I look."}, {"call": call}])));
    let request = streaming(&json!({"model": "m", "input": "go", "tools": tools()}));
    let whole = proxy.post_with(&request, CODEX).await.stream_for_codex();
    assert_eq!(whole.calls().len(), 1);
    player.push(answer(
        json!([{"text": "I look."}, {"call": call}, {"cut": "fin"}]),
    ));
    let broken = proxy.post_with(&request, CODEX).await.stream_for_codex();
    assert_eq!(broken.terminal, "response.failed");
    assert!(broken.calls().is_empty());
}

/// Codex ignores refusals, so that it gets them as text, whether they come in pieces or whole.
async fn refusals() {
    let player = strict_player().await;
    let proxy = Proxy::start_with(&player, relay()).await;
    let pieces = json!([{"text": "Well. "}, {"refusal": "I will not "}, {"refusal": "bake that."}]);
    let whole = json!({"type": "response.output_item.done", "output_index": 0, "item": {
        "type": "message", "id": "msg_0", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Well. ", "annotations": []},
            {"type": "refusal", "refusal": "I will not bake that."}]}});
    for steps in [pieces, json!([{"chunk": whole}])] {
        let request = streaming(&body());
        player.push(answer(steps.clone()));
        let other = proxy.stream(&body()).await;
        assert_eq!(other.refusal(), "I will not bake that.", "{steps}");
        player.push(answer(steps.clone()));
        let codex = proxy.post_with(&request, CODEX).await.stream_for_codex();
        assert_eq!(codex.text(), "Well. I will not bake that.", "{steps}");
    }
}
