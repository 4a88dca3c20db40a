//! Tool loops over upstreams that refuse what each provider refuses (fixtures/strict): without a
//! word of configuration, because the proxy learns from the refusal, and with the provider's own
//! file, which leaves nothing to refuse.
pub mod strict;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use self::strict::{Preset, every, presets};
use crate::proxy::{Proxy, Setup};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        case(
            "healing: from any provider to any other in a tool loop",
            || pairs(Preset::unknown),
        ),
        case(
            "with their own files from any provider to any other",
            || pairs(Preset::known),
        ),
    ];
    for preset in presets() {
        let known = preset.clone();
        let name = &preset.name;
        trials.push(case(
            &format!("with its own file nothing is refused: {name}"),
            || nothing_refused(known),
        ));
        let name = format!("healing: a tool loop without configuration: {name}");
        trials.push(case(&name, || learned(preset)));
    }
    trials
}

/// The first conversation pays for each lesson with one request, the second for none.
async fn learned(preset: Preset) {
    let player = preset.player().await;
    let proxy = Proxy::start(&player).await;
    let mut lessons = 0;
    for paid in [true, false] {
        let before = player.requests().len();
        let turns = talk(&proxy, "up/m").await;
        let requests = player.requests().split_off(before);
        let refused = requests.iter().filter(|request| request.refused).count();
        assert_eq!(requests.len(), turns + refused, "{}", proxy.log());
        if paid {
            lessons = refused;
        } else {
            assert_eq!(refused, 0, "a lesson was forgotten: {}", proxy.log());
        }
    }
    assert_eq!(lessons > 0, preset.teaches(), "{}", proxy.log());
    if lessons > 0 {
        proxy.logged("healed").await;
    }
    poisoned(&proxy, "up/m").await;
}

async fn nothing_refused(preset: Preset) {
    let player = preset.player().await;
    let (table, model) = preset.known(&player.base_url());
    let proxy = Proxy::with(&player, Setup::new().tables(&table)).await;
    talk(&proxy, &model).await;
    poisoned(&proxy, &model).await;
    for request in player.requests() {
        assert!(!request.refused, "{}\n{}", request.body, proxy.log());
    }
}

/// A call is made at one provider and its result goes to another.
async fn pairs(define: fn(&Preset, &str) -> (String, String)) {
    let (setup, models, _players) = every(define).await;
    let proxy = Proxy::at("http://127.0.0.1:9/v1", setup).await;
    for from in &models {
        for to in models.iter().filter(|to| *to != from) {
            let asked = turn(&proxy, from, &opening()).await;
            let answered = turn(&proxy, to, &with_result(&opening(), &asked)).await;
            assert_eq!(text(&answered), "Seen.", "{from} to {to}");
            let more = and_now(&with_result(&opening(), &asked));
            assert_eq!(
                text(&turn(&proxy, from, &more).await),
                "Done.",
                "{from} to {to}"
            );
        }
    }
}

/// A conversation with a tool loop; how many turns it has.
pub async fn talk(proxy: &Proxy, model: &str) -> usize {
    let asked = turn(proxy, model, &opening()).await;
    let items = asked["output"].as_array().unwrap();
    let call = items.last().unwrap();
    assert_eq!(call["type"], "function_call", "{asked}");
    assert_eq!(items[0]["type"], "reasoning", "{asked}");
    let looked = with_result(&opening(), &asked);
    assert_eq!(text(&turn(proxy, model, &looked).await), "Seen.");
    assert_eq!(text(&turn(proxy, model, &and_now(&looked)).await), "Done.");
    3
}

/// A history that no provider takes as it is.
pub async fn poisoned(proxy: &Proxy, model: &str) {
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

fn opening() -> Vec<Value> {
    vec![
        json!({"role": "developer", "content": "Use the tools."}),
        json!({"role": "user", "content": "go"}),
    ]
}

fn with_result(input: &[Value], asked: &Value) -> Vec<Value> {
    let output = asked["output"].as_array().unwrap();
    let call = &output.last().unwrap()["call_id"];
    let result = json!({"type": "function_call_output", "call_id": call, "output": "a wall"});
    input
        .iter()
        .chain(output)
        .cloned()
        .chain([result])
        .collect()
}

fn and_now(input: &[Value]) -> Vec<Value> {
    let more = [
        json!({"role": "developer", "content": "The time is noon."}),
        json!({"role": "user", "content": "and now?"}),
    ];
    input.iter().cloned().chain(more).collect()
}

/// Sends a turn with everything that is refused somewhere, and gives the response.
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
