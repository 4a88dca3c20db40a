//! Turns as data: what the upstream sends and what the client must receive, with and without
//! streaming, for Codex and for other clients.
mod rows;

use kit::player::{Player, PlayerScript, ScriptStep, ScriptedAnswer};
use kit::strict;
use libtest_mimic::Trial;
use serde_json::{Map, Value, json};

use self::rows::{
    early_ends, function_calls, odd_calls, other_tool_types, patch_calls, text_turns, tool,
};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::case("turns of text, reasoning and refusals", || {
            play(text_turns())
        }),
        trial::case("turns with function calls", || play(function_calls())),
        trial::case("R5 calls in unusual forms", || play(odd_calls())),
        trial::case("turns with tools of other types", || {
            play(other_tool_types())
        }),
        trial::case(
            "apply_patch is repaired where the repair is certain",
            || play(patch_calls()),
        ),
        trial::case("turns that end early", || play(early_ends())),
        trial::case("usage is the provider's or an estimate", usage),
        trial::case("log probabilities are passed on", logprobs),
        trial::case("R2 the framing of the upstream does not matter", framing),
        trial::case(
            "R3 an answer is complete once its finish reason has arrived",
            finish_reason,
        ),
        trial::case("a JSON answer to a streaming request is read", plain_json),
        trial::case("call ids are unique in the conversation", unique_call_ids),
        trial::case(
            "the headers contain the notes and the route",
            response_headers,
        ),
    ]
}

/// A turn and its expected output.
struct TurnCase {
    name: &'static str,
    /// The fields of the request besides model and input.
    request: Value,
    /// The steps of the upstream's answer.
    steps: Value,
    /// The expected output, in the form of [`summarize_output`].
    output: Value,
    /// The expected output for Codex, if it differs.
    codex: Option<Value>,
}

fn turn_case(name: &'static str, request: Value, steps: Value, output: Value) -> TurnCase {
    TurnCase {
        name,
        request,
        steps,
        output,
        codex: None,
    }
}

impl TurnCase {
    fn codex(mut self, output: Value) -> Self {
        self.codex = Some(output);
        self
    }
}

/// The steps of a player's answer, from their JSON form.
pub fn parse_steps(json: Value) -> Vec<ScriptStep> {
    serde_json::from_value(json).unwrap()
}

/// A request with model, input and these additional fields.
fn request(more: &Value) -> Value {
    let mut body = json!({"model": "m", "input": "go"});
    let more = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(more);
    body
}

/// The output as a list of lists: the type of an item, its relevant fields, and its status unless
/// that is `completed`.
pub fn summarize_output(response: &Value) -> Value {
    let items = response["output"].as_array().unwrap();
    items.iter().map(summarize_item).collect()
}

fn summarize_item(item: &Value) -> Value {
    let text = |list: &str, key: &str| -> String {
        let parts = item[list].as_array().into_iter().flatten();
        parts.filter_map(|part| part[key].as_str()).collect()
    };
    let mut brief = match item["type"].as_str().unwrap() {
        "message" => {
            let refusal = text("content", "refusal");
            let mut content = vec![json!(text("content", "text"))];
            if !refusal.is_empty() {
                content = vec![json!({ "refusal": refusal })];
            }
            [vec![json!("message"), item["phase"].clone()], content].concat()
        }
        "reasoning" => vec![json!("reasoning"), json!(text("summary", "text"))],
        _ => {
            let mut call = vec![item["type"].clone(), item["call_id"].clone()];
            let parts = ["namespace", "name", "arguments", "input", "operation"];
            call.extend(parts.iter().filter_map(|key| item.get(*key)).cloned());
            if let Some(action) = item["action"].as_object() {
                let known: Map<String, Value> = action
                    .iter()
                    .filter(|(_, value)| !value.is_null() && *value != &json!({}))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                call.push(Value::Object(known));
            }
            call
        }
    };
    match item["status"].as_str() {
        None | Some("completed") => {}
        Some(other) => brief.push(other.into()),
    }
    Value::Array(brief)
}

/// Runs every turn in four ways: with and without streaming, for Codex and for other clients.
async fn play(cases: Vec<TurnCase>) {
    let player = Player::start(PlayerScript::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for case in cases {
        let body = request(&case.request);
        for headers in [&[], CODEX] {
            let expected = match &case.codex {
                Some(output) if !headers.is_empty() => output,
                _ => &case.output,
            };
            for _ in 0..2 {
                player.push(ScriptedAnswer::steps(parse_steps(case.steps.clone())));
            }
            let reply = proxy.post_with(&streaming(&body), headers).await;
            let stream = match headers {
                [] => reply.stream(),
                _ => reply.stream_for_codex(),
            };
            let output = summarize_output(&stream.response);
            assert_eq!(&output, expected, "{}", case.name);
            let reply = proxy.post_with(&body, headers).await;
            if stream.response["status"] == "failed" {
                let error = reply.error(400);
                assert_eq!(error["message"], stream.response["error"]["message"]);
                continue;
            }
            assert_eq!(reply.status, 200, "{}: {reply:?}", case.name);
            let whole = strict::check_response_or_panic(&reply.body);
            strict::same_output(&stream.response, &whole).unwrap();
            strict::same_settings(&body, &whole).unwrap();
            assert_eq!(stream.response["status"], whole["status"], "{}", case.name);
        }
    }
    assert!(!proxy.log().contains("panicked"));
}

/// Starts a player that always gives this answer, and the program in front of it.
async fn start_with_answer(answer: ScriptedAnswer) -> (Player, Proxy) {
    let answers = vec![ScriptedAnswer {
        repeat: true,
        ..answer
    }];
    let player = Player::start(PlayerScript {
        answers,
        ..PlayerScript::default()
    })
    .await
    .unwrap();
    let proxy = Proxy::start(&player).await;
    (player, proxy)
}

async fn usage() {
    let with_usage = json!([{"text": "hi"}, {"usage": {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5}
    }}]);
    let (_player, proxy) = start_with_answer(ScriptedAnswer::steps(parse_steps(with_usage))).await;
    let stream = proxy.stream(&request(&json!({}))).await;
    let whole = proxy.response(&request(&json!({}))).await;
    assert_eq!(stream.response["usage"], whole["usage"]);
    let expected = json!({
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120
    });
    assert_eq!(whole["usage"], expected);
    for (kind, count) in [
        ("input", 200.0),
        ("cached", 120.0),
        ("output", 40.0),
        ("reasoning", 10.0),
    ] {
        let labels = format!("kind=\"{kind}\"");
        proxy
            .wait_for_metric("respondent_tokens_total", &labels, count)
            .await;
    }

    let without_usage = json!([{"text": "a long enough text"}, {"finish": "stop"}, {"done": true}]);
    let (_player, proxy) =
        start_with_answer(ScriptedAnswer::steps(parse_steps(without_usage))).await;
    let usage = &proxy.response(&request(&json!({}))).await["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 0);
    assert!(usage["output_tokens"].as_u64().unwrap() > 0);
    proxy.wait_for_log("usage_estimated").await;
}

async fn logprobs() {
    let probability = |token: &str| json!({"token": token, "logprob": -0.5, "bytes": [104], "top_logprobs": [{"token": "x", "logprob": -2.0, "bytes": null}]});
    let chunk = |token: &str| {
        json!({"chunk": {"choices": [{"index": 0, "delta": {"content": token},
        "logprobs": {"content": [probability(token)]}, "finish_reason": null}]}})
    };
    let answer = ScriptedAnswer::steps(parse_steps(json!([chunk("h"), chunk("i")])));
    let (player, proxy) = start_with_answer(answer).await;
    let body = request(&json!({"include": ["message.output_text.logprobs"], "top_logprobs": 1}));
    let stream = proxy.stream(&body).await;
    let whole = proxy.response(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    let tokens = &whole["output"][0]["content"][0]["logprobs"];
    assert_eq!(tokens[0]["token"], "h");
    assert_eq!(tokens[1]["logprob"], -0.5);
    assert_eq!(tokens[1]["top_logprobs"][0]["token"], "x");
    let sent = player.requests()[0].json();
    assert_eq!(
        (&sent["logprobs"], &sent["top_logprobs"]),
        (&json!(true), &json!(1))
    );
}

async fn framing() {
    let text = |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}");
    let end = "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    let (a, b) = (text("a\u{e4}"), text("b"));
    let framings = [
        ("LF", format!("data: {a}\n\ndata: {b}\n\ndata: {end}\n\n")),
        (
            "CRLF",
            format!("data: {a}\r\n\r\ndata: {b}\r\n\r\ndata: {end}\r\n\r\n"),
        ),
        (
            "CR",
            format!("data: {a}\r\rdata: {b}\r\rdata: {end}\r\rdata: [DONE]\r\r"),
        ),
        (
            "mixed",
            format!("data: {a}\n\r\ndata: {b}\r\n\rdata: {end}\r\r"),
        ),
        (
            "a byte order mark",
            format!("\u{feff}data: {a}\n\ndata: {b}\n\ndata: {end}\n\n"),
        ),
        (
            "no space after the colon",
            format!("data:{a}\n\ndata:{b}\n\ndata:{end}\n\n"),
        ),
        (
            "several lines",
            format!(
                "data: {}\n\ndata: {b}\n\ndata: {end}\n\n",
                a.replace(':', ":\ndata: ")
            ),
        ),
        (
            "comments and other fields",
            format!(
                ": hello\n\nevent: x\nid: 7\nretry: 1\nno colon\ndata: {a}\n\n:\n\ndata: {b}\n\ndata: {end}\n\n"
            ),
        ),
        (
            "no blank line at the end",
            format!("data: {a}\n\ndata: {b}\n\ndata: {end}"),
        ),
        (
            "data after the end",
            format!("data: {a}\n\ndata: {b}\n\ndata: {end}\n\ndata: [DONE]\n\ndata: {a}\n\n"),
        ),
    ];
    let player = Player::start(PlayerScript::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for (name, raw) in framings {
        for split in [0, 1, 7] {
            player.push(ScriptedAnswer {
                split,
                ..ScriptedAnswer::steps(vec![ScriptStep::Raw(raw.clone())])
            });
            let stream = proxy.stream(&request(&json!({}))).await;
            assert_eq!(stream.terminal, "response.completed", "{name}, {split}");
            assert_eq!(stream.text(), "a\u{e4}b", "{name}, {split}");
        }
    }
}

async fn finish_reason() {
    let player = Player::start(PlayerScript::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for (answer_steps, terminal) in [
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"done": true}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"cut": "fin"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"cut": "rst"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"raw": "data: {\"choices\":[],\"us"}, {"cut": "fin"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "something_new"}, {"done": true}]),
            "response.completed",
        ),
        (json!([{"text": "a"}, {"done": true}]), "response.failed"),
        (json!([{"text": "a"}, {"raw": ""}]), "response.failed"),
        (json!([{"text": "a"}, {"cut": "fin"}]), "response.failed"),
    ] {
        player.push(ScriptedAnswer::steps(parse_steps(answer_steps.clone())));
        let stream = proxy.stream(&request(&json!({}))).await;
        assert_eq!(stream.terminal, terminal, "{answer_steps}");
        assert_eq!(stream.text(), "a");
    }
}

async fn plain_json() {
    let answer = ScriptedAnswer {
        json: Some(
            json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "whole", "reasoning_content": "why",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}),
        ),
        ..ScriptedAnswer::default()
    };
    let (_player, proxy) = start_with_answer(answer).await;
    let body = request(&json!({"tools": [tool("look")]}));
    let stream = proxy.stream(&body).await;
    let expected = json!([
        ["reasoning", "why"],
        ["message", "commentary", "whole"],
        ["function_call", "c1", "look", "{}"]
    ]);
    assert_eq!(summarize_output(&stream.response), expected);
    let whole = proxy.response(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    assert_eq!(whole["usage"]["total_tokens"], 7);
}

async fn unique_call_ids() {
    let long = "x".repeat(65);
    let calls = json!([
        {"call": {"id": "old", "name": "look", "arguments": "{}"}},
        {"call": {"id": "", "name": "look", "arguments": "{}"}},
        {"call": {"name": "look", "arguments": "{}"}},
        {"call": {"id": long, "name": "look", "arguments": "{}"}},
        {"call": {"id": "new", "name": "look", "arguments": "{}"}},
    ]);
    let (_player, proxy) = start_with_answer(ScriptedAnswer::steps(parse_steps(calls))).await;
    let body = json!({"model": "m", "tools": [tool("look")], "input": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "old", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "old", "output": "nothing"}
    ]});
    let stream = proxy.stream(&body).await;
    let ids: Vec<String> = stream
        .calls()
        .into_iter()
        .map(|call| call.call_id)
        .collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(ids[4], "new");
    for id in &ids[..4] {
        assert!((1..=64).contains(&id.len()) && id != "old", "{id}");
    }
    let repeated = proxy.stream(&body).await;
    let same: Vec<String> = repeated
        .calls()
        .into_iter()
        .map(|call| call.call_id)
        .collect();
    assert_eq!(ids, same, "the same answer gets the same ids");
    let whole = proxy.response(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
}

async fn response_headers() {
    let setup = Setup::new().tables("[routing.aliases]\nfast = \"up/large\"");
    let answers = vec![ScriptedAnswer {
        repeat: true,
        ..ScriptedAnswer::steps(parse_steps(json!([{"text": "a"}])))
    }];
    let player = Player::start(PlayerScript {
        answers,
        ..PlayerScript::default()
    })
    .await
    .unwrap();
    let proxy = Proxy::start_with(&player, setup).await;
    let body =
        json!({"model": "fast", "input": "x", "tools": [{"type": "web_search"}], "moderation": {}});
    let reply = proxy.post(&body).await;
    assert_eq!(reply.header("x-respondent-route"), Some("up/large"));
    let notes = reply.header("x-respondent-notes").unwrap();
    assert!(
        notes.contains("tool_dropped") && notes.contains("parameter_ignored"),
        "{notes}"
    );
    assert!(reply.header("x-request-id").unwrap().starts_with("req_"));
    assert_eq!(player.requests()[0].json()["model"], "large");
    proxy.wait_for_log("up/large completed").await;
    proxy
        .wait_for_metric("respondent_turns_total", "model=\"large\"", 1.0)
        .await;
}
