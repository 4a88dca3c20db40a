//! An upstream that speaks the Responses API itself, and sessions that change between it and Chat
//! Completions. What an upstream of either wire must do is tried in the other rooms, with the wire
//! as their parameter.

use kit::player::{Player, PlayerScript, PlayerWire, RefusalRule, ScriptedAnswer, ScriptedRefusal};
use serde_json::{Value, json};

use crate::faults::{answer, body, player, repeating_player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

/// A player of both wires that refuses what OpenAI refuses.
async fn strict_player() -> Player {
    let refusal = ScriptedRefusal::new(RefusalRule::InvalidResponsesRequest);
    Player::start(PlayerScript {
        refuse: vec![refusal],
        ..PlayerScript::default()
    })
    .await
    .unwrap()
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

#[kit::test]
async fn a_tool_loop_of_forty_turns_gives_the_upstream_its_items_back() {
    let player = player(PlayerWire::Responses).await;
    let proxy = Proxy::start(&player).await;
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

#[kit::test]
async fn a_session_changes_between_both_wires_with_a_compaction_in_between() {
    let player = strict_player().await;
    let other = format!(
        "[providers.other]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\n[providers.other.quirks]\nreasoning_replay = \"reasoning_content\"",
        player.base_url()
    );
    let proxy = Proxy::start_with(&player, Setup::new().wire("responses").tables(&other)).await;
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

#[kit::test]
async fn another_wire_takes_over() {
    let [chat, responses] = PlayerWire::ALL;
    for (up, other) in [(responses, chat), (chat, responses)] {
        let first = repeating_player(up, ScriptedAnswer::error(503, "down")).await;
        let second = player(other).await;
        second.push(answer(json!([{"reasoning": "hm"}, {"text": "here"}])));
        let setup = Setup::new()
            .tables("[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]")
            .other("other", &second, "");
        let proxy = Proxy::start_with(&first, setup).await;
        let request = json!({"model": "up/m", "input": "go"});
        let stream = proxy.stream(&request).await;
        assert_eq!(stream.text(), "here", "{up:?} to {other:?}");
        assert_eq!(second.requests().len(), 1);
    }
}

/// Codex ignores refusals, so that it gets them as text, whether they come in pieces or whole.
#[kit::test]
async fn codex_gets_a_refusal_as_text() {
    let player = player(PlayerWire::Responses).await;
    let proxy = Proxy::start(&player).await;
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
