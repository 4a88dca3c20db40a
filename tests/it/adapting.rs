//! Tool loops with upstreams that refuse what each provider refuses (`fixtures/strict`). Without
//! configuration the proxy learns from the refusals and adapts its requests; with the provider's
//! own file nothing is refused.
pub mod strict;

use kit::harness::rows;
use kit::player::PlayerWire;
use serde_json::{Value, json};

use self::strict::{Preset, presets, start_all};
use crate::faults::{answer, player_with};
use crate::proxy::{Proxy, Setup};

#[kit::test]
async fn a_tool_loop_moves_from_any_provider_to_any_other() {
    pairs(Preset::without_provider_file).await;
}

#[kit::test]
async fn a_tool_loop_moves_between_providers_with_their_files() {
    pairs(Preset::with_provider_file).await;
}

#[test]
fn nothing_is_refused_with_the_file_of_a_provider() {
    let presets = presets().into_iter();
    rows(
        presets.map(|preset| (preset.name.clone(), preset)),
        nothing_refused,
    );
}

#[test]
fn a_tool_loop_adapts_once_without_configuration() {
    let presets = presets().into_iter();
    rows(
        presets.map(|preset| (preset.name.clone(), preset)),
        adapts_once,
    );
}

/// In the first conversation each adaptation costs one additional request, in the second none.
async fn adapts_once(preset: Preset) {
    let player = preset.player().await;
    let proxy = Proxy::start(&player).await;
    let mut adaptations = 0;
    for is_first in [true, false] {
        let before = player.requests().len();
        let turns = run_tool_loop(&proxy, "up/m").await;
        let requests = player.requests().split_off(before);
        let refused = requests.iter().filter(|request| request.refused).count();
        assert_eq!(requests.len(), turns + refused, "{}", proxy.log());
        if is_first {
            adaptations = refused;
        } else {
            assert_eq!(refused, 0, "an adaptation was forgotten: {}", proxy.log());
        }
    }
    assert_eq!(
        adaptations > 0,
        preset.needs_adaptation(),
        "{}",
        proxy.log()
    );
    if adaptations > 0 {
        proxy.wait_for_log("healed").await;
    }
    send_broken_history(&proxy, "up/m").await;
}

async fn nothing_refused(preset: Preset) {
    let player = preset.player().await;
    let (table, model) = preset.with_provider_file(&player.base_url());
    let proxy = Proxy::start_with(&player, Setup::new().tables(&table)).await;
    run_tool_loop(&proxy, &model).await;
    send_broken_history(&proxy, &model).await;
    for request in player.requests() {
        assert!(!request.refused, "{}\n{}", request.body, proxy.log());
    }
}

/// Promise: A model whose answers begin inside thinking, without a tag, is known by its first one.
///
/// The text of the first answer was passed on before its tag came; that of the next ones is held. A
/// model that answers without thinking is another one again.
#[kit::test]
async fn a_model_whose_answers_begin_inside_thinking_is_known_by_the_first_one() {
    let pieces = |pieces: &[&str]| {
        let texts = pieces.iter().map(|text| json!({ "text": text }));
        answer(texts.collect())
    };
    let thinking = || pieces(&["I ", "think", "</think>", "\n\nYes."]);
    let plain = || pieces(&["No", "."]);
    let answers = vec![thinking(), thinking(), plain(), plain(), thinking()];
    let player = player_with(PlayerWire::Chat, answers).await;
    let proxy = Proxy::start(&player).await;
    let in_text = ["commentary I think", "final_answer Yes."];
    let known = ["reasoning I think", "final_answer Yes."];
    let plain = ["final_answer No."];
    // The items of each answer, and the pieces of text.
    let expected = [
        (&in_text[..], 3),
        (&known, 1),
        (&plain, 1),
        (&plain, 2),
        (&in_text, 3),
    ];
    for (number, (items, pieces)) in expected.into_iter().enumerate() {
        let stream = proxy.stream(&json!({"model": "up/m", "input": "go"})).await;
        let output = stream.response["output"].as_array().unwrap().iter();
        let told: Vec<String> = output
            .map(|item| {
                let text = item.pointer("/content/0/text");
                let text = text.or(item.pointer("/summary/0/text")).unwrap();
                let phase = item["phase"].as_str().unwrap_or("reasoning");
                format!("{phase} {}", text.as_str().unwrap())
            })
            .collect();
        assert_eq!(told, items, "answer {number}");
        let deltas = stream.count("response.output_text.delta");
        assert_eq!(deltas, pieces, "answer {number}");
    }
}

/// Promise: What the provider wants back of its reasoning goes back with that answer.
///
/// A provider that only reads earlier reasoning gets its text, whether or not the client has it.
#[kit::test]
async fn sealed_reasoning_goes_out_if_it_is_asked_for_and_reasoning_goes_back_always() {
    let call = || {
        answer(json!([
            {"reasoning": "I look."},
            {"call": {"id": "c1", "name": "look", "arguments": "{}"}}
        ]))
    };
    let seen = answer(json!([{"text": "Seen."}]));
    let player = player_with(PlayerWire::Chat, vec![call(), seen, call()]).await;
    let proxy = Proxy::start(&player).await;
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let user = json!({"role": "user", "content": "go"});
    let body = |input: Value| json!({"model": "up/m", "input": input, "tools": tools});
    let first = proxy.response(&body(json!([user]))).await;
    let [reasoning, call] = &first["output"].as_array().unwrap()[..] else {
        panic!("{first}")
    };
    assert_eq!(reasoning["summary"][0]["text"], "I look.");
    let keys: Vec<&String> = reasoning.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "type", "summary"]);
    let result = json!({"type": "function_call_output", "call_id": "c1", "output": "a wall"});
    proxy.response(&body(json!([user, call, result]))).await;
    let sent = player.requests().pop().unwrap().body;
    assert!(sent.contains("\"reasoning_content\":\"I look.\""), "{sent}");
    let mut asking = body(json!([user]));
    asking["include"] = json!(["reasoning.encrypted_content"]);
    let asked = proxy.response(&asking).await;
    assert!(asked["output"][0]["encrypted_content"].is_string());
}

/// For every pair of providers: one makes a call, the other gets the result.
async fn pairs(define: fn(&Preset, &str) -> (String, String)) {
    let (setup, models, _players) = start_all(define).await;
    let proxy = Proxy::start_for_url("http://127.0.0.1:9/v1", setup).await;
    for from in &models {
        for to in models.iter().filter(|to| *to != from) {
            let first = turn(&proxy, from, &opening()).await;
            let second = turn(&proxy, to, &with_result(&opening(), &first)).await;
            assert_eq!(text(&second), "Seen.", "{from} to {to}");
            let follow_up = with_follow_up(&with_result(&opening(), &first));
            assert_eq!(
                text(&turn(&proxy, from, &follow_up).await),
                "Done.",
                "{from} to {to}"
            );
        }
    }
}

/// Runs a conversation with a tool loop and returns the number of its turns.
pub async fn run_tool_loop(proxy: &Proxy, model: &str) -> usize {
    let first = turn(proxy, model, &opening()).await;
    let items = first["output"].as_array().unwrap();
    let call = items.last().unwrap();
    assert_eq!(call["type"], "function_call", "{first}");
    assert_eq!(items[0]["type"], "reasoning", "{first}");
    let with_call_result = with_result(&opening(), &first);
    assert_eq!(text(&turn(proxy, model, &with_call_result).await), "Seen.");
    assert_eq!(
        text(&turn(proxy, model, &with_follow_up(&with_call_result)).await),
        "Done."
    );
    3
}

/// Sends a history that every provider would refuse if it were not repaired.
pub async fn send_broken_history(proxy: &Proxy, model: &str) {
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": arguments});
    let output =
        |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "a wall"});
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let history = json!([
        message("user", "go"),
        output("call_that_nobody_made"),
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Alone"}]},
        message("user", "and"),
        call("call_half", "{\"at\": \"no"),
        output("call_half"),
        call("call_one", "{}"),
        call("call_two_which_was_interrupted", "{}"),
        output("call_one"),
        message("assistant", ""),
        message("developer", "Be brief."),
        message("user", ""),
        call("call_one", "{}"),
        output("call_one"),
        message("user", "and now?"),
    ]);
    let input: Vec<Value> = history.as_array().unwrap().clone();
    assert_eq!(text(&turn(proxy, model, &input).await), "Done.");
}

/// The first messages of a conversation.
fn opening() -> Vec<Value> {
    vec![
        json!({"role": "developer", "content": "Use the tools."}),
        json!({"role": "user", "content": "go"}),
    ]
}

/// The input with the output of the response and the result of its call.
fn with_result(input: &[Value], response: &Value) -> Vec<Value> {
    let output = response["output"].as_array().unwrap();
    let call = &output.last().unwrap()["call_id"];
    let result = json!({"type": "function_call_output", "call_id": call, "output": "a wall"});
    input
        .iter()
        .chain(output)
        .cloned()
        .chain([result])
        .collect()
}

/// The input with another developer and user message.
fn with_follow_up(input: &[Value]) -> Vec<Value> {
    let more = [
        json!({"role": "developer", "content": "The time is noon."}),
        json!({"role": "user", "content": "and now?"}),
    ];
    input.iter().cloned().chain(more).collect()
}

/// Sends a turn with every field that some provider refuses, and returns the response.
async fn turn(proxy: &Proxy, model: &str, input: &[Value]) -> Value {
    let body = json!({
        "model": model, "input": input, "instructions": "You look around.",
        "include": ["reasoning.encrypted_content"], "store": false,
        "max_output_tokens": 400_000, "temperature": 0.3, "parallel_tool_calls": true,
        "prompt_cache_key": "k", "safety_identifier": "s", "metadata": {"a": "b"},
        "tools": [
            {"type": "function", "name": "look", "strict": true, "description": "Looks.", "parameters": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "at": {"$ref": "#/$defs/place", "description": "Where"},
                    "level": {"enum": ["low", "high"]},
                    "size": {"type": ["integer", "null"]},
                    "deep": {"type": "object", "anyOf": [{"type": "object"}, {"type": "object", "additionalProperties": false}]},
                    "list": {"type": "array"},
                    "only": {"const": "this"},
                },
                "required": ["at", "gone"],
                "additionalProperties": false,
                "$defs": {"place": {"type": "string"}},
            }},
            {"type": "function", "name": "take", "parameters": {"type": "object", "properties": {}}},
        ],
    });
    let reply = proxy.post(&crate::proxy::streaming(&body)).await;
    let stream = reply.stream();
    assert_eq!(
        stream.terminal,
        "response.completed",
        "{model}: {}\n{}",
        stream.response,
        proxy.log()
    );
    stream.response
}

fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let parts = items
        .filter_map(|item| item["content"].as_array())
        .flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}
