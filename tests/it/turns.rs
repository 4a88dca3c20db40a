//! Turns as data: what the upstream sends and what the client gets, streamed and
//! not, for Codex and for others.
mod rows;

use kit::player::{Player, PlayerScript, ScriptStep, ScriptedAnswer};
use kit::strict;
use libtest_mimic::Trial;
use serde_json::{Map, Value, json};

use self::rows::{early, functions, odd_calls, patches, tool, typed, words};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("turns of text, reasoning and refusals", || play(words())),
        case("turns with function calls", || play(functions())),
        case("R5 calls that come in odd forms", || play(odd_calls())),
        case("turns with tools of other types", || play(typed())),
        case("apply_patch is mended where that is certain", || {
            play(patches())
        }),
        case("turns that end early", || play(early())),
        case("usage is the provider's or an estimate", usage),
        case("log probabilities are passed on", logprobs),
        case("R2 the framing of the upstream does not matter", framing),
        case(
            "R3 an answer is complete with its finish reason",
            finish_reason,
        ),
        case("an upstream that answers with JSON is read too", plain_json),
        case("call ids are new in the conversation", known_ids),
        case("notes and the route stand in the headers", headers),
    ]
}

/// One turn.
struct Row {
    name: &'static str,
    /// What the request has besides model and input.
    request: Value,
    /// What the upstream plays.
    steps: Value,
    /// The output in short, see [`brief`].
    output: Value,
    /// The same for Codex, where it differs.
    codex: Option<Value>,
}

fn row(name: &'static str, request: Value, steps: Value, output: Value) -> Row {
    Row {
        name,
        request,
        steps,
        output,
        codex: None,
    }
}

impl Row {
    fn codex(mut self, output: Value) -> Self {
        self.codex = Some(output);
        self
    }
}

pub fn steps(json: Value) -> Vec<ScriptStep> {
    serde_json::from_value(json).unwrap()
}

/// The request with model and input.
fn request(more: &Value) -> Value {
    let mut body = json!({"model": "m", "input": "go"});
    let more = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(more);
    body
}

/// The output as a list of lists: type, then what matters, then the status if it is
/// not `completed`.
pub fn brief(response: &Value) -> Value {
    let items = response["output"].as_array().unwrap();
    items.iter().map(brief_item).collect()
}

fn brief_item(item: &Value) -> Value {
    let text = |list: &str, key: &str| -> String {
        let parts = item[list].as_array().into_iter().flatten();
        parts.filter_map(|part| part[key].as_str()).collect()
    };
    let mut brief = match item["type"].as_str().unwrap() {
        "message" => {
            let refusal = text("content", "refusal");
            let mut said = vec![json!(text("content", "text"))];
            if !refusal.is_empty() {
                said = vec![json!({ "refusal": refusal })];
            }
            [vec![json!("message"), item["phase"].clone()], said].concat()
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

/// Plays every row in four ways: streamed and not, for Codex and for others.
async fn play(rows: Vec<Row>) {
    let player = Player::start(PlayerScript::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for row in rows {
        let body = request(&row.request);
        for headers in [&[], CODEX] {
            let expected = match &row.codex {
                Some(output) if !headers.is_empty() => output,
                _ => &row.output,
            };
            for _ in 0..2 {
                player.push(ScriptedAnswer::steps(steps(row.steps.clone())));
            }
            let reply = proxy.post_with(&streaming(&body), headers).await;
            let stream = match headers {
                [] => reply.stream(),
                _ => reply.stream_for_codex(),
            };
            let found = brief(&stream.response);
            assert_eq!(&found, expected, "{}", row.name);
            let reply = proxy.post_with(&body, headers).await;
            if stream.response["status"] == "failed" {
                let error = reply.error(400);
                assert_eq!(error["message"], stream.response["error"]["message"]);
                continue;
            }
            assert_eq!(reply.status, 200, "{}: {reply:?}", row.name);
            let whole = strict::check_response_or_panic(&reply.body);
            strict::same_output(&stream.response, &whole).unwrap();
            strict::same_settings(&body, &whole).unwrap();
            assert_eq!(stream.response["status"], whole["status"], "{}", row.name);
        }
    }
    assert!(!proxy.log().contains("panicked"));
}

/// A player with one answer that repeats, and the program in front of it.
async fn repeating(answer: ScriptedAnswer) -> (Player, Proxy) {
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
    let counted = json!([{"text": "hi"}, {"usage": {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5}
    }}]);
    let (_player, proxy) = repeating(ScriptedAnswer::steps(steps(counted))).await;
    let stream = proxy.stream(&request(&json!({}))).await;
    let whole = proxy.whole(&request(&json!({}))).await;
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
        proxy.until("respondent_tokens_total", &labels, count).await;
    }

    let silent = json!([{"text": "a long enough text"}, {"finish": "stop"}, {"done": true}]);
    let (_player, proxy) = repeating(ScriptedAnswer::steps(steps(silent))).await;
    let usage = &proxy.whole(&request(&json!({}))).await["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 0);
    assert!(usage["output_tokens"].as_u64().unwrap() > 0);
    proxy.logged("usage_estimated").await;
}

async fn logprobs() {
    let probability = |token: &str| json!({"token": token, "logprob": -0.5, "bytes": [104], "top_logprobs": [{"token": "x", "logprob": -2.0, "bytes": null}]});
    let chunk = |token: &str| {
        json!({"chunk": {"choices": [{"index": 0, "delta": {"content": token},
        "logprobs": {"content": [probability(token)]}, "finish_reason": null}]}})
    };
    let answer = ScriptedAnswer::steps(steps(json!([chunk("h"), chunk("i")])));
    let (player, proxy) = repeating(answer).await;
    let body = request(&json!({"include": ["message.output_text.logprobs"], "top_logprobs": 1}));
    let stream = proxy.stream(&body).await;
    let whole = proxy.whole(&body).await;
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
            "no blank behind the colon",
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
            "something behind the end",
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
    for (steps_of, terminal) in [
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
        player.push(ScriptedAnswer::steps(steps(steps_of.clone())));
        let stream = proxy.stream(&request(&json!({}))).await;
        assert_eq!(stream.terminal, terminal, "{steps_of}");
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
    let (_player, proxy) = repeating(answer).await;
    let body = request(&json!({"tools": [tool("look")]}));
    let stream = proxy.stream(&body).await;
    let expected = json!([
        ["reasoning", "why"],
        ["message", "commentary", "whole"],
        ["function_call", "c1", "look", "{}"]
    ]);
    assert_eq!(brief(&stream.response), expected);
    let whole = proxy.whole(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    assert_eq!(whole["usage"]["total_tokens"], 7);
}

async fn known_ids() {
    let long = "x".repeat(65);
    let calls = json!([
        {"call": {"id": "old", "name": "look", "arguments": "{}"}},
        {"call": {"id": "", "name": "look", "arguments": "{}"}},
        {"call": {"name": "look", "arguments": "{}"}},
        {"call": {"id": long, "name": "look", "arguments": "{}"}},
        {"call": {"id": "new", "name": "look", "arguments": "{}"}},
    ]);
    let (_player, proxy) = repeating(ScriptedAnswer::steps(steps(calls))).await;
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
    let again = proxy.stream(&body).await;
    let same: Vec<String> = again.calls().into_iter().map(|call| call.call_id).collect();
    assert_eq!(ids, same, "the same answer gets the same ids");
    let whole = proxy.whole(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
}

async fn headers() {
    let setup = Setup::new().tables("[routing.aliases]\nfast = \"up/large\"");
    let answers = vec![ScriptedAnswer {
        repeat: true,
        ..ScriptedAnswer::steps(steps(json!([{"text": "a"}])))
    }];
    let player = Player::start(PlayerScript {
        answers,
        ..PlayerScript::default()
    })
    .await
    .unwrap();
    let proxy = Proxy::with(&player, setup).await;
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
    proxy.logged("up/large completed").await;
    proxy
        .until("respondent_turns_total", "model=\"large\"", 1.0)
        .await;
}
